"""The tables of settings, of the audit log and of versioned lists, for those who write. Reading needs no SQLAlchemy."""

from __future__ import annotations

import sqlalchemy as sa

from gpuwatch.state.list_columns import JSON_ROWS, KEY, OWN_ROWS, Rows

_WHOLE = {"version": sa.Integer, "position": sa.Integer, "line": sa.Integer}
_tables = sa.MetaData()
CARD = sa.Table(
    "card",
    _tables,
    sa.Column("kind", sa.String),
    sa.Column("version", sa.Integer),
    sa.Column("digest", sa.String),
    sa.Column("source", sa.Text),
    sa.Column("actor", sa.Text),
    sa.Column("at_us", sa.BigInteger),
)
SETTING = sa.Table("setting", _tables, sa.Column("name", sa.String), sa.Column("value", sa.Text))
AUDIT = sa.Table(
    "audit_log",
    _tables,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("at_us", sa.BigInteger),
    sa.Column("actor", sa.Text),
    sa.Column("what", sa.Text),
    sa.Column("before", sa.Text),
    sa.Column("after", sa.Text),
)


def _table(rows: Rows) -> sa.Table:
    kinds = {
        name: sa.BigInteger if name.endswith("_us") else _WHOLE.get(name, sa.Text) for name in (*KEY, *rows.columns)
    }
    return sa.Table(rows.table, _tables, *(sa.Column(name, kind) for name, kind in kinds.items()))


ROWS = {rows.table: _table(rows) for rows in (JSON_ROWS, *OWN_ROWS.values())}
"""The tables of the rows of versioned lists, by name."""
