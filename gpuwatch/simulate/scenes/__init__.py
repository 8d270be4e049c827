"""Scenes: one module a detector, each with what it must find and what it must not."""
