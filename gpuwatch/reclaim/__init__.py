"""Reclaims of idle GPUs: notice, grace, warnings, recommendation."""
