"""What RESULTS.md says of single sources: protocols beside their peers, history, scheduler events."""

from __future__ import annotations

from typing import Any

from bench.reports.tables import short, table, target

Facts = dict[str, Any]
PROTOCOLS = (("text, scraped", "text"), ("remote-write 1.0", "1"), ("remote-write 2.0", "2"), ("OTLP", "otlp"))
PROGRAMS = (("gpuwatch", "gpuwatch"), ("VictoriaMetrics", "victoria"), ("Prometheus", "prometheus"))


def targets(facts: Facts) -> list[tuple[str, ...]]:
    """Lines of the table of targets."""
    costs, events, history = facts["protocol_costs"], facts["scheduler_events"], facts.get("history")
    lines = [
        target(f"{name}: processor time beside VictoriaMetrics'", 2, costs.get(f"ratio_{key}"), "times")
        for name, key in PROTOCOLS
    ]
    lines += [
        target("scheduler events of 10,000 pods replayed", 5_000, events["events_per_s"], "events/s", True),
        target("largest memory of it", 1_000, events["rss_mb"], "MB"),
    ]
    if history is not None:
        lines += [
            target("backfill from VictoriaMetrics", 300_000, history["samples_a_s"], "samples/s", True),
            target("largest memory of it", 1_000, history["backfill_rss_mb"], "MB"),
        ]
    return lines


def sections(facts: Facts) -> list[str]:
    """Protocols, history, events."""
    costs, events, history = facts["protocol_costs"], facts["scheduler_events"], facts.get("history")
    rows = []
    for name, key in PROTOCOLS:
        cells = [costs.get(f"{program}_{key}") for _, program in PROGRAMS]
        rows.append((name, *(short(cell["cpu_s_a_million"]) if cell else "-" for cell in cells)))
    lines = [
        "## Every source",
        "",
        "Processor seconds a million samples, the same samples to each program in the same run:",
        "",
        *table(("protocol", *(name for name, _ in PROGRAMS)), rows),
        "",
        "What a program does not take is a dash; OTLP and remote-write 2.0 are set beside VictoriaMetrics' remote-write 1.0.",
        "",
        (
            f"Scheduler events: {events['events']:,} watch events of {events['pods']:,} pods and {events['jobs']:,} jobs from an "
            f"HTTP server through the live source to the disk in {events['seconds']:.1f} s."
        ),
    ]
    if history is not None:
        lines += [
            "",
            (
                f"Backfill: {history['hours']} hours of {history['gpus']:,} GPUs every 30 s, {history['samples']:,} samples, in "
                f"{history['backfill_s']:.0f} s to sealed rows: {history['cpu_s']:.0f} s of our processor time, "
                f"{history['server_cpu_s']:.0f} s of the server's."
            ),
        ]
    return [*lines, ""]
