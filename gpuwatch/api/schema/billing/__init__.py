"""Models of routes/billing/."""
