"""What RESULTS.md says of the rules: one new hour, a back-test, and how time grows."""

from __future__ import annotations

from typing import Any

from bench.reports.tables import short, table, target

Facts = dict[str, Any]
APART = ("all", "before")
"""Figures of an hour that are no rule's."""


def targets(facts: Facts) -> list[tuple[str, ...]]:
    """Lines of the table of targets."""
    hour, tried = facts["analyzer_hour"], _tried(facts["analyzer_backtest"])
    small = facts["analyzer_small"]
    slowest = max(tried, key=lambda name: tried[name]["s"])
    return [
        target("processor time of a first pass over a day of one GPU", 2, small["first_cpu_s"], "s"),
        target("processor time of a pass without changes", 0.05, small["quiet_cpu_s"], "s"),
        target(f"all rules over one new hour of {hour['gpus']:,} GPUs", 10, hour["hour_s"], "s"),
        target("largest memory of it, its day's analysis included", 3_000, hour["rss_mb"], "MB"),
        target(f"a rule tried over 30 days, the slowest (`{slowest}`)", 10, tried[slowest]["s"], "s"),
        target("largest memory of that", 3_000, facts["analyzer_backtest"]["rss_mb"], "MB"),
    ]


def sections(facts: Facts) -> list[str]:
    """Seconds by rule, of back-tests, and by size."""
    hour, curve, tried = facts["analyzer_hour"], facts["analyzer_curve"], _tried(facts["analyzer_backtest"])
    rules = sorted(((n, s) for n, s in hour["rules_s"].items() if n not in APART), key=lambda row: -row[1])
    sizes = [(gpus, row) for gpus, row in curve.items() if gpus.isdigit()]
    spans = list(sizes[0][1])
    return [
        "## The rules",
        "",
        (
            f"A day of {hour['gpus']:,} GPUs, {hour['findings']:,} findings, analysed in {hour['day_analyze_s']:.0f} s; then the last hour and those "
            f"beside it are judged again as a new hour is: {hour['hour_s']:.2f} s, median of three. A synthetic fleet: readings at random levels."
        ),
        "",
        *table(("rule", "seconds of the hour"), [(name, short(s)) for name, s in rules]),
        "",
        *table(
            ("rule, tried over 30 days", "s", "findings"),
            [(name, short(row["s"]), f"{row['findings']:,}") for name, row in tried.items()],
        ),
        "",
        "Seconds of all rules by GPUs and hours judged:",
        "",
        *table(
            ("GPUs", *(f"{span} h" for span in spans)),
            [(f"{int(gpus):,}", *(short(row[span]) for span in spans)) for gpus, row in sizes],
        ),
        "",
    ]


def _tried(facts: Facts) -> dict[str, Facts]:
    return {name: row for name, row in facts.items() if isinstance(row, dict)}
