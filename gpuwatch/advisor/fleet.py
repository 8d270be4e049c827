"""Decisions about the fleet: own or rent, and pools as one, from the ledger of a window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.advisor.formulas import HOURS_A_MONTH, Case, break_even, given_back, payback_months, sensitivity, together
from gpuwatch.advisor.inputs import (
    RENTED,
    Assumptions,
    Group,
    PricedTime,
    answer,
    converted,
    money,
    priced_now,
    priced_time,
    query_parameters,
    ratio,
)
from gpuwatch.core.clock import Window
from gpuwatch.core.errors import UsageError
from gpuwatch.ledger.totals import Scale, scale_of
from gpuwatch.rates import in_force
from gpuwatch.rates.card import Rate
from gpuwatch.rates.commitments import counted
from gpuwatch.rates.fx import Fx
from gpuwatch.rates.matching import resolve
from gpuwatch.rates.owned import Owned
from gpuwatch.state import State
from gpuwatch.store.database import Store

POOLS_MAX = 50
OWNED, RESERVED = "owned", "reserved"
GROUP = ("cluster", "pool", "gpu_model")

OWN_NOTES = (
    "cloud GPUs would be rented for allocated hours only",
    "hardware that is ordered now comes in 3 to 6 months",
    "prices of the cloud have fallen by about a fifth a year: see the sensitivity",
)
NEEDS_CAPEX = "capex of the hardware: gpuwatch rates owned FILE"
POOL_NOTES = (
    "any job may run on any GPU of these pools, and the GPUs that a job needs may lie on any nodes",
    "jobs that waited are not counted: look at the queues of these pools first",
    "whole nodes are given back, the cheapest first; a node that is owned saves nothing until it is sold or used",
)


@dataclass(frozen=True)
class _Price:
    """An hourly price that is paid whether the GPUs are used or not, or what lacks where it is not known.

    `factor` turned the hardware's money into its currency; `fixed` is how it is paid.
    """

    hourly: Fraction | None
    currency: str | None
    lacks: str | None = None
    factor: Fraction = Fraction(1)
    fixed: str = OWNED


def own_vs_cloud(store: Store, state: State, window: Window, assumed: Assumptions) -> dict[str, Any]:
    """Of each cluster, pool and model: the utilisation at which owning breaks even, the payback, and the sensitivity.

    Utilisation is the part of the capacity that was held in the window: the cloud would be rented for that. All prices are
    those at the end of the window, since the decision is about what comes. `paid` is how the GPUs are paid then. What lacks
    a price is listed with the fix. Raises UsageError for a window whose money does not fit.
    """
    fx, at_us = Fx.read(state), window.end_us - 1
    owned, rates = in_force.owned_hardware(state), in_force.in_force(state)
    scale = scale_of(store, window)
    there = {tuple(row[name] for name in GROUP): row for row in _pools(store, window, scale)}
    items = []
    for group, one in sorted(priced_time(store, window, GROUP).items(), key=lambda found: str(found[0])):
        last = there.get(group)
        now, gpus = (PricedTime(), 0) if last is None else (priced_now(last["prices"], scale), last["gpus"])
        hardware = _hardware(owned, group, at_us, now)
        own = _owned_price(now, hardware, fx, at_us)
        cloud, source, also = _cloud_price(rates, fx, group, assumed, own.currency, at_us)
        item: dict[str, Any] = {
            **dict(zip(GROUP, group, strict=True)),
            "gpus": gpus,
            "paid": _paid(now),
            "utilisation": ratio(one.used),
            "owned_price": money(own.hourly, 6),
            "cloud_price": money(cloud, 6),
            "cloud_price_from": source,
            "currency": own.currency,
        }
        if not gpus:
            item["missing"] = "none of these GPUs was there at the end of the window"
        elif own.hourly is None or cloud is None or one.used is None:
            item["missing"] = own.lacks or also or "nothing was owned in this window"
        else:
            item |= _comparison(gpus, one.used, own, cloud, hardware)
        items.append(item)
    return answer(window, assumed, items, OWN_NOTES)


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
        peak, mean = _held_at_once(store, window, cluster, pools, model)
        found = together(sum(row["gpus"] for row in mine), peak, mean, _node_size(mine), Fraction(assumed.headroom))
        items.append(
            {
                "cluster": cluster,
                "gpu_model": model,
                "pools": {row["pool"]: row["gpus"] for row in mine},
                "gpus": sum(row["gpus"] for row in mine),
                "peak_gpus": ratio(peak),
                "needed_gpus": found.needed_gpus,
                "freed_nodes": found.freed_nodes,
                "freed_gpus": found.freed_gpus,
                "utilisation_before": ratio(found.utilisation_before),
                "utilisation_after": ratio(found.utilisation_after),
                **_saving(mine, priced, found.freed_gpus),
            }
        )
    return answer(window, assumed, items, POOL_NOTES)


def _rows_of(store: Store, window: Window, scale: Scale, cluster: str, pools: Sequence[str]) -> list[dict[str, Any]]:
    """The GPUs of these pools by model. Raises UsageError for a pool that the cluster does not have."""
    rows = [row for row in _pools(store, window, scale, cluster) if row["pool"] is not None]
    known = sorted({row["pool"] for row in rows})
    if missing := [pool for pool in pools if pool not in known]:
        raise UsageError(f"pool {missing[0]!r}: cluster {cluster!r} has {', '.join(known) or 'none'} in this window")
    return [row for row in rows if row["pool"] in pools]


def _held_at_once(
    store: Store, window: Window, cluster: str, pools: Sequence[str], model: str | None
) -> tuple[Fraction, Fraction]:
    """The most GPUs of a model that these pools held at one time, and the mean."""
    scale, span = scale_of(store, window).shares, counted(store, window)
    parameters = query_parameters(window, None, cluster) | {"pools": list(pools), "gpu_model": model, "scale": scale}
    held = store.rows("advisor/held_at_once", **parameters)[0]
    mean = Fraction(int(held["unit_us"]), scale * (span.end_us - span.start_us)) if span else Fraction(0)
    return Fraction(held["peak"], scale), mean


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


def _pools(store: Store, window: Window, scale: Scale, cluster: str | None = None) -> list[dict[str, Any]]:
    """The GPUs at the end of a window, by pool and model, with their prices."""
    more = {"scale": scale.shares, "places": scale.places}
    return store.rows("advisor/pool", **query_parameters(window, None, cluster), **more)


def _paid(now: PricedTime) -> str | None:
    """How these GPUs are paid at the end of the window: `owned`, `owned and reserved`; None without any price."""
    return " and ".join(sorted(now.pricings)) or None


def _owned_price(now: PricedTime, hardware: Owned | None, fx: Fx, at_us: int) -> _Price:
    """What a GPU-hour costs whether it is used or not: by the formula, else the mean of what is not rented by the hour."""
    if hardware is not None:
        currency = fx.currency or hardware.currency
        factor = converted(fx, Fraction(1), hardware.currency, currency, at_us)
        if factor is None:
            lacks = f"the hardware is priced in {hardware.currency}: add an exchange rate to {currency}"
            return _Price(None, currency, lacks=lacks)
        return _Price(hardware.hourly_exact * factor, currency, factor=factor)
    own = [sort for sort in now.hours if sort[0] not in RENTED]
    currencies = {currency for _, currency in own}
    if len(currencies) > 1:
        return _Price(None, None, lacks="prices in several currencies: set exchange rates (gpuwatch rates fx)")
    if not own and now.pricings:
        reason = f"these GPUs are paid {_paid(now)}, and no hardware of this model is known"
        return _Price(None, now.currency, lacks=f"{reason}: gpuwatch rates owned FILE")
    if not own:
        return _Price(None, None, lacks="no price of these GPUs: add a rate, or gpuwatch rates owned FILE")
    hours = sum((now.hours[sort] for sort in own), Fraction(0))
    fixed = " and ".join(sorted({pricing for pricing, _ in own}))
    return _Price(sum((now.money[sort] for sort in own), Fraction(0)) / hours, currencies.pop(), fixed=fixed)


def _cloud_price(
    rates: Sequence[Rate], fx: Fx, group: Group, assumed: Assumptions, currency: str | None, at_us: int
) -> tuple[Fraction | None, str | None, str | None]:
    """The price of an hour in the cloud in this currency, where it comes from, and what lacks where it is not known."""
    if assumed.cloud_price is not None:
        return Fraction(assumed.cloud_price), "given", None
    cluster, pool, model = group
    listed = [rate for rate in rates if rate.pricing == "on_demand"]
    found = resolve(listed, cluster or "", pool, model or "", None, at_us)
    if found is None:
        wanted = f"no cloud price for {model or 'this model'}: give one, or add a rate with pricing on_demand"
        return None, None, wanted
    price = converted(fx, Fraction(found.usd_per_gpu_hour), found.currency, currency or found.currency, at_us)
    lacks = (
        None if price is not None else f"the on-demand rate is in {found.currency}: add an exchange rate to {currency}"
    )
    return price, None if price is None else "on-demand rate of the card", lacks


def _comparison(gpus: int, used: Fraction, own: _Price, cloud: Fraction, hardware: Owned | None) -> dict[str, Any]:
    """Whether owning or renting is cheaper at this utilisation, and by how much."""
    hourly, capex, monthly = own.hourly or Fraction(0), None, Fraction(0)
    if hardware is not None:
        part = own.factor * gpus / hardware.gpus
        capex = Fraction(hardware.capex) * (1 + Fraction(hardware.adders)) * part
        monthly = _monthly(hardware) * part
    point = break_even(hourly, cloud)
    return {
        "break_even_utilisation": ratio(point),
        "cheaper": own.fixed if used > point else "cloud",
        "saved_by_owning_a_month": money(gpus * HOURS_A_MONTH * (used * cloud - hourly)),
        "payback_months": ratio(None if capex is None else payback_months(capex, gpus, used, cloud, monthly)),
        "payback_needs": None if capex is not None or OWNED not in own.fixed else NEEDS_CAPEX,
        "sensitivity": [_case(case) for case in sensitivity(hourly, cloud, gpus, used, capex, monthly)],
    }


def _case(case: Case) -> dict[str, str | None]:
    return {
        "cloud_price": money(case.cloud_price, 6),
        "utilisation": ratio(case.utilisation),
        "break_even_utilisation": ratio(case.break_even),
        "saved_by_owning_a_month": money(case.saved_a_month),
        "payback_months": ratio(case.payback_months),
    }


def _monthly(hardware: Owned) -> Fraction:
    """Running costs of a month: power and the yearly amounts, without the investment."""
    kwh = Fraction((hardware.kw or Decimal(0)) + hardware.host_kw) * Fraction(hardware.pue) * HOURS_A_MONTH
    yearly = hardware.ops_per_year + hardware.space_per_year + hardware.support_per_year
    return kwh * Fraction(hardware.price_per_kwh) + Fraction(yearly) / 12


def _hardware(owned: Sequence[Owned], group: Group, at_us: int, now: PricedTime) -> Owned | None:
    """The hardware record that prices these GPUs, the most specific one; None for those with a reservation."""
    if RESERVED in now.pricings:
        return None
    rates = {one.rate(): one for one in owned if one.kw is not None}
    cluster, pool, model = group
    found = resolve(list(rates), cluster or "", pool, model or "", None, at_us)
    return None if found is None else rates[found]
