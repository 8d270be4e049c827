"""The same records give the same bits, whatever the number of threads and the order in which they came."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gpuwatch.core.model import CONTEXT, WHOLE_GPU, Records, context_key, device_key
from gpuwatch.store.connection import Connection
from tests.worlds.detectors import CLUSTER, H100, World, level, us

GPUS = 4
MINUTES = 360
TABLES = (
    "segment",
    "device_minute",
    "device_window",
    "device_hour",
    "workload_hour",
    "ledger_hour",
    "stranding",
    "verdict",
    "verdict_claim",
    "granted_claim",
    "finding",
    "finding_amount",
)


def readings(seed: int) -> list[tuple[int, int, dict[str, Any]]]:
    """Noisy readings of GPUs that look busy and do little: (GPU, minute, fields) of numbers with all their digits."""
    rng = random.Random(seed)
    rows = []
    for gpu in range(GPUS):
        for minute in range(1, MINUTES + 1):
            gr, sm, tensor, dram = (rng.uniform(*span) for span in ((0.9, 1), (0.1, 0.3), (0.01, 0.03), (0.05, 0.15)))
            fields = level(gr, sm, tensor, dram, rng.uniform(200, 300), sm_clock_mhz=rng.uniform(1500, 1900))
            rows.append((gpu, minute, fields))
    return rows


def fleet(directory: Path, order: int | None) -> World:
    """A job over all GPUs of a node; with an `order` the samples come shuffled by it."""
    world = World(directory)
    rows = readings(7)
    if order is not None:
        random.Random(order).shuffle(rows)
    contexts, samples = {}, []
    for gpu, minute, fields in rows:
        name = f"GPU-{gpu}"
        context = dict.fromkeys(CONTEXT.names, None) | {
            "cluster": CLUSTER, "gpu": name, "gi": WHOLE_GPU, "node": "n1", "gpu_index": gpu, "model": H100,
        }  # fmt: skip
        context["device_id"] = device_key(CLUSTER, name, WHOLE_GPU)
        context["context_id"] = context_key(context)
        contexts[name] = context
        keys = {name: context[name] for name in ("device_id", "context_id")}
        samples.append(keys | {"observed_us": us(minute)} | fields)
    world.store.append(Records("context", pa.Table.from_pylist(list(contexts.values()), schema=CONTEXT)))
    columns = dict.fromkeys(name for row in samples for name in row)
    world.store.append(Records("sample", pa.table({name: [row[name] for row in samples] for name in columns})))
    world.job("7", sorted(contexts), 0, MINUTES)
    return world


def analyzed(world: World, threads: int) -> dict[str, list[tuple[Any, ...]]]:
    """Every derived table after an analysis with so many threads."""
    world.store.sql(f"set threads = {threads}")
    report = world.analyze(MINUTES)

    assert [] == report.failed_rules
    found = {name: world.rows(name) for name in TABLES}
    world.store.close()
    return found


def test_threads_and_order_change_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = analyzed(fleet(tmp_path / "one", None), threads=1)
    cursor = Connection.cursor

    def parallel(self: Connection) -> Connection:
        made = cursor(self)
        made.sql("pragma verify_parallelism")  # else so few rows are the work of one thread
        return made

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "cursor", parallel)
        four = analyzed(fleet(tmp_path / "four", 3), threads=4)

    assert {"false-utilization"} <= {row[1] for row in one["finding"]}
    assert one == four
