"""Tiny worlds: a store in memory, filled with records by hand, attributed and booked.

Times are seconds after midnight of a Monday, converted exactly; devices sampled every minute stand from 0 to a whole
minute when their samples lie in the middle of each (see `minutes`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa

from gpuwatch.core.clock import HOUR_US
from gpuwatch.core.fields import columns
from gpuwatch.core.model import CLAIM, CONTEXT, NODE, WHOLE_GPU, Records, context_key, device_key
from gpuwatch.imports.files import seal_all
from gpuwatch.ledger import attribution
from gpuwatch.ledger import hours as ledger_hours
from gpuwatch.settings import Settings
from gpuwatch.store.database import Store
from tests.worlds.templates import computed_once

T0_US = 1_793_577_600_000_000
"""Monday 2026-11-02T00:00:00Z."""
CLUSTER = "c1"
H100 = "NVIDIA H100 80GB HBM3"
STEP_S = 60
HOUR = 3600
SETTINGS = Settings(default_interval_s=STEP_S)
IDLE = {"gr_engine_ratio": 0.0, "sm_active_ratio": 0.0, "tensor_active_ratio": 0.0, "dram_active_ratio": 0.0}
BUSY = {"gr_engine_ratio": 0.9, "sm_active_ratio": 0.8, "tensor_active_ratio": 0.465, "dram_active_ratio": 0.2}

Seconds = int | float | Fraction


@dataclass(frozen=True)
class Gpu:
    """A device as an exporter names it: a whole GPU, or a MIG slice of one (gi >= 0)."""

    uuid: str = "GPU-a"
    node: str | None = "n1"
    index: int = 0
    gi: int = WHOLE_GPU
    profile: str | None = None
    model: str = H100
    pci: str | None = None

    @property
    def device_id(self) -> int:
        return device_key(CLUSTER, self.uuid, self.gi)


@dataclass(frozen=True)
class Sample:
    """One reading of a device: fields by column name, owner labels by CONTEXT column name."""

    gpu: Gpu
    at_us: int
    labels: tuple[tuple[str, str], ...]
    fields: tuple[tuple[str, float], ...]


def us(seconds: Seconds) -> int:
    """Microseconds of a time of the world; refuses what is not a whole microsecond."""
    exact = Fraction(seconds) * 1_000_000
    whole = round(exact)
    assert abs(exact - whole) < Fraction(1, 1000), f"{seconds} s is no whole microsecond"
    return T0_US + whole


def seconds(at_us: int) -> Seconds:
    """Seconds of the world, an int where whole."""
    exact = Fraction(at_us - T0_US, 1_000_000)
    return int(exact) if exact.denominator == 1 else float(exact)


def minutes(start: Seconds, end: Seconds, step: Seconds = STEP_S) -> list[Seconds]:
    """Instants in the middle of every step of [start, end): first and last reach exactly to its ends."""
    at, instants = Fraction(start) + Fraction(step) / 2, []
    while at < end:
        instants.append(at)
        at += Fraction(step)
    return list(instants)


def samples(
    gpu: Gpu, instants: Iterable[Seconds], fields: Mapping[str, float] = BUSY, **labels: str | None
) -> list[Sample]:
    """The same reading at every instant."""
    named = tuple(sorted((k, v) for k, v in labels.items() if v is not None))
    return [Sample(gpu, us(at), named, tuple(sorted(fields.items()))) for at in instants]


def batch(rows: Sequence[Sample]) -> list[Records]:
    """Contexts and samples as a collector would hand them over: only columns that are present."""
    contexts: dict[int, dict[str, Any]] = {}
    table: list[dict[str, Any]] = []
    for row in rows:
        gpu = row.gpu
        label: dict[str, Any] = {
            "cluster": CLUSTER,
            "gpu": gpu.uuid,
            "gi": gpu.gi,
            "profile": gpu.profile,
            "node": gpu.node,
            "gpu_index": gpu.index,
            "pci_bus_id": gpu.pci,
            "model": gpu.model,
            **dict(row.labels),
        }
        key = context_key(label)
        contexts[key] = {"context_id": key, "device_id": gpu.device_id, **label}
        table.append({"device_id": gpu.device_id, "context_id": key, "observed_us": row.at_us, **dict(row.fields)})
    present = sorted({name for row in rows for name, _ in row.fields})
    known = columns()
    types = [(n, pa.int64() if known[n].type == "bigint" else pa.float64()) for n in present]
    keys = [("device_id", pa.int64()), ("context_id", pa.int64()), ("observed_us", pa.int64())]
    schema = pa.schema([*keys, *types])
    return [
        Records("context", pa.Table.from_pylist(list(contexts.values()), schema=CONTEXT)),
        Records("sample", pa.Table.from_pylist(table, schema=schema)),
    ]


def claim(
    job_id: str,
    start: Seconds | None,
    end: Seconds | None,
    node: str | None = "n1",
    count: int = 1,
    *,
    scheduler: str = "slurm",
    evidence: Seconds | None = None,
    **words: Any,
) -> dict[str, Any]:
    """A row of CLAIM; `run_key` is the job id unless told."""
    return {
        "cluster": CLUSTER,
        "scheduler": scheduler,
        "kind": "sacct" if scheduler == "slurm" else "k8s-json",
        "job_id": job_id,
        "run_key": job_id,
        "node": node,
        "device_count": count,
        "start_us": None if start is None else us(start),
        "end_us": None if end is None else us(end),
        "evidence_us": None if evidence is None else us(evidence),
        **words,
    }


def pod(
    name: str, uid: str, start: Seconds, end: Seconds | None, node: str | None = "n1", **words: Any
) -> dict[str, Any]:
    """A pod's claim on one GPU (or slice) in namespace `lab`; its run is its UID."""
    row = {"run_key": uid, "pod_uid": uid, "pod": name, "namespace": "lab", **words}
    return claim(f"lab/{name}", start, end, node, row.pop("count", 1), scheduler="kubernetes", **row)


