"""Pools as one: what they would need together, and how long requests would wait with less."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpuwatch.advisor.formulas import HOURS_A_MONTH, given_back, together
from gpuwatch.advisor.inputs import (
    Assumptions,
    PricedTime,
    answer,
    money,
    pools_at_end,
    priced_now,
    query_parameters,
    ratio,
)
from gpuwatch.advisor.replay import Request, replay
from gpuwatch.core.clock import DAY_US, SECOND_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.core.words import duration
from gpuwatch.ledger.totals import Scale, scale_of
from gpuwatch.rates.commitments import counted
from gpuwatch.state import State
from gpuwatch.store.database import Store

POOLS_MAX = 50
REQUESTS_MAX = 200_000
"""Requests of a replay; with more, waits are not computed."""
ENOUGH_US = 7 * DAY_US
"""The GPUs of today must have been there for as long, or for half of the window."""
LEVELS = ("peak", "p99", "p95")
"""What the merged pools must hold: the most GPUs held at once, or what was enough for 99 % or 95 % of the time."""
POOL_NOTES = (
    "any job may run on any GPU of these pools, and the GPUs that a job needs may lie on any nodes",
    "only the time counts in which at least 90 % of these GPUs were there: what fewer GPUs held shows no demand",
    "waits come from a replay: requests in the order of their recorded start, none overtakes an earlier one",
    "jobs that waited are not counted: look at the queues of these pools first",
    "whole nodes are given back, the cheapest first; a node that is owned saves nothing until it is sold or used",
)


UNKNOWN = dict.fromkeys(
    (
        "peak_gpus",
        "needed_gpus",
        "freed_nodes",
        "freed_gpus",
        "utilisation_before",
        "utilisation_after",
        "saving_a_month",
        "currency",
    )
) | {"levels": []}
"""What is not known of GPUs that are new."""


@dataclass(frozen=True)
class Held:
    """GPUs that were held at once while nearly all of today's were there."""

    by_level: Mapping[str, Fraction]
    mean: Fraction
    whole_us: int


def consolidation(
    store: Store, state: State, window: Window, cluster: str, pools: Sequence[str], assumed: Assumptions
) -> dict[str, Any]:
    """Pools of one cluster as one, by model: GPUs that their common peak needs, nodes freed, and what those cost.

    Raises UsageError for a pool that the cluster does not have, or more than POOLS_MAX.
    """
    if not pools or len(pools) > POOLS_MAX:
        raise UsageError(f"pools: name 1 to {POOLS_MAX} of them")
    scale = scale_of(store, window)
    by_model: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
    for row in _rows_of(store, window, scale, cluster, pools):
        by_model[row["gpu_model"]].append(row)
    items = []
    for model, mine in sorted(by_model.items(), key=lambda one: str(one[0])):
        priced = [priced_now(row["prices"], scale) for row in mine]
        there = sum(int(part["units"]) for row in mine for part in row["prices"])
        held = _held_at_once(store, window, scale, cluster, pools, model, there)
        gpus = sum(row["gpus"] for row in mine)
        item = {
            "cluster": cluster,
            "gpu_model": model,
            "pools": {row["pool"]: row["gpus"] for row in mine},
            "gpus": gpus,
        }
        if lacking := _too_short(held, gpus, counted(store, window)):
            items.append(item | UNKNOWN | {"missing": lacking})
            continue
        sizes = gpus, held.mean, _node_size(mine), Fraction(assumed.headroom)
        found = together(gpus, held.by_level["peak"], *sizes[1:])
        items.append(
            item
            | {
                "peak_gpus": ratio(held.by_level["peak"]),
                "needed_gpus": found.needed_gpus,
                "freed_nodes": found.freed_nodes,
                "freed_gpus": found.freed_gpus,
                "utilisation_before": ratio(found.utilisation_before),
                "utilisation_after": ratio(found.utilisation_after),
                **_saving(mine, priced, found.freed_gpus),
                "levels": _levels(
                    held.by_level, sizes, mine, priced, _requests(store, window, scale, cluster, pools, model), scale
                ),
            }
        )
    return answer(window, assumed, items, POOL_NOTES)


def _rows_of(store: Store, window: Window, scale: Scale, cluster: str, pools: Sequence[str]) -> list[dict[str, Any]]:
    """The GPUs of these pools by model. Raises UsageError for a pool that the cluster does not have."""
    rows = [row for row in pools_at_end(store, window, scale, cluster) if row["pool"] is not None]
    known = sorted({row["pool"] for row in rows})
    if missing := [pool for pool in pools if pool not in known]:
        raise UsageError(f"pool {missing[0]!r}: cluster {cluster!r} has {', '.join(known) or 'none'} in this window")
    return [row for row in rows if row["pool"] in pools]


