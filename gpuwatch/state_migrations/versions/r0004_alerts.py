"""Alerts: secrets beside the address, what messages are grouped and throttled by, and what fires at Alertmanagers."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds columns, empty for what is there, and a table."""
    op.add_column("channel", sa.Column("sealed", sa.Text))
    for name in ("severity", "rule", "team", "username"):
        op.add_column("outbox", sa.Column(name, sa.Text))
    op.add_column("outbox", sa.Column("wanted_us", sa.BigInteger))
    op.create_table(
        "alert_firing",
        sa.Column("channel", sa.String(64), primary_key=True),
        sa.Column("finding_key", sa.String(200), primary_key=True),
        sa.Column("severity", sa.String(16), primary_key=True),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("ended_us", sa.BigInteger),
        sa.Column("told_us", sa.BigInteger),
    )
    op.create_table(
        "alert_push",
        sa.Column("channel", sa.String(64), primary_key=True),
        sa.Column("sent_us", sa.BigInteger),
        sa.Column("error", sa.Text),
        sa.Column("error_us", sa.BigInteger),
    )
