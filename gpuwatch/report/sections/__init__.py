"""Sections of a report, and words that several of them use."""
