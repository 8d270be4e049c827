"""The files of a week: one set for the fleet and one for each team."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from gpuwatch.billing import budgets
from gpuwatch.core.clock import DAY_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.ledger.hours import HELD_BUCKETS
from gpuwatch.report.facts import (
    PLATFORM,
    SPECIAL,
    UNOWNED,
    Amount,
    Budget,
    Charge,
    Facts,
    Payer,
    Quality,
    Waited,
    added,
)
from gpuwatch.report.files import ReportFile, done, due, slug, write
from gpuwatch.report.format_registry import Report, ReportFormat, chosen_formats
from gpuwatch.report.idle_while_waiting import rounded
from gpuwatch.report.job_use import Job
from gpuwatch.report.summary import Summary, summary
from gpuwatch.report.week_facts import OWN, Buckets, Week, books_of, gather, overlap, week_window
from gpuwatch.state import State
from gpuwatch.store.database import Store

ORDER = ("allocated", "shared", "correction", "platform")
"""Kinds of charges in the order in which they are listed."""

PATIENCE_US = DAY_US
"""How long a due report waits for the ledger of its week; then it is written with what there is."""


@contextmanager
def _uncollected() -> Iterator[None]:
    """Switches the cyclic garbage collector off: millions of rows live until the files are made, and scanning them over
    and over took a quarter of the time.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@_uncollected()
def weekly(
    store: Store,
    state: State,
    week: str,
    teams: Collection[str] | None = None,
    now_us: int | None = None,
    *,
    formats: Collection[str] | None = None,
    paper: str = "a4",
    method: str | None = None,
) -> list[ReportFile]:
    """The report files of an ISO week (`2026-W47`): the fleet's and every team's, or only those of `teams`.

    A team's files hold nothing of another team. With `now_us` a finding has the state that its owner gave it
    (acknowledged, snoozed, exempt). `formats` are names of report formats (None: all), `paper` of the PDF is one of PAPERS, `method` how MIG
    slices share the cost of a GPU. Prices are those of the last pricing (cost.price_all). Raises UsageError for an invalid
    week, a week without data, or a team without charges in it.
    """
    chosen = chosen_formats(formats)
    reports = list(facts_of(store, state, week, teams, now_us, method=method))
    return [file for files in _written(store, state, reports, chosen, paper) for file in files]


@_uncollected()
def report_files(
    store: Store,
    state: State,
    week: str,
    team: str | None,
    now_us: int | None = None,
    *,
    formats: Collection[str] | None = None,
    paper: str = "a4",
    method: str | None = None,
) -> list[ReportFile]:
    """The files of one report only: the fleet's (None) or a team's. Otherwise as weekly."""
    chosen = chosen_formats(formats)
    teams = None if team is None else [team]
    facts = next(facts_of(store, state, week, teams, now_us, method=method))
    return next(_written(store, state, [facts], chosen, paper))


def _written(
    store: Store, state: State, reports: Sequence[Facts], formats: Sequence[ReportFormat], paper: str
) -> Iterator[list[ReportFile]]:
    """The files of each of these reports of one week. Formats that the store exports run in a thread meanwhile."""
    teams, window = [facts.team for facts in reports], reports[0].window
    with ThreadPoolExecutor(1, "report-export") as pool:
        exports = [
            (form.suffix, pool.submit(form.export, store, state, window, teams))
            for form in formats
            if form.export is not None
        ]
        rendered = [_rendered(Report(facts, paper), formats) for facts in reports]
        exported = [(suffix, export.result()) for suffix, export in exports]
    for facts, files in zip(reports, rendered, strict=True):
        more = [ReportFile(f"{_stem(facts)}.{suffix}", by_team[facts.team]) for suffix, by_team in exported]
        yield files + more


def _rendered(report: Report, formats: Sequence[ReportFormat]) -> list[ReportFile]:
    stem = _stem(report.facts)
    return [ReportFile(f"{stem}.{form.suffix}", form.render(report)) for form in formats if form.render is not None]


def _stem(facts: Facts) -> str:
    """The name of the files of a report, without suffix."""
    return f"{facts.week}/{'fleet' if facts.team is None else f'team-{slug(facts.team)}'}"


