"""Notification channels: Slack, webhooks, e-mail, Alertmanager."""
