"""A report as an XLSX workbook: real numbers, filters, a frozen header, one sheet for each level."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from gpuwatch.core.clock import rfc3339
from gpuwatch.output.listing import BUCKET_WORDS, visible
from gpuwatch.output.render import CREATED, XLSX_ROWS_MAX, XLSX_TEXT_MAX
from gpuwatch.report.compose import budgeted, lead, title
from gpuwatch.report.cost_bridge import bridges, needed
from gpuwatch.report.data_quality import MEANINGS, quality, terms
from gpuwatch.report.document import Notice, Text
from gpuwatch.report.facts import HOUR_S, PRODUCTIVE, Amount, Facts, added, amount_of
from gpuwatch.report.headlines import headlines
from gpuwatch.report.html import chart

MONEY, HOURS, RATIO, WHOLE = "money", "hours", "ratio", "whole"
"""Kinds of numbers in a sheet; every other cell is text."""
_FORMATS = {MONEY: "#,##0.00", HOURS: "#,##0.000", RATIO: "0.0%", WHOLE: "#,##0"}
ROWS_MAX = 2_000
"""Jobs, slices and findings of a workbook, the most expensive; one more row sums the others. The file is for e-mail."""
WIDTH_MIN, WIDTH_MAX = 9, 60
WIDTH_ROWS = 1000
"""Rows that set the width of a column."""
INK, PANEL = "#1C2326", "#F5F7F8"

_SPACES = {ord("\u00a0"): " ", ord("\u202f"): " "}

Columns = Sequence[tuple[str, str]]
"""(title, kind or "")"""
Cells = Sequence[object]


def book(facts: Facts) -> bytes:
    """The workbook. The currency follows each cost; a missing price is an empty cell, never zero."""
    from xlsxwriter import Workbook  # type: ignore[import-untyped]

    stream = io.BytesIO()
    workbook = Workbook(stream, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False})
    workbook.set_properties({"created": CREATED, "title": title(facts), "company": "gpuwatch"})
    writer = _Writer(workbook)
    writer.summary(facts)
    writer.sheet("Buckets", _BUCKETS, _buckets(facts), swatches=list(BUCKET_WORDS))
    if facts.team is None:
        writer.sheet("Teams", (("Team", ""), *_OWNER), _teams(facts))
    writer.sheet("Users", (("Team", ""), ("User", ""), *_PAID), _users(facts))
    writer.sheet("Jobs", (("Team", ""), ("User", ""), ("Cluster", ""), ("Job", ""), *_PAID), _jobs(facts))
    writer.sheet("GPU models", (("Team", ""), ("Model", ""), ("MIG profile", ""), *_PAID), _models(facts))
    writer.sheet("MIG slices", _SLICES, _slices(facts))
    writer.sheet("Findings", _FINDINGS, _findings(facts))
    if facts.corrected:
        writer.sheet("Corrections", _CORRECTIONS, _corrections(facts))
    if needed(facts):
        writer.sheet("Policy bridge", _BRIDGE, _bridge(facts))
    writer.sheet("Idle while waiting", _WAITED, _waited(facts))
    writer.sheet("Data quality", (("What", ""), ("To do", "")), _quality(facts))
    writer.sheet("Method", (("Term", ""), ("Meaning", "")), [*terms(facts).items(), *_meanings()])
    workbook.close()
    return stream.getvalue()


_PAID: Columns = (("Kind", ""), ("GPU-hours", HOURS), ("Cost", MONEY), ("Currency", ""))
_OWNER: Columns = (*_PAID, ("Cost one week earlier", MONEY), ("Productive", RATIO), ("Held idle", RATIO))
_BUCKETS: Columns = (
    ("Bucket", ""),
    ("GPU-hours", HOURS),
    ("Cost", MONEY),
    ("Currency", ""),
    ("Cost one week earlier", MONEY),
    ("Meaning", ""),
)
_SLICES: Columns = (
    ("Team", ""),
    ("User", ""),
    ("Cluster", ""),
    ("Job", ""),
    ("Slice", ""),
    ("Profile", ""),
    ("GPU model", ""),
    ("Share", ""),
    ("Start (UTC)", ""),
    ("End (UTC)", ""),
    ("Hours held", HOURS),
    ("Hours idle", HOURS),
    ("Busy", RATIO),
    ("GPU-hours", HOURS),
    ("Cost", MONEY),
    ("Currency", ""),
)
_FINDINGS: Columns = (
    ("Severity", ""),
    ("State", ""),
    ("Finding", ""),
    ("Team", ""),
    ("User", ""),
    ("Subject", ""),
    ("Since (UTC)", ""),
    ("Until (UTC)", ""),
    ("GPU-hours", HOURS),
    ("Wasted", MONEY),
    ("Currency", ""),
    ("What", ""),
    ("To do", ""),
    ("Key", ""),
)
_BRIDGE: Columns = (
    ("Owner", ""),
    ("At its price", MONEY),
    ("Policy", MONEY),
    ("Passed on", MONEY),
    ("Corrections", MONEY),
    ("Charged", MONEY),
    ("Currency", ""),
)
_CORRECTIONS: Columns = (
    ("Corrects", ""),
    ("Why", ""),
    ("Posted (UTC)", ""),
    ("Team", ""),
    ("User", ""),
    ("Cluster", ""),
    ("Job", ""),
    ("Model", ""),
    ("MIG profile", ""),
    ("GPU-hours", HOURS),
    ("Cost", MONEY),
    ("Currency", ""),
)
_WAITED: Columns = (
    ("Team", ""),
    ("GPU-hours, at least", HOURS),
    ("Cost, at least", MONEY),
    ("Currency", ""),
    ("Waiting requests", WHOLE),
)


class _Writer:
    """A workbook and its formats."""

    def __init__(self, workbook: Any) -> None:
        self._book = workbook
        self._head = workbook.add_format({"bold": True, "bottom": 1, "bg_color": PANEL, "font_color": INK})
        self._title = workbook.add_format({"bold": True, "font_size": 14})
        self._bold = workbook.add_format({"bold": True})
        self._wrap = workbook.add_format({"text_wrap": True, "valign": "top"})
        self._number = {kind: workbook.add_format({"num_format": text}) for kind, text in _FORMATS.items()}

    def summary(self, facts: Facts) -> None:
        """The first sheet: the opening sentence, and the total by currency as a number."""
        sheet = self._book.add_worksheet("Summary")
        sheet.set_column(0, 0, 28)
        sheet.set_column(1, 3, 22)
        sheet.write_string(0, 0, _shown(title(facts)), self._title)
        window = f"{rfc3339(facts.window.start_us)} to {rfc3339(facts.window.end_us)}, UTC (end excluded)"
        lines = [lead(facts), budgeted(facts), window]
        for line, text in enumerate(lines, 1):
            sheet.write_string(line, 0, _shown(text))
        line = len(lines) + 2
        for column, text in enumerate(("Total", "Cost", "Currency", "Cost one week earlier")):
            sheet.write_string(line, column, text, self._head)
        before = dict(facts.total_before.costs) if facts.total_before is not None else {}
        for currency, cost in facts.total.costs:
            line += 1
            sheet.write_string(line, 0, "Everything charged", self._bold)
            sheet.write_number(line, 1, float(cost), self._number[MONEY])
            sheet.write_string(line, 2, currency)
            if currency in before:
                sheet.write_number(line, 3, float(before[currency]), self._number[MONEY])
        if facts.total.unpriced_gpu_seconds:
            line += 1
            sheet.write_string(line, 0, "GPU-hours without a price", self._bold)
            sheet.write_number(line, 1, float(facts.total.unpriced_gpu_seconds / HOUR_S), self._number[HOURS])
        line += 2
        for column, text in enumerate(("Key numbers", "Value", "Change", "Exact")):
            sheet.write_string(line, column, text, self._head)
        for headline in headlines(facts):
            line += 1
            for column, text in enumerate((headline.label, headline.value, headline.change, headline.exact)):
                sheet.write_string(line, column, _shown(text))

    def sheet(self, name: str, columns: Columns, rows: Iterable[Cells], swatches: Sequence[str] = ()) -> None:
        """A sheet of records; more rows than it can hold are in the CSV, and the last one says so."""
        sheet = self._book.add_worksheet(name)
        sheet.freeze_panes(1, 0)
        listed = list(rows)
        if len(listed) > XLSX_ROWS_MAX:
            listed = [*listed[: XLSX_ROWS_MAX - 1], ["more rows are in the CSV file"]]
        for column, (head, _) in enumerate(columns):
            sheet.write_string(0, column, head, self._head)
            texts = (_text(row[column]) for row in listed[:WIDTH_ROWS] if len(row) > column)
            width = max([len(head) + 3, *(len(text) + 1 for text in texts)])
            wide = min(max(width, WIDTH_MIN), WIDTH_MAX)
            sheet.set_column(column, column, wide, self._wrap if wide == WIDTH_MAX else None)
        sheet.autofilter(0, 0, max(len(listed), 1), len(columns) - 1)
        for line, row in enumerate(listed, 1):
            for column, (value, (_, kind)) in enumerate(zip(row, columns, strict=False)):
                if value is not None:
                    self._cell(sheet, line, column, kind, value)
        for line, bucket in enumerate(swatches[: len(listed)], 1):
            colour = self._book.add_format({"left": 5, "left_color": chart.COLOURS[bucket][0]})
            sheet.write_string(line, 0, BUCKET_WORDS[bucket], colour)

    def _cell(self, sheet: Any, line: int, column: int, kind: str, value: object) -> None:
        if kind and isinstance(value, int | float | Decimal):
            sheet.write_number(line, column, float(value), self._number[kind])
        else:
            sheet.write_string(line, column, _shown(str(value)))


def _text(value: object) -> str:
    """Text about as wide as what the cell shows."""
    return f"{value:,.3f}" if isinstance(value, float | Decimal) else _shown(str(value))


def _shown(text: str) -> str:
    """Text of one line, with plain spaces instead of non-breaking ones."""
    text = text.translate(_SPACES)
    plain = text.isascii() and text.isprintable()
    return (text if plain else visible(text))[:XLSX_TEXT_MAX]


def _paid(amount: Amount) -> Iterable[tuple[Decimal, Decimal | None, str | None]]:
    """(GPU-hours, cost, currency) by currency, then time without a price. Hours are listed with the first currency."""
    hours = (amount.gpu_seconds - amount.unpriced_gpu_seconds) / HOUR_S
    for currency, cost in amount.costs:
        yield hours, cost, currency
        hours = Decimal(0)
    if amount.unpriced_gpu_seconds or not amount.costs:
        yield amount.unpriced_gpu_seconds / HOUR_S, None, None


def _buckets(facts: Facts) -> Iterable[Cells]:
    for bucket, words in BUCKET_WORDS.items():
        amount = facts.of(bucket)
        hours = amount.gpu_seconds / HOUR_S
        cost = amount.cost_in(facts.currency)
        before = facts.of(bucket, before=True).cost_in(facts.currency) if facts.compared is not None else None
        yield words, hours, cost, facts.currency, before, MEANINGS[bucket]


def _teams(facts: Facts) -> Iterable[Cells]:
    for payer in facts.payers:
        held = payer.amount.gpu_seconds if payer.kind == "allocated" else Decimal(0)
        before = None if payer.before is None else payer.before.cost_in(facts.currency)
        shares: tuple[Decimal | None, Decimal | None] = (None, None)
        if held:
            shares = payer.of(*PRODUCTIVE).gpu_seconds / held, payer.of("hoarded").gpu_seconds / held
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
        times = (h.device_seconds / HOUR_S, h.idle_seconds / HOUR_S, h.busy_ratio)
        for paid in _paid(h.amount):
            yield *words, *times, *paid
    if rest := facts.slices[ROWS_MAX:]:
        held = sum((h.device_seconds for h in rest), Decimal(0)) / HOUR_S
        idle = sum((h.idle_seconds for h in rest), Decimal(0)) / HOUR_S
        for paid in _paid(added(h.amount for h in rest)):
            yield None, None, None, _more(len(rest)), *[None] * 6, held, idle, None, *paid


def _findings(facts: Facts) -> Iterable[Cells]:
    for f in facts.findings[:ROWS_MAX]:
        subject = f"{f.subject['kind']} {f.subject['id']}"
        cost = None if f.wasted_cost is None else Decimal(f.wasted_cost)
        hours = Decimal(f.wasted_gpu_seconds) / HOUR_S
        words = (f.severity, f.state, f.title, f.team, f.user, subject, f.started_at, f.ended_at)
        yield *words, hours, cost, f.currency, f.summary, f.remedy, f.key
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
