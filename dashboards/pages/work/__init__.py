"""Pages about what runs and what waits."""
