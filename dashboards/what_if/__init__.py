"""Policies tried on the past: parts of the pages *What if*."""
