"""The demo: a simulated fleet through the real formats, and what came of it, on a terminal."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import TextIO

from gpuwatch import cost, findings
from gpuwatch.clock import HOUR_US, SECOND_US, Window
from gpuwatch.ledger import BUCKETS, FREE_BUCKETS
from gpuwatch.money import fraction_to_decimal, largest_remainder
from gpuwatch.output import write_table
from gpuwatch.state import State
from gpuwatch.store import Store

WORDS = {
    "compute": "Compute",
    "memory_roof": "Memory-bound work",
    "below_roof": "Below the roof",
    "stalled": "Busy, SMs idle",
    "communication": "Waiting on links",
    "gap": "Gaps (host, data, checkpoint)",
    "hoarded": "Held idle",
    "unobserved": "Not measured",
    "schedulable": "Free",
    "stranded": "Free but stranded",
    "mig_remainder": "MIG remainder",
    "out_of_service": "Out of service",
}
"""What a bucket is called on screen, in the order in which stacks run (docs: ui)."""


def whole_window(store: Store) -> Window | None:
    """From the first to the last moment that the books know; None when they are empty."""
    start, end = store.sql("select min(start_us), max(end_us) from segment")[0]
    return None if start is None else Window(start, end)


def bucket_costs(store: Store, window: Window) -> dict[str, Fraction]:
    """Dollars of every bucket over the whole hours of a window; time without a price is left out."""
    sums: dict[str, Fraction] = defaultdict(Fraction)
    for row in store.rows("reports/bucket_cost", start_us=window.start_us, end_us=window.end_us):
        if row["price"] is not None:
            sums[row["bucket"]] += (
                Fraction(int(row["units"]), row["share_den"]) / HOUR_US / HOUR_US * Fraction(row["price"])
            )
    return sums


def show(store: Store, state: State, stream: TextIO) -> None:
    """Prints funnel, waterfall in dollars, the three largest findings and the chargeback of all that is known."""
    window = whole_window(store)
    if window is None:
        stream.write("nothing to show: no device is known\n")
        return
    books = cost.ledger(store, state, window, ["bucket"])
    hours = {row.bucket: Fraction(row.gpu_seconds) * SECOND_US / HOUR_US for row in books.items}
    dollars = bucket_costs(store, window)
    total = sum(hours.values(), Fraction(0))
    allocated = sum((hours.get(b, Fraction(0)) for b in BUCKETS if b not in FREE_BUCKETS), Fraction(0))
    observed = allocated - hours.get("unobserved", Fraction(0))
    active = observed - hours.get("hoarded", Fraction(0))
    effective = hours.get("memory_roof", Fraction(0)) + hours.get("compute", Fraction(0))
    funnel = [
        ("Total", total),
        ("Allocated", allocated),
        ("Measured", observed),
        ("Active", active),
        ("Effective", effective),
    ]
    write_table(
        "Funnel: where the GPU-hours went",
        [
            {"stage": name, "GPU_hours": f"{float(amount):,.1f}", "of_total": f"{100 * float(amount / total):.1f} %"}
            for name, amount in funnel
        ],
        {"stage": "<", "GPU_hours": ">", "of_total": ">"},
        stream,
    )
    names = [b for b in WORDS if hours.get(b)]
    rounded = largest_remainder([dollars.get(b, Fraction(0)) for b in names], 2, names)
    write_table(
        "Waterfall in dollars",
        [
            {
                "bucket": WORDS[b],
                "GPU_hours": f"{float(hours[b]):,.1f}",
                "USD": f"{amount:,}",
                "share": f"{100 * float(hours[b] / total):.1f} %",
            }
            for b, amount in zip(names, rounded, strict=True)
        ]
        + [{"bucket": "Total", "GPU_hours": f"{float(total):,.1f}", "USD": f"{sum(rounded):,}", "share": "100.0 %"}],
        {"bucket": "<", "GPU_hours": ">", "USD": ">", "share": ">"},
        stream,
    )
    found = findings.findings(store, state)
    write_table(
        f"The three largest of {len(found)} findings",
        [
            {
                "finding": f["title"],
                "job": f["subject"]["id"],
                "team": f["team"],
                "USD": f["wasted_cost"] or "no rate",
                "summary": f["summary"],
                "remedy": f["remedy"],
            }
            for f in found[:3]
        ],
        {"finding": "<", "job": "<", "team": "<", "USD": ">", "summary": "<", "remedy": "<"},
        stream,
    )
    bill = cost.chargeback(store, state, window, ["team"])
    write_table(
        "Chargeback by team",
        [
            {
                "team": c.group["team"],
                "GPU_hours": f"{fraction_to_decimal(Fraction(c.gpu_seconds) / 3600, 1):,}",
                "cost": "no rate" if c.cost is None else f"{c.cost:,}",
                "currency": c.currency,
            }
            for c in bill.items
        ]
        + [
            {
                "team": "Total",
                "GPU_hours": f"{fraction_to_decimal(Fraction(bill.gpu_seconds) / 3600, 1):,}",
                "cost": "several currencies" if bill.cost is None else f"{bill.cost:,}",
                "currency": bill.currency,
            }
        ],
        {"team": "<", "GPU_hours": ">", "cost": ">", "currency": "<"},
        stream,
    )
