"""Answers as tables, JSON, CSV and files."""
