"""How far the numbers of a report can be trusted, and how they were computed. Pure."""

from __future__ import annotations

from fractions import Fraction

from gpuwatch.core.clock import rfc3339
from gpuwatch.ledger.hours import FREE_BUCKETS
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.report import text as report_text
from gpuwatch.report.document import Block, Cell, Column, Heading, Notice, Section, Table, Terms, Text, row
from gpuwatch.report.facts import HOUR_S, UNOWNED, Facts
from gpuwatch.report.html.markup import name

RATES_NAMED = 8
"""Missing rates that a report names."""
CERTAIN = 0.01
"""A smaller part that is not measured or has no owner needs no fix."""

MEANINGS = {
    "compute": "the part of the time in which the busiest arithmetic pipe ran, against what it reaches in practice",
    "memory_roof": "work limited by memory bandwidth: memory traffic against what it reaches in practice",
    "below_roof": "kernels ran, but neither arithmetic nor memory was near its limit",
    "stalled": "the GPU counted as busy while its processors (SMs) did nothing",
    "communication": "waiting while the links to other GPUs were busy (estimated from link traffic)",
    "gap": "no kernel ran for less than the idle limit: host code, data loading, checkpoints",
    "hoarded": "held by a job and idle for at least the idle limit without a break",
    "unobserved": "held, but no valid reading: it is not counted as idle",
    "schedulable": "held by nobody, and a job could have had it",
    "stranded": "held by nobody, and no usual request fits what is left",
    "mig_remainder": "part of a partitioned GPU that no slice covers",
    "out_of_service": "drained, down or failed, and still owned",
}
"""What is in a bucket, for a reader who has not seen one before."""


def quality(facts: Facts) -> Section:
    """One line of data quality, and the fix of each thing that is missing."""
    q = facts.quality
    said = []
    if q.unobserved_ratio is None:
        said.append("no GPU time was held")
    else:
        said.append(f"{report_text.percent(1 - Fraction(q.unobserved_ratio))} of the held GPU time was measured")
    if facts.team is None and q.unowned_ratio is not None:
        said.append(f"{report_text.percent(1 - Fraction(q.unowned_ratio))} of it has a team")
    lacking = q.unpriced_gpu_seconds
    if lacking:
        said.append(f"{report_text.hours(Fraction(lacking) / HOUR_S)} have no price")
    elif facts.total.gpu_seconds:
        said.append("all of it has a price" if q.unobserved_ratio is not None else "all GPU time has a price")
    if facts.covered == facts.window:
        said.append("the books cover the whole week")
    else:
        said.append(f"the books cover {report_text.days(facts.covered)}")
    fixes = _fixes(facts)
    line = f"{'; '.join(said)}."
    blocks: list[Block] = [Text(line[0].upper() + line[1:])]
    if fixes:
        blocks.append(Notice("To make it whole", tuple(fixes)))
    return Section("Data quality", tuple(blocks), "quality")


def _fixes(facts: Facts) -> list[str]:
    q, fixes = facts.quality, []
    if q.unobserved_ratio is not None and q.unobserved_ratio > CERTAIN:
        fixes.append(
            f"{report_text.percent(q.unobserved_ratio)} of the held time is not measured and could be busy or idle: "
            "gpuwatch doctor, run by the platform team, names the nodes; dcgm-exporter must run there and be scraped."
        )
    if facts.team == UNOWNED or (facts.team is None and (q.unowned_ratio or 0) > CERTAIN):
        part = f"{report_text.percent(q.unowned_ratio)} of the held time" if facts.team is None else "This time"
        fixes.append(f"{part} has no team: add the lines that gpuwatch doctor prints to teams.csv.")
    fixes += [_sentence(text) for text in q.missing_rates[:RATES_NAMED]]
    if len(q.missing_rates) > RATES_NAMED:
        fixes.append(f"{len(q.missing_rates) - RATES_NAMED} more rates are missing: gpuwatch doctor names them.")
    if q.stale_hours:
        word = "hour has" if q.stale_hours == 1 else "hours have"
        fixes.append(
            f"{q.stale_hours} {word} data that is newer than the books: run gpuwatch analyze, then this again."
        )
    return fixes


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else text


