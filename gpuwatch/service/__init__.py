"""The running service: collectors, analyzer, alerts and API in one process."""
