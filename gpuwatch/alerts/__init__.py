"""Alerts: changes of findings, sent to owners through an outbox and notification channels."""
