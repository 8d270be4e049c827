"""Leases: which process does the work that one process may do."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table. Times are those of the database's own clock."""
    op.create_table(
        "lease",
        sa.Column("name", sa.String(80), primary_key=True),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("volume", sa.Text),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("until_us", sa.BigInteger, nullable=False),
    )
