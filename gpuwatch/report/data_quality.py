"""How far the numbers of a report can be trusted, and how they were computed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

from gpuwatch.core.clock import rfc3339
from gpuwatch.findings.texts import SEVERITIES, UNPRICED_SEVERITY
from gpuwatch.ledger.hours import FREE_BUCKETS
from gpuwatch.ledger.measures import AT_ROOF, AVOIDABLE, WORDS, WORKING
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.report import text as report_text
from gpuwatch.report.document import Block, Cell, Column, Heading, Notice, Section, Table, Terms, Text, row
from gpuwatch.report.facts import HOUR_S, UNOWNED, Facts
from gpuwatch.report.html.markup import name
from gpuwatch.report.sections.certainty import CERTAINTY
from gpuwatch.report.sections.unmeasured import NODES_NAMED

RATES_NAMED = 8
"""Missing rates that a report names."""
CERTAIN = 0.01
"""A smaller share without readings or an owner needs no fix."""

MEANINGS = {
    "compute": "the share of time in which the busiest arithmetic pipe ran, relative to its practical maximum",
    "memory_roof": "work limited by memory bandwidth: memory traffic relative to its practical maximum",
    "below_roof": "kernels ran, but neither arithmetic nor memory was near its limit",
    "stalled": "the GPU counted as busy while its processors (SMs) did nothing",
    "communication": "waiting while the links to other GPUs were busy (estimated from link traffic)",
    "gap": "no kernel ran, but for less than the idle limit: host code, data loading, checkpoints",
    "hoarded": "held by a job and idle for at least the idle limit without a break",
    "unobserved": "held, but without a valid reading: not counted as idle",
    "schedulable": "not allocated, and a job could have used it",
    "stranded": "free, but of no use to some of the usual requests: they ask for another model or MIG mode, or for more GPUs than are free together",
    "mig_remainder": "part of a partitioned GPU that no slice covers",
    "out_of_service": "drained, down or failed, but still paid for",
}
"""The meaning of each bucket, for new readers."""


def quality(facts: Facts) -> Section:
    """One line of data quality, and a fix for each gap."""
    q = facts.quality
    parts = []
    if q.unobserved_ratio is None:
        parts.append("no GPU time was held")
    else:
        parts.append(f"{report_text.percent(1 - Fraction(q.unobserved_ratio))} of the held GPU time was measured")
    if facts.team is None and q.unowned_ratio is not None:
        parts.append(f"{report_text.percent(1 - Fraction(q.unowned_ratio))} of it has a team")
    lacking = q.unpriced_gpu_seconds
    if lacking:
        parts.append(f"{report_text.hours(Fraction(lacking) / HOUR_S)} have no price")
    elif facts.total.gpu_seconds:
        parts.append("all of it has a price" if q.unobserved_ratio is not None else "all GPU time has a price")
    if facts.covered == facts.window:
        parts.append(f"the data covers the whole {facts.period_word}")
    else:
        parts.append(f"the data covers {report_text.days(facts.covered)}")
    fixes = _fixes(facts)
    line = f"{'; '.join(parts)}."
    blocks: list[Block] = [Text(line[0].upper() + line[1:])]
    if fixes:
        blocks.append(Notice("To complete the data", tuple(fixes)))
    return Section("Data quality", tuple(blocks), "quality")


def _fixes(facts: Facts) -> list[str]:
    q, fixes = facts.quality, []
    if q.unobserved_ratio is not None and q.unobserved_ratio > CERTAIN:
        fixes.append(
            f"{report_text.percent(q.unobserved_ratio)} of the held time is not measured and may be busy or idle: "
            f"{_nodes(facts)} must run dcgm-exporter and be scraped."
        )
    if facts.team == UNOWNED or (facts.team is None and (q.unowned_ratio or 0) > CERTAIN):
        part = f"{report_text.percent(q.unowned_ratio)} of the held time" if facts.team is None else "This time"
        fixes.append(f"{part} has no team: add the lines that gpuwatch doctor prints to teams.csv.")
    fixes += [_sentence(text) for text in q.missing_rates[:RATES_NAMED]]
    if len(q.missing_rates) > RATES_NAMED:
        fixes.append(f"{len(q.missing_rates) - RATES_NAMED} more rates are missing: gpuwatch doctor lists them.")
    if q.stale_hours:
        word = "hour has" if q.stale_hours == 1 else "hours have"
        fixes.append(
            f"{q.stale_hours} {word} data that is not analyzed yet: run gpuwatch analyze, then make the report again."
        )
    return fixes


def _nodes(facts: Facts) -> str:
    """The nodes with the most unmeasured time; without any that is known, the command that looks for them."""
    shown = [name(node) for node in facts.unmeasured[:NODES_NAMED]]
    rest = len(facts.unmeasured) - len(shown)
    if not shown:
        return "gpuwatch doctor names what lacks. The nodes"
    return f"{', '.join(shown)}{f' and {rest} more nodes' if rest > 1 else ' and one more node' if rest else ''}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else text


def how(facts: Facts) -> Section:
    """Formulas, versions and window, on the last page."""
    buckets = [b for b in BUCKET_WORDS if facts.team is None or b not in FREE_BUCKETS]
    rows = tuple(row([Cell(BUCKET_WORDS[b], swatch=b), MEANINGS[b]]) for b in buckets)
    meanings = Table((Column("", part=1), Column("", part=3)), rows, "meanings")
    blocks = (Terms(tuple(terms(facts).items())), Heading("What the buckets mean"), meanings)
    return Section("How this was computed", blocks, "how")


def terms(facts: Facts) -> dict[str, str]:
    """What the terms of the report mean, and the versions in force."""
    v = facts.versions
    ends = f"{rfc3339(facts.window.start_us)} to {rfc3339(facts.window.end_us)}"
    compared = (
        f"Not compared: the data does not cover the previous {facts.period_word}."
        if facts.compared is None
        else f"Compared with {rfc3339(facts.compared.start_us)} to {rfc3339(facts.compared.end_us)}."
    )
    return {
        "Window": f"{ends} (end excluded); {facts.period_word} {facts.week}; time zone UTC. {compared}",
        "Cost": "Every microsecond of every GPU has one owner and one bucket. Cost = GPU-seconds / 3600 \u00d7 the price of a "
        "GPU-hour in force for that GPU at that time. Amounts are rounded once, in the report, by largest remainder, so that "
        "rows add up to the total. Buckets show GPU time at its price: buckets + what a policy changes or passes on + "
        "corrections of closed periods = the total.",
        "GPU-seconds and slices": "A MIG slice counts as its share of the GPU: 7 seconds of a 1/7 slice are 1 GPU-second."
        + ("" if v.method is None else f" Share method: {v.method}."),
        "Who pays": _who_pays(facts),
        **_closed(facts),
        "Held idle while others waited": "GPUs held idle for a whole hour, counted for the part of that hour in which "
        "another team's request waited that they could have served: the same cluster, queue, GPU model and slice size, and "
        "no more devices than were idle. Requests that waited for another reason (held, dependent) do not count. This "
        "is a lower bound.",
        WORDS[
            "working"
        ]: f"{_words(WORKING)}: the SMs did work. Cost of a working GPU-hour = total cost / working GPU-hours.",
        WORDS[
            "avoidable"
        ]: f"Waste: {_words(b for b in AVOIDABLE if facts.team is None or b not in FREE_BUCKETS)}, and below-peak time that findings claim. No share is shown where less "
        "than half of the held time was measured.",
        "Roofline efficiency": f"({_words(AT_ROOF)}) / working time: a quality of the code, never waste and never priced.",
        "Findings": "A finding's waste is GPU-seconds that no other finding claims, at their own price. Findings are "
        "listed if they overlap the period.",
        **({} if facts.forecast is None and facts.budget is None else {"Forecast": FORECAST}),
        "Saving": "What open findings waste a month if their cause stays: the cost a day over the days that were measured, times 30.4375.",
        CERTAINTY[0]: CERTAINTY[1],
        "Severity": severity_scale(facts.currency),
        "Change": "This period against the same hours of the one before; less than half a percent shows as \u201csame\u201d.",
        "Versions": f"Rate card {_version(v.rates)}; ownership rules {_version(v.teams)}; policies "
        f"{_version(v.policies)}; exchange rates {_version(v.fx)}.",
        "Exact values": "The CSV, XLSX and Parquet files of this report have every number unrounded.",
    }


FORECAST = (
    "What was spent, and for each day that is left what such a day costs: by the days of the week, and by the level and trend of the last "
    "112 days at most. The last week times the days that are left may give another number. The range holds the end in four of five cases."
)


def severity_scale(currency: str | None) -> str:
    """`info: less than $10 a day; low: …`: what each severity means."""
    limits = [(name, report_text.plain(Decimal(int(limit)), 0, currency)) for limit, name in SEVERITIES]
    words = "; ".join(f"{name}: less than {limit}" for name, limit in limits)
    return (
        f"By the cost a day. {words}; high: {limits[-1][1]} or more. Detectors of failing hardware and of waits decide by what they found, "
        f"up to critical: jobs fail or are about to. Without a price: {UNPRICED_SEVERITY}."
    )


def _closed(facts: Facts) -> dict[str, str]:
    """Who closed the week, and the digest to verify it."""
    one = facts.closed
    if one is None:
        return {}
    signed = f" Signed by {', '.join(name(who) for who in one.signed)}." if one.signed else " Not signed yet."
    frozen = (
        "Charges are frozen; buckets, slices and findings come from current data."
        if one.whole
        else "It was closed by an earlier release that did not freeze jobs: charges come from current data too."
    )
    forced = "" if one.forced is None else f" It was forced: {one.forced}."
    content = "" if one.digest is None else f" Content: SHA-256 {one.digest}."
    details = f"{forced}{signed} {frozen}{content}"
    return {"Closed": f"On {report_text.moment(one.at_us)} UTC by {name(one.by)}.{details}"}


def _who_pays(facts: Facts) -> str:
    if not facts.versions.policies:
        return (
            "A team pays for the GPUs it holds, busy or not. The platform pays for unallocated GPU time at its price."
        )
    return (
        f"Policies version {facts.versions.policies} decide. Where charges differ from the cost of the held time, a table "
        "shows each difference."
    )


def _version(number: int) -> str:
    return f"version {number}" if number else "none"


def _words(buckets: Iterable[str]) -> str:
    wanted = set(buckets)
    return " + ".join(BUCKET_WORDS[bucket] for bucket in BUCKET_WORDS if bucket in wanted)
