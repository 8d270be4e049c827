"""Where the money of a window went, bucket by bucket, and how much of it was avoidable. Pure."""

from __future__ import annotations

from fractions import Fraction

from gpuwatch.ledger.measures import AVOIDABLE, CLAIMABLE
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.report import text as report_text
from gpuwatch.report.document import (
    TOTAL,
    Bar,
    Cell,
    Column,
    Row,
    Section,
    Table,
    Text,
    row,
)
from gpuwatch.report.facts import HOUR_S, Amount, Facts, added
from gpuwatch.report.headlines import (
    avoidable_amount,
    avoidable_part,
    compared_cost,
    listed_buckets,
    unknown_use,
)


def where_it_went(facts: Facts) -> Section:
    """The waterfall: every bucket begins where the one above it ended."""
    by_cost = added(facts.of(b) for b in listed_buckets(facts)).cost_in(facts.currency) is not None
    sizes = {bucket: _size(facts, facts.of(bucket), by_cost) for bucket in listed_buckets(facts)}
    whole = sum(sizes.values(), Fraction(0))
    costs = report_text.cells([facts.of(bucket) for bucket in sizes], facts.currency)
    total = added(facts.of(bucket) for bucket in sizes)
    all_hours, *hours = report_text.hour_column([facts.of(bucket).gpu_hours for bucket in sizes])
    rows = [_bar_row(facts, TOTAL, "All GPU time", total, Fraction(0), Fraction(bool(whole)), None, all_hours)]
    start = Fraction(0)
    for (bucket, size), cost, held in zip(sizes.items(), costs, hours, strict=True):
        length = size / whole if whole else Fraction(0)
        rows.append(_bar_row(facts, bucket, BUCKET_WORDS[bucket], facts.of(bucket), start, length, cost, held))
        start += length
    columns = [
        Column("", label=True, part=2.9),
        Column("", chart=True, part=3),
        Column("Cost", number=True),
        Column("GPU-hours", number=True, wide=True),
        Column("Share", number=True, part=0.8),
    ]
    columns += [Column("Change", number=True, wide=True, part=0.9)] if facts.compared is not None else []
    blocks: list[Text | Table] = [
        *([Text(f"Bars show {_unit(facts, by_cost)}.{average_gpus(facts)}", "soft")] if whole else []),
        Table(tuple(columns), tuple(rows), "fall"),
    ]
    blocks += [Text(note, "soft") for note in _notes(facts)]
    return Section(f"Where it went: {_loss(facts, whole)}", tuple(blocks))


def average_gpus(facts: Facts) -> str:
    """How many GPUs the hours are, on average over the time with data."""
    hours = facts.of(*listed_buckets(facts)).gpu_hours
    elapsed = Fraction(facts.covered.end_us - facts.covered.start_us, HOUR_S * 1_000_000)
    gpus = report_text.count(hours / elapsed) if hours and elapsed else ""
    words = f" On average, {report_text.hours(hours)} in {report_text.count(elapsed)} hours are {gpus} GPUs at a time."
    return words if gpus else ""


def _unit(facts: Facts, by_cost: bool) -> str:
    """What the length of a bar stands for."""
    if by_cost:
        return "cost"
    several = len({currency for bucket in listed_buckets(facts) for currency, _ in facts.of(bucket).costs}) > 1
    return f"GPU-hours, because {'there are several currencies' if several else 'some time has no price'}"


def _size(facts: Facts, amount: Amount, by_cost: bool) -> Fraction:
    return Fraction(amount.cost_in(facts.currency) or 0) if by_cost else amount.gpu_hours


def _bar_row(
    facts: Facts, kind: str, label: str, amount: Amount, start: Fraction, length: Fraction, cost: str | None, hours: str
) -> Row:
    if cost is None:
        cost = report_text.cells([amount], facts.currency)[0]
    if kind == TOTAL:
        before = added(facts.of(b, before=True) for b in listed_buckets(facts))
    else:
        before = facts.of(kind, before=True)
    part, change = report_text.percent(length), ""
    if unknown_use(facts, kind):
        cost = hours = part = report_text.MISSING  # nothing was measured: not zero
    elif facts.compared is not None:
        change = compared_cost(facts, amount, before)
    cells: list[Cell | str] = [
        Cell(label, swatch=None if kind == TOTAL else kind),
        Cell(bar=Bar(kind, start, length, f"{label}: {cost}, {part}")),
        cost,
        hours,
        part,
    ]
    cells += [change] if facts.compared is not None else []
    return row(cells, "sum" if kind == TOTAL else "")


def _loss(facts: Facts, whole: Fraction) -> str:
    """The waste, as a title."""
    if not whole:
        return "nothing was paid for"
    lost, part = avoidable_amount(facts), avoidable_part(facts)
    if lost is None or part is None:
        return mostly_unmeasured(facts).rstrip(".")
    if not lost.gpu_seconds:
        return "nothing was avoidable"
    share = f"{report_text.percent(part[0])} {part[1]}"
    return f"{report_text.amount_money(lost, facts.currency)} was avoidable ({share})"


def _notes(facts: Facts) -> list[str]:
    """What the buckets do not show: avoidable time that findings claim, and the roofline efficiency."""
    notes = []
    own = [word for bucket, word in BUCKET_WORDS.items() if bucket in AVOIDABLE and bucket in listed_buckets(facts)]
    text = f"Avoidable: {', '.join(f'“{word}”' for word in own)}"
    if claimed := facts.measures.claimed.gpu_seconds:
        text += (
            f", and {report_text.hours(Fraction(claimed) / HOUR_S)} of “{BUCKET_WORDS[CLAIMABLE]}” that findings claim"
        )
    notes.append(f"{text}.")
    if facts.measures.roofline_efficiency is not None:
        notes.append(report_text.at_roofline(facts.measures.roofline_efficiency))
    return notes


def mostly_unmeasured(facts: Facts) -> str:
    measured = Fraction(str(facts.measures.measured_ratio or 0))
    return f"{report_text.percent(1 - measured)} of the GPU time held was not measured."
