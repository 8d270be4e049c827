"""Where the GPU time went: the buckets of a scorecard or scan, with the waste below. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.audit.losses import LOSS
from gpuwatch.ledger.measures import WORDS
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.report import text as report_text
from gpuwatch.report.document import TOTAL, Bar, Block, Cell, Column, Row, Section, Table, Text, row

Json = Mapping[str, Any]


@dataclass(frozen=True)
class _Part:
    """A bucket, or the part of it that is avoidable or not."""

    bucket: str
    label: str
    hours: Fraction
    cost: Decimal | None
    avoidable: bool


def _bucket_parts(card: Json) -> list[_Part]:
    """The buckets in listed order; what findings claim of one has a row of its own."""
    found = []
    for one in sorted(card["waste"]["buckets"], key=lambda one: list(BUCKET_WORDS).index(one["bucket"])):
        label, hours, cost = BUCKET_WORDS[one["bucket"]], Fraction(one["gpu_hours"]), _decimal(one["cost"])
        lost = Fraction(one["avoidable_gpu_hours"])
        if one["waste"] or not lost:
            found.append(_Part(one["bucket"], label, hours, cost, one["waste"]))
            continue
        lost_cost = _decimal(one["avoidable_cost"])
        left = None if cost is None or lost_cost is None else cost - lost_cost
        found.append(_Part(one["bucket"], label, hours - lost, left, False))
        found.append(_Part(one["bucket"], f"{label}, claimed by findings", lost, lost_cost, True))
    return found


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def where_section(card: Json) -> Section:
    """The buckets of the ledger, with the total waste below."""
    parts, waste = _bucket_parts(card), card["waste"]
    places = report_text.places_of([_decimal(one["cost"]) for one in waste["buckets"]])
    figures = _figures(parts, places)
    priced = all(part.cost is not None for part in parts) and any(part.cost for part in parts)
    rows = [*_bucket_rows(parts, [_figure(one, places, card["currency"]) for one in figures], priced)]
    lost = [figure for part, figure in zip(parts, figures, strict=True) if part.avoidable]
    whole_cost = None if None in lost else sum((one for one in lost if one is not None), Decimal(0))
    cost = _figure(whole_cost, places, card["currency"])
    hours = report_text.MISSING if waste["gpu_hours"] is None else report_text.count(Fraction(waste["gpu_hours"]))
    if waste["gpu_hours"] is None:
        cost = report_text.MISSING
    length = _avoidable(parts, priced)
    bar = Cell(bar=Bar(TOTAL, Fraction(0), length, WORDS["avoidable"]))
    share = "" if waste["gpu_hours"] is None else report_text.percent(length)
    rows.append(row([WORDS["avoidable"], bar, cost, hours, share, ""], "sum"))
    columns = (
        Column("", label=True, part=2.7),
        Column("", chart=True, part=2.8),
        Column("Cost", number=True),
        Column("GPU-hours", number=True, wide=True),
        Column("Of the cost" if priced else "Of the time", number=True, part=0.9),
        Column("", part=1.15, wide=True),
    )
    note = f"{_explained(card)}The cost of a finding is part of these buckets, never added to them."
    title = "Where the GPU time went"
    part = avoidable_part(card)
    title += (
        f": {mostly_unmeasured(card)}"
        if part is None
        else f": {report_text.percent(part[0])} of {part[1]} was avoidable"
    )
    blocks: list[Block] = [Table(columns, tuple(rows), "fall"), Text(note, "soft")]
    if waste["roofline_efficiency"] is not None:
        blocks.append(Text(report_text.at_roofline(waste["roofline_efficiency"]), "soft"))
    return Section(title, tuple(blocks))


def avoidable_part(card: Json) -> tuple[Fraction, str] | None:
    """The avoidable part of the cost, or of the GPU time where not all has a price, and which of both. None if little was measured."""
    waste = card["waste"]
    if waste["ratio"] is None:
        return None
    if waste["cost"] is not None and Fraction(card["cost"] or 0):
        return Fraction(waste["cost"]) / Fraction(card["cost"]), "its cost"
    return Fraction(str(waste["ratio"])), "its GPU time"


def mostly_unmeasured(card: Json) -> str:
    """How little of the held time was measured."""
    measured = Fraction(str(card["waste"]["measured_ratio"] or 0))
    part = f"only {report_text.percent(measured)}" if measured else "none"
    return f"{part} of the held GPU time was measured"


def _avoidable(parts: Sequence[_Part], priced: bool) -> Fraction:
    """The avoidable part of the cost, or of the time."""
    whole = sum((_size(part, priced) for part in parts), Fraction(0))
    return sum((_size(part, priced) for part in parts if part.avoidable), Fraction(0)) / whole if whole else Fraction(0)


def _size(part: _Part, priced: bool) -> Fraction:
    return Fraction(part.cost or 0) if priced else part.hours


def _explained(card: Json) -> str:
    """How much of the waste has a known cause; what the rest is, where there is some."""
    waste = card["waste"]
    wasted, explained = Fraction(waste["gpu_hours"] or 0), Fraction(waste["explained_gpu_hours"])
    if not wasted:
        return ""
    others = sum((Fraction(one["gpu_hours"]) for one in card["actions"] if one["kind"] == LOSS), Fraction(0))
    parts = [f"findings explain {report_text.hours(explained)} of it"] if explained or not others else []
    if others:
        parts.append(f"{report_text.hours(others)} without a finding are listed among the actions")
    sentence = "; ".join(parts)
    sentence = f"{sentence[:1].upper()}{sentence[1:]}. "
    rest = wasted - explained - others >= 1
    return sentence + ("The rest is short, scattered, or has a cause that no rule covers. " if rest else "")


def _bucket_rows(parts: Sequence[_Part], costs: Sequence[str], priced: bool) -> Iterator[Row]:
    """A row with a bar for each part; the bars follow each other. Shares are of the cost where all of it is known."""
    whole = sum((_size(part, priced) for part in parts), Fraction(0))
    start = Fraction(0)
    for part, cost in zip(parts, costs, strict=True):
        length = _size(part, priced) / whole if whole else Fraction(0)
        share = report_text.percent(length)
        bar = Cell(bar=Bar(part.bucket, start, length, f"{part.label}: {share}"))
        word = "avoidable" if part.avoidable else ""
        yield row([Cell(part.label, swatch=part.bucket), bar, cost, report_text.count(part.hours), share, word])
        start += length


def _figures(parts: Sequence[_Part], places: int) -> list[Decimal | None]:
    """The cost of each part as shown: avoidable ones add up to the figure in the opening sentence."""
    figures: dict[_Part, Decimal | None] = {}
    for avoidable in (True, False):
        mine = [part for part in parts if part.avoidable is avoidable]
        figures |= dict(zip(mine, report_text.figures([part.cost for part in mine], places), strict=True))
    return [figures[part] for part in parts]


def _figure(cost: Decimal | None, places: int, currency: str | None) -> str:
    return report_text.NO_PRICE if cost is None else report_text.plain(cost, places, currency)
