"""Models of routes/admin/."""
