"""RESULTS.md from the facts of one run."""

from __future__ import annotations

from typing import Any

from bench import peers
from bench.reports import analyzer, money, service, sources
from bench.reports.tables import table, target
from bench.stages import DAYS, QUERY_RUNS, TEXT_DAYS, TEXT_GPUS

FLEETS = (100, 1000)

Facts = dict[str, Any]


def report(facts: Facts, machine: list[tuple[str, str]], date: str) -> str:
    """RESULTS.md: targets and what was measured, steps, queries, peers."""
    small, large = (facts[f"analysis{gpus}"] for gpus in FLEETS)
    written, text, parsing = facts[f"write{FLEETS[-1]}"], facts["text"], facts["parsing"]
    slowest = max(
        row["p95_ms"] for name, row in facts["queries"].items() if isinstance(row, dict) and name != "findings"
    )
    growth = large["cpu_s"] / small["cpu_s"]
    lines = [
        "# Measurements",
        "",
        (
            f"Written by `make bench` on {date}. No time is asserted anywhere; a target that was missed is marked so. "
            "Parsing, start-up and queries are medians or percentiles of several runs; every other line is one run. Other "
            "work on the machine makes all of it slower: see its load."
        ),
        "",
        *table(("machine", ""), machine),
        "",
        *table(
            ("what", "target", "measured", "met"),
            [
                target(
                    "exposition text to points, one core", 700_000, parsing["points_samples_per_s"], "samples/s", True
                ),
                target("compressed text to durable commit", 500_000, text["samples_a_s"], "samples/s", True),
                target(f"`analyze`, {large['gpus']:,} GPUs, {DAYS} days, 30 s", 30, large["analyze_s"], "s"),
                target("largest memory of it", 3000, large["rss_mb"], "MB"),
                target(
                    f"processor time for {FLEETS[-1] // FLEETS[0]} times the GPUs",
                    FLEETS[-1] / FLEETS[0],
                    growth,
                    "times",
                ),
                target("weekly chargeback, slowest p95", 50, slowest, "ms"),
                target("`gpuwatch --help`", 0.5, facts["help_s"], "s"),
                target("sealed store, blocks in use", 1.5, written["used_bytes_a_sample"], "bytes a sample"),
                *service.targets(facts),
                *sources.targets(facts),
                *analyzer.targets(facts),
                *money.targets(facts),
            ],
        ),
        "",
        (
            f"A sample is one field value that is not NULL. The fleet: {written['rows']:,} wide rows, {written['samples']:,} "
            f"samples, {written['jobs']:,} Slurm jobs; ratios with 6 decimals, watts with 3, rates and energy as whole "
            "numbers, GPUs that nobody holds at exact zeros; 12 of the 22 fields carry noise in busy samples. "
            "The file on disk, with blocks that are free for the next day: "
            f"{written['file_bytes_a_sample']:.2f} bytes a sample. Sealing all of it took {written['seal_s']:.0f} s. "
            f"The text: {text['files']} gzip files of {TEXT_GPUS} simulated GPUs over {TEXT_DAYS} days, "
            f"{text['samples']:,} samples, read, committed, sealed and checkpointed in {text['import_s']:.1f} s "
            f"({text['cpu_s']:.1f} s of processor time); "
            f"{text['used_bytes_a_sample']:.2f} bytes a sample after it."
        ),
        "",
        "## Steps of analyze",
        "",
        *table(
            ("step", *(f"{gpus:,} GPUs, s" for gpus in FLEETS)),
            [
                (step, *(f"{facts[f'analysis{gpus}']['steps'].get(step, 0):.2f}" for gpus in FLEETS))
                for step in large["steps"]
            ]
            + [("processor time", f"{small['cpu_s']:.2f}", f"{large['cpu_s']:.2f}")]
            + [("largest memory, MB", f"{small['rss_mb']:.0f}", f"{large['rss_mb']:.0f}")],
        ),
        "",
        (
            f"The last `hours` step includes the check of the books. {large['findings']:,} findings; "
            f"{large['failed_rules']} rules failed."
        ),
        "",
        f"## Queries over the week of {FLEETS[-1]:,} GPUs",
        "",
        *table(
            ("query", "p50, ms", "p95, ms"),
            [
                (
                    name if name == "findings" else f"chargeback by {name}",
                    f"{row['p50_ms']:.1f}",
                    f"{row['p95_ms']:.1f}",
                )
                for name, row in facts["queries"].items()
                if isinstance(row, dict)
            ],
        ),
        "",
        f"{QUERY_RUNS} runs each after one that warms the caches.",
        "",
        "## Beside Prometheus and VictoriaMetrics",
        "",
        *_peers(facts["peers"]),
        "",
        *service.sections(facts),
        *sources.sections(facts),
        "",
        *analyzer.sections(facts),
        *money.sections(facts),
    ]
    return "\n".join(lines)


def _peers(facts: Facts) -> list[str]:
    if "missing" in facts:
        return [f"Skipped: not installed: {', '.join(facts['missing'])}."]
    ours = facts["gpuwatch"]
    rows = [
        (
            name,
            f"{facts[f'{key}_bytes']:.2f}",
            f"{facts[key]['p50_ms']:.1f}",
            f"{facts[key]['p95_ms']:.1f}",
            f"{facts[key]['p50_ms'] / ours['p50_ms']:.2f}",
        )
        for name, key in (("gpuwatch", "gpuwatch"), ("Prometheus", "prometheus"), ("VictoriaMetrics", "victoria"))
    ]
    rows.insert(1, ("its Parquet files (gpuwatch samples)", f"{facts['parquet_bytes']:.2f}", "", "", ""))
    answer = facts["prometheus_answer"]
    other = facts["victoria_answer"]
    return [
        (
            f"The same {facts['samples']:,} samples ({facts['gpus']} GPUs, {DAYS} days, {facts['jobs']} jobs: a "
            "small fleet, because promtool is slow), and the GPU-hours of the week by job: `gpuwatch.billing.chargeback.chargeback` by job in this "
            "process, with prices, rounding and the rows of what nobody held, against "
            f"`{peers.QUERY}` over HTTP on the same machine."
        ),
        "",
        *table(("system", "bytes a sample", "p50, ms", "p95, ms", "p50 / gpuwatch's"), rows),
        "",
        (
            f"Answers: gpuwatch {answer['gpuwatch_hours']:.3f} GPU-hours, Prometheus {answer['peer_hours']:.3f}, "
            f"VictoriaMetrics {other['peer_hours']:.3f}; the largest difference of one job is "
            f"{max(answer['largest_difference_hours'], other['largest_difference_hours']):.3f} GPU-hours: counting samples "
            "rounds a job to the scrape on each of its GPUs, the scheduler's times do not. "
            f"Jobs that only one of them knows: {max(answer['jobs_only_in_one'], other['jobs_only_in_one'])}. "
            f"Loading: promtool {facts['prometheus_load_s']:.0f} s, VictoriaMetrics {facts['victoria_load_s']:.0f} s. "
            "Bytes: gpuwatch's are blocks in use, with keys, contexts and claims, before analysis, in whole blocks, which "
            "weighs on a fleet this small; the Parquet files have the samples without labels; Prometheus's are the two-hour blocks "
            "that promtool writes, with their indexes, not "
            "yet compacted; VictoriaMetrics's are data and index after a forced merge. The peers count raw samples at every "
            "query (VictoriaMetrics with its result cache off); gpuwatch reads what its analysis derived before."
        ),
    ]
