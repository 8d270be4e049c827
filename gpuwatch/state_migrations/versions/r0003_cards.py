"""Records of cards without a table of their own, and periods that keep every closing, its signatures and corrections."""

import zlib

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates their tables; versions of cards stand in `card`. Periods that were closed before become first closings."""
    op.add_column("rate", sa.Column("more", sa.Text))
    op.create_table(
        "card_row",
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["kind", "version"], ["card.kind", "card.version"]),
    )
    closing = op.create_table(
        "period_closing",
        sa.Column("name", sa.String(16), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("start_us", sa.BigInteger, nullable=False, index=True),
        sa.Column("end_us", sa.BigInteger, nullable=False),
        sa.Column("level", sa.String(8), nullable=False),
        sa.Column("closed_us", sa.BigInteger, nullable=False),
        sa.Column("closed_by", sa.Text, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("context", sa.Text, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("reopened_us", sa.BigInteger),
        sa.Column("reopened_by", sa.Text),
        sa.Column("reason", sa.Text),
    )
    op.create_table(
        "period_signature",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(16), nullable=False, index=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("signer", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
    )
    op.create_table(
        "period_correction",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(16), nullable=False, index=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("posted_us", sa.BigInteger, nullable=False, index=True),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("words", sa.Text, nullable=False),
        sa.Column("currency", sa.Text),
        sa.Column("gpu_seconds", sa.Text, nullable=False),
        sa.Column("cost_exact", sa.Text),
        sa.Column("cost", sa.Text),
    )
    connection = op.get_bind()
    released = sa.table(
        "period",
        *(sa.column(name) for name in ("name", "start_us", "end_us", "closed_us", "closed_by", "digest", "content")),
    )
    for row in connection.execute(sa.select(released)).mappings().all():
        connection.execute(
            sa.insert(closing).values(
                **dict(row) | {"content": zlib.compress(row["content"].encode())},
                number=1,
                level="coarse",
                context="{}",
                summary=row["content"],
            )
        )
