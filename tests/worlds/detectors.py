"""A tiny fleet for tests of rules: GPUs that play phases, jobs that hold them, and the findings in minutes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

from gpuwatch.analysis.pipeline import AnalyzeReport, analyze
from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from gpuwatch.core.model import CLAIM, CONTEXT, EVENT, LINK, NODE, PENDING, WHOLE_GPU, Records, context_key, device_key
from gpuwatch.core.queue_model import QUEUE, RESERVATION, WORKLOAD
from gpuwatch.rules.rule import Rule
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store

T0 = 1_767_571_200_000_000
"""Monday 2026-01-05 00:00 UTC, minute 0 of every tiny world."""

CLUSTER = "c1"
H100 = "NVIDIA H100 80GB HBM3"

SCHEMAS = {
    "context": CONTEXT,
    "claim": CLAIM,
    "node": NODE,
    "link": LINK,
    "pending": PENDING,
    "event": EVENT,
    "workload": WORKLOAD,
    "queue": QUEUE,
    "reservation": RESERVATION,
}
"""Columns of records by their table; samples have the columns that they read."""

Level = Mapping[str, float | int | None]
Phase = tuple[float, Level | None]
"""Minutes and what the exporter reads meanwhile; None: nobody samples."""


def level(gr: float, sm: float, tensor: float, dram: float, watts: float, **more: float | None) -> dict[str, Any]:
    """Readings of one device; `more` overrides or adds columns, None leaves a field out."""
    readings = {
        "gr_engine_ratio": gr,
        "sm_active_ratio": sm,
        "sm_occupancy_ratio": sm / 2,
        "tensor_active_ratio": tensor,
        "dram_active_ratio": dram,
        "gpu_util_ratio": gr,
        "power_watts": watts,
        **more,
    }
    return {name: value for name, value in readings.items() if value is not None}


IDLE = level(0.0, 0.0, 0.0, 0.0, 70)
WORK = level(0.97, 0.87, 0.45, 0.43, 600)
HOLLOW = level(0.95, 0.20, 0.03, 0.10, 250)


def without(readings: Level, *names: str, **more: float) -> dict[str, Any]:
    """The same readings less some fields, with others replaced."""
    return {name: value for name, value in readings.items() if name not in names} | more


def us(minutes: float) -> int:
    """Microseconds of a minute of the tiny world."""
    return T0 + round(minutes * MINUTE_US)


def minutes(at_us: int | None) -> float | None:
    """The minute of the tiny world of an instant."""
    return None if at_us is None else (at_us - T0) / MINUTE_US


@dataclass(frozen=True)
class Found:
    """A finding as tests read it: minutes of the tiny world, GPU names, exact GPU-seconds."""

    job: str
    state: str
    reason: str | None
    started: float | None
    ended: float | None
    last_seen: float | None
    wasted_s: Fraction
    devices: tuple[str, ...]
    bucket: str
    confidence: float
    key: str
    opened_us: int
    evidence: dict[str, Any]


class World:
    """A store in memory and a state on disk. Nothing is judged before `analyze`.

    Records wait until the store is asked for, and enter it in one batch of each table: an append costs the same for one row as
    for a thousand.
    """

    def __init__(self, directory: Path | str, settings: Settings | None = None, cluster: str = CLUSTER) -> None:
        self._store = Store.open(None, threads=1)
        self._waiting: dict[str, list[dict[str, Any]]] = {}
        self.state = State.open(directory)
        self.settings = settings or Settings()
        self.cluster = cluster
        self.names: dict[int, str] = {}

    @property
    def store(self) -> Store:
        """The store with all records."""
        for table in tuple(self._waiting):
            rows = self._waiting.pop(table)
            self._store.append(Records(table, _table(rows, SCHEMAS.get(table))))
        return self._store

    def record(self, table: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Records as they stand; columns that they lack are unknown."""
        self._waiting.setdefault(table, []).extend(dict(row) for row in rows)

    def of_cluster(self, cluster: str) -> World:
        """The same store, where everything is of another cluster: an analysis of either is one of both."""
        other = copy(self)
        other.cluster = cluster
        return other

    def gpu(
        self,
        name: str,
        *phases: Phase,
        start: float = 0.0,
        step_s: float = 60.0,
        job: str | None = None,
        pod: str | None = None,
        gi: int = WHOLE_GPU,
        profile: str | None = None,
        model: str = H100,
        node: str = "n1",
    ) -> World:
        """Samples of a GPU (or of MIG instance `gi` of it), one at the end of every step of each phase."""
        context: dict[str, Any] = {
            "cluster": self.cluster,
            "gpu": name,
            "gi": gi,
            "profile": profile,
            "node": node,
            "gpu_index": sum(byte for byte in name.encode()) % 1000,
            "model": model,
            "namespace": pod and "ml",
            "pod": pod,
            "job": job,
        }
        context["context_id"] = context_key(context)
        context["device_id"] = device_key(self.cluster, name, gi)
        self.names[context["device_id"]] = name if gi == WHOLE_GPU else f"{name}/{gi}"
        rows = []
        begin = us(start)
        step_us = round(step_s * SECOND_US)
        for length, readings in phases:
            end = begin + round(length * MINUTE_US)
            if readings is not None:
                base = {"device_id": context["device_id"], "context_id": context["context_id"]}
                rows += [base | {"observed_us": at} | dict(readings) for at in range(begin + step_us, end + 1, step_us)]
            begin = end
        self.record("context", [context])
        self.record("sample", rows)
        return self

    def job(
        self,
        job_id: str,
        gpus: Iterable[str] | int,
        start: float,
        end: float | None,
        *,
        heard: float | None = None,
        run_key: str | None = None,
        scheduler: str = "slurm",
        pod: str | None = None,
        labels: Mapping[str, str] | None = None,
        profile: str | None = None,
        node: str = "n1",
        state: str | None = None,
        suspended: float | None = None,
    ) -> World:
        """A scheduler's record of one run. `gpus` are the UUIDs it names, or only how many; `heard` its last word.

        `suspended`: for how many minutes the scheduler stopped it.
        """
        named = None if isinstance(gpus, int) else list(gpus)
        self.claim(
            scheduler=scheduler,
            kind="sacct" if scheduler == "slurm" else "k8s-json",
            job_id=job_id,
            run_key=run_key or job_id,
            pod=pod,
            namespace=pod and "ml",
            node=node,
            profile=profile,
            device_count=gpus if isinstance(gpus, int) else len(named or ()),
            gpus=",".join(named) if named else None,
            submit_us=us(start),
            start_us=us(start),
            end_us=None if end is None else us(end),
            evidence_us=None if heard is None else us(heard),
            state=state or ("RUNNING" if end is None else "COMPLETED"),
            user_name="ada",
            account="vision",
            labels=json.dumps(labels) if labels else None,
            suspended_us=None if suspended is None else us(suspended) - us(0),
        )
        return self

    def claim(self, **columns: object) -> None:
        """A claim row as it stands."""
        self.record("claim", [{"cluster": self.cluster} | columns])

    def node(self, name: str, observed: float, devices: Mapping[str, int], pool: str | None = None) -> World:
        """A scheduler's word on one node at one minute."""
        row = {
            "cluster": self.cluster,
            "scheduler": "slurm",
            "node": name,
            "pool": pool,
            "observed_us": us(observed),
            "state": "up",
            "devices": json.dumps(devices),
        }
        self.record("node", [row])
        return self

    def analyze(self, now: float = 0.0, **options: Any) -> AnalyzeReport:
        """Ledger and findings, at a minute of the tiny world. A rule named in `detectors` must not fail."""
        report = analyze(self.store, self.state, self.settings, now_us=us(now), **options)
        named = options.get("detectors") or ()
        failed = [text for text in report.failed_rules if text.partition(":")[0] in named]
        assert [] == failed, "a rule raised an error, so that it has no findings"
        return report

    def findings(self, detector: str, job: str | None = None) -> list[Found]:
        """What a rule says, of all jobs or of one, in order of start."""
        rows = self.store.sql(
            """select job_id, state, resolved_reason, started_us, ended_us, last_seen_us, wasted_units, wasted_den,
                device_ids, bucket, confidence, key, opened_us, evidence
            from finding
            where cluster = $cluster and detector = $detector and coalesce(job_id = $job, $job is null)
            order by started_us, job_id, key""",
            cluster=self.cluster,
            detector=detector,
            job=job,
        )
        return [
            Found(
                job=row[0],
                state=row[1],
                reason=row[2],
                started=minutes(row[3]),
                ended=minutes(row[4]),
                last_seen=minutes(row[5]),
                wasted_s=Fraction(int(row[6]), row[7] * SECOND_US),
                devices=tuple(sorted(self.names.get(device, str(device)) for device in row[8])),
                bucket=row[9],
                confidence=row[10],
                key=row[11],
                opened_us=row[12],
                evidence=json.loads(row[13]),
            )
            for row in rows
        ]

    def booked_s(self, *buckets: str, job: str | None = None, start: float = 0, end: float = 1e6) -> Fraction:
        """Share-weighted GPU-seconds of buckets in the ledger's hours of a window, of all jobs or of one."""
        rows = self.store.sql(
            """select bucket, share_num, share_den, sum(value)
            from (
                unpivot (
                    select l.hour_us, l.share_num, l.share_den, r.job_id, columns('_us$')
                    from (select * exclude (hour_us), hour_us from ledger_hour) l
                    left join run r using (run_id)
                    where l.cluster = $cluster
                )
                on unobserved_us, hoarded_us, gap_us, communication_us, stalled_us, below_roof_us, memory_roof_us,
                    compute_us, schedulable_us, out_of_service_us, mig_remainder_us, stranded_us
                into name bucket value value
            )
            where hour_us >= $start and hour_us < $end and coalesce(job_id = $job, $job is null)
            group by all""",
            cluster=self.cluster,
            job=job,
            start=us(start),
            end=us(end),
        )
        wanted = {f"{name}_us" for name in buckets}
        parts = (Fraction(int(units) * num, den) for name, num, den, units in rows if name in wanted)
        return sum(parts, Fraction(0)) / SECOND_US

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """Every row of a derived table, in order: what two analyses are compared by."""
        return self.store.sql(f"select * from {table} order by all")


