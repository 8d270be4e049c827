"""Money of a month of 1,000 GPUs, a third of them cut into slices: questions, FOCUS, reports, and the same question asked of PromQL."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench import fleet, money_fleet, money_peers, programs
from gpuwatch import focus
from gpuwatch.analyze import analyze
from gpuwatch.clock import DAY_US, Window
from gpuwatch.cost import chargeback, price_all
from gpuwatch.rates import Rate
from gpuwatch.report.weekly import weekly
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store import Store
from gpuwatch.teams import TeamRule

DAYS, STEP_S = 30, 120
END_US = fleet.START_US + DAYS * DAY_US
MONTH = Window(fleet.START_US, END_US)
WEEK = "2026-W40"
"""A whole week of the month."""
RUNS = 20
ROWS_MAX = 1000
"""Rows of a page: the API's most."""
QUESTIONS = {
    "team": ("team",),
    "namespace": ("namespace",),
    "team, model": ("team", "gpu_model"),
    "slice": ("slice",),
    "slice, team": ("slice", "team"),
}

Facts = dict[str, object]


def build(directory: Path, gpus: int) -> Facts:
    """Writes and analyses the fleet."""
    with Store.open(directory / "data") as store, State.open(directory / "data") as state:
        written = money_fleet.write(store, gpus=gpus, days=DAYS, step_s=STEP_S)
        state.replace_rates([Rate(fleet.MODEL, "owned", Decimal("2.49"), 0)], "bench", "bench", END_US)
        rules = [TeamRule("account", team, team) for team in fleet.TEAMS]
        state.replace_team_rules(rules, "bench", "bench", END_US)
        start = time.perf_counter()
        report = analyze(store, state, Settings(), now_us=END_US)
        seconds = time.perf_counter() - start
    facts: Facts = {"gpus": gpus, "jobs": written.jobs, "rows": written.rows, "findings": report.findings}
    return facts | {"analyze_s": seconds}


def questions(directory: Path) -> Facts:
    """Milliseconds of chargeback over the month, a page of it."""
    with Store.open(directory / "data") as store, State.open(directory / "data") as state:
        price_all(store, state)
        return {
            name: latency(lambda by=by: chargeback(store, state, MONTH, by, limit=ROWS_MAX), RUNS)  # type: ignore[misc]
            for name, by in QUESTIONS.items()
        }


def focus_month(directory: Path) -> Facts:
    """The month as FOCUS 1.2 CSV, to a file."""
    with Store.open(directory / "data") as store, State.open(directory / "data") as state:
        price_all(store, state)
        start = time.perf_counter()
        with (directory / "focus.csv").open("wb") as file:
            done = focus.write(store, state, MONTH, file, version="1.2", form="csv")
        seconds = time.perf_counter() - start
    size = (directory / "focus.csv").stat().st_size
    return {"rows": done.rows, "seconds": seconds, "megabytes": size / 1e6}


def report_set(directory: Path) -> Facts:
    """Every file of one week: the fleet's and each team's."""
    with Store.open(directory / "data") as store, State.open(directory / "data") as state:
        price_all(store, state)
        start = time.perf_counter()
        files = weekly(store, state, WEEK, now_us=END_US)
        seconds = time.perf_counter() - start
    return {"files": len(files), "seconds": seconds, "megabytes": sum(len(file.content) for file in files) / 1e6}


def beside_promql(directory: Path) -> Facts:
    """GPU-hours by namespace of the month: ours, and both peers' over raw series and over an hourly rule."""
    if missing := [name for name in ("prometheus", "promtool", "victoria") if not programs.installed(name)]:
        return {"missing": missing}
    with Store.open(directory / "data") as store, State.open(directory / "data") as state:
        price_all(store, state)

        def ours() -> dict[str, float]:
            rows = chargeback(store, state, MONTH, ("namespace",)).items
            return {str(c.group["namespace"]): float(c.gpu_seconds / 3600) for c in rows if c.kind == "allocated"}

        facts: Facts = {"gpuwatch": latency(ours, RUNS), "gpuwatch_hours": ours()}
        return facts | money_peers.measure(directory / "peers", store, DAYS, STEP_S, latency)


def latency(question: Callable[[], Any], runs: int) -> dict[str, float]:
    """Milliseconds of `runs` runs after one that warms the caches."""
    question()
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        question()
        taken.append((time.perf_counter() - start) * 1000)
    return {"p50_ms": statistics.median(taken), "p95_ms": statistics.quantiles(taken, n=20)[-1]}
