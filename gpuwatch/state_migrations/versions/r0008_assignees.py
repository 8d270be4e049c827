"""People that findings are assigned to."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds a column, empty for earlier actions."""
    op.add_column("finding_action", sa.Column("assignee", sa.String(200)))
