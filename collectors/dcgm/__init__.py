"""DCGM metrics in exposition format."""
