"""The demonstration: what a fleet's books say, as lines for a person."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

from gpuwatch.clock import HOUR_US, Window
from gpuwatch.findings import Finding
from gpuwatch.ledger import FREE_BUCKETS, HELD_BUCKETS
from gpuwatch.money import format_quantity
from gpuwatch.output import BUCKET_WORDS, Listing, as_table, visible
from gpuwatch.store import Store

LARGEST = 3
"""Findings that are shown."""
EFFECTIVE = ("compute", "memory_roof")


@dataclass(frozen=True)
class Amount:
    """GPU-hours (share-weighted) and what they cost; unpriced hours cost nothing here and are counted beside it."""

    gpu_hours: Fraction = Fraction(0)
    cost: Fraction = Fraction(0)
    unpriced_gpu_hours: Fraction = Fraction(0)

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.gpu_hours + other.gpu_hours,
            self.cost + other.cost,
            self.unpriced_gpu_hours + other.unpriced_gpu_hours,
        )


@dataclass(frozen=True)
class Books:
    """Amounts of a window by bucket and by whether any source measures the GPU."""

    amounts: dict[tuple[str, bool], Amount]
    currency: str

    def of(self, *buckets: str, measured: bool | None = None) -> Amount:
        """The sum over these buckets."""
        return sum((a for (b, m), a in self.amounts.items() if b in buckets and measured in (None, m)), start=Amount())


def whole_window(store: Store) -> Window | None:
    """From the first to the last whole hour that the books know; None when they are empty."""
    low, high = store.sql("select min(hour_us), max(hour_us) from ledger_hour")[0]
    return None if low is None else Window(low, high + HOUR_US)


def read_books(store: Store, window: Window) -> Books:
    """Buckets and their cost over whole hours: time at each price exactly, an hour in which it changes in proportion."""
    amounts: dict[tuple[str, bool], Amount] = defaultdict(Amount)
    currencies: set[str] = set()
    for row in store.rows("reports/bucket_cost", start_us=window.start_us, end_us=window.end_us):
        hours = Fraction(int(row["units"]), row["share_den"] * HOUR_US * HOUR_US)
        price = row["usd_per_gpu_hour"]
        amount = Amount(hours, Fraction(0), hours) if price is None else Amount(hours, hours * Fraction(price))
        amounts[(row["bucket"], row["measured"])] += amount
        currencies |= {row["currency"]} - {None}
    return Books(dict(amounts), "/".join(sorted(currencies)) or "USD")


def funnel(books: Books) -> Listing:
    """From what is owned to what works: each step is part of the one before."""
    every = FREE_BUCKETS + HELD_BUCKETS
    steps = {
        "total": books.of(*every),
        "reporting": books.of(*every, measured=True),
        "allocated": books.of(*HELD_BUCKETS, measured=True),
        "active": books.of(*(b for b in HELD_BUCKETS if b not in ("unobserved", "hoarded"))),
        "effective": books.of(*EFFECTIVE),
    }
    return _listing("step", steps, books)


def waterfall(books: Books) -> Listing:
    """Where the money went, bucket by bucket."""
    return _listing("bucket", {bucket: books.of(bucket) for bucket in BUCKET_WORDS}, books)


def _listing(name: str, amounts: dict[str, Amount], books: Books) -> Listing:
    total = books.of(*FREE_BUCKETS, *HELD_BUCKETS).gpu_hours
    items = [
        {
            name: word,
            "gpu_hours": format_quantity(amount.gpu_hours, 1),
            books.currency: format_quantity(amount.cost, 2),
            "percent": format_quantity(100 * amount.gpu_hours / total if total else 0, 1),
        }
        for word, amount in amounts.items()
    ]
    lacking = books.of(*FREE_BUCKETS, *HELD_BUCKETS).unpriced_gpu_hours
    foot = [f"{format_quantity(lacking, 1)} GPU-hours have no rate"] if lacking else []
    return Listing([name, "gpu_hours", books.currency, "percent"], items, foot=foot)


def story(books: Books, findings: list[Finding], bill: Listing, width: int) -> str:
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
