"""Models of routes/findings/."""
