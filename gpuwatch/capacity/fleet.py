"""The fleet now: what there is, what reports, what is held, and what the held part does."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pyarrow as pa

from gpuwatch.core.clock import HOUR_US, MINUTE_US, rfc3339
from gpuwatch.store.database import Store

RECENT_US = 5 * MINUTE_US
"""`active` and `effective` are averages over the last minutes of the ledger."""
SILENCE_US_MIN = 5 * MINUTE_US
"""A device reports while its last sample is no older than this, or than three of its intervals."""
STALE_US = 15 * MINUTE_US
"""Scheduler records older than this at the last sample do not describe the present."""
KEYS = ("total", "reporting", "allocated", "active", "effective", "effective_known")
PLACES = 3

_END = pa.schema([("cluster", pa.string()), ("newest_us", pa.int64()), ("as_of_us", pa.int64())])

Counts = dict[str, float | int | None]


def fleet(store: Store, now_us: int, teams: Collection[str] | None = None) -> dict[str, Any]:
    """GPUs and MIG slices by cluster, pool and model: the answer of GET /fleet.

    `gpus` counts whole GPUs and `slices` MIG slices; a partitioned GPU is in `partitioned` and its slices, or
    only its slices where no exporter shows which GPU they are on. A device that
    several share counts in parts. `reporting` is evaluated at now_us; the rest comes from the ledger at `as_of`: held at
    that instant, and on average over the RECENT_US before how many were not idle (active) and how many worked at a
    roof of the GPU (effective): None where none of the held ones gives SM, tensor or DRAM activity, and otherwise of the
    `effective_known` held GPUs that do. With `teams` only what those hold, and the pools where they hold something: total is
    then allocated.
    """
    ends = store.rows("capacity/fleet_end", stale_us=STALE_US)
    known_ends = [end["as_of_us"] for end in ends if end["as_of_us"] is not None]
    rows: list[dict[str, Any]] = []
    if known_ends:
        with store.view("cluster_end", pa.Table.from_pylist(ends, schema=_END)):
            rows = store.rows(
                "capacity/fleet",
                teams=None if teams is None else list(teams),
                now_us=now_us,
                recent_us=RECENT_US,
                silence_us_min=SILENCE_US_MIN,
                stale_us=STALE_US,
                since_hour_us=(min(known_ends) - RECENT_US) // HOUR_US * HOUR_US,
            )
    if teams is not None:
        rows = [row for row in rows if row["total"]]
    places: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        places.setdefault((row["cluster"], row["pool"], row["gpu_model"]), []).append(row)
    return {
        "at": rfc3339(now_us),
        "as_of": rfc3339(max(known_ends)) if known_ends else None,
        "items": [_item(place, parts) for place, parts in places.items()],
        "total": _both(rows),
    }


def _item(place: tuple[str, str, str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    cluster, pool, model = place
    return {
        "cluster": cluster,
        "pool": pool,
        "gpu_model": model,
        "as_of": rfc3339(rows[0]["as_of_us"]),
        **_both(rows),
    }


def _both(rows: list[dict[str, Any]]) -> dict[str, Any]:
    slices = [row for row in rows if row["slice"]]
    return {
        "gpus": _sum(row for row in rows if not row["slice"]),
        "slices": _sum(slices),
        "partitioned": sum(row["boards"] for row in slices),
    }


def _sum(rows: Iterable[dict[str, Any]]) -> Counts:
    """Sums by key of what is known."""
    every = list(rows)
    return {key: _number([row[key] for row in every]) for key in KEYS}


def _number(values: list[float | None]) -> float | int | None:
    """The sum of the known, as a device that is not measured adds nothing; None if nothing is known."""
    known = [value for value in values if value is not None]
    if len(known) < len(values) and not any(known):
        return None
    total = round(sum(known), PLACES)
    return int(total) if total == int(total) else total
