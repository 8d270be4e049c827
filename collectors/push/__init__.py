"""What others push: remote-write, OTLP, events."""
