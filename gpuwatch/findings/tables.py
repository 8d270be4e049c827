"""The table of the actions of owners on findings, for those who write."""

from __future__ import annotations

import sqlalchemy as sa

ACTION = sa.Table(
    "finding_action",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("finding_key", sa.String(200)),
    sa.Column("action", sa.String(16)),
    sa.Column("until_us", sa.BigInteger),
    sa.Column("reason", sa.Text),
    sa.Column("actor", sa.Text),
    sa.Column("at_us", sa.BigInteger),
    sa.Column("verdict", sa.String),
    sa.Column("assignee", sa.String),
)
