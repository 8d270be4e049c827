"""Pages on which administrators change what people set."""
