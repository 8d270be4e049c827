"""Tables of closed periods, and the first instant that no closed period holds."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

MAX_PERIODS = 10_000
"""Periods that are listed, or passed over to find an open one: a week each for two centuries."""

_tables = sa.MetaData()
closing = sa.Table(
    "period_closing",
    _tables,
    sa.Column("name", sa.String),
    sa.Column("number", sa.Integer),
    sa.Column("start_us", sa.BigInteger),
    sa.Column("end_us", sa.BigInteger),
    sa.Column("level", sa.String),
    sa.Column("closed_us", sa.BigInteger),
    sa.Column("closed_by", sa.Text),
    sa.Column("digest", sa.String),
    sa.Column("context", sa.Text),
    sa.Column("summary", sa.Text),
    sa.Column("content", sa.LargeBinary),
    sa.Column("reopened_us", sa.BigInteger),
    sa.Column("reopened_by", sa.Text),
    sa.Column("reason", sa.Text),
)
signature = sa.Table(
    "period_signature",
    _tables,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String),
    sa.Column("number", sa.Integer),
    sa.Column("digest", sa.String),
    sa.Column("signer", sa.Text),
    sa.Column("note", sa.Text),
    sa.Column("at_us", sa.BigInteger),
    sa.Column("actor", sa.Text),
)
correction = sa.Table(
    "period_correction",
    _tables,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String),
    sa.Column("number", sa.Integer),
    sa.Column("posted_us", sa.BigInteger),
    sa.Column("why", sa.Text),
    sa.Column("words", sa.Text),
    sa.Column("currency", sa.Text),
    sa.Column("gpu_seconds", sa.Text),
    sa.Column("cost_exact", sa.Text),
    sa.Column("cost", sa.Text),
)
card = sa.Table("card", _tables, sa.Column("kind", sa.String), sa.Column("version", sa.Integer))


def first_open(connection: Connection, at_us: int) -> int:
    """`at_us`, or where a closed period holds that instant, the end of it and of those that follow on it."""
    for _ in range(MAX_PERIODS):
        end_us: int | None = connection.scalar(
            sa.select(sa.func.max(closing.c.end_us)).where(
                closing.c.reopened_us.is_(None), closing.c.start_us <= at_us, closing.c.end_us > at_us
            )
        )
        if end_us is None:
            break
        at_us = end_us
    return at_us
