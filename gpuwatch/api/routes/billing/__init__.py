"""Routes about money."""
