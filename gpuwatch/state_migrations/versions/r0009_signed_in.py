"""People who sign in through an OpenID Connect provider."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds a column, empty for sessions of tokens."""
    op.add_column("session", sa.Column("granted", sa.Text))