def how(facts: Facts) -> Section:
    """The formulas, the versions and the window, on the last page."""
    buckets = [b for b in BUCKET_WORDS if facts.team is None or b not in FREE_BUCKETS]
    rows = tuple(row([Cell(BUCKET_WORDS[b], swatch=b), MEANINGS[b]]) for b in buckets)
    meanings = Table((Column("", part=1), Column("", part=3)), rows, "meanings")
    blocks = (Terms(tuple(terms(facts).items())), Heading("What the buckets hold"), meanings)
    return Section("How this was computed", blocks, "how")


def terms(facts: Facts) -> dict[str, str]:
    """What each word of the report means, and the versions that were in force."""
    v = facts.versions
    ends = f"{rfc3339(facts.window.start_us)} to {rfc3339(facts.window.end_us)}"
    compared = (
        "nothing, because the books do not cover the week before"
        if facts.compared is None
        else f"{rfc3339(facts.compared.start_us)} to {rfc3339(facts.compared.end_us)}"
    )
    return {
        "Window": f"{ends}, the end excluded; ISO week {facts.week}; time zone UTC. Compared with {compared}.",
        "Cost": "Every microsecond of every GPU has one owner and one bucket. Cost = GPU-seconds / 3600 \u00d7 the price of a "
        "GPU-hour in force at that time for that GPU. It is rounded once, here: rows get the cents by largest remainder, "
        "so that they add up to the total. Buckets are GPU time at its price: buckets + what a policy charges otherwise and "
        "passes on + corrections of closed periods = the total.",
        "GPU-seconds and slices": "A MIG slice counts as its share of the GPU: 7 s of a slice of 1/7 are 1 GPU-second."
        + ("" if v.method is None else f" Method of the share: {v.method}."),
        "Who pays": _who_pays(facts),
        **_closed(facts),
        "Held idle while others waited": "GPUs that were held idle through a whole hour, for the part of it in which a "
        "request of another team waited that asked for that cluster, queue, kind of GPU and slice, and for no more "
        "devices than were idle there. Requests that waited for something else (held, dependent) do not count. It is "
        "a lower bound.",
        "Productive": f"Productive GPU time = {BUCKET_WORDS['compute']} + {BUCKET_WORDS['memory_roof']}. Cost of a productive "
        "GPU-hour = everything paid / productive GPU-hours.",
        "Findings": "A finding's waste is GPU-seconds of the books that no other finding claims, at their own price. It is "
        "listed where its time touches the week.",
        "Change": "This week against the same hours one week earlier; less than half a percent is \u201csame\u201d.",
        "Versions": f"Rate card {_version(v.rates)}; ownership rules {_version(v.teams)}; policies "
        f"{_version(v.policies)}; exchange rates {_version(v.fx)}.",
        "Exact values": "The table files (CSV, XLSX, Parquet) beside this page have every number unrounded.",
    }


def _closed(facts: Facts) -> dict[str, str]:
    """Who closed the week, and what anybody can check it by."""
    one = facts.closed
    if one is None:
        return {}
    signed = f" Signed by {', '.join(name(who) for who in one.signed)}." if one.signed else " Nobody signed it yet."
    frozen = (
        "Charges are the frozen ones; buckets, slices and findings are of the books as they are now."
        if one.whole
        else "It was closed by an earlier release, which froze no jobs: this is told by the books as they are now."
    )
    forced = "" if one.forced is None else f" It was forced: {one.forced}."
    told = f"{forced}{signed} {frozen} Content: SHA-256 {one.digest}."
    return {"Closed": f"On {report_text.moment(one.at_us)} UTC by {name(one.by)}.{told}"}


def _who_pays(facts: Facts) -> str:
    if not facts.versions.policies:
        return (
            "Who held a GPU pays for it, busy or not. What nobody held is paid by the platform at the GPU's own price."
        )
    return (
        f"By the policies of version {facts.versions.policies}. Where charges differ from the cost of the time that was "
        "held, a table goes from one to the other line by line."
    )


def _version(number: int) -> str:
    return f"version {number}" if number else "none"
