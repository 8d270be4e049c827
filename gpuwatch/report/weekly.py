"""The files of a week: one set for the fleet and one for each team."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gpuwatch.billing import budgets
from gpuwatch.billing.spending import FLEET
from gpuwatch.core.clock import DAY_US
from gpuwatch.core.errors import UsageError
from gpuwatch.ledger.totals import ledger_window
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.report.facts import SPECIAL, Facts
from gpuwatch.report.files import ReportFile, done, due, slug, write
from gpuwatch.report.format_registry import Report, ReportFormat, chosen_formats
from gpuwatch.report.html.index import write_index
from gpuwatch.report.period_records import Budget
from gpuwatch.report.report_window import overlap, week_window
from gpuwatch.report.summary import Summary, summary
from gpuwatch.report.week.report_facts import report_facts
from gpuwatch.report.week.week_facts import Week, gather
from gpuwatch.state import State
from gpuwatch.store.database import Store

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
    bound: bool = False,
) -> list[ReportFile]:
    """The report files of an ISO week (`2026-W47`): the fleet's and every team's, or only those of `teams`.

    A team's files hold nothing of another team. With `now_us` a finding has the state that its owner gave it
    (acknowledged, snoozed, exempt). `formats` are names of report formats (None: all), `paper` of the PDF is one of PAPERS, `method` how MIG
    slices share the cost of a GPU. With `bound` the reader may not learn of other teams: no request that waited, no digest
    of everybody's rows. Prices are those of the last pricing (cost.price_all). Raises UsageError for an invalid
    week, a week without data, or a team without charges in it.
    """
    chosen = chosen_formats(formats)
    reports = list(facts_of(store, state, week, teams, now_us, method=method, bound=bound))
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
    bound: bool = False,
) -> list[ReportFile]:
    """The files of one report only: the fleet's (None) or a team's. Otherwise as weekly."""
    chosen = chosen_formats(formats)
    teams = None if team is None else [team]
    facts = next(facts_of(store, state, week, teams, now_us, method=method, bound=bound))
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
    period = facts.week.replace(":", "").replace(" ", "-")
    return f"{period}/{'fleet' if facts.team is None else f'team-{slug(facts.team)}'}"


def facts_of(
    store: Store,
    state: State,
    week: str,
    teams: Collection[str] | None,
    now_us: int | None,
    *,
    method: str | None = None,
    bound: bool = False,
) -> Iterator[Facts]:
    """The facts of the fleet and then of every team, or of `teams` only.

    Raises UsageError as weekly does, when the first is asked for.
    """
    known = gather(store, state, week, teams, now_us, method, bound)
    held = {t for t, cs in known.charges.by_team.items() if t is not None and any(c.kind != "platform" for c in cs)}
    for team in teams or ():
        if team not in held or team == PLATFORM:
            raise UsageError(f"report: team {team!r} has no charges in {week}; gpuwatch chargeback --window {week}")
    named = sorted(t for t in held if t not in SPECIAL) if teams is None else sorted(set(teams))
    if teams is None:
        of_teams = _budgets(store, state, known)
        budget = of_teams.pop(FLEET, None)
        facts = report_facts(known, None, budget, _forecast(store, state, known, budget))
        yield replace(facts, team_budgets=of_teams)
    for team in named:
        yield report_facts(known, team, _budget(store, state, known, team))


def _budget(store: Store, state: State, week: Week, team: str) -> Budget | None:
    """The budget of a team for the period in which the data of the window ends."""
    found = budgets.for_report(store, state, week.covered, team)
    return None if found is None else _of_status(found)


def _budgets(store: Store, state: State, week: Week) -> dict[str, Budget]:
    """The budget of the fleet and of each team that has one: of the month, else of the week, in which the data of the window ends."""
    found: dict[str, Budget] = {}
    statuses = budgets.statuses(store, state, week.covered.end_us, ended=True)
    for status in sorted(statuses, key=lambda one: budgets.PERIODS.index(one.budget.period)):
        found.setdefault(status.budget.team, _of_status(status))
    return found


def _forecast(store: Store, state: State, week: Week, budget: Budget | None) -> Budget | None:
    """What the fleet will cost by the end of the month in which the period ends: the budget's forecast, if it has one."""
    if budget is not None and "-W" not in budget.period:
        return budget if budget.forecast is not None else None
    currencies = {charge.currency for charge in week.charges.of(None) if charge.currency is not None}
    if len(currencies) != 1:
        return None
    found = _of_status(budgets.month_of_fleet(store, state, week.covered, currencies.pop()))
    return found if found.forecast is not None else None


def _of_status(status: budgets.Status) -> Budget:
    forecast, currency = status.forecast, status.budget.currency
    change = None if forecast is None or forecast.change is None else forecast.change.sentence(currency)
    found = Budget(
        status.name,
        status.budget.amount,
        status.spent,
        currency,
        level_change=change,
        runs_out=status.runs_out,
        goes_on=status.at_us < status.window.end_us,
    )
    if forecast is None:
        return found
    return replace(found, forecast=forecast.amount, forecast_low=forecast.low, forecast_high=forecast.high)


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
    window, ledger_span = week_window(week), ledger_window(store)
    if (ledger_span is None or ledger_span.end_us < window.end_us) and now_us < window.end_us + PATIENCE_US:
        return None
    if ledger_span is None or overlap(window, ledger_span) is None:
        done(state, week, now_us)
        return None
    reports = list(facts_of(store, state, week, None, now_us, method=method))
    files = [file for made in _written(store, state, reports, chosen_formats(None), paper) for file in made]
    private = store.path is not None and out.resolve().is_relative_to(store.path.resolve())
    paths = tuple(write(files, out, private))
    write_index(out / week)
    return Written(week, paths, tuple(summary(facts, _stem(facts)) for facts in reports))


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
