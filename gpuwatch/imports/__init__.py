"""Imports history from files, uploads and backfills into the store."""
