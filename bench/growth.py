"""A pass of one new hour after so many days of history: processor seconds, and the statements that take them."""

from __future__ import annotations

import pickle
import re
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench import fleet, fleet_plan
from bench.analyzer import surroundings
from gpuwatch.analysis.pipeline import analyze
from gpuwatch.core import sqlfile
from gpuwatch.core.clock import DAY_US, HOUR_US, SECOND_US
from gpuwatch.core.model import CONTEXT, Records, device_key
from gpuwatch.imports.files import seal_all
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.connection import Connection
from gpuwatch.store.database import Store

Facts = dict[str, object]

GPUS = 100
STEP_S = 300
"""Seconds between samples: allocations, hours and segments are as many as with shorter steps."""
NEW_HOURS = 3
"""Hours that arrive one by one after the history; the median of their passes is reported."""
SLOWEST = 25
SETTINGS = Settings(default_interval_s=STEP_S)


@dataclass
class Costs:
    """Processor seconds by file of SQL (or first words of a short query), while statements are observed."""

    by_name: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def folders(self) -> dict[str, float]:
        """Their sums by folder of SQL."""
        sums: dict[str, float] = defaultdict(float)
        for name, seconds in self.by_name.items():
            sums[name.split(":")[0].rsplit("/", 1)[0] if "/" in name.split(":")[0] else "other"] += seconds
        return {name: round(seconds, 3) for name, seconds in sorted(sums.items(), key=lambda row: -row[1])}

    def slowest(self) -> dict[str, float]:
        """The most expensive ones."""
        rows = sorted(self.by_name.items(), key=lambda row: -row[1])[:SLOWEST]
        return {name: round(seconds, 3) for name, seconds in rows}


def measure(directory: Path, days: int) -> Facts:
    """Writes and analyses `days` days of GPUS GPUs where DIRECTORY lacks them, then measures passes of new hours on a copy."""
    base, facts = directory / "base", Facts()
    if not (directory / "hours.pickle").exists():
        base.mkdir(parents=True)
        facts = _build(base, directory / "hours.pickle", days)
    hours = pickle.loads((directory / "hours.pickle").read_bytes())
    passes, costs = [], Costs()
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        copied = shutil.copytree(base, Path(folder) / "data")
        with Store.open(copied) as store, State.open(copied) as state:
            for number, batches in enumerate(hours, 1):
                with store.transaction():
                    for batch in batches:
                        store.append(batch)
                now_us = fleet_plan.START_US + days * DAY_US + number * HOUR_US
                with observed(costs if number == len(hours) else Costs()):
                    began = time.process_time()
                    analyze(store, state, SETTINGS, now_us=now_us)
                    passes.append(round(time.process_time() - began, 3))
            counts = {
                name: store.sql(f"select count(*) from {name}")[0][0]
                for name in ("claim", "segment", "context_span", "ledger_hour", "finding")
            }
    return facts | {
        "days": days,
        "pass_cpu_s": sorted(passes)[len(passes) // 2],
        "passes": passes,
        "rows": counts,
        "folders": costs.folders(),
        "slowest": costs.slowest(),
    }


def _build(base: Path, hours: Path, days: int) -> Facts:
    end_us = fleet_plan.START_US + days * DAY_US
    with Store.open(base) as store, State.open(base) as state:
        replace_rates(state, [Rate(fleet.MODEL, "owned", Decimal("2.49"), 0)], "bench", "bench", end_us)
        start = time.process_time()
        later = _history(store, days)
        written = time.process_time()
        analyze(store, state, SETTINGS, now_us=end_us)
        facts: Facts = {"write_cpu_s": written - start, "first_pass_cpu_s": time.process_time() - written}
    hours.write_bytes(pickle.dumps(later))
    return facts


def _history(store: Store, days: int) -> list[list[Records]]:
    """Appends the history; returns what each hour after it brings."""
    dice = np.random.default_rng(1)
    steps = (days + 1) * DAY_US // (STEP_S * SECOND_US)
    plan = fleet_plan.planned(dice, GPUS, steps, STEP_S)
    contexts = pa.Table.from_pylist(fleet.contexts_of(plan, GPUS), schema=CONTEXT)
    claims = fleet.claims_of(plan)
    devices = np.array([device_key(fleet.CLUSTER, fleet.uuid(gpu)) for gpu in range(GPUS)])
    context_of = np.array(contexts["context_id"].to_pylist())
    end_us = fleet_plan.START_US + days * DAY_US
    surroundings(store, GPUS, end_us)
    with store.transaction():
        store.append(Records("context", contexts))
        store.append(Records("claim", _known(claims, None, end_us)))
    rest: pa.Table | None = None
    for batch in fleet.samples(dice, plan, GPUS, steps, devices, context_of):
        old = batch.filter(pc.less(batch["observed_us"], end_us))
        if old.num_rows < batch.num_rows:
            rest = batch
        if old.num_rows:
            with store.transaction():
                store.append(Records("sample", old))
            seal_all(store)
    store.checkpoint()
    if rest is None:
        raise RuntimeError("no samples after the history")
    found = []
    for hour in range(NEW_HOURS):
        since, until = end_us + hour * HOUR_US, end_us + (hour + 1) * HOUR_US
        new = pc.and_(pc.greater_equal(rest["observed_us"], since), pc.less(rest["observed_us"], until))
        found.append([Records("claim", _known(claims, since, until)), Records("sample", rest.filter(new))])
    return found


def _known(claims: pa.Table, since_us: int | None, until_us: int) -> pa.Table:
    """The records that a scheduler has written until then: what runs has no end yet. `since_us`: without older ones."""
    rows = []
    for row in claims.to_pylist():
        if row["start_us"] >= until_us or (since_us is not None and row["end_us"] < since_us):
            continue
        runs = row["end_us"] >= until_us
        rows.append(row | ({"end_us": None, "evidence_us": until_us, "state": "RUNNING"} if runs else {}))
    return pa.Table.from_pylist(rows, schema=claims.schema)


@contextmanager
def observed(costs: Costs) -> Iterator[None]:
    """Counts the processor time of every statement, by the file that it is from."""
    current = [""]
    execute, load = Connection._execute, sqlfile.load

    def loading(name: str) -> Any:
        current[0] = name
        return load(name)

    def counting(self: Connection, text: str, parameters: object = None) -> Any:
        start = time.process_time()
        try:
            return execute(self, text, parameters)
        finally:
            known = current[0] if current[0] and any(s.text in text for s in load(current[0])) else ""
            made = re.search(r"(?:temp table|into|from|update|view)\s+(\w+)", text)
            label = f"{known}: {made.group(1)}" if known and made else known or " ".join(text.split())[:70]
            costs.by_name[label] += time.process_time() - start

    with patch.object(Connection, "_execute", counting), patch.object(sqlfile, "load", loading):
        yield
