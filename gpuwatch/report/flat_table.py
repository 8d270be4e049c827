"""A report as one flat table: every number of the page, unrounded. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.money import EXACT_PLACES, format_quantity
from gpuwatch.findings.priority import HOUR_S, Lost
from gpuwatch.findings.read import lost_of
from gpuwatch.ledger.measures import WORDS
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.report.cost_bridge import bridges, needed
from gpuwatch.report.facts import Amount, Facts
from gpuwatch.report.headlines import measures

COLUMNS = (
    "section", "team", "user", "cluster", "job", "bucket", "slice", "mig_profile", "gpu_model", "kind",
    "gpu_seconds", "cost", "cost_exact", "currency", "before_gpu_seconds", "before_cost", "idle_seconds",
    "busy_ratio", "start", "end", "finding", "detector", "severity", "state", "text", "remedy",
)  # fmt: skip
"""`kind` of a finding is "lost work" where its amounts are work lost with failed runs, which waste may have as well.

`section` is the kind of a row: total, bucket, measure, bridge, correction, budget, waited, finding, slice, model, charge, quality.

Charges add up to the total; so do the lines of each bridge, and the rows of model.
"""

SECOND_PLACES, COST_PLACES = 6, 2
PLACES = {
    "gpu_seconds": SECOND_PLACES,
    "before_gpu_seconds": SECOND_PLACES,
    "idle_seconds": SECOND_PLACES,
    "cost": COST_PLACES,
    "before_cost": COST_PLACES,
    "cost_exact": EXACT_PLACES,
}
"""Columns of decimals and their places; `busy_ratio` is a float, all else text."""

Row = Mapping[str, object]


def rows(facts: Facts) -> list[Row]:
    """The rows of the CSV and Parquet files."""
    return list(_rows(facts))


def _rows(facts: Facts) -> Iterable[Row]:
    ends = {"start": rfc3339(facts.covered.start_us), "end": rfc3339(facts.covered.end_us)}
    head: dict[str, object]
    yield from _amounts({"section": "total", "team": facts.team, **ends}, facts.total, facts.total_before)
    for bucket in BUCKET_WORDS:
        if bucket in facts.buckets:
            before = None if facts.buckets_before is None else facts.of(bucket, before=True)
            head = {"section": "bucket", "team": facts.team, "bucket": bucket}
            yield from _amounts(head, facts.of(bucket), before)
    for name, now, before in measures(facts):
        yield from _amounts({"section": "measure", "team": facts.team, "kind": name, "text": WORDS[name]}, now, before)
    yield from _bridges(facts)
    yield from _corrections(facts)
    if facts.budget is not None:
        budget = facts.budget
        named = ("amount", "spent", "forecast", "forecast_low", "forecast_high")
        for word in named:
            value = getattr(budget, word)
            if value is not None:
                head = {"section": "budget", "team": facts.team, "kind": word, "cost": value}
                yield {**head, "currency": budget.currency, "text": budget.period}
    if facts.waited is not None:
        by_team = facts.waited_by if facts.team is None else {facts.team: facts.waited}
        for team, waited in sorted(by_team.items()):
            text = f"{waited.requests} requests of others waited"
            yield from _amounts(
                {"section": "waited", "team": team, "bucket": "hoarded", "text": text}, waited.amount, None
            )
    for finding in facts.findings:
        lost = lost_of(finding)
        amounts: Row = {} if lost is None else {"kind": "lost work", **_lost(lost)}
        yield {
            **_fields("finding", finding, "team", "user", "cluster", "bucket", "currency", "detector", "severity"),
            "state": finding.state,
            "remedy": finding.remedy,
            "job": finding.subject["id"],
            "gpu_seconds": finding.wasted_gpu_seconds,
            "cost": finding.wasted_cost,
            "start": finding.started_at,
            "end": finding.ended_at,
            "finding": finding.key,
            "text": finding.summary,
            **amounts,
        }
    for hold in facts.slices:
        head = _fields(
            "slice", hold, "team", "user", "cluster", "job", "slice", "gpu_model", "idle_seconds", "busy_ratio"
        )
        head |= {"mig_profile": hold.profile, "start": hold.start, "end": hold.end, "text": f"share {hold.share}"}
        yield from _amounts(head, hold.amount, None)
    for use in facts.models:
        yield from _amounts(_fields("model", use, "team", "gpu_model", "mig_profile", "kind"), use.amount, None)
    for charge in facts.charges:
        row = _fields("charge", charge, "team", "user", "cluster", "job", "kind", "gpu_seconds", "cost", "cost_exact")
        yield {**row, "currency": charge.currency, "text": charge.error}
    yield from _quality(facts)


def _lost(lost: Lost) -> Row:
    """The GPU time of lost work, and its cost to the cent."""
    cost = None if lost.cost is None else format_quantity(lost.cost, COST_PLACES)
    return {"gpu_seconds": format_quantity(lost.hours * HOUR_S, SECOND_PLACES), "cost": cost, "currency": lost.currency}


def _fields(section: str, record: object, *names: str) -> dict[str, object]:
    """A row of the fields of a record whose columns have the same names."""
    return {"section": section, **{name: getattr(record, name) for name in names}}


def _bridges(facts: Facts) -> Iterable[Row]:
    """For each owner: cost at its price, policy changes, shared costs and corrections, which add up to the charges."""
    for one in bridges(facts) if needed(facts) else ():
        for kind in ("at_price", "policy", "shared", "correction"):
            head = {"section": "bridge", "team": one.owner, "kind": kind}
            yield {**head, "cost": getattr(one, kind), "currency": facts.currency}


def _corrections(facts: Facts) -> Iterable[Row]:
    """Corrections of closed periods; they add up to the charges of kind correction. `start` is when they were posted."""
    for line in facts.corrected:
        currency, cost = line.amount.costs[0] if line.amount.costs else (None, None)
        yield {
            **_fields("correction", line, "team", "user", "cluster", "job", "gpu_model", "mig_profile", "cost_exact"),
            "kind": line.period,
            "gpu_seconds": line.amount.gpu_seconds,
            "cost": cost,
            "currency": currency,
            "start": rfc3339(line.billed_us),
            "text": line.why,
        }


def _amounts(head: Row, amount: Amount, before: Amount | None) -> Iterable[Row]:
    """One row for each currency, and one for time without a price; at least one."""
    old = {} if before is None else dict(before.costs)
    costs = dict(amount.costs)
    currencies = sorted({*costs, *old})
    old_unpriced = None if before is None else before.unpriced_gpu_seconds
    unpriced = bool(amount.unpriced_gpu_seconds or old_unpriced)
    seconds = {"gpu_seconds": amount.gpu_seconds - amount.unpriced_gpu_seconds}
    if before is not None:
        seconds["before_gpu_seconds"] = before.gpu_seconds - before.unpriced_gpu_seconds
    if len(currencies) > 1:
        # GPU-seconds are not split by currency here; the charges are.
        yield {**head, **seconds}
        for currency in currencies:
            yield {**head, "cost": costs.get(currency), "currency": currency, "before_cost": old.get(currency)}
    elif currencies:
        (currency,) = currencies
        cost_before = {} if before is None else {"before_cost": old.get(currency, Decimal(0))}
        yield {**head, **seconds, "cost": costs.get(currency, Decimal(0)), "currency": currency, **cost_before}
    elif not unpriced:
        yield {**head, **seconds}
    if unpriced:
        yield {
            **head,
            "kind": "unpriced",
            "gpu_seconds": amount.unpriced_gpu_seconds,
            "before_gpu_seconds": old_unpriced,
            "text": "no rate covers this time",
        }


def _quality(facts: Facts) -> Iterable[Row]:
    q = facts.quality
    numbers: dict[str, object] = {
        "unobserved_ratio": q.unobserved_ratio,
        "unowned_ratio": q.unowned_ratio if facts.team is None else None,
        "stale_hours": q.stale_hours,
        "rate_card_version": facts.versions.rates,
        "ownership_rules_version": facts.versions.teams,
        "policies_version": facts.versions.policies,
        "exchange_rates_version": facts.versions.fx,
        "mig_share_method": facts.versions.method,
    }
    for name, value in numbers.items():
        if value is not None:
            yield {"section": "quality", "kind": name, "text": str(value)}
    if facts.closed is not None:
        signed = ", ".join(facts.closed.signed)
        closing = {
            "closed_by": facts.closed.by,
            "closing_sha256": facts.closed.digest,
            "closing_forced": facts.closed.forced,
            "signed_by": signed or None,
        }
        yield from ({"section": "quality", "kind": name, "text": text} for name, text in closing.items() if text)
    yield from ({"section": "quality", "kind": "missing_rate", "text": text} for text in q.missing_rates)


def column_texts(values: Sequence[object], text: Callable[[object], str | None]) -> list[str | None]:
    """The text of each value; equal names are converted once. Equal decimals may have different texts."""
    texts = {value: text(value) for value in set(values) if not isinstance(value, Decimal)}
    return [text(value) if isinstance(value, Decimal) else texts[value] for value in values]


def plain_text(value: object) -> str:
    """Text that can be encoded as UTF-8; a decimal in full."""
    if type(value) is str and value.isascii() and "\0" not in value:
        return value
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\0")
