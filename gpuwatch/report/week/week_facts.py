"""Reads the data of a week: charges, buckets, findings and slices of all selected teams."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from heapq import nlargest
from typing import Generic, TypeVar

from gpuwatch.advisor.give_back import with_give_back
from gpuwatch.advisor.stranded import Cause, causes
from gpuwatch.billing import chargeback, records
from gpuwatch.core.clock import Window, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.findings import read as findings_read
from gpuwatch.findings.read import Finding
from gpuwatch.findings.repository import Actions
from gpuwatch.ledger.measures import Measures
from gpuwatch.ledger.month import Basis, basis_of
from gpuwatch.ledger.totals import ledger_window
from gpuwatch.quality.dumps import only_dumps
from gpuwatch.report.facts import SPECIAL, Amount, Charge, ModelUse, SliceHold, Versions, Waited, amount_of
from gpuwatch.report.report_window import earlier_window, name_of, overlap, week_window, whole_hours
from gpuwatch.report.sections.unmeasured import Nodes, unmeasured_nodes
from gpuwatch.report.week.bucket_costs import Buckets, bucket_amounts, user_buckets
from gpuwatch.report.week.closed_periods import Frozen, frozen
from gpuwatch.report.week.history import Pasts, pasts
from gpuwatch.report.week.idle_while_waiting import idle_while_waiting
from gpuwatch.report.week.job_use import Job, Uses, job_uses
from gpuwatch.report.week.slice_listing import slice_holds
from gpuwatch.report.week.week_charges import WeekCharges
from gpuwatch.state import State
from gpuwatch.store.database import Store

OWN = ("allocated", "platform")
"""Kinds of charges for GPU time itself, which buckets add up to. Others are passed on, or of another period."""
JOBS_SHOWN = 20
"""Jobs of a team that its report lists."""
MeasuresOf = Mapping[str | None, Measures]
"""By team; None is the fleet."""
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
    ledger_from_us: int
    charges: Rows[Charge]
    """Most expensive first."""
    models: Rows[ModelUse]
    users_before: Mapping[tuple[str | None, str, str | None], Amount]
    """By team, kind and user."""
    teams_before: Mapping[tuple[str | None, str], Amount]
    """By team and kind."""
    buckets: Mapping[str | None, Buckets]
    buckets_before: Mapping[str | None, Buckets]
    measures: MeasuresOf
    measures_before: MeasuresOf
    user_buckets: Mapping[tuple[str | None, str | None], Buckets]
    """By team and user."""
    user_measures: Mapping[tuple[str | None, str | None], Measures]
    job_uses: Uses
    """For the most expensive jobs of each team."""
    findings: Rows[Finding]
    basis: Basis
    only_dumps: bool
    """Whether earlier weeks lack jobs, because every record of a job comes from a kubectl dump."""
    slices: Rows[SliceHold]
    waited: Mapping[str, Waited] | None
    bound: bool
    frozen: Frozen
    stale_hours: int
    versions: Versions
    pasts: Pasts
    job_names: Mapping[tuple[str | None, str | None], str]
    unmeasured: Nodes
    stranded: tuple[Cause, ...]
    """The causes of the fleet's stranded time; none where only some teams are selected."""


