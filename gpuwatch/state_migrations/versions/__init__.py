"""One file a migration, named by its number; never edited after release."""