def facts_of(
    store: Store,
    state: State,
    week: str,
    teams: Collection[str] | None,
    now_us: int | None,
    *,
    method: str | None = None,
) -> Iterator[Facts]:
    """The facts of the fleet and then of every team, or of `teams` only.

    Raises UsageError as weekly does, when the first is asked for.
    """
    known = gather(store, state, week, teams, now_us, method)
    held = {t for t, cs in known.charges.by_team.items() if t is not None and any(c.kind != "platform" for c in cs)}
    for team in teams or ():
        if team not in held or team == PLATFORM:
            raise UsageError(f"report: team {team!r} has no charges in {week}; gpuwatch chargeback --window {week}")
    named = sorted(t for t in held if t not in SPECIAL) if teams is None else sorted(set(teams))
    if teams is None:
        yield _facts(known, None, _budget(store, state, known.window, None))
    for team in named:
        yield _facts(known, team, _budget(store, state, known.window, team))


def _budget(store: Store, state: State, window: Window, team: str | None) -> Budget | None:
    """The budget of a team (None: the fleet) for the period in which the window ends."""
    found = budgets.for_report(store, state, window, team)
    return None if found is None else Budget(**found)


@_uncollected()
def write_due(
    store: Store, state: State, out: Path, now_us: int, *, paper: str = "a4", method: str | None = None
) -> Written | None:
    """Writes the report of the week that ended, once; None where none is due, or its ledger is not complete yet.

    A week without data is skipped for good. Raises UnreadableInput where `out` cannot be written: then it stays due.
    The caller confirms with files.done that the report was announced: until then the week stays due and is written again.
    """
    week = due(state, now_us)
    if week is None:
        return None
    window, books = week_window(week), books_of(store)
    if (books is None or books.end_us < window.end_us) and now_us < window.end_us + PATIENCE_US:
        return None
    if books is None or overlap(window, books) is None:
        done(state, week, now_us)
        return None
    reports = list(facts_of(store, state, week, None, now_us, method=method))
    files = [file for made in _written(store, state, reports, chosen_formats(None), paper) for file in made]
    return Written(week, tuple(write(files, out)), tuple(summary(facts, _stem(facts)) for facts in reports))


def notes_of(store: Store, state: State, week: str, now_us: int, *, method: str | None = None) -> tuple[Summary, ...]:
    """The summary of each report of a week. Raises UsageError as weekly does."""
    reports = facts_of(store, state, week, None, now_us, method=method)
    return tuple(summary(facts, _stem(facts)) for facts in reports)


@dataclass(frozen=True)
class Written:
    """The report files of a week, and a summary of each report."""

    week: str
    paths: tuple[Path, ...]
    notes: tuple[Summary, ...]


def _facts(week: Week, team: str | None, budget: Budget | None = None) -> Facts:
    """The facts of the fleet (None) or of one team, without anything about other teams."""
    charges = week.charges.of(team)
    buckets = week.buckets if team is None else {team: week.buckets.get(team, {})}
    priced = {t: _sum_amounts(found.values()) for t, found in buckets.items()}
    now = _sum_buckets(buckets.values())
    before = [amount for (owner, _), amount in week.teams_before.items() if team in (None, owner)]
    old = week.buckets_before if team is None else {team: week.buckets_before.get(team, {})}
    compared = week.compared is not None
    payers = _payers(week, team, charges)
    waited = None if week.waited is None else {t: rounded(w) for t, w in week.waited.items()}
    return Facts(
        week=week.name,
        window=week.window,
        covered=week.covered,
        compared=week.compared,
        team=team,
        total=_sum_amounts(payer.amount for payer in payers),
        total_before=_sum_amounts(before) if compared else None,
        corrections=_sum_amounts(payer.amount for payer in payers if payer.kind == "correction"),
        buckets=now,
        buckets_before=_sum_buckets(old.values()) if compared else None,
        findings=week.findings.of(team),
        slices=week.slices.of(team),
        payers=payers,
        jobs=() if team is None else _jobs(week, team),
        charges=charges,
        quality=_quality(week, team, charges, now),
        versions=week.versions,
        books_from_us=week.books_from_us,
        priced=priced,
        models=week.models.of(team),
        waited=_waited(waited, team),
        waited_by=waited if team is None and waited is not None else {},
        budget=budget,
        closed=week.frozen.closing,
        corrected=week.frozen.of(team),
    )


