"""Routes that take in data, and its quality."""
