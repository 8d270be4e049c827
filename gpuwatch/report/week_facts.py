"""Reads the data of a week: charges, buckets, findings and slices of all selected teams."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from heapq import nlargest
from typing import Generic, TypeVar

from gpuwatch.billing import chargeback, records
from gpuwatch.core.clock import DAY_US, HOUR_US, Window, parse_window, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.money import CENT_PLACES, largest_remainder
from gpuwatch.findings import read as findings_read
from gpuwatch.findings.read import Finding
from gpuwatch.findings.repository import Actions
from gpuwatch.report.closed_periods import Frozen, frozen
from gpuwatch.report.facts import (
    PLATFORM,
    SPECIAL,
    Amount,
    Charge,
    ModelUse,
    SliceHold,
    Versions,
    Waited,
    added,
    amount_of,
)
from gpuwatch.report.idle_while_waiting import idle_while_waiting
from gpuwatch.report.job_use import Job, Uses, job_uses
from gpuwatch.report.slice_listing import slice_holds
from gpuwatch.state import State
from gpuwatch.store.database import Store

WEEK_US = 7 * DAY_US
CENT = Decimal(1).scaleb(-CENT_PLACES)
FINE = ("team", "user", "cluster", "job")
OWN = ("allocated", "platform")
"""Kinds of charges for GPU time itself, which buckets add up to. Others are passed on, or of another period."""
JOBS_SHOWN = 20
"""Jobs of a team that its report lists."""
ROUNDING_CENTS = 2
"""Cents by which two roundings of one bucket may differ."""

Buckets = Mapping[str, Amount]
_Owned = TypeVar("_Owned", Charge, ModelUse, Finding, SliceHold)


class Rows(Generic[_Owned]):
    """Rows of all teams in one order, and of each team in the same order."""

    def __init__(self, rows: Iterable[_Owned]) -> None:
        self._every: tuple[_Owned, ...] = tuple(rows)
        groups: dict[str | None, list[_Owned]] = defaultdict(list)
        for row in self._every:
            groups[row.team].append(row)
        self.by_team: dict[str | None, tuple[_Owned, ...]] = {team: tuple(group) for team, group in groups.items()}

    def of(self, team: str | None) -> tuple[_Owned, ...]:
        """The rows of a team; for None all rows in their original order."""
        return self._every if team is None else self.by_team.get(team, ())


@dataclass(frozen=True)
class Week:
    """The data of one week, of all selected teams."""

    name: str
    window: Window
    covered: Window
    compared: Window | None
    books_from_us: int
    charges: Rows[Charge]
    """Most expensive first."""
    models: Rows[ModelUse]
    users_before: Mapping[tuple[str | None, str, str | None], Amount]
    """By team, kind and user."""
    teams_before: Mapping[tuple[str | None, str], Amount]
    """By team and kind."""
    buckets: Mapping[str | None, Buckets]
    buckets_before: Mapping[str | None, Buckets]
    user_buckets: Mapping[tuple[str | None, str | None], Buckets]
    """By team and user."""
    job_uses: Uses
    """For the most expensive jobs of each team."""
    findings: Rows[Finding]
    slices: Rows[SliceHold]
    waited: Mapping[str, Waited] | None
    frozen: Frozen
    stale_hours: int
    versions: Versions


def gather(
    store: Store,
    state: State,
    week: str,
    teams: Collection[str] | None,
    now_us: int | None,
    method: str | None = None,
) -> Week:
    """All data for the reports of a week. `now_us`: owners' actions on findings in force at that time count.

    `method` is how MIG slices share the cost of a GPU, if the caller knows it.
    Raises UsageError for an invalid week, and for a week without data.
    """
    window, books = week_window(week), books_of(store)
    covered = None if books is None else overlap(window, books)
    if books is None or covered is None:
        known = "is empty" if books is None else f"covers {rfc3339(books.start_us)} to {rfc3339(books.end_us)}"
        raise UsageError(
            f"report: no data for {week}: the ledger {known}; choose another --week, or import and analyze"
        )
    earlier = Window(covered.start_us - WEEK_US, covered.end_us - WEEK_US)
    compared = earlier if earlier.start_us >= books.start_us else None
    closing = frozen(state, window, teams)
    books_ = _Books(store, state, window, teams, closing.whole)
    before = _Before(store, state, compared, teams)
    charges = Rows(books_.charges())
    actions = {} if now_us is None else Actions(state).current(now_us)
    stale = store.sql(
        "select count(distinct hour_us) from dirty_hour where hour_us >= $start_us and hour_us < $end_us",
        start_us=window.start_us,
        end_us=window.end_us,
    )
    return Week(
        name=week,
        window=window,
        covered=covered,
        compared=compared,
        books_from_us=books.start_us,
        charges=charges,
        models=Rows(books_.models()),
        users_before=before.users(),
        teams_before=before.teams(),
        buckets=_bucket_amounts(store, state, window, teams, _by_team(charges.of(None))),
        buckets_before=before.buckets(),
        user_buckets=_user_buckets(store, state, window, teams),
        job_uses=job_uses(store, window, _top_jobs(charges)),
        findings=Rows(findings_read.read(store, window=window, teams=teams, actions=actions)),
        slices=Rows(slice_holds(store, state, window, teams)),
        waited=idle_while_waiting(store, state, window, teams),
        frozen=closing,
        stale_hours=stale[0][0],
        versions=_versions(state, closing, method),
    )


def _versions(state: State, closing: Frozen, method: str | None) -> Versions:
    """The versions that the charges are based on: for a closed week, those of its closing."""
    frozen_at = closing.closing.versions if closing.closing is not None and closing.whole else {}
    kinds = ("rates", "teams", "policies", "fx")
    return Versions(
        **{kind: frozen_at.get(kind, 0) if frozen_at else state.card_version(kind) for kind in kinds}, method=method
    )


def week_window(week: str) -> Window:
    """The span of an ISO week such as 2026-W47. Raises UsageError."""
    if not re.fullmatch(r"\d{4}-W\d{2}", week):
        raise UsageError(f"report: {week!r} is not an ISO week; write it as 2026-W47")
    return parse_window(week, 0)


def books_of(store: Store) -> Window | None:
    """The span of the ledger, from its first to its last hour."""
    low, high = store.sql("select min(hour_us), max(hour_us) from ledger_hour")[0]
    return None if low is None else Window(low, high + HOUR_US)


def overlap(one: Window, other: Window) -> Window | None:
    """The intersection of two windows, None if they do not overlap."""
    start_us, end_us = max(one.start_us, other.start_us), min(one.end_us, other.end_us)
    return Window(start_us, end_us) if start_us < end_us else None


def _top_jobs(charges: Rows[Charge]) -> list[Job]:
    """The jobs that the report of each team lists."""
    found: list[Job] = []
    for team, mine in charges.by_team.items():
        if team not in SPECIAL:
            costs: dict[Job, Decimal] = defaultdict(Decimal)
            for charge in mine:
                if charge.kind == "allocated":
                    # Without a price, the longest jobs come first.
                    costs[charge.place] += charge.cost if charge.cost is not None else charge.gpu_seconds
            found += nlargest(JOBS_SHOWN, costs, key=lambda job: (costs[job], str(job)))
    return found


Paid = tuple[str | None, str, str | None, str | None]
"""(team, kind, cause of a shared cost, currency)"""


@dataclass(frozen=True)
class _Books:
    """Charges of a window by team, user, job and model; `closed`: as frozen for a closed period."""

    store: Store
    state: State
    window: Window
    teams: Collection[str] | None
    closed: bool

    def charges(self) -> list[Charge]:
        """Charges by job, most expensive first."""
        rows = [_row(charge, amount) for charge, amount in self._rounded(FINE)]
        rows.sort(
            key=lambda c: (c.kind == "platform", -(c.cost or Decimal(0)), str((c.team, c.user, c.cluster, c.job)))
        )
        return rows

    def models(self) -> list[ModelUse]:
        """Charges by GPU model and slice size."""
        rows = [
            ModelUse(
                c.group["team"],
                c.group["gpu_model"],
                c.group["mig_profile"],
                c.kind,
                amount_of(c.gpu_seconds, amount, c.currency),
            )
            for c, amount in self._rounded(("team", "gpu_model", "mig_profile"))
        ]
        rows.sort(key=lambda m: (-sum((c for _, c in m.amount.costs), Decimal(0)), str((m.gpu_model, m.mig_profile))))
        return rows

    def _rounded(self, by: Sequence[str]) -> Iterable[tuple[records.Charge, Decimal | None]]:
        """Charges rounded to cents within each team, so that a team's report and the fleet's show the same amounts.

        Corrections were rounded when they were posted, and stay as they are.
        """
        fine: dict[Paid, list[records.Charge]] = defaultdict(list)
        for charge in self._charges(by):
            if charge.kind == "correction" or charge.cost_exact is None:
                yield charge, charge.cost
            else:
                fine[_paid_key(charge)].append(charge)
        for key, group in fine.items():
            exact = [c.cost_exact for c in group if c.cost_exact is not None]
            names = [f"{c.group}" for c in group]
            yield from zip(
                group, largest_remainder(exact, CENT_PLACES, names, total=self._published.get(key)), strict=True
            )

    @cached_property
    def _published(self) -> Mapping[Paid, Decimal]:
        """What a team pays by kind and currency, in cents: its detailed rows add up to that."""
        return {_paid_key(c): c.cost for c in self._charges(("team",)) if c.cost is not None}

    def _charges(self, by: Sequence[str]) -> Sequence[records.Charge]:
        return chargeback.chargeback(
            self.store, self.state, self.window, by, teams=self.teams, closed=self.closed
        ).items


def _paid_key(charge: records.Charge) -> Paid:
    return charge.group["team"], charge.kind, charge.cause, charge.currency


def _row(charge: records.Charge, amount: Decimal | None) -> Charge:
    group = charge.group
    return Charge(
        team=group["team"],
        user=group["user"],
        cluster=group["cluster"],
        job=group["job"],
        kind=charge.kind,
        gpu_seconds=charge.gpu_seconds,
        cost=amount,
        cost_exact=charge.cost_exact,
        currency=charge.currency,
        error=charge.error,
    )


def _bucket_amounts(
    store: Store, state: State, window: Window, teams: Collection[str] | None, paid: Mapping[str | None, Amount]
) -> dict[str | None, Buckets]:
    """Buckets and their cost by team; the costs of a team's buckets add up to what it paid."""
    found: dict[str | None, dict[str, Amount]] = defaultdict(dict)
    for row in chargeback.ledger(store, state, window, ("team", "bucket"), teams=teams).items:
        mine = found[row.group["team"]]
        mine[row.bucket] = mine.get(row.bucket, Amount()) + amount_of(row.gpu_seconds, row.cost, row.currency)
    settled = {team: _settled(buckets, paid.get(team, Amount())) for team, buckets in found.items()}
    before, after = (added(a for mine in side.values() for a in mine.values()) for side in (found, settled))
    own = dict(added(settled.get(PLATFORM, {}).values()).costs)
    if own != dict(paid.get(PLATFORM, Amount()).costs):
        # A policy lets others pay for it: cents that moved to them are taken from it, so that the total is unchanged.
        gap = {currency: cost - dict(after.costs).get(currency, Decimal(0)) for currency, cost in before.costs}
        whole = Amount(costs=tuple((currency, cost + gap.get(currency, Decimal(0))) for currency, cost in own.items()))
        settled[PLATFORM] = _settled(settled.get(PLATFORM, {}), whole, sum(len(mine) for mine in found.values()))
    return settled


