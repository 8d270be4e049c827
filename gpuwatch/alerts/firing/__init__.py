"""Alerts that are firing at Alertmanagers."""
