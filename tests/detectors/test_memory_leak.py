"""Leaked memory: what is held, shared or only full, then what nobody holds and what only grows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gpuwatch.core.model import NODE, PENDING, Records, device_key
from gpuwatch.detectors.memory_leak import MEMORY_LEAK
from tests.worlds.cases import Cases, Scene
from tests.worlds.detectors import (
    CLUSTER,
    IDLE,
    PAGE_HEADINGS,
    WORK,
    Level,
    Phase,
    World,
    minutes,
    page_headings,
    page_rows,
    printed_thresholds,
    us,
)

RULE = "memory-leak"
MIB = 2**20
GIB = 2**30


def using(gib: float, readings: Level = IDLE) -> dict[str, Any]:
    """Readings with this much of 80 GiB in use."""
    return dict(readings) | {"fb_used_bytes": int(gib * GIB), "fb_total_bytes": 80 * GIB}


EMPTY = using(0.5)
LEFT = using(12)
BUSY = using(40, WORK)


def growing(first: float, gib_an_hour: float, hours: int, readings: Level = WORK) -> tuple[Phase, ...]:
    """Five minutes at a time."""
    return tuple((5.0, using(first + gib_an_hour * step / 12, readings)) for step in range(12 * hours))


def on(world: World, name: str, *phases: Phase, **more: Any) -> World:
    """A GPU on a node of its own that a scheduler knows."""
    return world.node(f"n-{name}", 0, {"": 1}).gpu(name, *phases, node=f"n-{name}", **more)


MUST_NOT_FIRE: dict[str, Scene] = {
    "a free GPU with what its driver uses": lambda w, n: on(w, n, (240, EMPTY)),
    "a free GPU with 900 MiB": lambda w, n: on(w, n, (240, using(0.9))),
    "a held GPU, idle with full memory": lambda w, n: on(w, n, (240, using(70))).job(n, [n], 0, 240, node=f"n-{n}"),
    "a job that Slurm suspended keeps its memory": lambda w, n: on(w, n, (60, BUSY), (180, using(70))).job(
        n, [n], 0, None, heard=240, node=f"n-{n}", state="SUSPENDED", suspended=180
    ),
    "a job that was suspended for hours grows before and after": lambda w, n: on(
        w, n, *growing(20, 1, 3), (180, using(23)), *growing(23, 1, 2)
    ).job(n, [n], 0, 480, node=f"n-{n}", suspended=180),
    "nine minutes after the job": lambda w, n: on(w, n, (60, BUSY), (14, LEFT), (120, EMPTY)).job(
        n, [n], 0, 60, node=f"n-{n}"
    ),
    "gone as the job ends": lambda w, n: on(w, n, (60, BUSY), (180, EMPTY)).job(n, [n], 0, 60, node=f"n-{n}"),
    "a node that no scheduler knows": lambda w, n: w.gpu(n, (240, LEFT), node=f"n-{n}"),
    "somebody works there whom no source names": lambda w, n: on(w, n, (240, using(40, WORK))),
    "a time-sliced node": lambda w, n: shared_node(w, n),
    "a job on the node, and no source says where": lambda w, n: (
        w.node(f"n-{n}", 0, {"": 2})
        .gpu(f"{n}-0", (240, LEFT), node=f"n-{n}")
        .gpu(f"{n}-1", (240, EMPTY), node=f"n-{n}")
        .job(n, 1, 0, 240, node=f"n-{n}")
    ),
    "nobody read the memory": lambda w, n: on(w, n, (240, IDLE)),
    "memory that fills and stays": lambda w, n: on(w, n, *growing(10, 20, 2), (300, using(50, WORK))).job(
        n, [n], 0, 420, node=f"n-{n}"
    ),
    "growth of half a percent an hour": lambda w, n: on(w, n, *growing(40, 0.2, 8)).job(n, [n], 0, 480, node=f"n-{n}"),
    "growth for four hours": lambda w, n: on(w, n, *growing(20, 1, 4), (240, using(24, WORK))).job(
        n, [n], 0, 480, node=f"n-{n}"
    ),
    "growth with the work": lambda w, n: on(
        w,
        n,
        *((5.0, using(20 + step / 12, dict(WORK) | {"sm_active_ratio": 0.3 + step / 200})) for step in range(96)),
    ).job(n, [n], 0, 480, node=f"n-{n}"),
    "up and down": lambda w, n: on(w, n, *((5.0, using(20 + (step % 24) / 2, WORK)) for step in range(96))).job(
        n, [n], 0, 480, node=f"n-{n}"
    ),
}


def shared_node(world: World, name: str) -> World:
    """A GPU with memory in use on a node whose device plugin slices time."""
    row = dict.fromkeys(NODE.names, None) | {
        "cluster": CLUSTER,
        "scheduler": "kubernetes",
        "node": f"n-{name}",
        "observed_us": us(0),
        "state": "up",
        "devices": json.dumps({"": 4}),
        "sharing": "time-slicing",
        "replicas": 4,
    }
    world.store.append(Records("node", pa.Table.from_pylist([row], schema=NODE)))
    return world.gpu(name, (240, LEFT), node=f"n-{name}")


def waiting(world: World, job: str, submitted: float, heard: float) -> World:
    """A request that waits for one GPU."""
    row = dict.fromkeys(PENDING.names, None) | {
        "cluster": CLUSTER,
        "scheduler": "slurm",
        "job_id": job,
        "submit_us": us(submitted),
        "evidence_us": us(heard),
        "device_count": 1,
    }
    world.store.append(Records("pending", pa.Table.from_pylist([row], schema=PENDING)))
    return world


MUST_FIRE: dict[str, Scene] = {
    "left by a job": lambda w, n: on(w, n, (60, BUSY), (120, LEFT), (60, EMPTY)).job(n, [n], 0, 60, node=f"n-{n}"),
    "left by a job that was suspended before": lambda w, n: on(
        w, n, (30, BUSY), (30, using(70)), (120, LEFT), (60, EMPTY)
    ).job(n, [n], 0, 60, node=f"n-{n}", suspended=30),
    "left by a job, and taken by the next": lambda w, n: (
        on(w, n, (60, BUSY), (60, LEFT), (60, BUSY), (60, EMPTY))
        .job(f"{n}a", [n], 0, 60, node=f"n-{n}")
        .job(f"{n}b", [n], 120, 180, node=f"n-{n}")
    ),
    "from somewhere": lambda w, n: on(w, n, (95, EMPTY), (90, LEFT), (55, EMPTY)),
    "growth": lambda w, n: on(w, n, *growing(20, 1, 8)).job(n, [n], 0, 480, node=f"n-{n}"),
}


CASES = Cases(MUST_NOT_FIRE, MUST_FIRE)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world of all cases."""
    with CASES.analyzed(tmp_path_factory.mktemp("fleet"), now=480, detectors=[RULE]) as world:
        yield world


