"""The service at work beside Prometheus and VictoriaMetrics: the same exporters scraped on the same beat, in turn.

`python -m bench.live [ENDPOINTS [SECONDS]]` prints the figures as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ENDPOINTS, SECONDS = 1000, 600
INTERVAL_S = 15
EXPORTERS_PORT = 19500
GPUWATCH, PROMETHEUS, VICTORIA = 19501, 19502, 19503
READY_S = 60
TICKS = os.sysconf("SC_CLK_TCK")

Facts = dict[str, object]


def measure(directory: Path, endpoints: int, seconds: float) -> Facts:
    """Scrapes the same endpoints with each program in turn for `seconds`."""
    facts: Facts = {"endpoints": endpoints, "seconds": seconds, "interval_s": INTERVAL_S}
    for name, program in (("gpuwatch", _gpuwatch), ("prometheus", _prometheus), ("victoria", _victoria)):
        if name != "gpuwatch" and shutil.which(name if name == "prometheus" else "victoria-metrics") is None:
            facts[name] = None
            continue
        with _exporters(endpoints) as _, program(directory / name, endpoints) as process:
            time.sleep(2 * INTERVAL_S)  # the first round opens every connection
            before, began = _cpu_s(process.pid), time.time()
            time.sleep(seconds)
            used = _cpu_s(process.pid) - before
            elapsed = time.time() - began
            facts[name] = {"cores": used / elapsed, "peak_rss_mb": _peak_mb(process.pid), **_beats(began, elapsed)}
            if name == "gpuwatch":
                facts["commits"] = _commits()
    return facts


def _beats(began: float, elapsed: float) -> Facts:
    """Beats that were missed, and how far from 15 s the scrapes of an endpoint lay apart."""
    scrapes = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{EXPORTERS_PORT}/scrapes", timeout=60).read())
    within = [[t for t in times if began <= t < began + elapsed] for times in scrapes]
    gaps = [b - a for times in within for a, b in zip(times, times[1:], strict=False)]
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
    text = urllib.request.urlopen(f"http://127.0.0.1:{GPUWATCH}/metrics", timeout=60).read().decode()
    values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[:1] != "#"}
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
        _end(process)


@contextmanager
def _gpuwatch(directory: Path, endpoints: int) -> Iterator[subprocess.Popen[bytes]]:
    directory.mkdir(parents=True)
    targets = ", ".join(f'"http://127.0.0.1:{EXPORTERS_PORT}/{n}/metrics"' for n in range(endpoints))
    config = directory / "gpuwatch.toml"
    config.write_text(f'[[dcgm]]\ncluster = "bench"\ninterval_s = {INTERVAL_S}\ntargets = [{targets}]\n')
    command = ["serve", "--config", str(config), "--data", str(directory / "data"), "--port", str(GPUWATCH)]
    with _program([sys.executable, "-m", "gpuwatch", *command], directory, GPUWATCH, "/readyz") as process:
        yield process


@contextmanager
def _prometheus(directory: Path, endpoints: int) -> Iterator[subprocess.Popen[bytes]]:
    config = _scrape_config(directory, endpoints)
    options = [f"--config.file={config}", f"--storage.tsdb.path={directory / 'tsdb'}"]
    command = ["prometheus", *options, f"--web.listen-address=127.0.0.1:{PROMETHEUS}"]
    with _program(command, directory, PROMETHEUS, "/-/ready") as process:
        yield process


@contextmanager
def _victoria(directory: Path, endpoints: int) -> Iterator[subprocess.Popen[bytes]]:
    config = _scrape_config(directory, endpoints)
    options = [f"-promscrape.config={config}", f"-storageDataPath={directory / 'data'}", "-retentionPeriod=1"]
    command = ["victoria-metrics", *options, f"-httpListenAddr=127.0.0.1:{VICTORIA}"]
    with _program(command, directory, VICTORIA, "/health") as process:
        yield process


def _scrape_config(directory: Path, endpoints: int) -> Path:
    """One job an endpoint path: both programs know a metrics path for each job only."""
    directory.mkdir(parents=True)
    jobs = [
        f"- job_name: n{n}\n  metrics_path: /{n}/metrics\n  static_configs:\n  - targets: ['127.0.0.1:{EXPORTERS_PORT}']\n"
        for n in range(endpoints)
    ]
    config = directory / "scrape.yml"
    config.write_text(f"global:\n  scrape_interval: {INTERVAL_S}s\nscrape_configs:\n{''.join(jobs)}")
    return config


@contextmanager
def _program(command: list[str], directory: Path, port: int, ready: str) -> Iterator[subprocess.Popen[bytes]]:
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.time() + READY_S
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{ready}", timeout=5).read()
                break
            except OSError:
                if time.time() > deadline or process.poll() is not None:
                    raise RuntimeError((directory / "log").read_text("utf-8", "replace")[-2000:]) from None
                time.sleep(0.2)
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _peak_mb(pid: int) -> float:
    line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def main() -> None:
    """Prints the figures."""
    endpoints = int(sys.argv[1]) if len(sys.argv) > 1 else ENDPOINTS
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    with tempfile.TemporaryDirectory(prefix="gpuwatch-live-") as folder:
        print(json.dumps(measure(Path(folder), endpoints, seconds), indent=1))


if __name__ == "__main__":
    main()
