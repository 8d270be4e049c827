"""Decisions about the fleet: own or rent, from the ledger of a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.advisor.formulas import HOURS_A_MONTH, Case, break_even, payback_months, sensitivity
from gpuwatch.advisor.inputs import (
    RENTED,
    Assumptions,
    Group,
    PricedTime,
    answer,
    converted,
    money,
    pools_at_end,
    priced_now,
    priced_time,
    ratio,
)
from gpuwatch.core.clock import Window
from gpuwatch.ledger.totals import scale_of
from gpuwatch.rates import in_force
from gpuwatch.rates.card import Rate
from gpuwatch.rates.fx import Fx
from gpuwatch.rates.matching import resolve
from gpuwatch.rates.owned import Owned
from gpuwatch.state import State
from gpuwatch.store.database import Store

OWNED, RESERVED = "owned", "reserved"
GROUP = ("cluster", "pool", "gpu_model")

OWN_NOTES = (
    "cloud GPUs would be rented for allocated hours only",
    "hardware that is ordered now comes in 3 to 6 months",
    "prices of the cloud have fallen by about a fifth a year: see the sensitivity",
)
NEEDS_CAPEX = "capex of the hardware: gpuwatch rates owned FILE"


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
    there = {tuple(row[name] for name in GROUP): row for row in pools_at_end(store, window, scale)}
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