def _settled(buckets: Buckets, paid: Amount, rows: int = 0) -> Buckets:
    """Adds the cents by which rounded rows differ from the rounded team total, one each to the largest buckets.

    `rows` is how many rows were rounded, if more than these. A larger difference comes from a policy: then the buckets
    stay at their price, and the report shows the difference to the charges.
    """
    settled = dict(buckets)
    for currency, total in paid.costs:
        mine = [(dict(a.costs)[currency], bucket) for bucket, a in buckets.items() if currency in dict(a.costs)]
        mine.sort(key=lambda pair: (-pair[0], pair[1]))
        missing = total - sum((amount for amount, _ in mine), Decimal(0))
        step = CENT if missing > 0 else -CENT
        cents = int(abs(missing) / CENT)
        most = ROUNDING_CENTS * max(rows, len(mine)) if mine else 0
        for number in range(cents if cents <= most else 0):
            bucket = mine[number % len(mine)][1]
            settled[bucket] += Amount(costs=((currency, step),))
    return settled


def _user_buckets(
    store: Store, state: State, window: Window, teams: Collection[str] | None
) -> dict[tuple[str | None, str | None], Buckets]:
    found: dict[tuple[str | None, str | None], dict[str, Amount]] = defaultdict(dict)
    for row in chargeback.ledger(store, state, window, ("team", "user", "bucket"), teams=teams).items:
        mine = found[row.group["team"], row.group["user"]]
        mine[row.bucket] = mine.get(row.bucket, Amount()) + amount_of(row.gpu_seconds, row.cost, row.currency)
    return dict(found)


