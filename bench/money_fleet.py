"""The fleet whose money is measured: two thirds whole GPUs, one third cut into MIG slices, for a month."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bench import fleet, fleet_plan
from gpuwatch.core.clock import DAY_US, SECOND_US
from gpuwatch.core.model import CLAIM, CONTEXT, Records, context_key, device_key
from gpuwatch.imports.files import seal_all
from gpuwatch.store.database import Store

LAYOUTS = (("1g.10gb",) * 7, ("3g.40gb", "3g.40gb"), ("1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"), ("1g.20gb",) * 4)
"""What is cut out of an H100 of 80 GB, one layout after the other."""
NODES_FROM, JOBS_FROM, GPUS_FROM = 5_000, 5_000_000, 100_000
"""Numbers of nodes, jobs and GPUs of the cut part, above those of the other."""
SLICE_COLUMNS = ("gr_engine_ratio", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio", "fb_used_bytes")


@dataclass(frozen=True)
class Slice:
    """One MIG slice: its GPU's number in the cut part, its GPU instance and profile."""

    gpu: int
    gi: int
    profile: str

    @property
    def uuid(self) -> str:
        """The UUID of its GPU."""
        return fleet.uuid(GPUS_FROM + self.gpu)

    @property
    def node(self) -> str:
        """Its node."""
        return fleet.node_name(NODES_FROM + self.gpu // fleet_plan.GPUS_A_NODE)


def write(store: Store, *, gpus: int, days: int, step_s: int) -> fleet.Written:
    """Appends both parts and seals them; returns rows and jobs of both together."""
    cut = gpus // 3
    whole = fleet.write(store, gpus=gpus - cut, days=days, step_s=step_s)
    slices = [
        Slice(gpu, number + 1, profile)
        for gpu in range(cut)
        for number, profile in enumerate(LAYOUTS[gpu % len(LAYOUTS)])
    ]
    dice = np.random.default_rng(2)
    steps = days * DAY_US // (step_s * SECOND_US)
    plan = fleet_plan.Plan(step_s)
    for number, one in enumerate(slices):
        fleet_plan.fill(dice, plan, {one.gpu // fleet_plan.GPUS_A_NODE: [number]}, steps, 1.0)
    contexts = _contexts(plan, slices)
    with store.transaction():
        store.append(Records("context", pa.Table.from_pylist(contexts, schema=CONTEXT)))
        store.append(Records("claim", _claims(plan, slices)))
    devices = np.array([device_key(fleet.CLUSTER, one.uuid, one.gi) for one in slices])
    context_of = np.array([row["context_id"] for row in contexts])
    rows = 0
    for batch in fleet.samples(dice, plan, len(slices), steps, devices, context_of):
        with store.transaction():
            kept = batch.select(["device_id", "context_id", "observed_us", *SLICE_COLUMNS])
            rows += store.append(Records("sample", kept))
        seal_all(store)
        store.checkpoint()
    return fleet.Written(gpus, days, whole.jobs + len(plan.jobs), whole.rows + rows, whole.fields, whole.seal_s)


def _contexts(plan: fleet_plan.Plan, slices: list[Slice]) -> list[dict[str, object]]:
    """First one context a free slice, then one a hold, in the order of plan.holds."""
    rows: list[dict[str, object]] = []
    for number, job in [(n, None) for n in range(len(slices))] + [(h.gpu, h.job) for h in plan.holds]:
        one = slices[number]
        row: dict[str, object] = dict.fromkeys(CONTEXT.names)
        row |= {
            "device_id": device_key(fleet.CLUSTER, one.uuid, one.gi),
            "cluster": fleet.CLUSTER,
            "gpu": one.uuid,
            "gi": one.gi,
            "profile": one.profile,
            "node": one.node,
            "gpu_index": one.gpu % fleet_plan.GPUS_A_NODE,
            "model": fleet.MODEL,
            "job": None if job is None else str(JOBS_FROM + job),
        }
        rows.append(row | {"context_id": context_key(row)})
    return rows


def _claims(plan: fleet_plan.Plan, slices: list[Slice]) -> pa.Table:
    rows = []
    for number, (start_us, end_us, held) in enumerate(plan.jobs):
        team = fleet.TEAMS[number % len(fleet.TEAMS)]
        (member,) = next(iter(held.values()))
        rows.append(
            dict.fromkeys(CLAIM.names)
            | {
                "cluster": fleet.CLUSTER,
                "scheduler": "slurm",
                "kind": "sacct",
                "job_id": str(JOBS_FROM + number),
                "run_key": str(start_us),
                "node": slices[member].node,
                "gpu_type": "h100",
                "profile": slices[member].profile,
                "device_count": 1,
                "submit_us": start_us - 60 * SECOND_US,
                "start_us": start_us,
                "end_us": end_us,
                "evidence_us": end_us,
                "state": "COMPLETED",
                "user_name": f"user{number % 40:02d}",
                "account": team,
                "namespace": f"ns-{team}",
                "queue": "mig",
                "name": f"notebook-{number % 300}",
            }
        )
    return pa.Table.from_pylist(rows, schema=CLAIM)
