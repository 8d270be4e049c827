"""Corrections of closed billing periods."""
