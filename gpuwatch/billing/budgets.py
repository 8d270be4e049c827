"""Budgets of teams per week or month: the amount spent so far and the forecast for the end of the period."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

from gpuwatch.billing.forecast import Forecast, dates, forecast_cost, passed_on, run_out
from gpuwatch.billing.spending import FLEET, Spending, why_not_counted
from gpuwatch.core.clock import DAY_US, Window, from_us, parse_window, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.model import Rejects
from gpuwatch.core.names import hidden_character
from gpuwatch.policy.known_names import team_names, unknown_teams
from gpuwatch.policy.ownership import RESERVED_PREFIX
from gpuwatch.rates.csv_table import amount, moment, plain, read_rows
from gpuwatch.state import State
from gpuwatch.state.versioned_lists import VersionedLists
from gpuwatch.store.database import Store

CARD = "budgets"
PERIODS = ("month", "week")
REQUIRED = ("team", "period", "amount", "currency")
OPTIONAL = ("gpu_hours", "valid_from", "valid_to", "alert_at")
ALERT_AT = (80, 100)
"""Default alert thresholds in percent of a budget."""
ALERTS_MAX, PERCENT_MAX, TEAM_MAX = 10, 1000, 200


@dataclass(frozen=True)
class Budget:
    """`amount` of money and `gpu_hours` (None: no quota) in each ISO week or calendar month, UTC, from valid_from on.

    A period belongs to the budget that is valid when it starts.
    """

    team: str
    period: str
    amount: Decimal
    currency: str
    gpu_hours: Decimal | None = None
    valid_from_us: int = 0
    valid_to_us: int | None = None
    alert_at: tuple[int, ...] = ALERT_AT
    line: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise UsageError(f"budget of {self.team!r}: {problem}") from ValueError(problem)

    def valid_at(self, at_us: int) -> bool:
        """Whether the budget applies to a period that starts then."""
        return self.valid_from_us <= at_us and (self.valid_to_us is None or at_us < self.valid_to_us)


@dataclass(frozen=True)
class Status:
    """A budget in one period: `spent` until `at_us`, None where charges have another currency."""

    budget: Budget
    name: str
    window: Window
    at_us: int
    spent: Decimal | None
    gpu_hours: Decimal
    forecast: Forecast | None
    runs_out: date | None
    """The day on which the amount was or will be exceeded; None: not within the period, or unknown."""
    days: tuple[tuple[date, Decimal], ...]
    """The cost of each day of the period, in order: the burn-down."""
    missing: str | None

    def as_dict(self) -> dict[str, Any]:
        """As JSON: `burn_down` has the remaining budget at the end of each day, and what would remain at an even pace."""
        left, rows = self.budget.amount, []
        total = (self.window.end_us - self.window.start_us) // DAY_US
        for place, (day, cost_) in enumerate(self.days):
            left -= cost_
            even = self.budget.amount * (total - place - 1) / total
            rows.append({"day": day.isoformat(), "cost": f"{cost_:f}", "left": f"{left:f}", "even": f"{even:.2f}"})
        forecast = self.forecast
        return {
            "team": self.budget.team,
            "period": self.name,
            "window": {"start": rfc3339(self.window.start_us), "end": rfc3339(self.window.end_us)},
            "amount": f"{self.budget.amount:f}",
            "currency": self.budget.currency,
            "spent": None if self.spent is None else f"{self.spent:f}",
            "spent_ratio": _part(self.spent, self.budget.amount),
            "gpu_hours": f"{self.gpu_hours:.6f}",
            "gpu_hours_quota": None if self.budget.gpu_hours is None else plain(self.budget.gpu_hours),
            "gpu_hours_ratio": _part(self.gpu_hours, self.budget.gpu_hours),
            "forecast": None if forecast is None else forecast.as_dict(),
            "runs_out": None if self.runs_out is None else self.runs_out.isoformat(),
            "burn_down": rows,
            "missing": self.missing,
        }


def parse_budgets(text: str | bytes, file: str, rejects: Rejects) -> tuple[Budget, ...]:
    """The budgets of a CSV file with REQUIRED and OPTIONAL columns; a bad line goes to `rejects`. Raises UnreadableInput."""
    kept: list[Budget] = []
    for line, row in read_rows(text, file, REQUIRED, OPTIONAL, rejects):
        try:
            kept.append(budget_of(row, line))
        except (ValueError, UsageError) as error:
            rejects.add(str(error.__cause__ or error), file, line, ",".join(row.values()))
    return tuple(kept)


def budget_of(row: Mapping[str, Any], line: int) -> Budget:
    """A row of texts as a budget. Raises ValueError or UsageError with what is wrong."""
    cells = {name: str(row[name]).strip() for name in (*REQUIRED, *OPTIONAL) if row.get(name) not in (None, "")}
    if missing := [name for name in REQUIRED if name not in cells]:
        raise ValueError(f"{missing[0]} is empty")
    alerts = cells.get("alert_at")
    try:
        percents = ALERT_AT if alerts is None else tuple(int(part) for part in alerts.replace(";", " ").split())
    except ValueError as error:
        raise ValueError("alert_at is not a list of percents such as 80 100") from error
    return Budget(
        cells["team"],
        cells["period"],
        amount(cells["amount"], "amount"),
        cells["currency"],
        amount(cells["gpu_hours"], "gpu_hours") if "gpu_hours" in cells else None,
        moment(cells["valid_from"], "valid_from") if "valid_from" in cells else 0,
        moment(cells["valid_to"], "valid_to") if "valid_to" in cells else None,
        percents,
        line,
    )


def shown(budget: Budget) -> dict[str, Any]:
    """A budget as texts, which `budget_of` parses back."""
    return {
        "team": budget.team,
        "period": budget.period,
        "amount": plain(budget.amount),
        "currency": budget.currency,
        "gpu_hours": None if budget.gpu_hours is None else plain(budget.gpu_hours),
        "valid_from": rfc3339(budget.valid_from_us),
        "valid_to": None if budget.valid_to_us is None else rfc3339(budget.valid_to_us),
        "alert_at": " ".join(map(str, budget.alert_at)),
    }


def replace(
    state: State,
    budgets: Sequence[Budget],
    actor: str,
    source: str,
    at_us: int,
    expected: Collection[str] | None = None,
) -> bool:
    """Makes these the current budgets. Raises UsageError naming two of one team and period that are valid at once."""
    for place, one in enumerate(budgets):
        if (hidden := hidden_character(one.team)) is not None:
            line = f" in line {one.line}" if one.line else ""
            raise UsageError(f"budget of {one.team!a}{line}: has the hidden character {hidden}; remove it")
        for other in budgets[:place]:
            if (one.team, one.period) == (other.team, other.period) and _overlap(one, other):
                lines = f" (lines {other.line} and {one.line})" if one.line and other.line else ""
                raise UsageError(
                    f"budgets: two of team {one.team!r} a {one.period} are valid at once{lines}; end the first"
                )
    return VersionedLists(state).replace(CARD, [shown(one) for one in budgets], actor, source, at_us, expected)


def load_budgets(state: State) -> tuple[Budget, ...]:
    """The current budgets."""
    return tuple(budget_of(row, 0) for row in VersionedLists(state).rows(CARD))


def statuses(
    store: Store,
    state: State,
    at_us: int,
    teams: Collection[str] | None = None,
    *,
    budgets: Iterable[Budget] | None = None,
    ended: bool = False,
    among: Collection[str] | None = None,
) -> list[Status]:
    """The status of every budget of these teams (None: all and the fleet) in the period that contains `at_us`, or with
    `ended` in the one that contains the instant just before. Amounts are rounded among the teams of `among` (None: all).
    """
    found: list[Status] = []
    known = load_budgets(state) if budgets is None else budgets
    mine = [budget for budget in known if teams is None or budget.team in teams]
    for period in PERIODS:
        name = period_name(period, at_us - ended)
        window = parse_window(name, at_us)
        valid = [budget for budget in mine if budget.period == period and budget.valid_at(window.start_us)]
        if valid:
            spending, known_teams = Spending.read(store, state, window, at_us, among), team_names(store, state)
            found += [_status(budget, name, window, at_us, spending, known_teams) for budget in valid]
    return sorted(found, key=lambda status: (status.budget.team != FLEET, status.budget.team, status.name))


def for_report(store: Store, state: State, window: Window, team: str) -> Status | None:
    """The budget of a team for the month, else the week, in which a window ends; None without one."""
    for period in PERIODS:
        of_period = [one for one in load_budgets(state) if (one.team, one.period) == (team, period)]
        for status in statuses(store, state, window.end_us, budgets=of_period, ended=True, among=[team]):
            return status
    return None


def month_of_fleet(store: Store, state: State, window: Window, currency: str) -> Status:
    """The fleet's month in which a window ends, with its forecast; its budget is none that anybody set."""
    none_set = Budget(FLEET, "month", Decimal(1), currency)
    return statuses(store, state, window.end_us, budgets=[none_set], ended=True)[0]


