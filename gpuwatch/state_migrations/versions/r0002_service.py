"""Tokens, owners' actions on findings, alert channels, the outbox and billing periods."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the tables of the running service."""
    op.create_table(
        "token",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("scope", sa.String(16), nullable=False),
        sa.Column("teams", sa.Text),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("expires_us", sa.BigInteger),
        sa.Column("revoked_us", sa.BigInteger),
    )
    op.create_table(
        "finding_action",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("finding_key", sa.String(200), nullable=False, index=True),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("until_us", sa.BigInteger),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "channel",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("updated_us", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("dedup", sa.String(300), nullable=False, unique=True),
        sa.Column("channel", sa.String(64), nullable=False),
        sa.Column("finding_key", sa.String(200)),
        sa.Column("event", sa.String(16), nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False, index=True),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("due_us", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("batch", sa.String(300)),
        sa.Column("tried_us", sa.BigInteger),
        sa.Column("last_error", sa.Text),
        sa.Column("sent_us", sa.BigInteger),
    )
    op.create_table(
        "alert_mark",
        sa.Column("channel", sa.String(64), primary_key=True),
        sa.Column("finding_key", sa.String(200), primary_key=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("severity", sa.String(16), nullable=False),
        sa.Column("episode", sa.Integer, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "period",
        sa.Column("name", sa.String(16), primary_key=True),
        sa.Column("start_us", sa.BigInteger, nullable=False),
        sa.Column("end_us", sa.BigInteger, nullable=False),
        sa.Column("closed_us", sa.BigInteger, nullable=False),
        sa.Column("closed_by", sa.Text, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
    )
