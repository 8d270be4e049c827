"""What several collectors share: HTTP, JSON streams, live rounds, TLS files."""
