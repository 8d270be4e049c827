"""A large fleet written straight into a store: samples with the shape of dcgm-exporter's, contexts and Slurm claims."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.fleet_plan import GPUS_A_NODE, START_US, Hold, Plan, planned
from gpuwatch.core.clock import DAY_US, SECOND_US
from gpuwatch.core.model import CLAIM, CONTEXT, WHOLE_GPU, Records, context_key, device_key
from gpuwatch.imports.files import seal_all
from gpuwatch.store.database import Store

CLUSTER = "bench"
STEP_S = 30
TEAMS = ("vision", "language", "speech", "robotics", "platform-ml")
MODEL = "NVIDIA H100 80GB HBM3"
MIB = 1 << 20

Reals = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Written:
    """What was put into the store."""

    gpus: int
    days: int
    jobs: int
    rows: int
    fields: int
    seal_s: float
    """Seconds that sealing and checkpoints took, all days together."""

    @property
    def samples(self) -> int:
        """Field values that are not NULL."""
        return self.rows * self.fields


def write(store: Store, *, gpus: int, days: int, seed: int = 1, step_s: int = STEP_S) -> Written:
    """Appends `days` days of `gpus` GPUs every `step_s` seconds, each day sealed as it ends; returns what was written."""
    dice = np.random.default_rng(seed)
    steps = days * DAY_US // (step_s * SECOND_US)
    plan = planned(dice, gpus, steps, step_s)
    contexts = contexts_of(plan, gpus)
    devices = np.array([device_key(CLUSTER, uuid(gpu)) for gpu in range(gpus)])
    rows = fields = 0
    with store.transaction():
        store.append(Records("context", pa.Table.from_pylist(contexts, schema=CONTEXT)))
        store.append(Records("claim", claims_of(plan)))
    context_of = np.array([row["context_id"] for row in contexts])
    seconds: list[float] = []
    for batch in samples(dice, plan, gpus, steps, devices, context_of):
        with store.transaction():
            rows += store.append(Records("sample", batch))
        fields = batch.num_columns - 3
        start = time.perf_counter()
        seal_all(store)
        store.checkpoint()
        seconds.append(time.perf_counter() - start)
    return Written(gpus, days, len(plan.jobs), rows, fields, sum(seconds))


def contexts_of(plan: Plan, gpus: int) -> list[dict[str, object]]:
    """First one context a free GPU, then one a hold, in the order of plan.holds."""
    rows: list[dict[str, object]] = []
    for gpu, job in [(gpu, None) for gpu in range(gpus)] + [(h.gpu, h.job) for h in plan.holds]:
        row: dict[str, object] = dict.fromkeys(CONTEXT.names)
        row |= {
            "device_id": device_key(CLUSTER, uuid(gpu)),
            "cluster": CLUSTER,
            "gpu": uuid(gpu),
            "gi": WHOLE_GPU,
            "node": node_name(gpu // GPUS_A_NODE),
            "gpu_index": gpu % GPUS_A_NODE,
            "pci_bus_id": f"00000000:{gpu % GPUS_A_NODE:02X}:00.0",
            "model": MODEL,
            "driver": "595.58.03",
            "job": None if job is None else _job(job),
        }
        rows.append(row | {"context_id": context_key(row)})
    return rows


def claims_of(plan: Plan) -> pa.Table:
    """The records of all jobs as Slurm writes them after their end."""
    rows = []
    for number, (start_us, end_us, held) in enumerate(plan.jobs):
        team = TEAMS[number % len(TEAMS)]
        for node, members in held.items():
            rows.append(
                dict.fromkeys(CLAIM.names)
                | {
                    "cluster": CLUSTER,
                    "scheduler": "slurm",
                    "kind": "sacct",
                    "job_id": _job(number),
                    "run_key": str(start_us),
                    "node": node_name(node),
                    "gpu_type": "h100",
                    "device_count": len(members),
                    "submit_us": start_us - 60 * SECOND_US,
                    "start_us": start_us,
                    "end_us": end_us,
                    "evidence_us": end_us,
                    "state": "COMPLETED",
                    "user_name": f"user{number % 40:02d}",
                    "account": team,
                    "namespace": f"ns-{team}",
                    "queue": "gpu",
                    "name": f"job-{number % 300}",
                }
            )
    return pa.Table.from_pylist(rows, schema=CLAIM)


def samples(
    dice: np.random.Generator, plan: Plan, gpus: int, steps: int, devices: Numbers, context_of: Numbers
) -> Iterator[pa.Table]:
    """A batch a day, in the order in which scrapes arrive: by time, then by GPU."""
    levels = _levels(dice, len(plan.holds))
    step_s = plan.step_s
    a_day = DAY_US // (step_s * SECOND_US)
    offset_us = dice.integers(0, step_s * 1000, -(-gpus // GPUS_A_NODE))[np.arange(gpus) // GPUS_A_NODE] * 1000
    energy = dice.integers(10**9, 10**11, gpus)
    holds_of: dict[int, list[tuple[int, Hold]]] = defaultdict(list)
    for number, hold in enumerate(plan.holds):
        for day in range(hold.first // a_day * a_day, hold.last, a_day):
            holds_of[day].append((number, hold))
    for day in range(0, steps, a_day):
        owner = np.full((a_day, gpus), -1, dtype=np.int32)
        busy = np.zeros((a_day, gpus), dtype=bool)
        for number, hold in holds_of[day]:
            first, last = max(hold.first - day, 0), min(hold.last - day, a_day)
            if first >= last:
                continue
            owner[first:last, hold.gpu] = number
            # A job loads for two minutes, pauses between epochs, and one in ten forgets to leave.
            at = (np.arange(first, last) + day - hold.first) * step_s // STEP_S
            epoch = 40 + hold.job * 7 % 200
            works = (at >= 4) & (at % epoch >= epoch // 12)
            if hold.job % 10 == 0:
                works &= at < (hold.last - hold.first) * step_s // STEP_S // 2
            busy[first:last, hold.gpu] = works
        observed = START_US + (day + np.arange(a_day)[:, None]) * step_s * SECOND_US + offset_us[None, :]
        columns = _columns(dice, owner, busy, levels, energy, step_s)
        yield pa.table(
            {
                "device_id": np.broadcast_to(devices, owner.shape).ravel(),
                "context_id": context_of[np.where(owner >= 0, owner + gpus, np.arange(gpus))].ravel(),
                "observed_us": observed.ravel(),
            }
            | {name: values.ravel() for name, values in columns.items()}
        )


def _levels(dice: np.random.Generator, holds: int) -> dict[str, Reals]:
    """What each hold does on average while it works; the last entry is a free GPU."""
    sm = dice.uniform(0.3, 0.95, holds)
    levels = {
        "sm": sm,
        "engine": np.minimum(sm + dice.uniform(0.02, 0.3, holds), 0.999),
        "occupancy": sm * dice.uniform(0.2, 0.6, holds),
        "tensor": sm * dice.uniform(0.05, 0.75, holds),
        "dram": sm * dice.uniform(0.1, 0.8, holds),
        "fp32": sm * dice.uniform(0.01, 0.2, holds),
        "nvlink": np.where(dice.random(holds) < 0.5, 0.0, dice.uniform(1e9, 2e11, holds)),
        "pcie": dice.uniform(1e7, 6e9, holds),
        "memory": np.floor(dice.uniform(4_000, 78_000, holds)),
    }
    levels["power"] = 110 + 520 * sm * (0.4 + 0.6 * levels["tensor"] / sm)
    return {name: np.append(values, 0.0) for name, values in levels.items()}


def _columns(
    dice: np.random.Generator,
    owner: NDArray[np.int32],
    busy: NDArray[np.bool_],
    levels: dict[str, Reals],
    energy: Numbers,
    step_s: int,
) -> dict[str, NDArray[np.float64] | Numbers]:
    """Readings by column, in the exporter's own precision: ratios 6 decimals, watts 3, the rest whole numbers."""

    def noisy(name: str, spread: float) -> Reals:
        noise = dice.standard_normal(owner.shape, dtype=np.float32).astype(np.float64)
        return np.where(busy, levels[name][owner] * (1 + spread * noise), 0.0)

    def ratio(name: str, spread: float) -> Reals:
        clipped: Reals = np.clip(noisy(name, spread), 0, 1)
        return np.round(clipped, 6)

    sm = ratio("sm", 0.02)
    engine = np.maximum(ratio("engine", 0.008), sm)
    power = np.round(np.where(busy, noisy("power", 0.02), 70 + 0.15 * dice.standard_normal(owner.shape)), 3)
    energy_mj = energy + np.cumsum((power * step_s * 1000).astype(np.int64), axis=0)
    energy[:] = energy_mj[-1]
    heat = np.round(28 + power / 14)
    held = owner >= 0
    zeros = np.zeros(owner.shape, dtype=np.int64)
    return {
        "gr_engine_ratio": engine,
        "sm_active_ratio": sm,
        "sm_occupancy_ratio": ratio("occupancy", 0.03),
        "tensor_active_ratio": np.minimum(ratio("tensor", 0.03), sm),
        "dram_active_ratio": ratio("dram", 0.03),
        "fp32_active_ratio": ratio("fp32", 0.05),
        "gpu_util_ratio": np.round(np.minimum(engine + 0.01 * busy, 1), 2),
        "mem_copy_util_ratio": np.round(ratio("dram", 0.03) * 0.8, 2),
        "pcie_tx_bytes_per_s": np.round(noisy("pcie", 0.08)),
        "pcie_rx_bytes_per_s": np.round(noisy("pcie", 0.08)),
        "nvlink_tx_bytes_per_s": np.round(noisy("nvlink", 0.05)),
        "nvlink_rx_bytes_per_s": np.round(noisy("nvlink", 0.05)),
        "sm_clock_mhz": np.where(busy, np.where(power > 550, 1755.0, 1980.0), np.where(held, 1980.0, 345.0)),
        "mem_clock_mhz": np.full(owner.shape, 2619.0),
        "gpu_temp_celsius": heat,
        "memory_temp_celsius": heat + 9,
        "power_watts": power,
        "energy_mj": energy_mj,
        "fb_used_bytes": np.where(held, levels["memory"][owner], 4).astype(np.int64) * MIB,
        "clocks_event_reasons": np.where(power > 600, 4, np.where(busy, 0, 1)),
        "xid_code": zeros,
        "pcie_replay_count": zeros,
    }


def uuid(gpu: int) -> str:
    """The UUID of a GPU by its number."""
    return f"GPU-00000000-0000-4000-8000-{gpu:012x}"


def node_name(node: int) -> str:
    """The name of a node by its number."""
    return f"node{node:04d}"


def _job(job: int) -> str:
    return str(100_000 + job)
