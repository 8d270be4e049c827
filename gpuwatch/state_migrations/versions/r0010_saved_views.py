"""Saved views of the pages, by person."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table."""
    op.create_table(
        "saved_view",
        sa.Column("owner", sa.String(200), primary_key=True),
        sa.Column("name", sa.String(80), primary_key=True),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("saved_us", sa.BigInteger, nullable=False),
    )
