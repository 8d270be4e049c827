"""MIG GPUs of a window: each slice added up over all who held it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from typing import Any

from gpuwatch.billing.slices import Epoch, Row, epoch, layouts_of, placement, profile_of, seconds, worked_out
from gpuwatch.core.clock import Window
from gpuwatch.core.money import CENT_PLACES, units_to_decimal
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.store.database import Store

OWNERS_MAX = 20
"""Owners in the totals, those with the most time."""
NAMES = ("slice", "gi", "cluster", "profile", "currency", "current", "share_method", "split", "owner", "job", "owners")

Place = tuple[str, str]


def mig_gpus(
    store: Store,
    window: Window,
    teams: Collection[str] | None = None,
    *,
    cluster: str | None = None,
    pool: str | None = None,
    idle_first: bool = False,
    limit: int = 100,
    offset: int = 0,
) -> dict[str, Any]:
    """MIG GPUs as JSON: `items`, those of the page with their `slices`; `total` of all; `next_offset`.

    They come in order of node and id, or with the most idle time first. A slice that only its scheduler reports is listed
    under its node, with `gpu` null. Times and costs are the sums of those that `slices` returns. `owner` held the slice
    longest, `owners` is how many did; `current` slices are in the newest layout of their GPU. Costs are null where currencies
    differ.
    """
    with worked_out(store, window, teams, cluster, pool) as there:
        rows = _sums(store) if there else []
        layouts = layouts_of(store) if rows else {}
    by_place: dict[Place, list[Row]] = defaultdict(list)
    for row in rows:
        by_place[(row["cluster"], row["gpu"] if row["measured"] else f"{row['node']}/")].append(row)
    order = sorted(by_place, key=lambda place: _order(by_place[place], idle_first))
    shown = teams is None or PLATFORM in teams
    newest = {place: _newest(found, layouts) for place, found in by_place.items()}
    return {
        "items": [_gpu(by_place[place], layouts, newest[place], shown) for place in order[offset : offset + limit]],
        "total": _total(rows, newest.values(), shown),
        "next_offset": offset + limit if offset + limit < len(order) else None,
    }


def _sums(store: Store) -> list[dict[str, Any]]:
    kinds = store.sql(
        "select distinct d.model, p.profile from slice_page p"
        " join device d on d.device_id = p.device_id and d.cluster = p.cluster where p.profile is not null"
    )
    sizes = [(model, name, found) for model, name in kinds if (found := profile_of(model, name)) is not None]
    return store.rows(
        "billing/slices/sum",
        models=[model for model, _, _ in sizes],
        profiles=[name for _, name, _ in sizes],
        bytes=[float(found.memory_gib or found.memory_gb) * 2**30 for _, _, found in sizes],
    )


def _order(rows: Sequence[Row], idle_first: bool) -> tuple[int, str, str]:
    idle = sum(int(row["hoarded_us"] or 0) for row in rows) if idle_first else 0
    first = rows[0]
    return (-idle, first["node"] or "", first["gpu"] or "")


def _newest(rows: Sequence[Row], layouts: dict[Epoch, list[Row]]) -> Row | None:
    """A slice of the newest layout of a GPU; None for slices that only a scheduler reports."""
    first = rows[0]
    if not first["measured"]:
        return None
    return layouts[(first["cluster"], first["parent_id"], first["newest_us"])][0]


def _remainder(newest: Row | None) -> Fraction:
    if newest is None or not newest["remainder_num"]:
        return Fraction(0)
    return Fraction(newest["remainder_num"], newest["remainder_den"])


def _gpu(rows: Sequence[Row], layouts: dict[Epoch, list[Row]], newest: Row | None, shown: bool) -> dict[str, Any]:
    first = rows[0]
    return {
        "gpu": first["gpu"] if first["measured"] else None,
        "node": first["node"],
        "cluster": first["cluster"],
        "gpu_model": first["gpu_model"],
        "remainder_share": str(_remainder(newest)) if shown and newest is not None else None,
        "slices": [_slice(row, layouts[epoch(row)]) for row in rows],
    }


def _slice(row: Row, layout: Sequence[Row]) -> dict[str, Any]:
    profile = profile_of(row["gpu_model"], row["profile"])
    return {
        **{name: row[name] for name in NAMES},
        "gi": row["gi"] if row["measured"] else None,
        "share": str(Fraction(row["share_num"], row["share_den"])),
        "held_seconds": seconds(row["held_us"]),
        "free_seconds": seconds(row["free_us"]),
        "idle_seconds": None if row["hoarded_us"] is None else seconds(row["hoarded_us"]),
        "cost": _money(row["cents"]),
        "free_cost": _money(row["free_cents"]),
        "utilisation": {name: row[name] for name in ("gr_engine_ratio", "fb_used_ratio")},
        "placement": placement(row, profile, layout),
    }


def _total(rows: Sequence[Row], newest: Iterable[Row | None], shown: bool) -> dict[str, Any]:
    """Sums over all slices. An amount is null where none is known, or where their currencies differ."""
    held = [row for row in rows if row["owner"] is not None]
    measured = [found for found in newest if found is not None]
    by_owner: dict[str, int] = defaultdict(int)
    for row in held:
        by_owner[row["owner"]] += int(row["held_us"])
    ranked = sorted(by_owner, key=lambda name: (-by_owner[name], name))
    currencies = {row["currency"] for row in rows if row["currency"]}
    currency = currencies.pop() if len(currencies) == 1 and not any(row["mixed"] for row in rows) else None
    return {
        "gpus": len(measured),
        "slices": len(rows),
        "held_slices": len(held),
        "measured_slices": sum(1 for row in held if row["gr_engine_ratio"] is not None),
        "held_seconds": seconds(sum(int(row["held_us"]) for row in rows)),
        "known_seconds": seconds(sum(int(row["held_us"]) for row in rows if row["hoarded_us"] is not None)),
        "idle_seconds": seconds(_sum(rows, "hoarded_us") or 0),
        "free_seconds": seconds(sum(int(row["free_us"]) for row in rows)),
        "cost": _money(_sum(rows, "cents")) if currency else None,
        "free_cost": _money(_sum(rows, "free_cents")) if currency else None,
        "currency": currency,
        "remainder_gpus": str(sum(map(_remainder, measured), Fraction(0))) if shown else None,
        "owners": ranked[:OWNERS_MAX],
        "share_methods": _words(rows, "share_method"),
        "splits": _words(rows, "split"),
    }


def _sum(rows: Iterable[Row], name: str) -> int | None:
    known = [int(row[name]) for row in rows if row[name] is not None]
    return sum(known) if known else None


def _words(rows: Iterable[Row], name: str) -> list[str]:
    return sorted({word for row in rows for word in (row[name] or "").split(", ") if word})


def _money(cents: object) -> str | None:
    return None if cents is None else f"{units_to_decimal(int(str(cents)), CENT_PLACES):f}"
