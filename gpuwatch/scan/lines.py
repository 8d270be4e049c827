"""What a scan prints below its table: what to do first, and what was not judged. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from gpuwatch.audit.figures import hours_phrase
from gpuwatch.core.clock import DAY_US, HOUR_US, Window, rfc3339
from gpuwatch.core.words import joined
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.quality.dumps import MISSING
from gpuwatch.report.facts import UNOWNED
from gpuwatch.report.text import GAP, percent

FIRST = 3
"""Actions whose remedy is printed; the page has those of all."""
UNNAMED_SHARE = Fraction(1, 10)
"""Of the held GPU time: for less without a team, nobody needs to do anything."""
NO_TEAM = "No team is named"
UNMEASURED, UNGRADED, UNPRICED = "held GPU-hours were not measured", "Not graded: ", "GPU-hours have no rate"
NO_JOBS, COUNTED_LATE = "No job of these days", "counted only from the first sample or job on"
LATE_SHARE = Fraction(1, 100)
"""Of the GPU time that counts: less before the first samples of nodes is not named."""
MODELS_NAMED = 5
JUDGED_SHOWN = 2
"""Things that were not judged and are named."""

Json = Mapping[str, Any]


def prices_line(listed: str, rates: object = None) -> str:
    """The prices of a scan, in a sentence: list prices and where they are from, or the file of the fleet's own."""
    if listed:
        return f"Priced at list prices ({listed}); --rates FILE takes yours."
    return f"Priced at your rates{'' if rates is None else f' ({rates})'}."


def about(card: Json, headline: str, source: str, prices: str, commands: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """What a terminal shows around the table, as data: a program that reads the scan has the same notes and next commands."""
    return {
        "window": card["window"],
        "headline": headline,
        "source": source,
        "prices": prices,
        "waste": card["waste"],
        "teams": card["teams"],
        "notes": [MISSING] if card["only_dumps"] else [],
        "next": [{"purpose": purpose, "command": line} for purpose, line in commands],
    }


def action_lines(actions: Sequence[Json]) -> list[str]:
    """`Actions 1 and 2: Look at the log …`: the remedies of the first actions, each once."""
    ranks: dict[str, list[str]] = {}
    for one in actions[:FIRST]:
        if one["remedy"]:
            ranks.setdefault(one["remedy"], []).append(str(one["rank"]))
    return [f"{_ranked(ranked)}: {remedy}" for remedy, ranked in ranks.items()]


def with_data(lines: Sequence[str], option: str) -> list[str]:
    """The lines with an option that names the data added to each `gpuwatch …` command in them, to be pasted."""
    return [re.sub(r"`(gpuwatch [^`]+)`", lambda found: f"`{found[1]}{option}`", line) for line in lines]


def _ranked(ranks: Sequence[str]) -> str:
    return f"Action{'s' if len(ranks) > 1 else ''} {joined(ranks)}"


def no_team(teams: Sequence[Json]) -> list[dict[str, str]]:
    """Why a scan names no team for GPUs that were held, with the fix; empty where it names one for most of that time."""
    hours = {one["team"]: Fraction(one["gpu_hours"]) for one in teams if one["team"] != PLATFORM}
    lacking, held = hours.get(UNOWNED, Fraction(0)), sum(hours.values(), Fraction(0))
    if not hours:
        what = f"{NO_TEAM}: no record and no label of the samples shows a job that held a GPU."
    elif lacking == held:
        what = f"{NO_TEAM}: none of the held GPU time has a Slurm account or a Kubernetes namespace."
    elif lacking >= UNNAMED_SHARE * held:
        part = percent(lacking / held)
        what = f"{NO_TEAM} for {part} of the held GPU time: its jobs have no Slurm account and no Kubernetes namespace."
    else:
        return []
    fix = (
        "Scrape kube-state-metrics with the same Prometheus, let dcgm-exporter add job labels, or scan a --bundle with the output of "
        "sacct or kubectl."
    )
    return [{"layer": "", "what": what, "fix": fix}]


def no_jobs(earlier: int, last_us: int | None, first_us: int | None, window: Window) -> list[dict[str, str]]:
    """That all jobs of the records ended before the window: then the newest metrics are later than the dumps. `earlier`: how many
    jobs; the first began and the last ended at these times.
    """
    if not earlier or last_us is None or first_us is None:
        return []
    days = -(-(window.end_us - first_us) // DAY_US)
    ended = "the only job of the records ended" if earlier == 1 else f"the {earlier:,} jobs of the records ended"
    what = f"{NO_JOBS} is known: {ended} by {rfc3339(last_us)}, before these days began. So all GPUs look free."
    fix = f"The metrics are newer than the dumps of jobs: dump the jobs again, or scan with --days {days}."
    return [{"layer": "", "what": what, "fix": fix}]


def counted_late(nodes: int, last_us: int | None, left_out_us: int, capacity_us: int) -> list[dict[str, str]]:
    """That the GPUs of some nodes count only from their first sample or job on; empty where the time before is small beside
    `capacity_us`, all GPU-microseconds that count.
    """
    if last_us is None or left_out_us < LATE_SHARE * capacity_us:
        return []
    left_out = hours_phrase(Fraction(left_out_us, HOUR_US))
    are = "node is" if nodes == 1 else "nodes are"
    what = (
        f"{nodes} {are} {COUNTED_LATE} (the last at {rfc3339(last_us)}): the {left_out} GPU-hours that the scheduler "
        "lists before that are not in the cost."
    )
    fix = "They were free, if the GPUs were there: import the metrics of those days, or read the cost as of measured days only."
    return [{"layer": "", "what": what, "fix": fix}]


def with_models(unknown: Sequence[dict[str, str]], models: Sequence[str]) -> list[dict[str, str]]:
    """What is not known, with the models that have no price where GPU-hours have none."""
    if not models:
        return list(unknown)
    more = f" No line of the prices is for {joined(models[:MODELS_NAMED])}."
    return [one | {"what": one["what"] + more} if UNPRICED in one["what"] else one for one in unknown]


def unknown_lines(unknown: Sequence[Json]) -> list[str]:
    """Why no job or team is named, and what was not measured or has no price, with the fix; then what was not judged, in one line:
    the page has the fixes.
    """
    first = [
        one
        for one in unknown
        if one["what"].startswith((NO_JOBS, NO_TEAM))
        or any(words in one["what"] for words in (UNMEASURED, UNPRICED, COUNTED_LATE))
    ]
    reasons = [f"{one['what']} {one['fix']}".replace(GAP, " ") for one in first]
    graded = any(UNMEASURED in one["what"] for one in first)
    whats = [one["what"] for one in unknown if one not in first]
    whats = [what.removeprefix(UNGRADED) for what in whats if not (graded and what.startswith(UNGRADED))]
    listed = list(dict.fromkeys(what.split(": ")[0].rstrip(".") for what in whats))
    if not listed:
        return reasons
    more = len(listed) - JUDGED_SHOWN
    shown = ", ".join(f"“{what}”" for what in listed[:JUDGED_SHOWN])
    end = f" and {more} more" if more > 0 else ""
    return [*reasons, f"Not judged: {shown}{end}. The page has the fix of each."]