@dataclass(frozen=True)
class _Before:
    """The previous week, to compare with; empty where there is none."""

    store: Store
    state: State
    window: Window | None
    only: Collection[str] | None

    def teams(self) -> dict[tuple[str | None, str], Amount]:
        """What each team paid, by kind."""
        paid: dict[tuple[str | None, str], Amount] = defaultdict(Amount)
        for charge in self._teams:
            paid[charge.group["team"], charge.kind] += amount_of(charge.gpu_seconds, charge.cost, charge.currency)
        return dict(paid)

    def users(self) -> dict[tuple[str | None, str, str | None], Amount]:
        """What each user of a team paid, by kind."""
        paid: dict[tuple[str | None, str, str | None], Amount] = defaultdict(Amount)
        for charge in self._paid(("team", "user")):
            key = charge.group["team"], charge.kind, charge.group["user"]
            paid[key] += amount_of(charge.gpu_seconds, charge.cost, charge.currency)
        return dict(paid)

    def buckets(self) -> dict[str | None, Buckets]:
        """Buckets and their cost by team."""
        if self.window is None:
            return {}
        paid: dict[str | None, Amount] = defaultdict(Amount)
        for (team, kind), amount in self.teams().items():
            if kind in OWN:
                paid[team] += amount
        return _bucket_amounts(self.store, self.state, self.window, self.only, paid)

    @cached_property
    def _teams(self) -> Sequence[records.Charge]:
        return self._paid(("team",))

    def _paid(self, by: Sequence[str]) -> Sequence[records.Charge]:
        if self.window is None:
            return ()
        return chargeback.chargeback(self.store, self.state, self.window, by, teams=self.only).items


def _by_team(charges: Iterable[Charge]) -> dict[str | None, Amount]:
    """What each team pays for its own GPU time, without corrections and costs that a policy passes on."""
    paid: dict[str | None, Amount] = defaultdict(Amount)
    for charge in charges:
        if charge.kind in OWN:
            paid[charge.team] += amount_of(charge.gpu_seconds, charge.cost, charge.currency)
    return dict(paid)
