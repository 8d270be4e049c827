"""Where Alembic gets its connection: from State, already in a transaction that State commits."""

from alembic import context

# With transactional DDL a migration and its record are one transaction, on SQLite too: a process killed half-way
# leaves the database as it was.
context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
