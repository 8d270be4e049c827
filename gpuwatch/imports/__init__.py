"""History from files, uploads and backfills into the store."""
