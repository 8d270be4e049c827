"""What RESULTS.md says of the service: its targets, and what stands behind them."""

from __future__ import annotations

from typing import Any

from bench import live, push
from bench import serve as served
from bench.reports.tables import short, table, target
from bench.stages import MONTH_DAYS, MONTH_STEP_S

Facts = dict[str, Any]
PROGRAMS = (("gpuwatch", "gpuwatch"), ("Prometheus", "prometheus"), ("VictoriaMetrics", "victoria"))


def targets(facts: Facts) -> list[tuple[str, ...]]:
    """Lines of the table of targets."""
    scraped, ack, pages = facts["scraping"]["gpuwatch"], facts["ack"], facts["serve"]["pages"] or {}
    lists = list(facts["serve"]["api"].values())
    answered = all(query["status"] == 200 for query in lists)
    slowest = max(query["p95_ms"] for query in lists) if answered else None
    refused = sum(ack["refused"].values())
    endpoints = f"{facts['scraping']['endpoints']:,} exporters every {live.INTERVAL_S} s"
    return [
        target(
            "remote-write to the disk, one core",
            200_000,
            facts["durable"]["gpuwatch"]["samples_a_s"],
            "samples/s",
            True,
        ),
        target(f"{endpoints}: beats missed", 0, scraped["missed_beats"], f"in {scraped['seconds'] / 60:.0f} minutes"),
        target(f"{endpoints}: processor", 0.6, scraped["cores"], "cores"),
        target(f"{endpoints}: largest memory", 700, scraped["peak_rss_mb"], "MB"),
        target(f"remote-write ack while a week is analysed, p99 ({refused} refused)", 500, ack["p99_ms"], "ms"),
        target("samples of an idle node to the message", 120, facts["alert"]["seconds"], "s"),
        target(
            f"API, slowest list's p95 over {MONTH_DAYS} days of {facts['month']['gpus']:,} GPUs", 100, slowest, "ms"
        ),
        target("first page with numbers, empty browser cache", 1.2, pages.get("empty_cache_s"), "s"),
    ]


def sections(facts: Facts) -> list[str]:
    """Remote-write, scraping, ack, alert, API and pages."""
    return [*_pushed(facts), *_scraped(facts["scraping"]), *_at_work(facts), *_asked(facts)]


def _pushed(facts: Facts) -> list[str]:
    durable, reading = facts["durable"], facts["reading"]
    ours = durable["gpuwatch"]
    rows = []
    for name, key in PROGRAMS:
        if key not in durable:
            rows.append((name, "not installed", "", "", "", ""))
            continue
        each = durable[key]
        rows.append(
            (
                name,
                f"{each['samples_a_s']:,.0f}",
                f"{each['cpu_s_a_million']:.2f}",
                f"{each['cpu_s_a_million'] / ours['cpu_s_a_million']:.2f}",
                f"{each['ack_p50_ms']:.0f}",
                f"{each['peak_rss_mb']:.0f}",
            )
        )
    refused = ", ".join(f"{name} {sum(durable[key]['refused'].values())}" for name, key in PROGRAMS if key in durable)
    written, scrape = reading["remote_write"], reading["scrape"]
    return [
        "## Remote-write to the disk, one core",
        "",
        *table(
            ("system", "samples/s", "processor s a million", "against gpuwatch", "ack p50, ms", "largest memory, MB"),
            rows,
        ),
        "",
        (
            f"The same {durable['samples']:,} samples in the same requests of {durable['samples_a_request']:,} over "
            f"{durable['connections']} connections, each waiting for its answer, to a server that has one core; the sender "
            "has another. Series are known from one request a connection before. gpuwatch answers when the rows are "
            "committed, several requests to a commit; Prometheus when they are in its log, unsynced; VictoriaMetrics when "
            "they are in memory. "
            f"Refused: {refused}. "
            f"Inside one process, requests of 2,000: decoding {written['decode_samples_per_s_2000']:,.0f} samples a second of "
            f"processor time, decoding and committing {written['durable_samples_per_processor_s_2000']:,.0f}. "
            f"Scraping without writing: {scrape['processor_ms_per_scrape']:.2f} ms of processor time a scrape of 200 samples."
        ),
        "",
    ]


