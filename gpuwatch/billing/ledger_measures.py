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
) -> tuple[Measures, tuple[GroupMeasures, ...]]:
    """The measures of the temporary table `book`, and of its groups: of `limit` of them, those with the most avoidable time."""
    whole = Measures.of(store.rows("billing/measure", **asked, whole=True, groups=1, claimed_only=False), scale)
    if not by:
        return whole, ()
    rows = store.rows(
        "billing/measure", **asked, whole=False, groups=EVERY if limit is None else limit, claimed_only=False
    )
    groups = []
    for _, parts in groupby(rows, key=lambda row: row["place"]):
        mine = list(parts)
        groups.append(GroupMeasures(values(mine[0]["words"], by), Measures.of(mine, scale)))
    return whole, tuple(groups)


def claimed(store: Store, scale: Scale, asked: Mapping[str, object], by: Sequence[str]) -> Claimed:
    """What findings claim of the below-peak time of each group and step."""
    if not store.sql("select 1 from claimed_time limit 1"):
        return {}
    rows = store.rows("billing/measure", **asked, whole=False, groups=0, claimed_only=True)
    return {
        key(row["words"] | {"currency": row["currency"]}, by): scale.gpu_seconds(int(row["claimed_units"]))
        for row in rows
    }


def key(row: Mapping[str, Any], by: Sequence[str]) -> tuple[object, ...]:
    """What identifies a row of a ledger, apart from its bucket."""
    return (row["step"], row["currency"], *values(row, by).values())
