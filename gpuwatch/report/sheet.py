"""A report as one CSV table: every number of the page, unrounded. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from decimal import Decimal

from gpuwatch.clock import rfc3339
from gpuwatch.output import BUCKET_WORDS
from gpuwatch.report.facts import Amount, Facts

COLUMNS = (
    "section",
    "team",
    "user",
    "cluster",
    "job",
    "bucket",
    "slice",
    "mig_profile",
    "gpu_model",
    "kind",
    "gpu_seconds",
    "cost",
    "cost_exact",
    "currency",
    "before_gpu_seconds",
    "before_cost",
    "idle_seconds",
    "busy_ratio",
    "start",
    "end",
    "finding",
    "detector",
    "severity",
    "state",
    "text",
    "remedy",
)
"""`section` says what a row is: total, bucket, finding, slice, charge, quality. Charges add up to the total."""

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A text that begins so would be run by a spreadsheet; it gets an apostrophe before it."""
TEXTS = frozenset(
    {"team", "user", "cluster", "job", "slice", "mig_profile", "gpu_model", "finding", "text", "remedy", "currency"}
)

Row = Mapping[str, object]


def sheet(facts: Facts) -> str:
    """The table as CSV text with a header; unknown is empty."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in _rows(facts):
        writer.writerow([_cell(name, row.get(name)) for name in COLUMNS])
    return stream.getvalue()


def _rows(facts: Facts) -> Iterable[Row]:
    ends = {"start": rfc3339(facts.covered.start_us), "end": rfc3339(facts.covered.end_us)}
    head: Row
    yield from _amounts({"section": "total", "team": facts.team, **ends}, facts.total, facts.total_before)
    for bucket in BUCKET_WORDS:
        if bucket in facts.buckets:
            before = None if facts.buckets_before is None else facts.of(bucket, before=True)
            head = {"section": "bucket", "team": facts.team, "bucket": bucket}
            yield from _amounts(head, facts.of(bucket), before)
    for finding in facts.findings:
        yield {
            "section": "finding",
            "team": finding.team,
            "user": finding.user,
            "cluster": finding.cluster,
            "job": finding.subject["id"],
            "bucket": finding.bucket,
            "gpu_seconds": finding.wasted_gpu_seconds,
            "cost": finding.wasted_cost,
            "currency": finding.currency,
            "start": finding.started_at,
            "end": finding.ended_at,
            "finding": finding.key,
            "detector": finding.detector,
            "severity": finding.severity,
            "state": finding.state,
            "text": finding.summary,
            "remedy": finding.remedy,
        }
    for hold in facts.slices:
        head = {
            "section": "slice",
            "team": hold.team,
            "user": hold.user,
            "cluster": hold.cluster,
            "job": hold.job,
            "slice": hold.slice,
            "mig_profile": hold.profile,
            "gpu_model": hold.gpu_model,
            "idle_seconds": hold.idle_seconds,
            "busy_ratio": hold.busy_ratio,
            "start": hold.start,
            "end": hold.end,
            "text": f"share {hold.share}",
        }
        yield from _amounts(head, hold.amount, None)
    for charge in facts.charges:
        yield {
            "section": "charge",
            "team": charge.team,
            "user": charge.user,
            "cluster": charge.cluster,
            "job": charge.job,
            "kind": charge.kind,
            "gpu_seconds": charge.gpu_seconds,
            "cost": charge.cost,
            "cost_exact": charge.cost_exact,
            "currency": charge.currency,
            "text": charge.error,
        }
    yield from _quality(facts)


def _amounts(head: Row, amount: Amount, before: Amount | None) -> Iterable[Row]:
    """A row a currency, and one for what has no price; at least one."""
    old = {} if before is None else dict(before.costs)
    currencies = sorted({*dict(amount.costs), *old})
    seconds = {"gpu_seconds": amount.gpu_seconds - amount.unpriced_gpu_seconds}
    if before is not None:
        seconds["before_gpu_seconds"] = before.gpu_seconds - before.unpriced_gpu_seconds
    costs = dict(amount.costs)
    if len(currencies) <= 1:
        currency = currencies[0] if currencies else None
        cost = costs.get(currency, Decimal(0)) if currency else None
        row: dict[str, object] = {**head, **seconds, "cost": cost, "currency": currency}
        if before is not None and currency:
            row["before_cost"] = old.get(currency, Decimal(0))
        if currency or not (amount.unpriced_gpu_seconds or (before and before.unpriced_gpu_seconds)):
            yield row
    else:
        # GPU-seconds are not told apart by currency here: charges are.
        yield {**head, **seconds}
        for currency in currencies:
            yield {**head, "cost": costs.get(currency), "currency": currency, "before_cost": old.get(currency)}
    lacking = before.unpriced_gpu_seconds if before is not None else None
    if amount.unpriced_gpu_seconds or lacking:
        yield {
            **head,
            "kind": "unpriced",
            "gpu_seconds": amount.unpriced_gpu_seconds,
            "before_gpu_seconds": lacking,
            "text": "no rate covers this time",
        }


def _quality(facts: Facts) -> Iterable[Row]:
    q = facts.quality
    numbers: dict[str, object] = {
        "unobserved_ratio": q.unobserved_ratio,
        "unowned_ratio": q.unowned_ratio if facts.team is None else None,
        "stale_hours": q.stale_hours,
        "rate_card_version": facts.rate_version,
        "ownership_rules_version": facts.team_version,
    }
    for name, value in numbers.items():
        if value is not None:
            yield {"section": "quality", "kind": name, "text": str(value)}
    yield from ({"section": "quality", "kind": "missing_rate", "text": text} for text in q.missing_rates)


def _cell(name: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, Decimal):
        return f"{value:f}"
    text = str(value).encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\0")
    return f"'{text}" if name in TEXTS and text.startswith(FORMULA) else text