def period_name(period: str, at_us: int) -> str:
    """The ISO week or month in which an instant lies: 2026-W47, 2026-11."""
    at = from_us(at_us)
    year, week, _ = at.isocalendar()
    return f"{year}-W{week:02d}" if period == "week" else f"{at.year:04d}-{at.month:02d}"


def _status(
    budget: Budget, name: str, window: Window, at_us: int, spending: Spending, known_teams: Collection[str]
) -> Status:
    missing = _missing(budget, name, spending)
    paid = spending.totals.get(budget.team, {})
    # Without any price, or with charges in another currency, the amount spent is unknown.
    unknown = _other_currencies(budget, paid) or (missing and not paid)
    spent = None if unknown else paid.get(budget.currency, Decimal(0))
    first, today, end = (from_us(us).date() for us in (window.start_us, at_us, window.end_us))
    days, rest = spending.days(budget.team, budget.currency, first, today), dates(today, end)
    known = [(day, cost) for day, cost in days if day not in spending.unknown]
    inside = tuple((day, cost) for day, cost in days if day >= first)
    forecast, runs_out = None, None
    if spent is not None:
        left = 1 - (at_us % DAY_US) / DAY_US
        forecast = forecast_cost(spent, known, rest, left) if at_us < window.end_us else None
        if spent > budget.amount:
            runs_out = passed_on(budget.amount, inside) or next(iter(rest), None)
        elif forecast is not None:
            runs_out = run_out(spent, budget.amount, forecast.days)
    hours = spending.seconds.get(budget.team, Decimal(0)) / 3600
    missing = missing or _unknown_team(budget.team, known_teams)
    return Status(budget, name, window, at_us, spent, hours, forecast, runs_out, inside, missing)


