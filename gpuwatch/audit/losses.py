"""Actions for waste that no finding claims: stranded time by its cause, held time by team and bucket."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpuwatch.advisor.give_back import with_give_back
from gpuwatch.advisor.stranded import LAYERS, STRANDED, Cause, causes, unclaimed
from gpuwatch.core.clock import Window
from gpuwatch.findings.ranking import Order, order_of
from gpuwatch.findings.texts import severity_of
from gpuwatch.ledger.month import Basis
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.rules.layers import DAYS
from gpuwatch.state import State
from gpuwatch.store.database import Store

LOSS = "loss"
"""Kind of an action: waste that no finding names."""
COST_MIN, HOURS_MIN = Fraction(1), Fraction(1)
"""Less money, or fewer GPU-hours without a price, is no action."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Loss:
    """Waste of a window that no finding claims. `cost` None: some has no price. `places`: what it is of, most first."""

    id: str
    layer: str
    title: str
    remedy: str
    summary: str
    team: str
    bucket: str
    gpu_hours: Fraction
    cost: Fraction | None
    currency: str | None
    places: tuple[Row, ...] = ()


def stranded_losses(store: Store, state: State, window: Window, findings: Iterable[Row]) -> list[Loss]:
    """The causes of stranded time without what findings claim of it, with what merged pools would not need."""
    found = causes(store, state, window)
    left = with_give_back(store, state, window, unclaimed(found, _claimed(findings))) if found else []
    return [_stranded(one) for one in left]


def _stranded(one: Cause) -> Loss:
    places = tuple({"name": place.name, "cost": place.cost, "gpu_hours": place.gpu_hours} for place in one.places)
    name, layer = f"{STRANDED}:{one.name}", LAYERS[one.name]
    words = one.title, one.remedy, one.summary
    return Loss(name, layer, *words, PLATFORM, STRANDED, one.gpu_hours, one.cost, one.currency, places)


def _claimed(findings: Iterable[Row]) -> dict[str, tuple[Fraction, Fraction]]:
    """(GPU-hours, cost) of the stranded time that findings claim, by rule."""
    sums: dict[str, tuple[Fraction, Fraction]] = {}
    for found in findings:
        if hours := found["hours"].get(STRANDED):
            whole = sum(found["hours"].values(), Fraction(0))
            cost = sum(found["costs"].values(), Fraction(0)) * hours / whole
            before = sums.get(found["detector"], (Fraction(0), Fraction(0)))
            sums[found["detector"]] = before[0] + hours, before[1] + cost
    return sums


def loss_actions(
    losses: Sequence[Loss], basis: Basis, mean_price: Fraction | None
) -> list[tuple[Order, dict[str, Any]]]:
    """An action for each loss, and where it stands among those of findings."""
    return [
        (_order(one, basis, mean_price), _action(one, basis))
        for one in losses
        if (one.cost is not None and one.cost >= COST_MIN) or (one.cost is None and one.gpu_hours >= HOURS_MIN)
    ]


def _order(one: Loss, basis: Basis, mean_price: Fraction | None) -> Order:
    amount = one.gpu_hours * (mean_price or 1) if one.cost is None else one.cost
    return order_of(amount / basis.days(one.bucket))


def _action(one: Loss, basis: Basis) -> dict[str, Any]:
    costs = {} if one.cost is None or one.currency is None else {one.currency: one.cost}
    monthly = {name: basis.a_month(cost, one.bucket) for name, cost in costs.items()}
    return {
        "kind": LOSS,
        "layer": one.layer,
        "id": one.id,
        "title": one.title,
        "remedy": one.remedy,
        "effort": DAYS,
        "team": one.team,
        "severity": severity_of(one.cost, basis.us(one.bucket)),
        "findings": 0,
        "open": 0,
        "ended_at": None,
        "gpu_hours": one.gpu_hours,
        "unpriced_gpu_hours": Fraction(0) if costs else one.gpu_hours,
        "costs": costs,
        "costs_a_month": {name: month for name, month in monthly.items() if month is not None},
        "counted": basis.words(one.bucket),
        "saves_a_month": {},
        "lost": {},
        "lost_gpu_hours": None,
        "keys": [],
        "summary": one.summary,
        "places": list(one.places),
    }
