"""Budgets of teams per week or month: the amount spent so far and the forecast for the end of the period."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from dataclasses import replace as replace_fields
from datetime import date
from decimal import Decimal
from typing import Any

from gpuwatch.billing import chargeback, records
from gpuwatch.billing.forecast import CENT, HISTORY_DAYS, LEVEL, Forecast, dates, forecast_cost, passed_on, run_out
from gpuwatch.core.clock import DAY_US, Window, from_us, parse_window, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.model import Rejects
from gpuwatch.policy.known_names import team_names, unknown_teams
from gpuwatch.policy.ownership import RESERVED_PREFIX
from gpuwatch.policy.repository import load_policies
from gpuwatch.rates.csv_table import amount, moment, plain, read_rows
from gpuwatch.rates.fx import Fx
from gpuwatch.state import State
from gpuwatch.state.versioned_lists import VersionedLists
from gpuwatch.store.database import Store

CARD = "budgets"
FLEET = "*"
"""The team of a budget for everything."""
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
            "forecast": None
            if forecast is None
            else {n: f"{v:f}" for n, v in asdict(forecast).items()} | {"level": LEVEL},
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


def replace(state: State, budgets: Sequence[Budget], actor: str, source: str, at_us: int) -> bool:
    """Makes these the current budgets. Raises UsageError naming two of one team and period that are valid at once."""
    for place, one in enumerate(budgets):
        for other in budgets[:place]:
            if (one.team, one.period) == (other.team, other.period) and _overlap(one, other):
                lines = f" (lines {other.line} and {one.line})" if one.line and other.line else ""
                raise UsageError(
                    f"budgets: two of team {one.team!r} a {one.period} are valid at once{lines}; end the first"
                )
    return VersionedLists(state).replace(CARD, [shown(one) for one in budgets], actor, source, at_us)


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
) -> list[Status]:
    """The status of every budget of these teams (None: all and the fleet) in the period that contains `at_us`, or with
    `ended` in the one that contains the instant just before.
    """
    found: list[Status] = []
    known = load_budgets(state) if budgets is None else budgets
    by_period: dict[str, list[Budget]] = defaultdict(list)
    for budget in known:
        if teams is None or budget.team in teams:
            by_period[budget.period].append(budget)
    for period, mine in by_period.items():
        name = period_name(period, at_us - ended)
        window = parse_window(name, at_us)
        valid = [budget for budget in mine if budget.valid_at(window.start_us)]
        if valid:
            paid = _Paid.read(store, state, window, at_us)
            found += [paid.status(budget, name, window, at_us) for budget in valid]
    named = team_names(store, state) if found else frozenset()
    checked = [
        status if status.missing else replace_fields(status, missing=_unknown_team(status.budget.team, named))
        for status in found
    ]
    return sorted(checked, key=lambda status: (status.budget.team != FLEET, status.budget.team, status.name))


def for_report(store: Store, state: State, window: Window, team: str | None) -> dict[str, Any] | None:
    """The budget of a team (None: the fleet) for the month, else the week, in which a window ends; None without one."""
    wanted = FLEET if team is None else team
    mine = [budget for budget in load_budgets(state) if budget.team == wanted]
    for period in PERIODS:
        of_period = [budget for budget in mine if budget.period == period]
        for status in statuses(store, state, window.end_us, budgets=of_period, ended=True):
            forecast = status.forecast
            return {
                "period": status.name,
                "amount": status.budget.amount,
                "spent": status.spent,
                "currency": status.budget.currency,
                "forecast": None if forecast is None else forecast.amount,
                "forecast_low": None if forecast is None else forecast.low,
                "forecast_high": None if forecast is None else forecast.high,
            }
    return None


def period_name(period: str, at_us: int) -> str:
    """The ISO week or month in which an instant lies: 2026-W47, 2026-11."""
    at = from_us(at_us)
    year, week, _ = at.isocalendar()
    return f"{year}-W{week:02d}" if period == "week" else f"{at.year:04d}-{at.month:02d}"


@dataclass(frozen=True)
class _Paid:
    """What each team paid: exactly in the period so far, and on each past whole day for the forecast."""

    totals: dict[str, dict[str, Decimal]]
    seconds: dict[str, Decimal]
    unpriced: dict[str, Decimal]
    """GPU-seconds that no rate covers."""
    daily: dict[tuple[str, str | None], dict[date, Decimal]]
    """At full price; `whole` has the effect of policies."""
    whole: dict[str, dict[str, Decimal]] | None
    """Charges of the period's whole days, without corrections; None where policies change nothing."""
    reported: str | None
    """The reporting currency; None: each price has its own."""

    @classmethod
    def read(cls, store: Store, state: State, window: Window, at_us: int) -> _Paid:
        until = Window(window.start_us, max(min(at_us, window.end_us), window.start_us + 1))
        charges = chargeback.chargeback(store, state, until, ("team",)).items
        seconds: dict[str, Decimal] = defaultdict(Decimal)
        unpriced: dict[str, Decimal] = defaultdict(Decimal)
        for charge in charges:
            for team in (charge.group["team"] or "", FLEET):
                seconds[team] += charge.gpu_seconds
                unpriced[team] += charge.gpu_seconds if charge.cost is None else 0
        today = at_us - at_us % DAY_US
        first = min(window.start_us, today - HISTORY_DAYS * DAY_US)
        daily: dict[tuple[str, str | None], dict[date, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
        if first < today:
            for row in chargeback.ledger(store, state, Window(first, today), ("team", "bucket"), step_us=DAY_US).items:
                if row.cost is not None and row.start_us is not None:
                    for team in (row.group["team"] or "", FLEET):
                        daily[(team, row.currency)][from_us(row.start_us).date()] += row.cost
        whole = None
        if window.start_us < today and not load_policies(state).plain(window.start_us, today):
            live = chargeback.chargeback(store, state, Window(window.start_us, today), ("team",), closed=False)
            whole = _by_team(live.items)
        return cls(_by_team(charges), seconds, unpriced, daily, whole, Fx.read(state).currency)

    def status(self, budget: Budget, name: str, window: Window, at_us: int) -> Status:
        paid = self.totals.get(budget.team, {})
        others = sorted(str(currency) for currency, total in paid.items() if currency != budget.currency and total)
        lacks = _differs(budget, name, others, self.reported) if others else None
        if not others and (unpriced := self.unpriced.get(budget.team)):
            lacks = f"{unpriced / 3600:.1f} GPU-hours have no price: gpuwatch doctor names the rates"
        # Without any price the amount spent is unknown.
        spent = None if others or (lacks and not paid) else paid.get(budget.currency, Decimal(0))
        base = self.daily.get((budget.team, budget.currency), {})
        today, rest = from_us(at_us).date(), dates(from_us(at_us).date(), from_us(window.end_us).date())
        # A day without a row cost nothing, once the ledger has begun.
        begun = min(base, default=None)
        days = [] if begun is None else [(day, base.get(day, Decimal(0))) for day in dates(begun, today)]
        first = from_us(window.start_us).date()
        if self.whole is not None:
            charged = self.whole.get(budget.team, {}).get(budget.currency, Decimal(0))
            days = _scaled(days, sum((paid_ for day, paid_ in days if day >= first), Decimal(0)), charged)
        inside = [(day, paid_) for day, paid_ in days if day >= first]
        left = 1 - (at_us % DAY_US) / DAY_US
        forecast = None if spent is None or at_us >= window.end_us else forecast_cost(spent, days, rest, left)
        ends = None if spent is None else run_out(spent, budget.amount, days, rest)
        if spent is not None and spent > budget.amount:
            ends = passed_on(budget.amount, inside) or ends
        hours = self.seconds.get(budget.team, Decimal(0)) / 3600
        return Status(budget, name, window, at_us, spent, hours, forecast, ends, tuple(inside), lacks)


def _differs(budget: Budget, name: str, others: Sequence[str], reported: str | None) -> str:
    """Why charges in other currencies do not count against a budget, and the fix."""
    charged, own = ", ".join(others), budget.currency
    if reported is None:
        return (
            f"charges are in {charged}, this budget is in {own}: write the budget in {others[0]}, or report in {own} "
            f"(gpuwatch rates fx FILE --currency {own}, with a rate {others[0]},{own})"
        )
    if reported != own:
        return f"the reporting currency is {reported}, this budget is in {own}: write the budget in {reported}"
    return (
        f"charges in {charged} of {name} have no exchange rate to {own}, or were frozen before there was one: add the line "
        f"{others[0]},{own},RATE,{rfc3339(parse_window(name, 0).start_us)} (gpuwatch rates fx FILE); a closed period keeps its currency"
    )


def _unknown_team(team: str, known: Collection[str]) -> str | None:
    """The problem with a team that no run or rule names. Other teams are not listed: not every caller may see them."""
    if not unknown_teams([team], known):
        return None
    return f"no run or rule names team {team!r}: correct the budget, or give the team a rule (teams.csv, or PUT /api/v1/teams)"


def _by_team(charges: Iterable[records.Charge]) -> dict[str, dict[str, Decimal]]:
    """Money by team and currency, with the total under the fleet."""
    found: dict[str, dict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for charge in charges:
        if charge.cost is not None and charge.currency is not None:
            for team in (charge.group["team"] or "", FLEET):
                found[team][charge.currency] += charge.cost
    return found


def _scaled(days: list[tuple[date, Decimal]], full: Decimal, charged: Decimal) -> list[tuple[date, Decimal]]:
    """Days scaled to what policies charge: the ledger is at `full` price, and `charged` was paid in this period."""
    return [(day, (paid * charged / full).quantize(CENT)) for day, paid in days] if full else days


def _part(value: Decimal | None, whole: Decimal | None) -> float | None:
    return None if value is None or not whole else round(float(value / whole), 6)


def _overlap(a: Budget, b: Budget) -> bool:
    return (a.valid_to_us is None or b.valid_from_us < a.valid_to_us) and (
        b.valid_to_us is None or a.valid_from_us < b.valid_to_us
    )


def _problems(budget: Budget) -> Iterable[str]:
    if budget.team.startswith(RESERVED_PREFIX) or not budget.team or len(budget.team) > TEAM_MAX:
        yield f"name a team of up to {TEAM_MAX} characters, or {FLEET} for the fleet"
    if budget.period not in PERIODS:
        yield f"period is not one of {', '.join(PERIODS)}"
    if budget.amount <= 0:
        yield "amount is not above 0"
    if budget.gpu_hours is not None and budget.gpu_hours <= 0:
        yield "gpu_hours is not above 0"
    if len(budget.currency) != 3 or not budget.currency.isascii() or not budget.currency.isupper():
        yield "currency is not a three-letter ISO 4217 code such as USD"
    if budget.valid_to_us is not None and budget.valid_to_us <= budget.valid_from_us:
        yield "valid_to is not after valid_from"
    if not 0 < len(budget.alert_at) <= ALERTS_MAX or any(not 0 < at <= PERCENT_MAX for at in budget.alert_at):
        yield f"alert_at is one to {ALERTS_MAX} percents from 1 to {PERCENT_MAX}"