def _missing(budget: Budget, name: str, spending: Spending) -> str | None:
    """Why the amount spent is incomplete or unknown, and the fix."""
    if others := _other_currencies(budget, spending.totals.get(budget.team, {})):
        return why_not_counted(others, budget.currency, spending.reporting_currency, name)
    if unpriced := spending.unpriced.get(budget.team):
        return f"{unpriced / 3600:.1f} GPU-hours have no price: gpuwatch doctor names the rates"
    return None


def _other_currencies(budget: Budget, paid: Mapping[str, Decimal]) -> list[str]:
    return sorted(currency for currency, total in paid.items() if currency != budget.currency and total)


def _unknown_team(team: str, known: Collection[str]) -> str | None:
    """The problem with a team that no run or rule names. Other teams are not listed: not every caller may see them."""
    if not unknown_teams([team], known):
        return None
    return f"no run or rule names team {team!r}: correct the budget, or give the team a rule (teams.csv, or PUT /api/v1/teams)"


def _part(value: Decimal | None, whole: Decimal | None) -> float | None:
    return None if value is None or not whole else round(float(value / whole), 6)


def _overlap(a: Budget, b: Budget) -> bool:
    return (a.valid_to_us is None or b.valid_from_us < a.valid_to_us) and (
        b.valid_to_us is None or a.valid_from_us < b.valid_to_us
    )


def _problems(budget: Budget) -> list[str]:
    team, currency, hours, until_us = budget.team, budget.currency, budget.gpu_hours, budget.valid_to_us
    alerts_valid = len(budget.alert_at) <= ALERTS_MAX and all(0 < at <= PERCENT_MAX for at in budget.alert_at)
    checks = (
        (
            0 < len(team) <= TEAM_MAX and not team.startswith(RESERVED_PREFIX),
            f"name a team of up to {TEAM_MAX} characters, or {FLEET} for the fleet",
        ),
        (budget.period in PERIODS, f"period is not one of {', '.join(PERIODS)}"),
        (budget.amount > 0, "amount is not above 0"),
        (hours is None or hours > 0, "gpu_hours is not above 0"),
        (
            len(currency) == 3 and currency.isascii() and currency.isupper(),
            "currency is not a three-letter ISO 4217 code such as USD",
        ),
        (until_us is None or until_us > budget.valid_from_us, "valid_to is not after valid_from"),
        (budget.alert_at and alerts_valid, f"alert_at is one to {ALERTS_MAX} percents from 1 to {PERCENT_MAX}"),
    )
    return [problem for valid, problem in checks if not valid]
