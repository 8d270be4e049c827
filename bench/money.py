"""Money of a month of 1,000 GPUs, a third of them cut into slices: questions, FOCUS, reports, and the same question asked of PromQL."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from bench import fleet, fleet_plan, money_fleet, money_peers, programs
from gpuwatch.analysis.pipeline import analyze
from gpuwatch.billing.chargeback import ANSWERED, chargeback, price_all
from gpuwatch.billing.records import Chargeback
from gpuwatch.commands.billing.focus import export
from gpuwatch.core.clock import DAY_US, Window
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.report.weekly import weekly
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store

DAYS, STEP_S = 30, 120
END_US = fleet_plan.START_US + DAYS * DAY_US
MONTH = Window(fleet_plan.START_US, END_US)
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
        replace_rates(state, [Rate(fleet.MODEL, "owned", Decimal("2.49"), 0)], "bench", "bench", END_US)
        rules = [TeamRule("account", team, team) for team in fleet.TEAMS]
        replace_team_rules(state, rules, "bench", "bench", END_US)
        start = time.perf_counter()
        report = analyze(store, state, Settings(), now_us=END_US)
        seconds = time.perf_counter() - start
    facts: Facts = {"gpus": gpus, "jobs": written.jobs, "rows": written.rows, "findings": report.findings}
    return facts | {"analyze_s": seconds}


def questions(directory: Path) -> Facts:
    """Milliseconds of chargeback over the month, a page of it, each time as if it had not been asked before."""
    with Store.open(directory / "data") as store, State.open(directory / "data") as state:
        price_all(store, state)

        def first(by: tuple[str, ...]) -> Chargeback:
            ANSWERED.forget()
            return chargeback(store, state, MONTH, by, limit=ROWS_MAX)

        return {name: latency(partial(first, by), RUNS) for name, by in QUESTIONS.items()}


def focus_month(directory: Path) -> Facts:
    """The month as FOCUS 1.2 CSV, as `gpuwatch chargeback --format focus --out FILE` writes it."""
    file = directory / "focus.csv"
    start, start_cpu = time.perf_counter(), time.process_time()
    export(MONTH, directory / "data", None, file, "1.2", "csv")
    facts: Facts = {"seconds": time.perf_counter() - start, "cpu_s": time.process_time() - start_cpu}
    with file.open("rb") as written:
        rows = sum(1 for _ in written) - 1
    return facts | {"rows": rows, "megabytes": file.stat().st_size / 1e6}


def report_set(directory: Path) -> Facts:
    """Every file of one week: the fleet's and each team's."""
    with Store.open(directory / "data") as store, State.open(directory / "data") as state:
        price_all(store, state)
        start, start_cpu = time.perf_counter(), time.process_time()
        files = weekly(store, state, WEEK, now_us=END_US)
        facts: Facts = {"seconds": time.perf_counter() - start, "cpu_s": time.process_time() - start_cpu}
    return facts | {"files": len(files), "megabytes": sum(len(file.content) for file in files) / 1e6}


def beside_promql(directory: Path) -> Facts:
    """GPU-hours by namespace of the month: ours, and both peers' over raw series and over an hourly rule."""
    if missing := [name for name in ("prometheus", "promtool", "victoria") if not programs.installed(name)]:
        return {"missing": missing}
    with Store.open(directory / "data") as store, State.open(directory / "data") as state:
        price_all(store, state)

        def first() -> dict[str, float]:
            ANSWERED.forget()
            return ours()

        def ours() -> dict[str, float]:
            rows = chargeback(store, state, MONTH, ("namespace",)).items
            return {str(c.group["namespace"]): float(c.gpu_seconds / 3600) for c in rows if c.kind == "allocated"}

        facts: Facts = {"first": latency(first, RUNS), "again": latency(ours, RUNS), "gpuwatch_hours": ours()}
        return facts | money_peers.measure(directory / "peers", store, DAYS, STEP_S, latency)


def latency(question: Callable[[], Any], runs: int, cpu_s: Callable[[], float] = time.process_time) -> dict[str, float]:
    """Milliseconds of `runs` runs after one that warms the caches, and the processor time of one by the clock `cpu_s`."""
    question()
    taken, start_cpu = [], cpu_s()
    for _ in range(runs):
        start = time.perf_counter()
        question()
        taken.append((time.perf_counter() - start) * 1000)
    cpu_ms = (cpu_s() - start_cpu) * 1000 / runs
    return {"p50_ms": statistics.median(taken), "p95_ms": statistics.quantiles(taken, n=20)[-1], "cpu_ms": cpu_ms}
