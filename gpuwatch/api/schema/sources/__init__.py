"""Models of routes/sources/."""
