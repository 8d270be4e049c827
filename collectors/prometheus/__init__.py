"""Prometheus and kube-state-metrics as a source."""