def node(
    name: str = "n1", devices: Mapping[str, int] | None = None, at: Seconds | None = None, **words: Any
) -> dict[str, Any]:
    """A row of NODE, up unless told."""
    return {
        "cluster": CLUSTER,
        "scheduler": "slurm",
        "node": name,
        "observed_us": None if at is None else us(at),
        "state": "up",
        "devices": None if devices is None else json.dumps(devices),
        "sharing": "none",
        **words,
    }


class World:
    """A store in memory and the steps that fill and read it."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.store = Store.open(None, threads=1)
        self.settings = settings

    def add(self, *rows: Sample | dict[str, Any] | list[Sample]) -> World:
        """Appends samples, claims and nodes in one batch of each."""
        flat = [s for row in rows for s in (row if isinstance(row, list) else [row])]
        readings = [r for r in flat if isinstance(r, Sample)]
        records = [r for r in flat if isinstance(r, dict)]
        claims = [r for r in records if "run_key" in r]
        nodes = [r for r in records if "run_key" not in r]
        batches = batch(readings) if readings else []
        if claims:
            batches.append(Records("claim", pa.Table.from_pylist(claims, schema=CLAIM)))
        if nodes:
            batches.append(Records("node", pa.Table.from_pylist(nodes, schema=NODE)))
        with self.store.transaction():
            for one in batches:
                self.store.append(one)
        return self

    def seal(self) -> World:
        seal_all(self.store)
        return self

    def attribute(self) -> World:
        """Seals and attributes."""
        self.seal()
        attribution.attribute(self.store, CLUSTER, self.settings)
        return self

    def book(self) -> World:
        """Seals, attributes, recomputes what is dirty, and checks that the books close."""
        self.attribute()
        ledger_hours.recompute_dirty(self.store, CLUSTER, self.settings)
        self.check()
        return self

    def check(self) -> None:
        start_us, end_us = self.span_us()
        ledger_hours.check(self.store, CLUSTER, start_us, end_us)

    def span_us(self) -> tuple[int, int]:
        """The whole hours that the segments touch."""
        low, high = self.store.sql("select min(start_us), max(end_us) from segment")[0]
        return low // HOUR_US * HOUR_US, -(-high // HOUR_US) * HOUR_US

    def recompute(self, hours: Iterable[int]) -> None:
        """Recomputes the hours that start at these numbers of hours after T0."""
        ledger_hours.recompute(self.store, CLUSTER, [T0_US + h * HOUR_US for h in hours], self.settings)

    def segments(self) -> list[tuple[str, Seconds, Seconds, str, str]]:
        """(device, start, end, run key or bucket with its marks, share of the GPU), by device and time."""
        rows = self.store.sql(
            """select d.gpu || case when d.gi >= 0 then '/GI-' || d.gi else '' end, s.start_us, s.end_us,
                coalesce(r.run_key, s.free_bucket)
                || case when s.estimated then ' estimated' else '' end
                || case when s.conflict then ' conflict' else '' end,
                s.share_num, s.share_den
            from segment s
            join device d using (device_id)
            left join run r using (run_id)
            order by 1, 2, 4"""
        )
        return [(name, seconds(a), seconds(b), who, str(Fraction(num, den))) for name, a, b, who, num, den in rows]

    def buckets(self, gpu: Gpu | None = None, hour: int | None = None) -> dict[str, int]:
        """Microseconds of the buckets that are not empty, of one device or all, of one hour after T0 or all."""
        total = dict.fromkeys(ledger_hours.BUCKETS, 0)
        for row in self.rows("ledger_hour"):
            if gpu is not None and row["device_id"] != gpu.device_id:
                continue
            if hour is not None and row["hour_us"] != T0_US + hour * HOUR_US:
                continue
            for bucket in ledger_hours.BUCKETS:
                total[bucket] += row[f"{bucket}_us"]
        return {bucket: amount for bucket, amount in total.items() if amount}

    def held(self, gpu: Gpu | None = None, hour: int | None = None) -> dict[str, float]:
        """Buckets of allocated time in seconds."""
        return {k: v / 1e6 for k, v in self.buckets(gpu, hour).items() if k in ledger_hours.HELD_BUCKETS}

    def rows(self, table: str) -> list[dict[str, Any]]:
        """A table of the store as dicts, sorted, without what says when something was computed."""
        assert table.isidentifier()
        names = [row[0] for row in self.store.sql("select name from pragma_table_info($t)", t=table)]
        return [dict(zip(names, row, strict=True)) for row in self.store.sql(f"select * from {table} order by all")]

    def derived(self) -> dict[str, list[dict[str, Any]]]:
        """Everything that attribution and ledger compute: equal worlds have equal derived tables."""
        return {
            name: self.rows(name)
            for name in (
                "device",
                "capacity",
                "run",
                "segment",
                "idle_span",
                "device_minute",
                "device_window",
                "ledger_hour",
                "context_span",
            )
        }


@computed_once
def one_hour() -> World:
    """One GPU that was busy for an hour, computed; nobody is known to have held it."""
    return World().add(samples(Gpu(), minutes(0, HOUR))).book()
