"""Closed billing periods and their corrections."""
