"""The sheets of a workbook: columns and rows of records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from gpuwatch.core.clock import rfc3339
from gpuwatch.findings.read import lost_of
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.report import actions
from gpuwatch.report.cost_bridge import bridges, needed
from gpuwatch.report.data_quality import MEANINGS, quality, terms
from gpuwatch.report.document import Notice, Text
from gpuwatch.report.facts import HOUR_S, Amount, Facts, added, amount_of
from gpuwatch.report.headlines import unknown_use

MONEY, HOURS, RATIO, WHOLE = "money", "hours", "ratio", "whole"
"""Kinds of numbers in a sheet; every other cell is text."""
PIVOT_MAX = 20_000
"""Charges of the sheet for pivot tables; one more row sums the others."""
ROWS_MAX = 2_000
"""Jobs, slices and findings of a workbook, the most expensive; one more row sums the others. The file is for e-mail."""
Columns = Sequence[tuple[str, str]]
"""(title, kind or "")"""
Cells = Sequence[object]


def sheets(facts: Facts) -> Iterator[tuple[str, Columns, Iterable[Cells]]]:
    """Title, columns and rows of each sheet."""
    yield "Actions", _ACTIONS, _actions(facts)
    yield "Buckets", _BUCKETS, _buckets(facts)
    if facts.team is None:
        yield "Teams", (("Team", ""), *_OWNER), _teams(facts)
    yield "Users", (("Team", ""), ("User", ""), *_PAID), _users(facts)
    yield "Jobs", (("Team", ""), ("User", ""), ("Cluster", ""), ("Job", ""), *_PAID), _jobs(facts)
    yield "GPU models", (("Team", ""), ("Model", ""), ("MIG profile", ""), *_PAID), _models(facts)
    yield "MIG slices", _SLICES, _slices(facts)
    yield "Findings", _FINDINGS, _findings(facts)
    if facts.corrected:
        yield "Corrections", _CORRECTIONS, _corrections(facts)
    if needed(facts):
        yield "Policy bridge", _BRIDGE, _bridge(facts)
    if not facts.bound:
        yield "Idle while waiting", _WAITED, _waited(facts)
    yield "Pivot", _PIVOT, _pivot(facts)
    yield "Data quality", (("What", ""), ("To do", "")), _quality(facts)
    yield "Method", (("Term", ""), ("Meaning", "")), [*terms(facts).items(), *_meanings()]


_ACTIONS: Columns = (
    ("Action", ""), ("Owner", ""), ("Cost", MONEY), ("Saving a month", MONEY), ("Currency", ""), ("Saving is", ""),
    ("What", ""), ("To do", ""),
)  # fmt: skip
_PIVOT: Columns = (
    ("Period", ""), ("Team", ""), ("User", ""), ("Cluster", ""), ("Job", ""), ("Job name", ""), ("Kind", ""),
    ("Currency", ""), ("GPU-hours", HOURS), ("Cost", MONEY),
)  # fmt: skip
_PAID: Columns = (("Kind", ""), ("GPU-hours", HOURS), ("Cost", MONEY), ("Currency", ""))
_OWNER: Columns = (*_PAID, ("Cost one week earlier", MONEY), ("Working", RATIO), ("Avoidable", RATIO))
_BUCKETS: Columns = (
    ("Bucket", ""),
    ("GPU-hours", HOURS),
    ("Cost", MONEY),
    ("Currency", ""),
    ("Cost one week earlier", MONEY),
    ("Meaning", ""),
)
_SLICES: Columns = (
    ("Team", ""), ("User", ""), ("Cluster", ""), ("Job", ""), ("Slice", ""), ("Profile", ""), ("GPU model", ""),
    ("Share", ""), ("Start (UTC)", ""), ("End (UTC)", ""), ("Hours held", HOURS), ("Hours idle", HOURS),
    ("Busy", RATIO), ("GPU-hours", HOURS), ("Cost", MONEY), ("Currency", ""),
)  # fmt: skip
_FINDINGS: Columns = (
    ("Severity", ""), ("State", ""), ("Finding", ""), ("Team", ""), ("User", ""), ("Subject", ""),
    ("Since (UTC)", ""), ("Until (UTC)", ""), ("GPU-hours", HOURS), ("Wasted", MONEY),
    ("Lost work", MONEY), ("Currency", ""), ("What", ""), ("To do", ""), ("Key", ""),
)  # fmt: skip
_BRIDGE: Columns = (
    ("Owner", ""), ("At its price", MONEY), ("Policy", MONEY), ("Passed on", MONEY), ("Corrections", MONEY),
    ("Charged", MONEY), ("Currency", ""),
)  # fmt: skip
_CORRECTIONS: Columns = (
    ("Corrects", ""), ("Why", ""), ("Posted (UTC)", ""), ("Team", ""), ("User", ""), ("Cluster", ""), ("Job", ""),
    ("Model", ""), ("MIG profile", ""), ("GPU-hours", HOURS), ("Cost", MONEY), ("Currency", ""),
)  # fmt: skip
_WAITED: Columns = (
    ("Team", ""),
    ("GPU-hours, at least", HOURS),
    ("Cost, at least", MONEY),
    ("Currency", ""),
    ("Waiting requests", WHOLE),
)


def _paid(amount: Amount) -> Iterable[tuple[Decimal, Decimal | None, str | None]]:
    """(GPU-hours, cost, currency) by currency, then time without a price. Hours are listed with the first currency."""
    hours = (amount.gpu_seconds - amount.unpriced_gpu_seconds) / HOUR_S
    for currency, cost in amount.costs:
        yield hours, cost, currency
        hours = Decimal(0)
    if amount.unpriced_gpu_seconds or not amount.costs:
        yield amount.unpriced_gpu_seconds / HOUR_S, None, None


def _actions(facts: Facts) -> Iterable[Cells]:
    for step in actions.steps(facts)[:ROWS_MAX]:
        card = actions.card(facts, step)
        sure: str | None = "estimate, not to be added" if step.proposal else "expected" if step.findings else "up to"
        if not step.saving:
            sure = "lost work" if step.lost else None
        owner = actions.owner_of(facts, step)
        yield (
            card.title,
            owner,
            Decimal(float(step.lost or step.cost)),
            Decimal(float(step.saving)) if step.saving else None,
            facts.currency,
            sure,
            card.summary,
            card.remedy,
        )


def _pivot(facts: Facts) -> Iterable[Cells]:
    """One row for each charge, every column filled: the input of a pivot table."""
    for c in facts.charges[:PIVOT_MAX]:
        named = facts.job_names.get((c.cluster, c.job), c.job)
        words = (c.team, c.user, c.cluster, c.job, named, c.kind, c.currency)
        yield facts.week, *(word or "-" for word in words), c.gpu_seconds / HOUR_S, c.cost
    if rest := facts.charges[PIVOT_MAX:]:
        cost = sum((c.cost for c in rest if c.cost is not None), Decimal(0))
        hours = sum((c.gpu_seconds for c in rest), Decimal(0)) / HOUR_S
        yield facts.week, *["-"] * 4, _more(len(rest)), "-", facts.currency or "-", hours, cost


def _buckets(facts: Facts) -> Iterable[Cells]:
    for bucket, words in BUCKET_WORDS.items():
        amount = facts.of(bucket)
        unknown = unknown_use(facts, bucket)
        hours = None if unknown else amount.gpu_seconds / HOUR_S
        cost = None if unknown else amount.cost_in(facts.currency)
        before = facts.of(bucket, before=True).cost_in(facts.currency) if facts.compared is not None else None
        yield words, hours, cost, facts.currency, before, MEANINGS[bucket]


def _teams(facts: Facts) -> Iterable[Cells]:
    for payer in facts.payers:
        before = None if payer.before is None else payer.before.cost_in(facts.currency)
        shares = (payer.shares() if payer.kind == "allocated" else None) or (None, None)
        for number, paid in enumerate(_paid(payer.amount)):
            yield payer.name, payer.kind, *paid, before if number == 0 else None, *shares


def _users(facts: Facts) -> Iterable[Cells]:
    groups: dict[tuple[str | None, ...], list[Amount]] = defaultdict(list)
    for charge in facts.charges:
        amount = amount_of(charge.gpu_seconds, charge.cost, charge.currency)
        groups[(charge.team, charge.user, charge.kind)].append(amount)
    for (team, user, kind), amounts in groups.items():
        for paid in _paid(added(amounts)):
            yield team, user, kind, *paid


def _jobs(facts: Facts) -> Iterable[Cells]:
    for c in facts.charges[:ROWS_MAX]:
        yield c.team, c.user, c.cluster, c.job, c.kind, c.gpu_seconds / HOUR_S, c.cost, c.currency
    rest: dict[str, list[Amount]] = defaultdict(list)
    for c in facts.charges[ROWS_MAX:]:
        rest[c.kind].append(amount_of(c.gpu_seconds, c.cost, c.currency))
    for kind, amounts in rest.items():
        for paid in _paid(added(amounts)):
            yield None, None, None, _more(len(amounts)), kind, *paid


def _more(count: int) -> str:
    return f"{count:,} smaller ones: in the CSV and Parquet files"


def _models(facts: Facts) -> Iterable[Cells]:
    for use in facts.models:
        for paid in _paid(use.amount):
            yield use.team, use.gpu_model, use.mig_profile, use.kind, *paid


def _slices(facts: Facts) -> Iterable[Cells]:
    for h in facts.slices[:ROWS_MAX]:
        words = (h.team, h.user, h.cluster, h.job, h.slice, h.profile, h.gpu_model, h.share, h.start, h.end)
        times = (h.device_seconds / HOUR_S, None if h.idle_seconds is None else h.idle_seconds / HOUR_S, h.busy_ratio)
        for paid in _paid(h.amount):
            yield *words, *times, *paid
    if rest := facts.slices[ROWS_MAX:]:
        held = sum((h.device_seconds for h in rest), Decimal(0)) / HOUR_S
        idle = sum((h.idle_seconds or Decimal(0) for h in rest), Decimal(0)) / HOUR_S
        for paid in _paid(added(h.amount for h in rest)):
            yield None, None, None, _more(len(rest)), *[None] * 6, held, idle, None, *paid


def _findings(facts: Facts) -> Iterable[Cells]:
    for f in facts.findings[:ROWS_MAX]:
        subject = f"{f.subject['kind']} {f.subject['id']}"
        wasted, currency = None if f.wasted_cost is None else Decimal(f.wasted_cost), f.currency
        hours, lost_cost = Decimal(f.wasted_gpu_seconds) / HOUR_S, None
        if (lost := lost_of(f)) is not None:  # it is not waste: each has a column of its own, so that sums are true
            hours, wasted, currency = Decimal(float(lost.hours)), None, lost.currency
            lost_cost = None if lost.cost is None else Decimal(float(lost.cost))
        words = (f.severity, f.state, f.title, f.team, f.user, subject, f.started_at, f.ended_at)
        yield *words, hours, wasted, lost_cost, currency, f.summary, f.remedy, f.key
    if rest := facts.findings[ROWS_MAX:]:
        yield None, None, _more(len(rest))


def _bridge(facts: Facts) -> Iterable[Cells]:
    for b in bridges(facts):
        yield b.owner, b.at_price, b.policy, b.shared, b.correction, b.charged, facts.currency


def _corrections(facts: Facts) -> Iterable[Cells]:
    for c in facts.corrected[:ROWS_MAX]:
        words = (c.period, c.why, rfc3339(c.billed_us), c.team, c.user, c.cluster, c.job, c.gpu_model, c.mig_profile)
        for paid in _paid(c.amount):
            yield *words, *paid
    if rest := facts.corrected[ROWS_MAX:]:
        for paid in _paid(added(c.amount for c in rest)):
            yield None, _more(len(rest)), *[None] * 7, *paid


def _waited(facts: Facts) -> Iterable[Cells]:
    if facts.waited is None:
        yield ("unknown: no scheduler reported waiting requests",)
        return
    by_team = facts.waited_by if facts.team is None else {facts.team: facts.waited}
    for team, waited in sorted(by_team.items(), key=lambda item: -item[1].amount.gpu_seconds):
        for paid in _paid(waited.amount):
            yield team, *paid, waited.requests


def _quality(facts: Facts) -> Iterable[Cells]:
    for block in quality(facts).blocks:
        if isinstance(block, Text):
            yield block.text, None
        elif isinstance(block, Notice):
            yield from (("", item) for item in block.items)


def _meanings() -> Iterable[Cells]:
    return ((BUCKET_WORDS[bucket], text) for bucket, text in MEANINGS.items())
