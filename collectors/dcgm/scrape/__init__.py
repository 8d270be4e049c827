"""The scraper of dcgm-exporter endpoints."""
