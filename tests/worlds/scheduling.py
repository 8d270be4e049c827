"""What schedulers say of gangs and queues, put into a tiny fleet, and findings about any subject."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.core.clock import SECOND_US
from tests.worlds.detectors import H100, Level, World, minutes, us

SHARED = Path(os.environ.get("GPUWATCH_SHARED") or Path(__file__).parents[3] / "shared")


@dataclass(frozen=True)
class Verdict:
    """A finding about a job, queue or pool: minutes of the tiny world, exact GPU-seconds."""

    kind: str
    subject: str
    severity: str
    state: str
    started: float | None
    ended: float | None
    wasted_s: Fraction
    confidence: float
    key: str
    evidence: dict[str, Any]


def tell(world: World, table: str, **columns: object) -> None:
    """A record as it stands; names that end in `_us` are minutes of the tiny world, mappings become JSON."""
    tell_all(world, table, [columns])


def tell_all(world: World, table: str, records: Iterable[Mapping[str, object]]) -> None:
    """Many records in one batch."""
    world.record(
        table,
        ({"cluster": world.cluster} | {name: _value(name, value) for name, value in row.items()} for row in records),
    )


def _value(name: str, value: object) -> object:
    if name.endswith("_us") and isinstance(value, int | float):
        return us(value)
    return json.dumps(value) if isinstance(value, Mapping) else value


def captured_eviction() -> dict[str, Any]:
    """The conditions of a Workload that Kueue preempted and that waits for quota since, as captured; skips where absent."""
    path = SHARED / "wire/schedulers/kueue/troubleshooting_objects.yaml"
    if not path.exists():
        pytest.skip(f"no captured objects: {path} is absent")
    yaml = pytest.importorskip("yaml")
    listed = [item for item in yaml.safe_load_all(path.read_text("utf-8")) if item]
    items = [item.get("status", {}).get("conditions", []) for item in listed]
    return next({c["type"]: c for c in found} for found in items if any(c["reason"] == "Preempted" for c in found))


def pods(
    world: World,
    job: str,
    gpus: Iterable[str],
    start: float,
    end: float | None,
    *,
    level: Level,
    until: float = 120,
    first: int = 0,
    node: str = "n1",
    model: str = H100,
    name: str | None = None,
    state: str | None = None,
    **columns: object,
) -> None:
    """One running pod a GPU, and the GPU's samples up to `until`."""
    for number, gpu in enumerate(gpus, first):
        if gpu not in world.names.values():
            world.gpu(gpu, (until, level), node=node, model=model)
        world.claim(
            scheduler="kubernetes", kind="k8s-json", job_id=f"ml/{job}", run_key=f"{name or job}-uid",
            pod_uid=f"{job}-{number}-{start}", pod=f"{job}-{number}", namespace="ml", node=node, device_count=1,
            gpus=gpu, submit_us=us(start), start_us=us(start), end_us=None if end is None else us(end),
            evidence_us=us(start), state=state or ("Running" if end is None else "Succeeded"),
            **columns,
        )  # fmt: skip


def gang(world: World, job: str, pods_min: int, *, at: float = 0, count: int | None = None, **words: object) -> None:
    """A PodGroup of a job."""
    record = {"scheduler": "volcano", "kind": "PodGroup", "uid": f"pg-{job}", "name": job, "namespace": "ml"}
    tell(
        world, "workload", **(record | {"job_id": f"ml/{job}", "min_count": pods_min, "pod_count": count}),
        submit_us=at, observed_us=at, state="reserved", **words,
    )  # fmt: skip


def waits(world: World, job: str, pods: int, at: float, *, since: float = 0, reason: str = "Unschedulable") -> None:
    """Pods of a job, one GPU each, that wait at `at` since `since`."""
    tell(
        world, "pending", scheduler="kubernetes", job_id=f"ml/{job}", namespace="ml", submit_us=since, evidence_us=at,
        device_count=pods, node_count=pods, reason=reason,
    )  # fmt: skip


def evaluated(directory: Path, detector: str, now: float, *scenes: Callable[[World], object]) -> list[Verdict]:
    """What a rule says of a world in which all these scenes are played."""
    return evaluated_apart(directory, detector, now, {"c1": scenes})["c1"]


def evaluated_apart(
    directory: Path, detector: str, now: float, cases: Mapping[str, Iterable[Callable[[World], object]]]
) -> dict[str, list[Verdict]]:
    """What a rule says of each case, each in a cluster of its name, after one analysis of all."""
    world = World(directory)
    clusters = {case: world.of_cluster(case) for case in cases}
    for case, scenes in cases.items():
        for scene in scenes:
            scene(clusters[case])
    world.analyze(now=now, detectors=[detector])
    return {case: found(cluster, detector) for case, cluster in clusters.items()}


def found(world: World, detector: str) -> list[Verdict]:
    """What a rule says, in order of start, kind and subject."""
    rows = world.store.sql(
        """select subject_kind, subject_id, severity, state, started_us, ended_us, wasted_units, wasted_den, confidence,
            key, evidence
        from finding
        where cluster = $cluster and detector = $detector and coalesce(resolved_reason <> 'rule_changed', true)
        order by started_us, subject_kind, subject_id""",
        cluster=world.cluster,
        detector=detector,
    )
    return [
        Verdict(
            row[0], row[1], row[2], row[3], minutes(row[4]), minutes(row[5]),
            Fraction(int(row[6]), row[7] * SECOND_US), row[8], row[9], json.loads(row[10]),
        )
        for row in rows
    ]  # fmt: skip
