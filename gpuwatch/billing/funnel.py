"""The funnel of a ledger answer: from owned time to the time at a roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuwatch.billing.records import Amount
from gpuwatch.ledger.hours import HELD_BUCKETS
from gpuwatch.ledger.measures import AT_ROOF
from gpuwatch.ledger.totals import Scale, Totals

SEEN_PARTS_MIN = 10
"""Active and effective time are unknown if less than one part in this many of the held time was observed."""
DARK_PARTS_MIN = 100
"""Effective time is unknown too if more than one part in this many is unobserved and no work was seen in the rest."""
IDLE_BUCKETS = ("unobserved", "hoarded")
"""Buckets of allocated time without observed activity."""


def funnel(rows: Sequence[Mapping[str, Any]], totals: Totals, scale: Scale) -> dict[str, Amount]:
    """Stages of the funnel: each is rounded on its own and capped at the total, the sum of the published rows."""
    held = [row for row in rows if row["bucket"] in HELD_BUCKETS]
    stages = {
        "total": rows,
        "reporting": [row for row in rows if row["reporting"]],
        "allocated": [row for row in held if row["reporting"] and row["bucket"] != "unobserved"],
        "active": [row for row in held if row["bucket"] not in IDLE_BUCKETS],
        "effective": [row for row in held if row["bucket"] in AT_ROOF],
    }
    whole = Amount(totals.gpu_seconds, totals.cost)
    amounts = {
        name: whole if len(stage) == len(rows) else _capped(stage, totals, scale) for name, stage in stages.items()
    }
    if _mostly_unobserved(held):
        amounts |= dict.fromkeys(("active", "effective"), Amount(None, None))
    elif _only_pauses_seen(held):
        amounts["effective"] = Amount(None, None)
    return amounts


def _mostly_unobserved(held: Sequence[Mapping[str, Any]]) -> bool:
    seen = sum(int(row["units"]) for row in held if row["bucket"] != "unobserved")
    return seen * SEEN_PARTS_MIN < sum(int(row["units"]) for row in held)


def _only_pauses_seen(held: Sequence[Mapping[str, Any]]) -> bool:
    """Whether some of the held time is unobserved and no work was seen in the rest, as without SM_ACTIVE."""
    if any(row["bucket"] not in (*IDLE_BUCKETS, "gap") and int(row["units"]) for row in held):
        return False
    dark = sum(int(row["units"]) for row in held if row["bucket"] == "unobserved")
    return dark * DARK_PARTS_MIN > sum(int(row["units"]) for row in held)


def _capped(rows: Sequence[Mapping[str, Any]], totals: Totals, scale: Scale) -> Amount:
    cost = None if totals.cost is None else min(scale.money(sum(int(row["amount"]) for row in rows)), totals.cost)
    return Amount(min(scale.gpu_seconds(sum(int(row["units"]) for row in rows)), totals.gpu_seconds), cost)
