"""What rules say about GPUs, slices, nodes and pools of a tiny world, as tests read it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pyarrow as pa

from gpuwatch.core.clock import SECOND_US
from gpuwatch.core.model import Records
from tests.worlds.detectors import World, minutes, us


@dataclass(frozen=True)
class SubjectFinding:
    """A finding about any subject: minutes of the tiny world, exact GPU-seconds."""

    kind: str
    subject: str
    state: str
    severity: str | None
    started: float | None
    ended: float | None
    wasted_s: Fraction
    confidence: float
    key: str
    devices: int
    evidence: dict[str, Any]


def findings_of(world: World, detector: str, withdrawn: bool = False) -> list[SubjectFinding]:
    """Every finding of a rule, in order of subject and start; `withdrawn`: also those that no longer stand."""
    rows = world.store.sql(
        """select subject_kind, subject_id, state, severity, started_us, ended_us, wasted_units, wasted_den, confidence,
            key, len(device_ids), evidence
        from finding
        where cluster = $cluster and detector = $detector
            and ($withdrawn or resolved_reason is distinct from 'records changed')
        order by subject_id, started_us, key""",
        cluster=world.cluster,
        detector=detector,
        withdrawn=withdrawn,
    )
    return [
        SubjectFinding(
            kind=row[0],
            subject=row[1],
            state=row[2],
            severity=row[3],
            started=minutes(row[4]),
            ended=minutes(row[5]),
            wasted_s=Fraction(int(row[6]), row[7] * SECOND_US),
            confidence=row[8],
            key=row[9],
            devices=row[10],
            evidence=json.loads(row[11]),
        )
        for row in rows
    ]


def offer(world: World, node: str, pool: str, devices: dict[str, int], strategy: str | None, **more: object) -> World:
    """A Kubernetes node of a pool."""
    row = {
        "cluster": world.cluster,
        "scheduler": "kubernetes",
        "node": node,
        "observed_us": us(0),
        "state": "up",
        "devices": json.dumps(devices),
        "mig_strategy": strategy,
        "pool": pool,
        **more,
    }
    world.record("node", [row])
    return world


def granted_s(world: World, detector: str) -> dict[str, Fraction]:
    """GPU-seconds that the ledger granted a rule, by bucket."""
    rows = world.store.sql(
        "select bucket, share_den, sum(us::hugeint * share_num)::varchar from granted_claim where detector = $d group by all",
        d=detector,
    )
    sums: dict[str, Fraction] = {}
    for bucket, den, units in rows:
        sums[bucket] = sums.get(bucket, Fraction(0)) + Fraction(int(units), den * SECOND_US)
    return dict(sorted(sums.items()))


def hour_by_hour(world: World, hours: int, detector: str, step: int = 1) -> list[SubjectFinding]:
    """Hands a world its samples some hours at a time, as a service gets them, and analyzes each time; every finding that ever was."""
    names = [row[0] for row in world.store.sql("select column_name from (describe sample_tail)")]
    rows = [dict(zip(names, row, strict=True)) for row in world.store.sql("select * from sample_tail")]
    world.store.sql("delete from sample_tail")
    edges = [*range(0, hours, step), hours]
    for before, hour in pairwise(edges):
        low, high = us(60 * before), us(60 * hour)
        part = [row for row in rows if low < row["observed_us"] <= high]
        if part:
            columns = {
                name: [row[name] for row in part] for name in names if any(row[name] is not None for row in part)
            }
            world.store.append(Records("sample", pa.table(columns)))
        world.analyze(60 * hour, detectors=[detector])
    return findings_of(world, detector, withdrawn=True)