def _table(rows: Sequence[Mapping[str, object]], schema: pa.Schema | None) -> pa.Table:
    """Rows as a table: of a schema, or of the columns that any row has."""
    names = dict.fromkeys(name for row in rows for name in row) if schema is None else schema.names
    columns = {name: [row.get(name) for row in rows] for name in names}
    return pa.table(columns, schema=schema)


def hour_us(hour: int) -> int:
    """Start of an hour of the tiny world."""
    return T0 + hour * HOUR_US


def page_rows(page: Path) -> dict[str, str]:
    """Threshold name -> default as the doc page's table prints them."""
    rows = (line.split("|") for line in page.read_text("utf-8").splitlines() if line.startswith("| `"))
    return {cells[1].strip(" `"): cells[2].strip() for cells in rows}


def printed(name: str, value: float) -> str:
    """A threshold's default as a doc page prints it: a time in its largest whole unit, GB/s, or a plain number."""
    if name.endswith(("_us", "_us_min")):
        units = ((DAY_US, 2, "d"), (HOUR_US, 2, "h"), (MINUTE_US, 1, "min"), (SECOND_US, 1, "s"))
        unit, word = next(
            ((us, word) for us, least, word in units if value % us == 0 and value >= least * us), (1, "µs")
        )
        return f"{value / unit:g} {word}"
    if "bytes_per_s" in name:
        return f"{value / 1e9:g} GB/s"
    return f"{value:g}"


def printed_thresholds(rule: Rule) -> dict[str, str]:
    """What the table of a rule's doc page must say."""
    return {threshold.name: printed(threshold.name, threshold.value) for threshold in rule.thresholds}


PAGE_HEADINGS: Sequence[str] = (
    "What it reports",
    "Why it matters",
    "How it decides",
    "Thresholds",
    "What it does not flag",
    "What it cannot evaluate",
    "Fix",
    "Example",
)


def page_headings(page: Path) -> list[str]:
    """Second-level headings of a doc page, in order."""
    return [line[3:] for line in page.read_text("utf-8").splitlines() if line.startswith("## ")]
