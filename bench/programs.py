"""Programs under measurement: started, waited for, read in /proc, ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

READY_S = 60
END_S = 60
TICKS = os.sysconf("SC_CLK_TCK")
GPUWATCH, PROMETHEUS, VICTORIA = 19501, 19502, 19503
"""Ports."""

Process = subprocess.Popen[bytes]


@contextmanager
def gpuwatch(
    directory: Path, config: str, *, data: Path | None = None, now_us: int | None = None, cpu: int | None = None
) -> Iterator[Process]:
    """`gpuwatch serve` with a settings file of that content; with `now_us` its clock starts there."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "gpuwatch.toml"
    file.write_text(config)
    store, port = str(data or directory / "data"), str(GPUWATCH)
    command = [sys.executable, "-m", "gpuwatch", "serve", "--config", str(file), "--data", store, "--port", port]
    if now_us is not None:
        lag_us = time.time_ns() // 1000 - now_us
        command = [sys.executable, "-m", "bench.clocked", str(lag_us), str(file), store, port]
    with program(command, directory, f"http://127.0.0.1:{GPUWATCH}/readyz", cpu) as process:
        yield process


@contextmanager
def prometheus(directory: Path, config: str, *options: str, cpu: int | None = None) -> Iterator[Process]:
    """Prometheus with a new store, or the blocks that lie in DIRECTORY/tsdb."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "prometheus.yml"
    file.write_text(config)
    command = ["prometheus", f"--config.file={file}", f"--storage.tsdb.path={directory / 'tsdb'}"]
    command += [f"--web.listen-address=127.0.0.1:{PROMETHEUS}", *options]
    with program(command, directory, f"http://127.0.0.1:{PROMETHEUS}/-/ready", cpu) as process:
        yield process


@contextmanager
def victoria(
    directory: Path, config: str = "", *, cpu: int | None = None, options: Sequence[str] = ("-retentionPeriod=1",)
) -> Iterator[Process]:
    """VictoriaMetrics with a new store; `config` tells it what to scrape."""
    directory.mkdir(parents=True)
    command = ["victoria-metrics", f"-storageDataPath={directory / 'data'}", *options]
    command += [f"-httpListenAddr=127.0.0.1:{VICTORIA}"]
    if config:
        file = directory / "scrape.yml"
        file.write_text(config)
        command.append(f"-promscrape.config={file}")
    with program(command, directory, f"http://127.0.0.1:{VICTORIA}/health", cpu) as process:
        yield process


def installed(name: str) -> bool:
    """Whether a peer is on this machine, by the name that the facts give it."""
    return shutil.which({"victoria": "victoria-metrics"}.get(name, name)) is not None


@contextmanager
def program(command: Sequence[str], directory: Path, ready_url: str, cpu: int | None = None) -> Iterator[Process]:
    """Runs a program, on one core only with `cpu`; its output goes to DIRECTORY/log.

    Raises RuntimeError with the end of its output when it is not ready within READY_S.
    """
    pinned = [] if cpu is None else ["taskset", "-c", str(cpu)]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([*pinned, *command], stdout=log, stderr=log)
    try:
        deadline = time.time() + READY_S
        while not _answers(ready_url):
            if time.time() > deadline or process.poll() is not None:
                raise RuntimeError((directory / "log").read_text("utf-8", "replace")[-2000:])
            time.sleep(0.1)
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """Asks a program to end; kills it when it does not."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def cpu_s(pid: int) -> float:
    """Processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_mb(pid: int) -> float:
    """The most memory that a process has held, MiB."""
    line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def own_metrics() -> dict[str, float]:
    """The service's own /metrics: value by series."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{GPUWATCH}/metrics", timeout=60).read().decode()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[:1] != "#"}


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).read()
    except OSError:
        return False
    return True