def _scraped(scraping: Facts) -> list[str]:
    rows = []
    for name, key in PROGRAMS:
        if key not in scraping:
            rows.append((name, "not installed", "", "", "", "", ""))
            continue
        each = scraping[key]
        rows.append(
            (
                name,
                f"{each['seconds']:.0f}",
                f"{each['scrapes']:,}",
                f"{each['missed_beats']}",
                f"{each['gap_deviation_s'] * 1000:.0f}",
                f"{each['cores']:.3f}",
                f"{each['peak_rss_mb']:.0f}",
            )
        )
    commits = scraping["commits"]
    return [
        f"## Scraping {scraping['endpoints']:,} exporters every {scraping['interval_s']} s",
        "",
        *table(
            (
                "system",
                "seconds",
                "scrapes",
                "beats missed",
                "deviation of the beat, ms",
                "cores",
                "largest memory, MB",
            ),
            rows,
        ),
        "",
        (
            "200 samples a scrape, all programs on the same machine in turn, the exporters beside them. gpuwatch's figures "
            f"include its analysis every minute, the last in {commits['analysis_s']:.1f} s: {commits['rows']:,.0f} rows in "
            f"{commits['commits']:,.0f} commits of {commits['mean_ms']:.0f} ms on average, "
            f"{commits['within_500_ms'] * 100:.1f} % within 500 ms."
        ),
        "",
    ]


def _at_work(facts: Facts) -> list[str]:
    ack, alert = facts["ack"], facts["alert"]
    heard = "nothing came" if alert["seconds"] is None else f"the message came after {alert['seconds']:.0f} s"
    return [
        "## Remote-write while the books are made",
        "",
        *table(
            (
                "requests",
                "samples/s",
                "p50, ms",
                "p95, ms",
                "p99, ms",
                "max, ms",
                "refused",
                "cores",
                "largest memory, MB",
            ),
            [
                (
                    f"{ack['requests']:,}",
                    f"{ack['samples_a_s']:,.0f}",
                    *(f"{ack[f'{share}_ms']:.0f}" for share in ("p50", "p95", "p99", "max")),
                    str(sum(ack["refused"].values())),
                    f"{ack['cores']:.2f}",
                    f"{ack['peak_rss_mb']:.0f}",
                )
            ],
        ),
        "",
        (
            f"{push.PACE_NODES:,} nodes' 200 samples every {push.STEP_MS // 1000} s in requests of {push.PACE_BODY}, at even "
            f"distances for {ack['seconds']:.0f} s, while the service analyses a week of "
            f"{facts['write1000']['gpus']:,} GPUs at 30 s that it never saw ({ack['analysis_s']:.0f} s). "
            f"In the first {push.STEP_MS // 1000} s every series is new to it: those acks, the slowest "
            f"{ack['first_round_max_ms']:.0f} ms, are not in the figures. "
            f"From samples to Slack: {push.ALERT_MINUTES} minutes of a node that a pod holds and nothing uses, pushed just "
            f"after a pass of the analysis, default settings; {heard}."
        ),
        "",
    ]


def _asked(facts: Facts) -> list[str]:
    month, found = facts["month"], facts["serve"]
    pages = found["pages"]
    shown = (
        "Chromium is not installed."
        if pages is None
        else f"Overview showed no number: {pages['error']}."
        if "error" in pages
        else f"Overview in Chromium, from the address to the first number: {pages['first_s']:.2f} s for the first visitor, "
        f"{pages['empty_cache_s']:.2f} s with an empty cache, {pages['full_cache_s']:.2f} s with a full one (medians of "
        f"{served.PAGES})."
    )
    return [
        f"## API and pages over {MONTH_DAYS} days of {month['gpus']:,} GPUs",
        "",
        *table(
            ("question", "items", "KB", "first, ms", "p50, ms", "p95, ms", "processor, ms"),
            [
                (
                    name if query["status"] == 200 else f"{name}: answered {query['status']}",
                    str(query["items"]),
                    f"{query['bytes'] / 1000:.1f}",
                    f"{query['first_ms']:.0f}",
                    f"{query['p50_ms']:.1f}",
                    f"{query['p95_ms']:.1f}",
                    f"{query['cpu_ms']:.0f}",
                )
                for name, query in found["api"].items()
            ],
        ),
        "",
        (
            f"{served.REQUESTS} requests each over one connection. The month is sampled every {MONTH_STEP_S} s "
            f"({month['rows']:,} wide rows), which leaves as many hours, charges and jobs ({month['jobs']:,}) as any interval; "
            f"{month['findings']:,} findings; raw samples of the last 14 days are kept. Analysed in {month['analyze_s']:.0f} s; "
            f"the first pass of the service took {short(found['first_pass_s'])} s; largest memory {found['peak_rss_mb']:.0f} MB. "
            f"{shown}"
        ),
        "",
    ]
