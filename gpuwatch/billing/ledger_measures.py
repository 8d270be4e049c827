"""The measures of a ledger question, read from its working tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any

from gpuwatch.billing.records import GroupMeasures
from gpuwatch.ledger.dimensions import values
from gpuwatch.ledger.measures import Measures
from gpuwatch.ledger.totals import Scale
from gpuwatch.store.database import Store

EVERY = 2**31
Claimed = Mapping[tuple[object, ...], Decimal]
"""Claimed below-peak GPU-seconds by `key`."""


def read(
    store: Store, scale: Scale, asked: Mapping[str, object], by: Sequence[str], limit: int | None
) -> tuple[Measures, tuple[GroupMeasures, ...], Claimed]:
    """The measures of the temporary table `ledger_group`, those of its groups, and what findings claim of its groups and steps.

    Groups are the `limit` with the most avoidable time; none with steps.
    """
    if not by and not asked["steps"]:  # ledger_group is one group
        rows = store.rows("billing/measure", **asked, whole=False, groups=1, claimed_only=False)
        return (
            Measures.of(rows, scale),
            (),
            _claimed([row for row in rows if int(row["claimed_units"] or 0)], scale, by),
        )
    whole = Measures.of(store.rows("billing/measure", **asked, whole=True, groups=1, claimed_only=False), scale)
    rows = [] if asked["steps"] else _groups(store, asked, by, limit)
    groups = []
    for _, parts in groupby(rows, key=lambda row: row["place"]):
        mine = list(parts)
        groups.append(GroupMeasures(values(mine[0]["words"], by), Measures.of(mine, scale)))
    if not store.sql("select 1 from claimed_time limit 1"):
        return whole, tuple(groups), {}
    rows = store.rows("billing/measure", **asked, whole=False, groups=0, claimed_only=True)
    return whole, tuple(groups), _claimed(rows, scale, by)


def _groups(store: Store, asked: Mapping[str, object], by: Sequence[str], limit: int | None) -> list[dict[str, Any]]:
    most = EVERY if limit is None else limit
    return store.rows("billing/measure", **asked, whole=False, groups=most, claimed_only=False) if by else []


def _claimed(rows: Sequence[Mapping[str, Any]], scale: Scale, by: Sequence[str]) -> Claimed:
    return {
        key(row["words"] | {"currency": row["currency"]}, by): scale.gpu_seconds(int(row["claimed_units"]))
        for row in rows
    }


def key(row: Mapping[str, Any], by: Sequence[str]) -> tuple[object, ...]:
    """What identifies a row of a ledger, apart from its bucket."""
    return (row["step"], row["currency"], *values(row, by).values())
