"""The service at work beside Prometheus and VictoriaMetrics: the same exporters scraped on the same beat, in turn.

`python -m bench.live [ENDPOINTS [SECONDS]]` prints the figures as JSON.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path

from bench import programs

ENDPOINTS, SECONDS, PEER_SECONDS = 1000, 600, 60
"""The peers' figures settle soon; ours must show ten passes of the analysis."""
INTERVAL_S = 15
EXPORTERS_PORT = 19500

Facts = dict[str, object]


def measure(directory: Path, endpoints: int, seconds: float, peer_seconds: float) -> Facts:
    """Scrapes the same endpoints with each program in turn."""
    facts: Facts = {"endpoints": endpoints, "interval_s": INTERVAL_S}
    runs: dict[str, Callable[[], AbstractContextManager[programs.Process]]] = {
        "gpuwatch": lambda: programs.gpuwatch(directory / "gpuwatch", _targets(endpoints)),
        "prometheus": lambda: programs.prometheus(directory / "prometheus", _scrape_config(endpoints)),
        "victoria": lambda: programs.victoria(directory / "victoria", _scrape_config(endpoints)),
    }
    for name, start in runs.items():
        if name != "gpuwatch" and not programs.installed(name):
            continue
        with _exporters(endpoints), start() as process:
            time.sleep(2 * INTERVAL_S)  # the first round opens every connection
            before, began = programs.cpu_s(process.pid), time.time()
            time.sleep(seconds if name == "gpuwatch" else peer_seconds)
            used = programs.cpu_s(process.pid) - before
            elapsed = time.time() - began
            facts[name] = {
                "seconds": elapsed,
                "cores": used / elapsed,
                "peak_rss_mb": programs.peak_mb(process.pid),
                **_beats(began, elapsed),
            }
            if name == "gpuwatch":
                facts["commits"] = _commits()
    return facts


def _beats(began: float, elapsed: float) -> Facts:
    """Beats that were missed, and how far from 15 s the scrapes of an endpoint lay apart."""
    scrapes = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{EXPORTERS_PORT}/scrapes", timeout=60).read())
    within = [[t for t in times if began <= t < began + elapsed] for times in scrapes]
    gaps = [b - a for times in within for a, b in pairwise(times)]
    missed = sum(round(gap / INTERVAL_S) - 1 for gap in gaps if gap > 1.5 * INTERVAL_S)
    least = int(elapsed // INTERVAL_S)
    return {
        "scrapes": sum(map(len, within)),
        "missed_beats": missed + sum(max(0, least - len(times) - 1) for times in within),
        "largest_gap_s": max(gaps, default=None),
        "gap_deviation_s": statistics.pstdev(gaps) if len(gaps) > 1 else None,
    }


def _commits() -> Facts:
    """The service's own figures: commits, their mean time, rows, the last analysis."""
    values = programs.own_metrics()
    count, total = values["gpuwatch_commit_seconds_count"], values["gpuwatch_commit_seconds_sum"]
    return {
        "commits": count,
        "mean_ms": total / count * 1000,
        "within_500_ms": values['gpuwatch_commit_seconds_bucket{le="0.5"}'] / count,
        "rows": values["gpuwatch_committed_rows_total"],
        "analysis_s": values["gpuwatch_analysis_seconds"],
    }


@contextmanager
def _exporters(count: int) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.exporters", str(EXPORTERS_PORT), str(count)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        programs.end(process)


def _targets(endpoints: int) -> str:
    targets = ", ".join(f'"http://127.0.0.1:{EXPORTERS_PORT}/{n}/metrics"' for n in range(endpoints))
    return f'[[dcgm]]\ncluster = "bench"\ninterval_s = {INTERVAL_S}\ntargets = [{targets}]\n'


def _scrape_config(endpoints: int) -> str:
    """One job an endpoint path: both programs know a metrics path for each job only."""
    jobs = [
        f"- job_name: n{n}\n  metrics_path: /{n}/metrics\n  static_configs:\n  - targets: ['127.0.0.1:{EXPORTERS_PORT}']\n"
        for n in range(endpoints)
    ]
    return f"global:\n  scrape_interval: {INTERVAL_S}s\nscrape_configs:\n{''.join(jobs)}"


def main() -> None:
    """Prints the figures."""
    endpoints = int(sys.argv[1]) if len(sys.argv) > 1 else ENDPOINTS
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    with tempfile.TemporaryDirectory(prefix="gpuwatch-live-") as folder:
        print(json.dumps(measure(Path(folder), endpoints, seconds, min(seconds, PEER_SECONDS)), indent=1))


if __name__ == "__main__":
    main()
