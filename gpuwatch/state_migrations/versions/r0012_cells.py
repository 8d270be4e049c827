"""Cells: which of them has a cluster."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table."""
    op.create_table(
        "cluster_cell",
        sa.Column("cluster", sa.String(128), primary_key=True),
        sa.Column("cell", sa.String(80), nullable=False),
    )
