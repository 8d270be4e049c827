"""Measures everything and writes RESULTS.md: `python -m bench`."""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import live, peers, programs
from bench.reports.results import FLEETS, Facts, report
from bench.stages import TEXT_GPUS

RESULTS = Path(__file__).parent / "RESULTS.md"
HELP_RUNS = 5
SERVICE = {
    "reading": "scrapes and requests to points",
    "durable": "remote-write to the disk",
    "ack": "remote-write while a week is analysed",
    "alert": "samples to a message",
    "month": "a month is written and analysed",
    "serve": "API and pages of a month",
    "scraping": "live scraping",
}
"""Stages of the service in their order: `serve` asks what `month` wrote."""
SOURCES = {
    "scheduler_events": "watch events of 10,000 pods",
    "protocol_costs": "the same samples by every protocol",
    "history": "backfill from VictoriaMetrics",
}
"""Stages of single sources."""
MONEY = {
    "money_fleet": "a month with slices is written and analysed",
    "money_questions": "chargeback of the month",
    "money_focus": "FOCUS of the month",
    "money_reports": "reports of a week",
    "money_peers": "the same question in PromQL",
}
"""Stages of money in their order: each asks what the first wrote."""
ANALYZER = {
    "analyzer_small": "passes over one GPU",
    "analyzer_hour": "all rules over one new hour of 10,000 GPUs",
    "analyzer_curve": "all rules over other sizes and spans",
}
"""Stages of the rules that need no store of another stage; the back-test reads what `month` wrote."""
CPU_INFO, MEMORY_INFO = Path("/proc/cpuinfo"), Path("/proc/meminfo")


def main() -> None:
    """Runs every stage in a process of its own; data lie in a temporary directory that is removed."""
    facts: Facts = {}
    with tempfile.TemporaryDirectory(prefix="gpuwatch-bench-") as folder:
        base = Path(folder)
        facts["help_s"] = _say("gpuwatch --help", _help_seconds)
        facts["parsing"] = _say("exposition parsing", lambda: _stage("parsing", base, 0))
        facts["text"] = _say("text to durable commit", lambda: _stage("text", base / "text", TEXT_GPUS))
        for gpus in FLEETS:
            for name in ("write", "analysis"):
                if name == "analysis" and gpus == FLEETS[-1]:
                    _copy(base / f"fleet{gpus}", base / "ack" / "data")
                work = partial(_stage, name, base / f"fleet{gpus}", gpus)
                facts[f"{name}{gpus}"] = _say(f"{gpus} GPUs: {name}", work)
        large = FLEETS[-1]
        facts["queries"] = _say("queries", lambda: _stage("queries", base / f"fleet{large}", large))
        shutil.rmtree(base / f"fleet{large}")
        for name, what in SERVICE.items():
            size = live.ENDPOINTS if name in ("scraping", "reading") else large
            place = base / {"serve": "month"}.get(name, name)
            facts[name] = _say(what, partial(_stage, name, place, size))
            if name == "serve":
                back = partial(_stage, "analyzer_backtest", place, size)
                facts["analyzer_backtest"] = _say("each rule tried over that month", back)
            if name != "month":
                shutil.rmtree(place, ignore_errors=True)
        for name, what in ANALYZER.items():
            facts[name] = _say(what, partial(_stage, name, base / name, 0))
            shutil.rmtree(base / name, ignore_errors=True)
        for name, what in SOURCES.items():
            if name == "history" and not programs.installed("victoria"):
                continue
            facts[name] = _say(what, partial(_stage, name, base / name, 0))
            shutil.rmtree(base / name, ignore_errors=True)
        for name, what in MONEY.items():
            facts[name] = _say(what, partial(_stage, name, base / "money", large))
        shutil.rmtree(base / "money", ignore_errors=True)
        if lacking := peers.missing():
            facts["peers"] = {"missing": lacking}
        else:
            facts["peers"] = _say("peers", lambda: peers.measure(base / "peers"))
    RESULTS.write_text(report(facts, _machine(), datetime.now(UTC).date().isoformat()))
    print(f"wrote {RESULTS.name}")


def _copy(store: Path, target: Path) -> None:
    """A store before its analysis, for a stage that serves it."""
    shutil.copytree(store, target)


def _say(what: str, work: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    found = work()
    print(f"{what}: {time.perf_counter() - start:.1f} s", flush=True)
    return found


def _stage(name: str, directory: Path, gpus: int) -> Facts:
    """Runs a stage in a fresh process, so that its largest memory is its own."""
    command = [sys.executable, "-m", "bench.stages", name, str(directory), str(gpus)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent)
    found: Facts = json.loads(done.stdout.splitlines()[-1])
    return found


def _help_seconds() -> float | None:
    """Median seconds of the command; None when it fails."""
    taken = []
    for _ in range(HELP_RUNS):
        start = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "gpuwatch", "--help"], check=False, capture_output=True)
        if done.returncode:
            return None
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def _machine() -> list[tuple[str, str]]:
    memory = int(MEMORY_INFO.read_text().split()[1]) if MEMORY_INFO.exists() else 0
    words = CPU_INFO.read_text().splitlines() if CPU_INFO.exists() else []
    models = [line.split(": ")[1] for line in words if line.startswith("model name") and ": " in line]
    return [
        ("processor", models[0] if models else platform.machine()),
        ("cores", str(len(os.sched_getaffinity(0)))),
        ("memory", f"{memory / 1e6:.0f} GB" if memory else "unknown"),
        ("load in the last 15 minutes", f"{os.getloadavg()[2]:.1f}"),
        ("Python", platform.python_version()),
        ("DuckDB", version("duckdb")),
        ("PyArrow", version("pyarrow")),
    ]


if __name__ == "__main__":
    main()
