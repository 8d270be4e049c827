"""Migrations of the state database. Alembic runs them from here, also out of an installed wheel."""
