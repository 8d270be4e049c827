"""Records of cards without a table of their own: policies, exchange rates, owned hardware, commitments, budgets."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the table of their records; their versions stand in `card`."""
    op.create_table(
        "card_row",
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["kind", "version"], ["card.kind", "card.version"]),
    )
