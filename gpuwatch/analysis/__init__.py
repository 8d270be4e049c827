"""The analysis pass and back-tests."""