def found(world: World, case: str) -> list[dict[str, Any]]:
    """Findings of a case about its GPUs or its jobs."""
    names = ("subject_kind", "subject_id", "state", "started", "last_seen", "severity", "run_id", "units", "evidence")
    rows = world.store.sql(
        """select subject_kind, subject_id, state, started_us, last_seen_us, severity, run_id, wasted_units, evidence
        from finding where detector = $rule and starts_with(subject_id, $name) order by started_us""",
        rule=RULE,
        name=CASES.name(case),
    )
    listed = [dict(zip(names, row, strict=True)) for row in rows]
    return [
        row | {"started": minutes(row["started"]), "last_seen": minutes(row["last_seen"])}
        | {"evidence": json.loads(row["evidence"])}
        for row in listed
    ]  # fmt: skip


@pytest.mark.parametrize("case", MUST_NOT_FIRE)
def test_it_does_not_accuse(fleet: World, case: str) -> None:
    """A false accusation costs more than a miss."""
    assert [] == found(fleet, case)


@pytest.mark.parametrize(
    ("case", "started", "ended"),
    [
        ("left by a job", 65, 180),
        ("left by a job, and taken by the next", 65, 119),
        ("from somewhere", 96, 185),
    ],
)
def test_it_finds_memory_that_nobody_holds(fleet: World, case: str, started: float, ended: float) -> None:
    """From five minutes after the job, or from its first sample, to its last."""
    (finding,) = found(fleet, case)

    assert ("gpu", CASES.name(case), "resolved") == (finding["subject_kind"], finding["subject_id"], finding["state"])
    assert (started, ended) == (finding["started"], finding["last_seen"])
    assert 12 == finding["evidence"]["fb_used_gib"]


def test_it_names_the_job_that_left_it(fleet: World) -> None:
    """And nobody where no job was there."""
    (left,), (other,) = found(fleet, "left by a job"), found(fleet, "from somewhere")

    assert (CASES.name("left by a job"), None) == (left["evidence"].get("last_job"), other["evidence"].get("last_job"))
    assert left["run_id"] is not None and other["run_id"] is None
    assert (
        f"12.0 GiB in use on an unallocated GPU, left by job {CASES.name('left by a job')}, for 1 h 55 min."
        == MEMORY_LEAK.summary(left["evidence"])
    )


def test_it_finds_memory_that_only_grows(fleet: World) -> None:
    """1 GiB an hour of 21: judged when six hours are known, and nothing is claimed."""
    (finding,) = found(fleet, "growth")
    evidence = finding["evidence"]

    assert ("job", 300, 480, "0") == (
        finding["subject_kind"], finding["started"], finding["last_seen"], finding["units"],
    )  # fmt: skip
    assert (1.0, "growth") == (round(evidence["growth_gib_per_hour"], 3), evidence["shape"])
    assert evidence["r2"] > 0.99


def test_it_is_grave_while_somebody_waits(tmp_path: Path) -> None:
    """A request that waits while the GPU is free and full; without one it is medium."""
    with_one, without = World(tmp_path / "a"), World(tmp_path / "b")
    for world in (with_one, without):
        on(world, "G0", (60, BUSY), (120, LEFT)).job("7", ["G0"], 0, 60, node="n-G0")
    waiting(with_one, "8", 70, 170).analyze(now=180, detectors=[RULE])
    without.analyze(now=180, detectors=[RULE])
    severities = [
        world.store.sql("select severity, state from finding where detector = $r", r=RULE)
        for world in (with_one, without)
    ]

    assert [[("high", "open")], [("medium", "open")]] == severities


def test_a_slice_is_a_subject_of_its_own(tmp_path: Path) -> None:
    """Its memory is its own."""
    world = World(tmp_path)
    world.node("n-G0", 0, {"1g.10gb": 1}).gpu("G0", (180, using(5)), gi=1, profile="1g.10gb", node="n-G0").analyze(
        now=180, detectors=[RULE]
    )

    assert [("slice", "G0/GI-1", [device_key(CLUSTER, "G0", 1)])] == world.store.sql(
        "select subject_kind, subject_id, device_ids from finding where detector = $r", r=RULE
    )


def test_the_page_is_true(checkout: Path) -> None:
    """Every threshold and default of the module stands on the page, and nothing else."""
    page = checkout / "docs/detectors/memory-leak.md"

    assert printed_thresholds(MEMORY_LEAK) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
