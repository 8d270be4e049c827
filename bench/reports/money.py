"""What RESULTS.md says of money: questions over a month, FOCUS, reports, and PromQL beside them."""

from __future__ import annotations

from typing import Any

from bench.reports.tables import short, table, target

Facts = dict[str, Any]
FASTER_THAN_RAW = 10


def targets(facts: Facts) -> list[tuple[str, ...]]:
    """Lines of the table of targets."""
    asked, focus, reports = facts["money_questions"], facts["money_focus"], facts["money_reports"]
    lines = [
        target("chargeback of a month by team, p95", 150, asked["team"]["p95_ms"], "ms"),
        target("chargeback of a month by slice, p95", 500, asked["slice"]["p95_ms"], "ms"),
        target("FOCUS export of a month", 20, focus["seconds"], "s"),
        target("largest memory of it", 1_000, focus["rss_mb"], "MB"),
        target("report set of a week", 30, reports["seconds"], "s"),
    ]
    peers = facts["money_peers"]
    if "missing" not in peers:
        first, again = peers["first"]["p50_ms"], peers["again"]["p50_ms"]
        for name, peer in (("Prometheus", peers["prometheus"]), ("VictoriaMetrics", peers["victoria"])):
            raw, rule = peer["raw"]["p50_ms"] / first, again / peer["rule"]["p50_ms"]
            what = f"GPU-hours by namespace: faster than {name} over raw series"
            lines.append(target(what, FASTER_THAN_RAW, raw, "times", True))
            what = f"GPU-hours by namespace, asked again: slower than {name} over an hourly rule"
            lines.append(target(what, 1, rule, "times"))
    return lines


def sections(facts: Facts) -> list[str]:
    """Questions, exports, peers."""
    asked, focus, reports, fleet = (facts[f"money_{n}"] for n in ("questions", "focus", "reports", "fleet"))
    answers = [(name, short(found["p50_ms"]), short(found["p95_ms"])) for name, found in asked.items()]
    lines = [
        "## Money",
        "",
        (
            f"{fleet['gpus']:,} GPUs, a third of them cut into slices, 30 days: {fleet['jobs']:,} jobs, "
            f"{fleet['rows']:,} rows of samples."
        ),
        "",
        *table(("chargeback by", "p50 ms", "p95 ms"), answers),
        "",
        (
            f"FOCUS 1.2 of the month: {focus['rows']:,} rows, {focus['megabytes']:.0f} MB, {focus['seconds']:.1f} s, "
            f"{focus['rss_mb']:.0f} MB of memory. Reports of a week: {reports['files']} files in {reports['seconds']:.1f} s."
        ),
    ]
    peers = facts["money_peers"]
    if "missing" in peers:
        return [*lines, "", f"PromQL was not asked: {', '.join(peers['missing'])} not installed."]
    rows = [
        ("gpuwatch", f"the books, asked {how}", short(found["p50_ms"]), short(found["p95_ms"]))
        for how, found in (("for the first time", peers["first"]), ("again", peers["again"]))
    ]
    for name, key in (("Prometheus", "prometheus"), ("VictoriaMetrics", "victoria")):
        rows += [
            (name, what, short(peers[key][how]["p50_ms"]), short(peers[key][how]["p95_ms"]))
            for what, how in (("raw series", "raw"), ("an hourly rule", "rule"))
        ]
    ours = sum(peers["gpuwatch_hours"].values())
    theirs = {key: sum(peers[key]["raw_hours"].values()) for key in ("prometheus", "victoria")}
    return [
        *lines,
        "",
        f"GPU-hours of the month by namespace, {peers['series']:,} series, the same samples in each:",
        "",
        *table(("program", "over", "p50 ms", "p95 ms"), rows),
        "",
        (
            f"Sums: gpuwatch {ours:,.1f} GPU-hours, Prometheus {theirs['prometheus']:,.1f}, VictoriaMetrics "
            f"{theirs['victoria']:,.1f}: theirs count samples, ours the scheduler's times. What is asked again is told "
            "from memory while rolled days, prices, teams and policies are the same; PromQL's rule was reckoned before, too."
        ),
    ]
