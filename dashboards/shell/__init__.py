"""The frame around every page: app, sign-in, filters, theme, URL state."""
