"""A report as one HTML file: no script, no request, fit to be mailed and printed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from gpuwatch.clock import DAY_US, parse_rfc3339
from gpuwatch.findings import ELAPSED_US_MIN, Finding
from gpuwatch.ledger import FREE_BUCKETS
from gpuwatch.output import BUCKET_WORDS
from gpuwatch.report import chart, closing, tables, words
from gpuwatch.report.facts import PRODUCTIVE, UNOWNED, Amount, Facts
from gpuwatch.report.headlines import compared_cost, headlines, productive_ratio, trend
from gpuwatch.report.markup import Html, join, name, tag
from gpuwatch.report.style import CSS

FINDINGS_SHOWN = 8
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""What a browser may do with the file: show it."""


def page(facts: Facts) -> str:
    """The whole document."""
    title = f"{_whose(facts)}: GPU spend, week {facts.week}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(CSS)),
    )
    body = tag(
        "body",
        chart.hatching(),
        _header(facts),
        _numbers(facts),
        _where(facts),
        _wastes(facts),
        tables.slices(facts),
        tables.payers(facts),
        closing.quality(facts),
        closing.how(facts),
    )
    return f'<!DOCTYPE html>\n<html lang="en">{head}{body}</html>\n'


def _whose(facts: Facts) -> str:
    if facts.team is None:
        return "The fleet"
    return "Held, without a team" if facts.team == UNOWNED else f"Team {name(facts.team)}"


def _header(facts: Facts) -> Html:
    whose = _whose(facts)
    paid = words.amount_money(facts.total, facts.currency)
    verb = "cost" if facts.team is None else "pays"
    if facts.total.costs or not facts.total.unpriced_gpu_seconds:
        lead = f"{whose} {verb} {paid} in week {facts.week}{trend(facts)}."
    else:
        lead = (
            f"What {whose[0].lower()}{whose[1:]} {verb} in week {facts.week} is not known: no rate covers its GPU time."
        )
    if (part := productive_ratio(facts)) is not None:
        of = "the GPU time paid for" if facts.team is None else "the GPU time it held"
        lead += f" {words.percent(part)} of {of} did productive work."
    lines = [f"{words.days(facts.window)}, UTC."]
    if facts.covered != facts.window:
        lines.append(f"The books cover {words.days(facts.covered)}: the numbers are of that time.")
    lines.append(_comparison(facts))
    return tag(
        "header",
        tag("h1", f"{whose}: GPU spend, week {facts.week}"),
        tag("p", " ".join(lines), cls="soft"),
        tag("p", lead, cls="lead"),
    )


def _comparison(facts: Facts) -> str:
    if facts.compared is None:
        return f"No comparison with the week before: the books begin on {words.moment(facts.books_from_us)}."
    return f"Changes are against {words.days(facts.compared)}."


def _numbers(facts: Facts) -> Html:
    """At most five headline numbers, the exact value on hover."""
    items = [
        tag("li", tag("span", h.label), tag("b", h.value, title=h.exact), tag("span", h.change or "\u00a0"))
        for h in headlines(facts)
    ]
    return tag("ul", items, cls="numbers")


def _where(facts: Facts) -> Html:
    """The waterfall: every bucket begins where the one above it ended."""
    by_cost = facts.total.cost_in(facts.currency) is not None
    sizes = {bucket: _size(facts, facts.of(bucket), by_cost) for bucket in _buckets(facts)}
    whole = sum(sizes.values(), Fraction(0))
    costs = words.column([facts.of(bucket).cost_in(facts.currency) for bucket in sizes], facts.currency)
    total = sum((facts.of(bucket) for bucket in sizes), start=Amount())
    rows = [_bar_row(facts, chart.TOTAL, "All GPU time", total, Fraction(0), Fraction(bool(whole)), None)]
    start = Fraction(0)
    for (bucket, size), cost in zip(sizes.items(), costs, strict=True):
        length = size / whole if whole else Fraction(0)
        rows.append(_bar_row(facts, bucket, BUCKET_WORDS[bucket], facts.of(bucket), start, length, cost))
        start += length
    columns = [
        ("", "label"),
        ("", "chart"),
        ("Cost", "n"),
        ("GPU-hours", "n wide"),
        ("Part", "n"),
        ("Change", "n wide"),
    ]
    parts = [
        tag("h2", f"Where it went: {_largest_loss(facts, sizes, whole)}"),
        tag("p", f"Bars are {'money' if by_cost else 'GPU-hours, because some time has no price'}.", cls="soft"),
        tag("table", tables.header(columns), tag("tbody", rows), cls="fall"),
    ]
    if facts.corrections.costs or facts.corrections.gpu_seconds:
        paid = words.amount_money(facts.corrections, facts.currency)
        parts.append(tag("p", f"Corrections of closed periods, in the total and in no bucket: {paid}."))
    return tag("section", parts)


def _buckets(facts: Facts) -> list[str]:
    """In their one order; a team has none of those that nobody holds."""
    return [b for b in BUCKET_WORDS if facts.team is None or b not in FREE_BUCKETS]


