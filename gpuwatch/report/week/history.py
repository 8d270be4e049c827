"""What the last weeks cost, and how much of it was avoidable: the trend of a report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from decimal import Decimal

from gpuwatch.billing import chargeback
from gpuwatch.core.clock import DAY_US, HOUR_US, Window, from_us, parse_window
from gpuwatch.ledger.measures import Measures
from gpuwatch.report.facts import Amount, amount_of
from gpuwatch.report.period_records import Past
from gpuwatch.state import State
from gpuwatch.store.database import Store

WEEKS = 13
"""Weeks of the trend: a quarter."""
Pasts = Mapping[str | None, tuple[Past, ...]]
"""By team, None for the fleet; oldest first."""


def pasts(store: Store, state: State, window: Window, ledger_span: Window, teams: Collection[str] | None) -> Pasts:
    """The ISO weeks up to the one in which the window ends, as far as the ledger reaches back."""
    last = parse_window("week", window.end_us - 1)
    found: dict[str | None, list[Past]] = defaultdict(list)
    for back in range(WEEKS - 1, -1, -1):
        start_us = last.start_us - back * 7 * DAY_US
        low_us, high_us = max(start_us, ledger_span.start_us), min(start_us + 7 * DAY_US, ledger_span.end_us)
        if low_us >= high_us:
            continue
        covered, hours = Window(low_us, high_us), (high_us - low_us) // HOUR_US
        ledger = chargeback.ledger(store, state, covered, ("team", "bucket"), teams=teams)
        measures: dict[str | None, Measures] = {None: ledger.measures}
        measures |= {one.group["team"]: one.measures for one in ledger.groups}
        paid: dict[str | None, Amount] = defaultdict(Amount)
        for charge in chargeback.chargeback(store, state, covered, ("team",), teams=teams).items:
            for team in (charge.group["team"], None):
                paid[team] += amount_of(charge.gpu_seconds, charge.cost, charge.currency)
        for team, amount in paid.items():
            found[team].append(_past(start_us, hours, amount, measures.get(team)))
    return {team: tuple(listed) for team, listed in found.items()}


def _past(start_us: int, hours: int, amount: Amount, measures: Measures | None) -> Past:
    currencies = [currency for currency, _ in amount.costs]
    currency = currencies[0] if len(currencies) == 1 else None
    avoidable: Decimal | None = None
    if measures is not None and measures.shares_known:
        avoidable = measures.avoidable.cost_in(currency)
    year, week, _ = from_us(start_us).isocalendar()
    return Past(f"{year}-W{week:02d}", hours, amount.cost_in(currency), avoidable, currency)
