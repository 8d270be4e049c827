"""Routes about findings and detectors."""