def _size(facts: Facts, amount: Amount, by_cost: bool) -> Fraction:
    return Fraction(amount.cost_in(facts.currency) or 0) if by_cost else amount.gpu_hours


def _bar_row(
    facts: Facts, kind: str, label: str, amount: Amount, start: Fraction, length: Fraction, cost: str | None
) -> Html:
    if cost is None:
        cost = words.column([amount.cost_in(facts.currency)], facts.currency)[0]
    if kind == chart.TOTAL:
        before = sum((facts.of(b, before=True) for b in _buckets(facts)), start=Amount())
    else:
        before = facts.of(kind, before=True)
    change = compared_cost(facts, amount, before) if facts.compared is not None else ""
    part = words.percent(length)
    mark = None if kind == chart.TOTAL else chart.swatch(kind)
    return tag(
        "tr",
        tag("td", mark, label, cls="label"),
        tag("td", chart.bar(kind, start, length, f"{label}: {cost}, {part}"), cls="chart"),
        tag("td", cost, cls="n"),
        tag("td", words.count(amount.gpu_hours), cls="n wide"),
        tag("td", part, cls="n"),
        tag("td", change, cls="n wide"),
        cls="sum" if kind == chart.TOTAL else None,
    )


def _largest_loss(facts: Facts, sizes: dict[str, Fraction], whole: Fraction) -> str:
    lost = {bucket: size for bucket, size in sizes.items() if bucket not in PRODUCTIVE}
    bucket = max(lost, key=lambda b: lost[b])
    if not whole:
        return "nothing was paid for"
    if not lost[bucket]:
        return "all of it did productive work"
    amount = words.amount_money(facts.of(bucket), facts.currency)
    return (
        f"the largest part without productive work is \u201c{BUCKET_WORDS[bucket]}\u201d, {amount} "
        f"({words.percent(lost[bucket] / whole)})"
    )


def _wastes(facts: Facts) -> Html:
    """The dearest findings of the week, each with its owner and what to do. Exempt ones are counted only."""
    listed = [f for f in facts.findings if f.state != "exempt"]
    exempt = len(facts.findings) - len(listed)
    notes = [f"{exempt} more {'is' if exempt == 1 else 'are'} exempt by decision of the owner."] if exempt else []
    if not listed:
        text = "No finding in this week. What could not be judged is named below, under data quality."
        return tag("section", tag("h2", "The largest wastes: none found"), [tag("p", t) for t in (text, *notes)])
    shown = listed[:FINDINGS_SHOWN]
    if len(listed) > len(shown):
        notes.insert(0, f"{len(listed) - len(shown):,} smaller ones are in the table file.")
    count = f"{len(listed):,} {'finding' if len(listed) == 1 else 'findings'}"
    since = "Amounts run from when the waste began, which may be before this week, to its end or to the last reading."
    return tag(
        "section",
        tag("h2", f"The largest wastes: {count}{_sum(facts, listed)}"),
        tag("p", since, cls="soft"),
        [_finding(facts, finding) for finding in shown],
        tag("p", " ".join(notes), cls="soft") if notes else None,
    )


def _sum(facts: Facts, listed: Sequence[Finding]) -> str:
    costs = [f.wasted_cost for f in listed if f.currency == facts.currency and f.wasted_cost is not None]
    if len(costs) != len(listed):
        return ""
    return f", {words.money(sum(map(Decimal, costs)), facts.currency)} since they began"


def _finding(facts: Facts, finding: Finding) -> Html:
    hours = Fraction(Decimal(finding.wasted_gpu_seconds)) / 3600
    begun, seen = parse_rfc3339(finding.started_at), parse_rfc3339(finding.last_seen_at)
    if finding.wasted_cost is None:
        lost, daily = words.NO_PRICE, ""
    else:
        cost = Fraction(Decimal(finding.wasted_cost))
        lost = words.money(cost, finding.currency)
        a_day = cost * DAY_US / max(seen - begun, ELAPSED_US_MIN)
        daily = f", {words.money(a_day, finding.currency)} a day"
    if finding.ended_at is None:
        over = f"since {words.instant(begun)} UTC, still going on"
    else:
        over = f"{words.instant(begun)} to {words.instant(parse_rfc3339(finding.ended_at))} UTC"
    team = "no team known" if finding.team == UNOWNED else f"team {name(finding.team)}"
    owner = [] if facts.team is not None else [team]
    owner += [f"user {name(finding.user)}" if finding.user else "user not told"]
    subject = f"{finding.subject['kind']} {name(finding.subject['id'])}"
    about = f"{subject}, {', '.join(owner)} · {over}"
    acted = "" if finding.state in ("open", "resolved") else f" · {finding.state}"
    return tag(
        "article",
        tag("p", tag("b", tag("span", finding.severity, cls="word"), f" {finding.title}"), tag("b", lost), cls="top"),
        tag("p", finding.summary),
        tag("p", f"{about} · {words.hours(hours)}{daily}{acted}", cls="soft"),
        tag("p", join(tag("b", "Do: "), finding.remedy)) if finding.remedy else None,
        cls=f"find {finding.severity}",
    )