def gather(
    store: Store,
    state: State,
    week: str,
    teams: Collection[str] | None,
    now_us: int | None,
    method: str | None = None,
    bound: bool = False,
) -> Week:
    """All data for the reports of a week. `now_us`: owners' actions on findings in force at that time count.

    `method` is how MIG slices share the cost of a GPU, if the caller knows it. With `bound` the reader
    may not learn of other teams, and their requests are not read.
    Raises UsageError for an invalid week, and for a week without data.
    """
    window, ledger_span = week_window(week), ledger_window(store)
    covered = None if ledger_span is None else overlap(window, ledger_span)
    if ledger_span is None or covered is None:
        known = (
            "is empty"
            if ledger_span is None
            else f"covers {rfc3339(ledger_span.start_us)} to {rfc3339(ledger_span.end_us)}"
        )
        option = "--month" if len(week) == len("2026-11") else "--week"
        raise UsageError(
            f"report: no data for {week}: the ledger {known}; choose another {option}, or import and analyze"
        )
    earlier = earlier_window(week, window, covered)
    dumped = only_dumps(store)
    compared = earlier if earlier.start_us >= ledger_span.start_us and not dumped else None
    closing = frozen(state, window, teams, bound)
    week_charges = WeekCharges(store, state, window, teams, closing.whole)
    before = _Before(store, state, compared, teams)
    charges = Rows(week_charges.charges())
    actions = {} if now_us is None else Actions(state).current(now_us)
    by_team = _by_team_and_bucket(store, state, window, teams)
    by_user = chargeback.ledger(store, state, window, ("team", "user", "bucket"), teams=teams)
    ends = {"start_us": window.start_us, "end_us": window.end_us}
    stale = store.sql(
        "select count(distinct hour_us) from dirty_hour where hour_us >= $start_us and hour_us < $end_us", **ends
    )
    return Week(
        name=name_of(week, window),
        window=window,
        covered=covered,
        compared=compared,
        ledger_from_us=ledger_span.start_us,
        charges=charges,
        models=Rows(week_charges.models()),
        users_before=before.users(),
        teams_before=before.teams(),
        buckets=bucket_amounts(by_team, _by_team(charges.of(None))),
        buckets_before=before.buckets(),
        measures=_measures(by_team),
        measures_before=before.measures(),
        user_buckets=user_buckets(by_user),
        user_measures={(one.group["team"], one.group["user"]): one.measures for one in by_user.groups},
        job_uses=job_uses(store, whole_hours(window), _top_jobs(charges)),
        findings=Rows(findings_read.read(store, window=window, teams=teams, actions=actions)),
        slices=Rows(slice_holds(store, state, window, teams)),
        waited=idle_while_waiting(store, state, window, teams) if not bound else None,
        bound=bound,
        only_dumps=dumped,
        basis=basis_of(store, covered, teams if bound else None),
        frozen=closing,
        stale_hours=stale[0][0],
        versions=_versions(state, closing, method),
        pasts=pasts(store, state, covered, ledger_span, teams),
        job_names={(row["cluster"], row["job_id"]): row["name"] for row in store.rows("report/job_name", **ends)},
        unmeasured=unmeasured_nodes(store, covered),
        stranded=_stranded(store, state, covered) if teams is None else (),
    )


def _stranded(store: Store, state: State, covered: Window) -> tuple[Cause, ...]:
    found = causes(store, state, covered)
    return tuple(with_give_back(store, state, covered, found)) if found else ()


def _versions(state: State, closing: Frozen, method: str | None) -> Versions:
    """The versions that the charges are based on: for a closed week, those of its closing."""
    frozen_at = closing.closing.versions if closing.closing is not None and closing.whole else {}
    kinds = ("rates", "teams", "policies", "fx")
    return Versions(
        **{kind: frozen_at.get(kind, 0) if frozen_at else state.card_version(kind) for kind in kinds}, method=method
    )


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


def _by_team_and_bucket(store: Store, state: State, window: Window, teams: Collection[str] | None) -> records.Ledger:
    return chargeback.ledger(store, state, window, ("team", "bucket"), teams=teams)


def _measures(by_team: records.Ledger) -> MeasuresOf:
    return {None: by_team.measures} | {one.group["team"]: one.measures for one in by_team.groups}


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
        if self._ledger is None:
            return {}
        paid: dict[str | None, Amount] = defaultdict(Amount)
        for (team, kind), amount in self.teams().items():
            if kind in OWN:
                paid[team] += amount
        return bucket_amounts(self._ledger, paid)

    def measures(self) -> MeasuresOf:
        """The measures of each team, and of the fleet."""
        return {} if self._ledger is None else _measures(self._ledger)

    @cached_property
    def _ledger(self) -> records.Ledger | None:
        return None if self.window is None else _by_team_and_bucket(self.store, self.state, self.window, self.only)

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
