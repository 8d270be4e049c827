"""Commands that fill, copy and repair a data directory and its state."""
