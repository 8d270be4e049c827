"""Decisions about jobs: which of them are for spot capacity, which would fit in a MIG slice."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from gpuwatch.advisor.formulas import smallest_fit, spot
from gpuwatch.advisor.inputs import (
    Assumptions,
    Group,
    PricedTime,
    answer,
    converted,
    money,
    priced_time,
    query_parameters,
    sums,
)
from gpuwatch.core.clock import HOUR_US, Window
from gpuwatch.hardware import shares as hardware_shares
from gpuwatch.hardware.mig_profiles import GEOMETRIES, Geometry, Profile
from gpuwatch.rates import in_force
from gpuwatch.rates.card import Rate
from gpuwatch.rates.fx import Fx
from gpuwatch.rates.matching import match_models
from gpuwatch.state import State
from gpuwatch.store.database import Store

ITEMS_MAX = 1000
"""Jobs of an answer, those that would save the most."""
SEEN_MIN = Fraction(8, 10)
"""The needs of a job measured for a smaller part of its time are unknown."""
HELD_HOURS_MIN = 1
"""A job that held less than a GPU-hour is not worth a proposal."""
CHECKPOINT_MINUTES_MAX = 10_080
"""A word on checkpoints that are further apart than a week is none."""
MIB = 1 << 20
ON_DEMAND = "on_demand"

STEADY = {
    "serves": "it serves requests or is used interactively: an interruption would be an outage",
    "deadline": "it has a deadline (label gpuwatch.io/deadline)",
    "asked": "its label gpuwatch.io/spot refuses spot capacity",
}
"""Why a job must not run on capacity that is taken away, by the word of the view needs_steady."""

SPOT_NOTES = (
    "services, interactive work and jobs with a deadline are not proposed: labels, controllers and names tell them apart",
    "only on-demand hours can be saved: owned and reserved capacity costs the same whoever uses it",
    "every node of a run is taken away at random, at the rate of interruptions; losing one of them stops the run",
    "without the label gpuwatch.io/checkpoint-minutes a run restarts from the beginning after each interruption",
)
SIZE_NOTES = (
    "you save only if others use the rest of the GPU",
    "a slice must hold the most memory and SM use of any five minutes, each with headroom; shorter peaks are not seen",
)


def spot_suitability(
    store: Store, state: State, window: Window, teams: Collection[str] | None, assumed: Assumptions
) -> dict[str, Any]:
    """Jobs by what they would save on spot capacity: those that are for it first, then those that are not, with why.

    A job's own checkpoints count if every run has the label gpuwatch.io/checkpoint-minutes. Raises
    UsageError for a window whose money does not fit.
    """
    runs = job_runs(store, window, teams)
    jobs: dict[Group, dict[str, Any]] = {(row["cluster"], row["job"], row["team"]): row for row in runs}
    rates, fx = [rate for rate in in_force.in_force(state) if rate.pricing == "spot"], Fx.read(state)
    by = ("cluster", "job", "team", "gpu_model", "pool")
    items, unpriced = [], 0
    for group, one in priced_time(store, window, by, by_job=True, teams=teams).items():
        run = jobs.get(group[:3])
        if run is None or one.held < HELD_HOURS_MIN:
            continue
        item, priced = _spot(dict(zip(by, group, strict=True)), one, run, assumed, rates, fx, window.end_us - 1)
        unpriced += not priced
        items += [item] if priced else []
    items.sort(key=lambda item: (-Decimal(item["saving"]), not item["suitable"], str(item["job"])))
    extra = {"jobs": len(items), "jobs_without_price": unpriced, "saving": sums(items)}
    return answer(window, assumed, items[:ITEMS_MAX], SPOT_NOTES, **extra)


def job_runs(
    store: Store, window: Window, teams: Collection[str] | None, cluster: str | None = None
) -> list[dict[str, Any]]:
    """The jobs of a window with their longest runs, their checkpoints, and why they must not be interrupted."""
    store.run("views/needs_steady")
    return store.rows("advisor/run", **query_parameters(window, teams, cluster), minutes_max=CHECKPOINT_MINUTES_MAX)


def right_sizing(
    store: Store, state: State, window: Window, teams: Collection[str] | None, assumed: Assumptions
) -> dict[str, Any]:
    """Jobs that held one whole GPU and would have fitted in a MIG slice of it: the smallest one, and what that saves.

    Based on the most memory and SM use of any five minutes, with headroom. Jobs that were measured for less than
    SEEN_MIN of their time are counted as unjudged. Raises UsageError for a window whose money does not fit.
    """
    by = ("cluster", "job", "team", "gpu_model")
    used = {
        tuple(row[name] for name in by): row for row in store.rows("advisor/small", **query_parameters(window, teams))
    }
    items, unjudged = [], 0
    for group, one in priced_time(store, window, by, by_job=True, teams=teams).items():
        row = used.get(group)
        if row is None or one.held < HELD_HOURS_MIN:
            continue
        seen = Fraction(row["covered_us"], HOUR_US) / one.held
        if row["memory_bytes"] is None or row["sm_ratio"] is None or seen < SEEN_MIN:
            unjudged += 1
            continue
        sizes = slices_of(row["gpu_model"])
        fit = smallest_fit(sizes, row["memory_bytes"], row["sm_ratio"], Fraction(assumed.headroom))
        if fit is None:
            continue
        items.append(
            {
                **dict(zip(by, group, strict=True)),
                "memory_mib": row["memory_bytes"] // MIB,
                "sm_active_ratio": round(float(row["sm_ratio"]), 4),
                "gpu_hours": money(one.held, 6),
                "cost": money(one.cost),
                "currency": one.currency,
                "mig_profile": fit.profile,
                "share": str(fit.share),
                "saving": money(None if one.cost is None else one.cost * (1 - fit.share)),
            }
        )
    items.sort(key=lambda item: (-Decimal(item["saving"] or 0), str(item["job"])))
    extra = {"jobs": len(items), "jobs_unjudged": unjudged, "saving": sums(items)}
    return answer(window, assumed, items[:ITEMS_MAX], SIZE_NOTES, **extra)


def _spot(
    group: dict[str, str | None],
    one: PricedTime,
    run: dict[str, Any],
    assumed: Assumptions,
    rates: Sequence[Rate],
    fx: Fx,
    at_us: int,
) -> tuple[dict[str, Any], bool]:
    """The row of a job, and whether there is a price to compare."""
    hours = Decimal(run["longest_us"]) / HOUR_US
    item: dict[str, Any] = {
        **group,
        "name": run["name"],
        "runs": run["runs"],
        "nodes": run["nodes"],
        "longest_run_hours": round(float(hours), 3),
        "gpu_hours": money(one.held, 6),
        "cost": money(one.cost),
        "currency": one.currency,
        "spot_price_ratio": None,
        "suitable": False,
        "saving": "0.00",
    }
    if one.pricings == {"spot"}:
        return item | {"why": "its hours are spot already"}, True
    currency, part, cost = one.currency, None, Decimal(0)
    if ON_DEMAND in one.pricings:
        if currency is None or one.unpriced or not one.money[ON_DEMAND, currency]:
            return item, False
        rented = one.money[ON_DEMAND, currency]
        part = _spot_ratio(rates, group, currency, rented / one.hours[ON_DEMAND, currency], assumed, fx, at_us)
        if part is None:
            return item, False
        item["spot_price_ratio"], cost = f"{part:.4f}", Decimal(money(rented, 12) or 0)
    elif not one.pricings:
        return item, False
    if run["steady"] is not None:
        return item | {"why": STEADY[run["steady"]]}, True
    checkpoint = None if run["checkpoint_minutes"] is None else run["checkpoint_minutes"] / 60
    if run["running"] and checkpoint is None:
        return item | {"why": "it is still running and its checkpoints are unknown, so the loss is unknown too"}, True
    interruptions = float(assumed.interruptions_an_hour) * max(run["nodes"], 1)
    found = spot(cost, part or Decimal(0), float(hours), interruptions, checkpoint)
    why = found.why
    if part is None and found.suitable:
        why += f"; its hours are {' and '.join(sorted(one.pricings))} and cost the same whoever uses them"
    return item | {"suitable": found.suitable, "saving": f"{found.saved:.2f}", "why": why}, True


def _spot_ratio(
    rates: Sequence[Rate],
    group: dict[str, str | None],
    currency: str,
    now: Fraction,
    assumed: Assumptions,
    fx: Fx,
    at_us: int,
) -> Decimal | None:
    """The spot price over the price now: from the assumption, else from the rate card: the most expensive spot capacity of this model
    that the cluster may have, in any pool. None if neither is known.
    """
    if assumed.spot_discount is not None:
        return 1 - assumed.spot_discount
    model, cluster = group["gpu_model"] or "", group["cluster"]
    matching = [
        rate
        for rate in match_models(rates, [model])[model]
        if rate.cluster in (None, cluster) and rate.mig_profile is None and rate.valid_at(at_us)
    ]
    prices = [
        converted(fx, Fraction(rate.usd_per_gpu_hour), rate.currency, currency, at_us)
        for rate in matching
        if rate.gpu_model == matching[0].gpu_model
    ]
    known = [price for price in prices if price is not None]
    if not known or len(known) < len(prices):
        return None
    return Decimal(money(max(known) / now, 12) or 0)


@lru_cache(hardware_shares.MAX_NAMES)
def slices_of(model: str | None) -> tuple[tuple[str, Fraction, int, Fraction], ...]:
    """(profile, share, bytes of memory, part of the GPU's SMs) for smallest_fit; () for a model without known profiles.

    If a profile's memory or SMs were never read, the least that its name may mean: a size is printed up to NEAR_NAME
    too large, and SMs are as few of all as on any model that was read.
    """
    key = hardware_shares.model_key(model) if model else None
    if key is None:
        return ()
    geometry = GEOMETRIES[key]
    return tuple(
        (
            profile.name,
            Fraction(hardware_shares.share_units(key, profile.name)) / hardware_shares.SHARE_UNITS,
            int((profile.memory_gib or profile.memory_gb * (1 - hardware_shares.NEAR_NAME)) * 2**30),
            _sm_part(geometry, profile),
        )
        for profile in geometry.profiles.values()
        if not profile.media and profile.memory_slices < geometry.memory_slices
    )


def _sm_part(geometry: Geometry, profile: Profile) -> Fraction:
    """SMs of a slice by those of its GPU outside of MIG mode, which is what its SM use was measured on."""
    if profile.sms is not None and geometry.sms is not None:
        return Fraction(profile.sms, geometry.sms)
    known = [
        Fraction(alike.sms, other.sms)
        for other in GEOMETRIES.values()
        for alike in other.profiles.values()
        if other.sms is not None
        and alike.sms is not None
        and (other.compute_slices, alike.compute_slices) == (geometry.compute_slices, profile.compute_slices)
    ]
    return min(known, default=Fraction(profile.compute_slices, geometry.compute_slices))
