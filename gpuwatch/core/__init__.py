"""Nouns and tools that every other package may use: records, errors, clock, money, plug-in registry."""