def _waited(waited: Mapping[str, Waited] | None, team: str | None) -> Waited | None:
    if waited is None:
        return None
    if team is not None:
        return waited.get(team, Waited(Amount(), 0))
    whole = _sum_amounts(w.amount for w in waited.values())
    return Waited(whole, max((w.requests for w in waited.values()), default=0))


def _payers(week: Week, team: str | None, mine: Sequence[Charge]) -> tuple[Payer, ...]:
    """Teams of the fleet, or users of the team; most expensive first, unallocated time last."""
    groups: dict[tuple[str | None, str], list[Charge]] = defaultdict(list)
    for charge in mine:
        groups[(charge.team if team is None else charge.user, charge.kind)].append(charge)
    rows = []
    for (name, kind), charges in groups.items():
        before = None
        if week.compared is not None and kind != "correction":
            old = week.teams_before.get((name, kind)) if team is None else week.users_before.get((team, kind, name))
            before = old or Amount()
        split = week.buckets.get(name, {}) if team is None else week.user_buckets.get((team, name), {})
        # A correction belongs to another period, a shared cost to others: neither has buckets.
        rows.append(Payer(name, _sum(charges), before, split if kind in OWN else {}, kind))
    return tuple(sorted(rows, key=_order))


def _jobs(week: Week, team: str) -> tuple[Payer, ...]:
    groups: dict[Job, list[Charge]] = defaultdict(list)
    for charge in week.charges.of(team):
        if charge.kind == "allocated":
            groups[charge.place].append(charge)
    rows = [
        Payer(job, _sum(charges), None, week.job_uses.get(key, {}), "allocated", user, cluster)
        for key, charges in groups.items()
        for _, user, cluster, job in (key,)
    ]
    return tuple(sorted(rows, key=_order))


def _order(row: Payer) -> tuple[object, ...]:
    last = ORDER.index(row.kind) if row.name != UNOWNED else 1
    paid = sum((cost for _, cost in row.amount.costs), Decimal(0))
    return (last, -paid, -row.amount.gpu_seconds, str((row.name, row.user, row.cluster)))


def _quality(week: Week, team: str | None, charges: Sequence[Charge], buckets: Buckets) -> Quality:
    held = sum((buckets[b].gpu_seconds for b in HELD_BUCKETS if b in buckets), Decimal(0))
    unobserved = buckets["unobserved"].gpu_seconds if "unobserved" in buckets else Decimal(0)
    unowned = sum((c.gpu_seconds for c in charges if c.team == UNOWNED and c.kind == "allocated"), Decimal(0))
    return Quality(
        unobserved_ratio=float(unobserved / held) if held else None,
        unowned_ratio=float(unowned / held) if held and team is None else None,
        unpriced_gpu_seconds=sum((c.gpu_seconds for c in charges if c.cost is None), Decimal(0)),
        missing_rates=tuple(sorted({c.error for c in charges if c.error is not None})),
        stale_hours=week.stale_hours,
    )


def _sum(charges: Iterable[Charge]) -> Amount:
    """The sum of many charges, without an Amount for each."""
    seconds, lacking = Decimal(0), Decimal(0)
    costs: dict[str, Decimal] = {}
    for charge in charges:
        seconds += charge.gpu_seconds
        if charge.cost is None or charge.currency is None:
            lacking += charge.gpu_seconds
        else:
            costs[charge.currency] = costs.get(charge.currency, Decimal(0)) + charge.cost
    return Amount(seconds, tuple(sorted(costs.items())), lacking)


def _sum_amounts(amounts: Iterable[Amount]) -> Amount:
    return added(amounts)


def _sum_buckets(many: Iterable[Buckets]) -> dict[str, Amount]:
    total: dict[str, Amount] = defaultdict(Amount)
    for buckets in many:
        for bucket, amount in buckets.items():
            total[bucket] += amount
    return dict(total)
