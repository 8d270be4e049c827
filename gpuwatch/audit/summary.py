"""The demo's summary of a fleet: funnel, waterfall, largest findings and bill, as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal

from gpuwatch.billing.listings import measures_dict, measures_lines
from gpuwatch.billing.records import Amount, Ledger
from gpuwatch.core.clock import HOUR_US, SECOND_US
from gpuwatch.core.money import format_quantity
from gpuwatch.findings.read import Finding, lost_of
from gpuwatch.findings.texts import is_waste
from gpuwatch.output.listing import BUCKET_WORDS, Listing, visible
from gpuwatch.output.terminal import as_table
from gpuwatch.rules.rule import price_text

LARGEST = 3
"""Findings shown."""

STEP_WORDS = {
    "total": "All GPUs",
    "reporting": "Reporting",
    "allocated": "Allocated, measured",
    "active": "Active",
    "effective": "Effective",
}
"""Names of the funnel's steps. Held time that was not measured is not in `allocated`."""


def funnel(ledger: Ledger) -> Listing:
    """From owned to effective GPU-hours: each step is part of the one before."""
    return _listing("step", {STEP_WORDS[step]: amount for step, amount in ledger.funnel.items()}, ledger)


def waterfall(ledger: Ledger) -> Listing:
    """Where the money went, bucket by bucket."""
    sums: dict[str, list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0)])
    for row in ledger.items:
        sums[row.bucket][0] += row.gpu_seconds
        sums[row.bucket][1] += row.cost or 0
    one_currency = ledger.cost is not None
    return _listing(
        "bucket",
        {name: Amount(sums[name][0], sums[name][1] if one_currency else None) for name in BUCKET_WORDS},
        ledger,
        measures_lines(measures_dict(ledger.measures, ledger.currency) | {"currency": ledger.currency}),
    )


def _listing(name: str, amounts: dict[str, Amount], ledger: Ledger, lines: Sequence[str] = ()) -> Listing:
    total = ledger.capacity_gpu_seconds
    currency = ledger.currency or "cost"
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
    lacking = ledger.unpriced_gpu_seconds
    foot = [f"{_hours(lacking)} GPU-hours have no rate"] if lacking else []
    foot += lines
    return Listing([name, "gpu_hours", currency, "percent"], items, foot=foot)


def _hours(seconds: Decimal) -> str:
    return format_quantity(seconds * SECOND_US / HOUR_US, 1)


def finding_line(finding: Finding) -> str:
    """`$51.12, medium: vit-pretrain (job 8394) of team vision on n1 kept 4 devices busy with only 17 % of the SMs at work. ...`"""
    cost = "cost unknown" if finding.wasted_cost is None else price_text(finding.wasted_cost, finding.currency)
    if (lost := lost_of(finding)) is not None:
        cost = "lost work" if lost.cost is None else f"{price_text(float(lost.cost), lost.currency)} of lost work"
    about = f"{finding.title}: {finding.subject['kind']} {finding.subject['id']}, team {finding.team}"
    return f"{cost}, {finding.severity}: {finding.headline or about}. {finding.remedy}"


def story(ledger: Ledger, findings: list[Finding], bill: Listing, width: int) -> str:
    """The funnel, the waterfall, the largest findings and the bill."""
    wasteful = [finding for finding in findings if is_waste(finding.bucket)]
    largest = [f"{place}. {finding_line(finding)}" for place, finding in enumerate(wasteful[:LARGEST], 1)]
    parts = [
        "From owned to effective GPU-hours\n" + as_table(funnel(ledger), width),
        "Where the money went\n" + as_table(waterfall(ledger), width),
        "\n".join(["The largest findings", *(visible(line) for line in largest or ["none"]), ""]),
        "Who pays\n" + as_table(bill, width),
    ]
    return "\n".join(parts)
