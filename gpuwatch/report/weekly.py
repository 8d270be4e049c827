"""The files of a week: one page and one table for the fleet and for each team."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from pathlib import Path

from gpuwatch.clock import DAY_US
from gpuwatch.errors import UsageError
from gpuwatch.ledger import HELD_BUCKETS
from gpuwatch.report.facts import PLATFORM, SPECIAL, UNOWNED, Amount, Charge, Facts, Payer, Quality
from gpuwatch.report.files import ReportFile, done, due, slug, write
from gpuwatch.report.gather import Buckets, Week, amount_of, books_of, gather, overlap, week_window
from gpuwatch.report.page import page
from gpuwatch.report.sheet import sheet
from gpuwatch.state import State
from gpuwatch.store import Store

PATIENCE_US = DAY_US
"""How long a report that is due waits for the books of its week; then it is written with what they have."""
_BYTE_ORDER_MARK = "\ufeff"
"""Spreadsheets take a CSV file without it for their own code page."""


def weekly(
    store: Store, state: State, week: str, teams: Collection[str] | None = None, now_us: int | None = None
) -> list[ReportFile]:
    """The report files of an ISO week (`2026-W47`): the fleet's and every team's, or only those of `teams`.

    A team's files hold nothing of another team. With `now_us` a finding has the state that its owner gave it
    (acknowledged, snoozed, exempt). Prices are those of the last pricing (cost.price_all). Raises UsageError for what is no week, a week without books, or a
    team that held nothing in it.
    """
    known = gather(store, state, week, teams, now_us)
    held = sorted({c.team for c in known.charges if c.kind != "platform" and c.team is not None})
    for team in teams or ():
        if team not in held or team == PLATFORM:
            raise UsageError(f"report: team {team!r} has no charges in {week}; gpuwatch chargeback --window {week}")
    named = [t for t in held if t not in SPECIAL] if teams is None else sorted(set(teams))
    files = [] if teams is not None else _pair(week, "fleet", _facts(known, None))
    for team in named:
        files += _pair(week, f"team-{slug(team)}", _facts(known, team))
    return files


def write_due(store: Store, state: State, out: Path, now_us: int) -> list[Path]:
    """Writes the report of the week that ended, once; [] where none is due, or the books are not there yet.

    A week without any books is skipped for good. Raises UnreadableInput where `out` cannot be written: then it stays due.
    """
    week = due(state, now_us)
    if week is None:
        return []
    window, books = week_window(week), books_of(store)
    if (books is None or books.end_us < window.end_us) and now_us < window.end_us + PATIENCE_US:
        return []
    written: list[Path] = []
    if books is not None and overlap(window, books) is not None:
        written = write(weekly(store, state, week, now_us=now_us), out)
    done(state, week, now_us)
    return written


def _pair(week: str, stem: str, facts: Facts) -> list[ReportFile]:
    table = f"{_BYTE_ORDER_MARK}{sheet(facts)}"
    return [
        ReportFile(f"{week}/{stem}.html", page(facts).encode("utf-8")),
        ReportFile(f"{week}/{stem}.csv", table.encode("utf-8")),
    ]


def _facts(week: Week, team: str | None) -> Facts:
    """The facts of the fleet (None) or of one team: nothing of others passes here."""
    charges = tuple(c for c in week.charges if team is None or c.team == team)
    buckets = _sum_buckets(b for t, b in week.buckets.items() if team is None or t == team)
    before = [amount for t, amount in week.teams_before.items() if team is None or t == team]
    compared = week.compared is not None
    old = _sum_buckets(b for t, b in week.buckets_before.items() if team is None or t == team)
    return Facts(
        week=week.name,
        window=week.window,
        covered=week.covered,
        compared=week.compared,
        team=team,
        total=_sum(charges),
        total_before=sum(before, start=Amount()) if compared else None,
        corrections=_sum(c for c in charges if c.kind == "correction"),
        buckets=buckets,
        buckets_before=old if compared else None,
        findings=tuple(f for f in week.findings if team is None or f.team == team),
        slices=tuple(s for s in week.slices if team is None or s.team == team),
        payers=_payers(week, team),
        jobs=() if team is None else _jobs(week, team),
        charges=charges,
        quality=_quality(week, team, charges, buckets),
        rate_version=week.versions[0],
        team_version=week.versions[1],
        books_from_us=week.books_from_us,
    )


def _payers(week: Week, team: str | None) -> tuple[Payer, ...]:
    """Teams of the fleet, or users of the team; the dearest first, what nobody held last."""
    groups: dict[tuple[str | None, str], list[Charge]] = defaultdict(list)
    for charge in week.charges:
        if team is None or charge.team == team:
            groups[(charge.team if team is None else charge.user, charge.kind)].append(charge)
    split: dict[str | None, list[Buckets]] = defaultdict(list)
    for (owner, user, *_), buckets in week.job_buckets.items():
        if team is None or owner == team:
            split[owner if team is None else user].append(buckets)
    rows = []
    for (name, kind), charges in groups.items():
        before = None
        if week.compared is not None and kind != "correction":
            old = week.teams_before.get(name) if team is None else week.users_before.get((team, name))
            before = old or Amount()
        # A correction is money of another period: it has no hours and no buckets of this one.
        buckets = _sum_buckets(split[name]) if kind != "correction" else {}
        rows.append(Payer(name, _sum(charges), before, buckets, kind))
    return tuple(sorted(rows, key=_order))


def _jobs(week: Week, team: str) -> tuple[Payer, ...]:
    groups: dict[tuple[str | None, ...], list[Charge]] = defaultdict(list)
    for charge in week.charges:
        if charge.team == team and charge.kind == "allocated":
            groups[(charge.team, charge.user, charge.cluster, charge.job)].append(charge)
    rows = [
        Payer(key[3], _sum(charges), None, week.job_buckets.get(key, {}), "allocated", key[1], key[2])
        for key, charges in groups.items()
    ]
    return tuple(sorted(rows, key=_order))


def _order(row: Payer) -> tuple[object, ...]:
    last = ("allocated", "correction", "platform").index(row.kind) if row.name != UNOWNED else 1
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
    return sum((amount_of(c.gpu_seconds, c.cost, c.currency) for c in charges), start=Amount())


def _sum_buckets(many: Iterable[Buckets]) -> dict[str, Amount]:
    total: dict[str, Amount] = defaultdict(Amount)
    for buckets in many:
        for bucket, amount in buckets.items():
            total[bucket] += amount
    return dict(total)
