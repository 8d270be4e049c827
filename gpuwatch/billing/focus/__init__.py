"""FOCUS export."""
