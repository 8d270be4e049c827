"""The analyzer: one new hour of a large fleet, a back-test of a month, and how time grows with GPUs and hours."""

from __future__ import annotations

import json
import resource
import time
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from bench import fleet, fleet_plan
from gpuwatch.analysis.pipeline import analyze, parameters
from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.core.model import LINK, NODE, PENDING, Records
from gpuwatch.findings import evaluate
from gpuwatch.findings.dry_run import dry_run
from gpuwatch.findings.effective_thresholds import sets
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.rules.rule import rules
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.connection import Connection
from gpuwatch.store.database import Store
from gpuwatch.topology import derive as topology_derive

Facts = dict[str, object]

STEP_S = 120
"""Seconds between samples: the tables that rules read have as many rows as with shorter steps."""
LEAF_NODES = 16
RUNS = 3


def surroundings(store: Store, gpus: int, end_us: int) -> None:
    """What schedulers and nodes say beside the samples: NVLink within nodes, leaf switches, node records, a queue."""
    nodes = [fleet.node_name(n) for n in range(-(-gpus // fleet_plan.GPUS_A_NODE))]
    links = [
        {"cluster": fleet.CLUSTER, "observed_us": fleet_plan.START_US, "node": node, "a": f"GPU{a}", "b": f"GPU{b}", "level": "NV18"}
        for node in nodes
        for a in range(fleet_plan.GPUS_A_NODE)
        for b in range(a + 1, fleet_plan.GPUS_A_NODE)
    ]  # fmt: skip
    links += [
        {"cluster": fleet.CLUSTER, "observed_us": fleet_plan.START_US, "node": None, "a": node, "b": f"leaf{n // LEAF_NODES}", "level": "SWITCH"}
        for n, node in enumerate(nodes)
    ]  # fmt: skip
    told = [
        {"cluster": fleet.CLUSTER, "scheduler": "slurm", "node": node, "observed_us": fleet_plan.START_US, "state": "up",
         "gpu_model": "h100", "devices": json.dumps({"": fleet_plan.GPUS_A_NODE}), "pool": "gpu"}
        for node in nodes
    ]  # fmt: skip
    waits = [
        {"cluster": fleet.CLUSTER, "scheduler": "slurm", "job_id": str(900_000 + n), "submit_us": end_us - (n % 48) * HOUR_US // 2,
         "evidence_us": end_us, "device_count": (8, 16, 64, 1)[n % 4], "gpu_type": "h100", "user_name": f"user{n % 40:02d}",
         "account": fleet.TEAMS[n % len(fleet.TEAMS)], "queue": "gpu", "reason": ("Resources", "Priority")[n % 2]}
        for n in range(200)
    ]  # fmt: skip
    for name, rows, schema in (("link", links, LINK), ("node", told, NODE), ("pending", waits, PENDING)):
        full = [dict.fromkeys(schema.names) | row for row in rows]
        with store.transaction():
            store.append(Records(name, pa.Table.from_pylist(full, schema=schema)))


def made(directory: Path, gpus: int) -> None:
    """Writes a day of a fleet, its surroundings and its price."""
    end_us = fleet_plan.START_US + DAY_US
    with Store.open(directory) as store, State.open(directory) as state:
        fleet.write(store, gpus=gpus, days=1, step_s=STEP_S)
        surroundings(store, gpus, end_us)
        replace_rates(state, [Rate(fleet.MODEL, "owned", Decimal("2.49"), 0)], "bench", "bench", end_us)


def judged(store: Store, state: State, since_us: int, until_us: int, now_us: int) -> dict[str, float]:
    """Seconds of each step of judging whole hours [since, until) anew, `all` among them."""
    steps: list[tuple[str, float]] = []

    def note(step: str, done: int, total: int) -> None:
        steps.append((step.split(": ", 1)[-1], time.perf_counter()))

    settings = Settings()
    start = time.perf_counter()
    failed = evaluate.evaluate(
        store,
        state,
        fleet.CLUSTER,
        settings,
        list(rules().values()),
        lambda rule: sets(store, fleet.CLUSTER, state, rule, parameters(rule, settings)),
        (since_us, until_us),
        now_us,
        note,
    )
    end = time.perf_counter()
    if failed:
        raise RuntimeError("; ".join(failed))
    ends = [at for _, at in steps[1:]] + [end]
    told = {name: round(until - at, 3) for (name, at), until in zip(steps, ends, strict=True)}
    return {"all": round(end - start, 3), "before": round(steps[0][1] - start, 3)} | told


def hour(directory: Path, gpus: int) -> Facts:
    """A day of a fleet is analysed; then its last hour is judged by every rule as a new hour is: medians of RUNS."""
    gpus = gpus or 10_000
    end_us = fleet_plan.START_US + DAY_US
    if not (directory / "data").exists():
        # Elsewhere: the memory that making it takes is not the analyzer's.
        maker = get_context("spawn").Process(target=made, args=(directory / "data", gpus))
        maker.start()
        maker.join()
        if maker.exitcode:
            raise RuntimeError("the fleet could not be made")
    with Store.open(directory / "data") as store, State.open(directory / "data") as state:
        start = time.perf_counter()
        report = analyze(store, state, Settings(), now_us=end_us)
        day_s = time.perf_counter() - start
        if report.failed_rules:
            raise RuntimeError("; ".join(report.failed_rules))
        topology_derive.derive(store, fleet.CLUSTER)
        runs = [judged(store, state, end_us - 2 * HOUR_US, end_us + HOUR_US, end_us) for _ in range(RUNS)]
        runs.sort(key=lambda run: run["all"])
        findings = store.sql("select count(*) from finding")[0][0]
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "gpus": gpus,
        "day_analyze_s": round(day_s, 1),
        "findings": findings,
        "hour_s": runs[RUNS // 2]["all"],
        "rules_s": runs[RUNS // 2],
        "rss_mb": rss // 1024,
    }


def small(directory: Path, _: int) -> Facts:
    """CPU seconds and statements of passes over one GPU: the first over a day, and one without changes."""
    statements: list[str] = []
    execute = Connection._execute

    def counting(self: Connection, text: str, parameters: object = None) -> Any:
        statements.append(text)
        return execute(self, text, parameters)

    facts: Facts = {}
    end_us = fleet_plan.START_US + DAY_US
    with Store.open(directory / "data") as store, State.open(directory / "data") as state:
        fleet.write(store, gpus=1, days=1)
        with patch.object(Connection, "_execute", counting):
            for name in ("first", "quiet"):
                statements.clear()
                start = time.process_time()
                analyze(store, state, Settings(), now_us=end_us)
                facts |= {f"{name}_cpu_s": time.process_time() - start, f"{name}_statements": len(statements)}
    return facts


def curve(directory: Path, _: int) -> Facts:
    """Seconds of judging the last 3, 6, 12 and 24 hours of fleets of several sizes."""
    told: Facts = {}
    for gpus in (1_250, 2_500, 5_000):
        end_us = fleet_plan.START_US + DAY_US
        where = directory / str(gpus)
        if not where.exists():
            made(where, gpus)
        with Store.open(where) as store, State.open(where) as state:
            analyze(store, state, Settings(), now_us=end_us)
            told[str(gpus)] = {
                hours: judged(store, state, end_us - hours * HOUR_US, end_us, end_us)["all"] for hours in (3, 6, 12, 24)
            }
    return told


def backtest(directory: Path, gpus: int) -> Facts:
    """Each rule tried over the month that `bench.stages month` made in DIRECTORY/data: seconds, and findings."""
    from bench.stages import MONTH_DAYS

    end_us = fleet_plan.START_US + MONTH_DAYS * DAY_US
    told: Facts = {"gpus": gpus}
    with Store.open(directory / "data") as store, State.open(directory / "data") as state:
        analyze(store, state, Settings(), now_us=end_us)
        for rule in rules().values():
            settings = Settings()
            start = time.perf_counter()
            thresholds = sets(store, fleet.CLUSTER, state, rule, parameters(rule, settings))
            found = dry_run(
                store, state, fleet.CLUSTER, settings, rule, thresholds, (fleet_plan.START_US, end_us), end_us
            )
            told[rule.id] = {"s": round(time.perf_counter() - start, 2), "findings": len(found.findings)}
    told["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return told
