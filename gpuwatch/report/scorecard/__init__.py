"""The authority scorecard as a document and files."""
