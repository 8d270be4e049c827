"""Kubernetes as a source: files and API server."""
