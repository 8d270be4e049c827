"""The demonstration: what a fleet's books say, as lines for a person."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal

from gpuwatch.billing.records import Amount, Ledger
from gpuwatch.core.clock import HOUR_US, SECOND_US, Window
from gpuwatch.core.money import format_quantity
from gpuwatch.findings.read import Finding
from gpuwatch.output.listing import BUCKET_WORDS, Listing, visible
from gpuwatch.output.terminal import as_table
from gpuwatch.store.database import Store

LARGEST = 3
"""Findings that are shown."""

STEP_WORDS = {
    "total": "Owned",
    "reporting": "Reporting",
    "allocated": "Allocated, measured",
    "active": "Active",
    "effective": "Effective",
}
"""What a step of the funnel is called on screen: of held time, that which nobody measured is not in `allocated`."""


def whole_window(store: Store) -> Window | None:
    """From the first to the last whole hour that the books know; None when they are empty."""
    low, high = store.sql("select min(hour_us), max(hour_us) from ledger_hour")[0]
    return None if low is None else Window(low, high + HOUR_US)


def funnel(books: Ledger) -> Listing:
    """From what is owned to what works: each step is part of the one before."""
    return _listing("step", {STEP_WORDS[step]: amount for step, amount in books.funnel.items()}, books)


def waterfall(books: Ledger) -> Listing:
    """Where the money went, bucket by bucket."""
    sums: dict[str, list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0)])
    for row in books.items:
        sums[row.bucket][0] += row.gpu_seconds
        sums[row.bucket][1] += row.cost or 0
    one_currency = books.cost is not None
    return _listing(
        "bucket", {name: Amount(sums[name][0], sums[name][1] if one_currency else None) for name in BUCKET_WORDS}, books
    )


def _listing(name: str, amounts: dict[str, Amount], books: Ledger) -> Listing:
    total = books.capacity_gpu_seconds
    currency = books.currency or "cost"
    items = [
        {
            name: word,
            "gpu_hours": None if amount.gpu_seconds is None else _hours(amount.gpu_seconds),
            currency: None if amount.cost is None else f"{amount.cost:.2f}",
            "percent": None
            if amount.gpu_seconds is None
            else format_quantity(100 * amount.gpu_seconds / total if total else 0, 1),
        }
        for word, amount in amounts.items()
    ]
    lacking = books.unpriced_gpu_seconds
    foot = [f"{_hours(lacking)} GPU-hours have no rate"] if lacking else []
    return Listing([name, "gpu_hours", currency, "percent"], items, foot=foot)


def _hours(seconds: Decimal) -> str:
    return format_quantity(seconds * SECOND_US / HOUR_US, 1)


def story(books: Ledger, findings: list[Finding], bill: Listing, width: int) -> str:
    """The funnel, the waterfall, the largest findings and the bill."""
    largest = [
        f"{n}. {f.wasted_cost or '?'} {f.currency or ''} {f.severity}: {f.title}. {f.summary} "
        f"{f.subject['kind']} {f.subject['id']}, team {f.team}. {f.remedy}"
        for n, f in enumerate(findings[:LARGEST], 1)
    ]
    parts = [
        "From owned to effective GPU-hours\n" + as_table(funnel(books), width),
        "Where the money went\n" + as_table(waterfall(books), width),
        "\n".join(["The largest findings", *(visible(line) for line in largest or ["none"]), ""]),
        "Who pays\n" + as_table(bill, width),
    ]
    return "\n".join(parts)
