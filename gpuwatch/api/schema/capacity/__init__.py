"""Models of routes/capacity/."""
