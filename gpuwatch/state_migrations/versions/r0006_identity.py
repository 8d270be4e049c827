"""The id of this state, by which its store recognizes it."""

from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds a random id, which copies keep."""
    setting = sa.table("setting", sa.column("name", sa.String), sa.column("value", sa.Text))
    op.bulk_insert(setting, [{"name": "state_id", "value": uuid4().hex}])