def _held_at_once(
    store: Store, window: Window, scale: Scale, cluster: str, pools: Sequence[str], model: str | None, there: int
) -> Held:
    """The GPUs of a model that these pools held at one time. `there`: those of the window's end, in parts as `scale` counts them."""
    parameters = query_parameters(window, None, cluster) | {"pools": list(pools), "gpu_model": model}
    held = store.rows("advisor/held_at_once", **parameters, scale=scale.shares, there=there)[0]
    length = held["whole_us"]
    mean = Fraction(int(held["unit_us"]), scale.shares * length) if length else Fraction(0)
    return Held({level: Fraction(held[level], scale.shares) for level in LEVELS}, mean, length)


def _too_short(held: Held, gpus: int, known: Window | None) -> str | None:
    """Why it is not known how many GPUs are enough: most of them are new."""
    length_us = known.end_us - known.start_us if known else 0
    if held.whole_us >= ENOUGH_US or 2 * held.whole_us >= length_us:
        return None
    return (
        f"the {gpus} GPUs were there together for {duration(held.whole_us / SECOND_US)} of "
        f"{duration(length_us / SECOND_US)}: too short to know how many are enough"
    )


def _requests(
    store: Store, window: Window, scale: Scale, cluster: str, pools: Sequence[str], model: str | None
) -> list[Request] | None:
    """The recorded requests of these pools; None where they are too many."""
    parameters = query_parameters(window, None, cluster) | {"pools": list(pools), "gpu_model": model}
    rows = store.rows("advisor/request", **parameters, scale=scale.shares, limit=REQUESTS_MAX + 1)
    return None if len(rows) > REQUESTS_MAX else [Request(**row) for row in rows]


def _levels(
    held: Mapping[str, Fraction],
    sizes: tuple[int, Fraction, int, Fraction],
    pools: Sequence[Mapping[str, Any]],
    priced: Sequence[PricedTime],
    requests: Sequence[Request] | None,
    scale: Scale,
) -> list[dict[str, Any]]:
    """For each of LEVELS what would be freed, what that saves, and how long requests would wait."""
    items = []
    for level in LEVELS:
        found = together(sizes[0], held[level], *sizes[1:])
        waits = None if requests is None else replay(requests, (sizes[0] - found.freed_gpus) * scale.shares)
        costs = f"more than {REQUESTS_MAX:,} requests: waits are not computed" if waits is None else waits.sentence()
        items.append(
            {
                "level": level,
                "gpus": ratio(held[level]),
                "needed_gpus": found.needed_gpus,
                "freed_nodes": found.freed_nodes,
                "freed_gpus": found.freed_gpus,
                "saving_a_month": _saving(pools, priced, found.freed_gpus)["saving_a_month"],
                "requests": None if waits is None else waits.requests,
                "delayed_requests": None if waits is None else waits.delayed,
                "too_large_requests": None if waits is None else waits.too_large,
                "mean_delay_seconds": None if waits is None else waits.mean_us / SECOND_US,
                "longest_delay_seconds": None if waits is None else waits.longest_us / SECOND_US,
                "why": f"{level}: {found.needed_gpus} GPUs needed, {found.freed_gpus} freed; {costs}",
            }
        )
    return items


def _node_size(pools: Sequence[Mapping[str, Any]]) -> int:
    """GPUs of the largest node. Raises UsageError where a pool's nodes are unknown."""
    for row in pools:
        if row["gpus_a_node"] is None:
            raise UsageError(f"pool {row['pool']!r}: the nodes of its GPUs are unknown")
    return max(int(row["gpus_a_node"]) for row in pools)


def _saving(pools: Sequence[Mapping[str, Any]], prices: Sequence[PricedTime], freed_gpus: int) -> dict[str, Any]:
    """What the freed GPUs cost a month, or what lacks where it is not known."""
    currency = prices[0].currency if len({price.currency for price in prices}) == 1 else None
    lacking = [row["pool"] for row, price in zip(pools, prices, strict=True) if price.hourly is None]
    saving: dict[str, Any] = {"saving_a_month": None, "currency": currency}
    if lacking:
        return saving | {
            "missing": f"no price of one currency for {', '.join(lacking)}: gpuwatch doctor names the rates to add"
        }
    if currency is None:
        return saving | {
            "missing": "prices in several currencies: set exchange rates (gpuwatch rates fx FILE --currency USD)"
        }
    share = [(row["gpus"], price.hourly or Fraction(0)) for row, price in zip(pools, prices, strict=True)]
    return saving | {"saving_a_month": money(given_back(share, freed_gpus) * HOURS_A_MONTH)}
