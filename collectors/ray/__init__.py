"""Ray as a source."""
