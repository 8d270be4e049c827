"""Rate cards, ownership rules, settings and the audit log."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the first tables. Money is text: no database's number type keeps every decimal everywhere."""
    op.create_table(
        "card",
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "rate",
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("line", sa.Integer, nullable=False),
        sa.Column("gpu_model", sa.Text, nullable=False),
        sa.Column("pricing", sa.String(16), nullable=False),
        sa.Column("usd_per_gpu_hour", sa.Text, nullable=False),
        sa.Column("valid_from_us", sa.BigInteger, nullable=False),
        sa.Column("valid_to_us", sa.BigInteger),
        sa.Column("cluster", sa.Text),
        sa.Column("pool", sa.Text),
        sa.Column("mig_profile", sa.Text),
        sa.Column("currency", sa.String(3), nullable=False),
        sa.ForeignKeyConstraint(["kind", "version"], ["card.kind", "card.version"]),
    )
    op.create_table(
        "ownership_rule",
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("line", sa.Integer, nullable=False),
        sa.Column("match_kind", sa.Text, nullable=False),
        sa.Column("match", sa.Text, nullable=False),
        sa.Column("team", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["kind", "version"], ["card.kind", "card.version"]),
    )
    op.create_table(
        "setting",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "audit_log",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("before", sa.Text),
        sa.Column("after", sa.Text),
    )
