"""Owners' feedback on findings, and the steps of reclaims that owners were notified of."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds a column, empty for earlier actions, and a table."""
    op.add_column("finding_action", sa.Column("verdict", sa.String(16)))
    op.create_table(
        "reclaim_step",
        sa.Column("finding_key", sa.String(200), primary_key=True),
        sa.Column("idle_from_us", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("step", sa.String(24), primary_key=True),
        sa.Column("at_us", sa.BigInteger, nullable=False),
    )
