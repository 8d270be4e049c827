"""What owners are told of: changes of findings, through an outbox, to Slack, webhooks, Alertmanagers and mail servers."""
