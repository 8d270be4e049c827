"""What teams spent in a budget period so far, and on each past day: the basis of a budget's forecast."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from gpuwatch.billing import chargeback, records
from gpuwatch.billing.forecast import CENT, HISTORY_DAYS, dates
from gpuwatch.core.clock import DAY_US, Window, day_floor, from_us, parse_window, rfc3339
from gpuwatch.policy.repository import load_policies
from gpuwatch.rates.fx import Fx
from gpuwatch.state import State
from gpuwatch.store.database import Store

FLEET = "*"
"""The team that stands for the whole fleet."""

Totals = dict[str, dict[str, Decimal]]
"""Money by team and currency."""
Days = list[tuple[date, Decimal]]


@dataclass(frozen=True)
class Spending:
    """Each team's spending: exact for the period so far, and by whole day for the forecast."""

    totals: Totals
    seconds: dict[str, Decimal]
    unpriced: dict[str, Decimal]
    """GPU-seconds that no rate covers."""
    daily: dict[tuple[str, str | None], dict[date, Decimal]]
    """By team and currency, at full price; `charged` has the effect of policies."""
    charged: Totals | None
    """Charges of the period's whole days, without corrections; None where policies change nothing."""
    unknown: frozenset[date]
    """Past days without data: a forecast does not take them for days without cost."""
    reporting_currency: str | None
    """None: each price has its own currency."""

    @classmethod
    def read(
        cls, store: Store, state: State, window: Window, at_us: int, teams: Collection[str] | None = None
    ) -> Spending:
        """The spending of these teams (None: all) in the part of a period before `at_us`, to the cents of their own chargeback."""
        until = Window(window.start_us, max(min(at_us, window.end_us), window.start_us + 1))
        charges = chargeback.chargeback(store, state, until, ("team",), teams=teams).items
        seconds: dict[str, Decimal] = defaultdict(Decimal)
        unpriced: dict[str, Decimal] = defaultdict(Decimal)
        for charge in charges:
            for team in (charge.group["team"] or "", FLEET):
                seconds[team] += charge.gpu_seconds
                unpriced[team] += charge.gpu_seconds if charge.cost is None else 0
        today = day_floor(at_us)
        charged = None
        if window.start_us < today and not load_policies(state).plain(window.start_us, today):
            past = Window(window.start_us, today)
            charged = _by_team(chargeback.chargeback(store, state, past, ("team",), teams=teams, closed=False).items)
        start_us = min(window.start_us, today - HISTORY_DAYS * DAY_US)
        daily = _daily(store, state, start_us, today, teams)
        silent = store.rows("billing/unknown_day", start_us=start_us, end_us=today)
        unknown = frozenset(from_us(row["day_us"]).date() for row in silent)
        return cls(_by_team(charges), seconds, unpriced, daily, charged, unknown, Fx.read(state).currency)

    def days(self, team: str, currency: str, first: date, today: date) -> Days:
        """The cost of each past day, oldest first, scaled to what policies charge in the period that begins on `first`.

        A day without a row cost nothing, once the ledger has begun.
        """
        costs = self.daily.get((team, currency), {})
        begun = min(costs, default=None)
        days = [] if begun is None else [(day, costs.get(day, Decimal(0))) for day in dates(begun, today)]
        if self.charged is None:
            return days
        full = sum((cost for day, cost in days if day >= first), Decimal(0))
        charged = self.charged.get(team, {}).get(currency, Decimal(0))
        return [(day, (cost * charged / full).quantize(CENT)) for day, cost in days] if full else days


def _daily(
    store: Store, state: State, start_us: int, today_us: int, teams: Collection[str] | None
) -> dict[tuple[str, str | None], dict[date, Decimal]]:
    daily: dict[tuple[str, str | None], dict[date, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    if start_us < today_us:
        window = Window(start_us, today_us)
        for row in chargeback.ledger(store, state, window, ("team", "bucket"), teams=teams, step_us=DAY_US).items:
            if row.cost is not None and row.start_us is not None:
                for team in (row.group["team"] or "", FLEET):
                    daily[(team, row.currency)][from_us(row.start_us).date()] += row.cost
    return daily


def _by_team(charges: Iterable[records.Charge]) -> Totals:
    found: Totals = defaultdict(lambda: defaultdict(Decimal))
    for charge in charges:
        if charge.cost is not None and charge.currency is not None:
            for team in (charge.group["team"] or "", FLEET):
                found[team][charge.currency] += charge.cost
    return found


def why_not_counted(charged: Sequence[str], own: str, reporting: str | None, period: str) -> str:
    """Why charges in the currencies `charged` do not count against a budget in `own`, and the fix."""
    listed, first = ", ".join(charged), charged[0]
    if reporting is None:
        return (
            f"charges are in {listed}, this budget is in {own}: write the budget in {first}, or report in {own} "
            f"(gpuwatch rates fx FILE --currency {own}, with a rate {first},{own})"
        )
    if reporting != own:
        return f"the reporting currency is {reporting}, this budget is in {own}: write the budget in {reporting}"
    return (
        f"charges in {listed} of {period} have no exchange rate to {own}, or were frozen before there was one: add the line "
        f"{first},{own},RATE,{rfc3339(parse_window(period, 0).start_us)} (gpuwatch rates fx FILE); a closed period keeps its currency"
    )
