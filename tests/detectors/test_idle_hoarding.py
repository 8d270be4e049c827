"""Held and idle GPUs: what must not be called hoarding, then what must, to the microsecond."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from gpuwatch.detectors.idle_hoarding import IDLE_HOARDING
from gpuwatch.settings import Settings
from tests.worlds.cases import Cases, Scene
from tests.worlds.detectors import (
    HOLLOW,
    IDLE,
    PAGE_HEADINGS,
    T0,
    WORK,
    Found,
    World,
    level,
    page_headings,
    page_rows,
    printed_thresholds,
    us,
    without,
)

RULE = "idle-hoarding"
EXEMPT = "gpuwatch.io/exempt-until"


def two_jobs(world: World, name: str, labels: dict[str, str] | None = None) -> World:
    """Two jobs with a GPU each of a node, and no source says which."""
    for letter in "ab":
        world.job(f"{name}{letter}", 1, 0, 120, node=f"node-{name}", labels=labels)
    return world


def two_records(world: World, name: str, *states: str) -> World:
    """A job that idles when it was last seen, by records of one time that differ in its state."""
    world.gpu(name, (30, WORK), (60, IDLE))
    for state in states:
        world.job(name, [name], 0, None, heard=90, state=state)
    return world


MUST_NOT_FIRE: dict[str, Scene] = {
    "no sample at all": lambda w, n: w.job(n, 1, 0, 120, node=f"node-{n}"),
    "a free GPU that idles": lambda w, n: w.gpu(n, (120, IDLE)),
    "idle for 14 minutes": lambda w, n: w.gpu(n, (30, WORK), (14, IDLE), (30, WORK)).job(n, [n], 0, 74),
    "idle for 14 minutes after the warm-up": lambda w, n: w.gpu(n, (24, IDLE), (60, WORK)).job(n, [n], 0, 84),
    "a job that ends before warm-up and 15 minutes": lambda w, n: w.gpu(n, (40, IDLE)).job(n, [n], 5, 29),
    "one busy sample clears it": lambda w, n: w.gpu(n, (30, WORK), (14, IDLE), (1, WORK), (14, IDLE), (30, WORK)).job(
        n, [n], 0, 89
    ),
    "a phase on the CPU of 14 minutes in every half hour": lambda w, n: w.gpu(n, *(((16, WORK), (14, IDLE)) * 6)).job(
        n, [n], 0, 180
    ),
    "a request every ten minutes": lambda w, n: w.gpu(n, *(((9, IDLE), (1, level(0.3, 0.2, 0.05, 0.2, 200))) * 12)).job(
        n, [n], 0, 120
    ),
    "a gap in telemetry breaks the run": lambda w, n: w.gpu(
        n, (30, WORK), (13, IDLE), (10, None), (13, IDLE), (30, WORK)
    ).job(n, [n], 0, 96),
    "a restarted exporter missed three scrapes": lambda w, n: w.gpu(
        n, (30, WORK), (12, IDLE), (4, None), (12, IDLE), (30, WORK)
    ).job(n, [n], 0, 88),
    "a MIG slice with GPU_UTIL 0 and no profiling": lambda w, n: w.gpu(
        n, (120, {"gpu_util_ratio": 0.0, "power_watts": 70}), gi=1, profile="1g.10gb", job=n
    ).job(n, 1, 0, 120, profile="1g.10gb"),
    "samples without any activity": lambda w, n: w.gpu(n, (120, {"power_watts": 70})).job(n, [n], 0, 120),
    "board power of 400 W contradicts an idle engine": lambda w, n: w.gpu(
        n, (30, WORK), (60, IDLE | {"power_watts": 400}), (30, WORK)
    ).job(n, [n], 0, 120),
    "engine at 2 %": lambda w, n: w.gpu(n, (120, IDLE | {"gr_engine_ratio": 0.02})).job(n, [n], 0, 120),
    "SMs at 1 %": lambda w, n: w.gpu(n, (120, IDLE | {"sm_active_ratio": 0.01})).job(n, [n], 0, 120),
    "tensor cores at 0.5 %": lambda w, n: w.gpu(n, (120, IDLE | {"tensor_active_ratio": 0.005})).job(n, [n], 0, 120),
    "memory at 1 %": lambda w, n: w.gpu(n, (120, IDLE | {"dram_active_ratio": 0.01})).job(n, [n], 0, 120),
    "suspended by the scheduler for an hour": lambda w, n: w.gpu(n, (30, WORK), (60, IDLE), (30, WORK)).job(
        n, [n], 0, 120, suspended=60
    ),
    "suspended for an hour, and idle for 14 minutes": lambda w, n: w.gpu(n, (30, WORK), (74, IDLE), (30, WORK)).job(
        n, [n], 0, 134, suspended=60
    ),
    "suspended when it was last seen": lambda w, n: w.gpu(n, (30, WORK), (60, IDLE)).job(
        n, [n], 0, None, heard=90, state="SUSPENDED"
    ),
    "suspended twice, and once more when it was last seen": lambda w, n: w.gpu(
        n, (30, WORK), (20, IDLE), (30, WORK), (40, IDLE), (30, WORK), (60, IDLE)
    ).job(n, [n], 0, None, heard=210, state="SUSPENDED", suspended=60),
    "suspended when it was last seen, and a record of the same time says it runs": lambda w, n: two_records(
        w, n, "RUNNING", "SUSPENDED"
    ),
    "the same records in the other order": lambda w, n: two_records(w, n, "SUSPENDED", "RUNNING"),
    "the owner changes in the middle": lambda w, n: (
        w.gpu(n, (30, WORK), (24, IDLE), (30, WORK)).job(f"{n}a", [n], 0, 42).job(f"{n}b", [n], 42, 84)
    ),
    "an exempt label that has not expired": lambda w, n: w.gpu(n, (120, IDLE)).job(
        n, [n], 0, 120, labels={EXEMPT: "2026-12-31"}
    ),
    "an exempt label with a time of day": lambda w, n: w.gpu(n, (120, IDLE)).job(
        n, [n], 0, 120, labels={EXEMPT: "2026-12-31T12:00:00Z"}
    ),
    "a GPU that tells of a hardware fault": lambda w, n: w.gpu(n, (60, WORK), (60, IDLE | {"xid_code": 79})).job(
        n, [n], 0, 120
    ),
    "checkpoints of 18 minutes every two hours": lambda w, n: w.gpu(n, *(((102, WORK), (18, IDLE)) * 8)).job(
        n, [n], 0, 960
    ),
    "checkpoints of five minutes": lambda w, n: w.gpu(n, *(((25, WORK), (5, IDLE)) * 5)).job(n, [n], 0, 150),
    "ten idle minutes sampled every five": lambda w, n: w.gpu(n, (30, WORK), (10, IDLE), (30, WORK), step_s=300).job(
        n, [n], 0, 70
    ),
    "14 idle minutes sampled every ten seconds": lambda w, n: w.gpu(
        n, (30, WORK), (14, IDLE), (30, WORK), step_s=10
    ).job(n, [n], 0, 74),
    "one idle sample where a scrape comes every 15 minutes": lambda w, n: w.gpu(
        n, (60, WORK), (15, IDLE), (60, WORK), step_s=900
    ).job(n, [n], 0, 135),
    "one of two GPUs, and no source says which": lambda w, n: (
        w.gpu(f"{n}-0", (120, IDLE), node=f"node-{n}")
        .gpu(f"{n}-1", (120, WORK), node=f"node-{n}")
        .job(n, 1, 0, 120, node=f"node-{n}")
    ),
    "two jobs on a node of which one GPU works": lambda w, n: two_jobs(
        w.gpu(f"{n}-0", (120, IDLE), node=f"node-{n}").gpu(f"{n}-1", (120, WORK), node=f"node-{n}"), n
    ),
    "two jobs on a node whose GPUs idle in turn": lambda w, n: two_jobs(
        w.gpu(f"{n}-0", (64, IDLE), (56, WORK), node=f"node-{n}").gpu(
            f"{n}-1", (50, WORK), (70, IDLE), node=f"node-{n}"
        ),
        n,
    ),
    "two jobs on a node with a free GPU that works": lambda w, n: two_jobs(
        w.gpu(f"{n}-0", (120, IDLE), node=f"node-{n}")
        .gpu(f"{n}-1", (120, IDLE), node=f"node-{n}")
        .gpu(f"{n}-2", (120, WORK), node=f"node-{n}"),
        n,
    ),
    "one of two GPUs that idle in turn": lambda w, n: (
        w.gpu(f"{n}-0", (64, IDLE), (56, WORK), node=f"node-{n}")
        .gpu(f"{n}-1", (50, WORK), (70, IDLE), node=f"node-{n}")
        .job(n, 1, 0, 120, node=f"node-{n}")
    ),
    "one of two GPUs, of which one is not measured for a time": lambda w, n: (
        w.gpu(f"{n}-0", (60, IDLE), node=f"node-{n}")
        .gpu(f"{n}-1", (22, IDLE), node=f"node-{n}")
        .gpu(f"{n}-1", (13, IDLE), node=f"node-{n}", start=47)
        .job(n, 1, 0, 60, node=f"node-{n}")
    ),
    "one of two GPUs, of which one was never measured": lambda w, n: (
        w.gpu(f"{n}-0", (120, IDLE), node=f"node-{n}").node(f"node-{n}", 0, {"": 2}).job(n, 1, 0, 120, node=f"node-{n}")
    ),
    "one of two GPUs that idled before it came and after it went": lambda w, n: (
        w.gpu(f"{n}-0", (60, IDLE), (20, WORK), (60, IDLE), node=f"node-{n}")
        .gpu(f"{n}-1", (60, IDLE), (20, WORK), (60, IDLE), node=f"node-{n}")
        .job(n, 1, 52, 88, node=f"node-{n}")
    ),
    "two jobs on a node with another GPU that is not measured": lambda w, n: two_jobs(
        w.gpu(f"{n}-0", (120, IDLE), node=f"node-{n}")
        .gpu(f"{n}-1", (120, IDLE), node=f"node-{n}")
        .node(f"node-{n}", 0, {"": 3})
        .job(f"{n}c", 1, 0, 120, node=f"node-{n}"),
        n,
    ),
    "two jobs of which nobody knows how much lies on an idle node": lambda w, n: two_jobs(
        w.gpu(f"{n}-0", (120, IDLE), node=f"node-{n}").gpu(f"{n}-1", (120, IDLE), node=f"node-{n}"),
        n,
        labels={"spread": "estimated"},
    ),
    "two jobs that came one after the other to a node that idles": lambda w, n: (
        w.gpu(f"{n}-0", (24, IDLE), (66, WORK), node=f"node-{n}")
        .gpu(f"{n}-1", (24, IDLE), (66, WORK), node=f"node-{n}")
        .job(f"{n}a", 1, 0, 90, node=f"node-{n}")
        .job(f"{n}b", 1, 17, 90, node=f"node-{n}")
    ),
    "busy by name with few SMs": lambda w, n: w.gpu(n, (120, HOLLOW)).job(n, [n], 0, 120),
}

UTIL_ONLY = {"gpu_util_ratio": 0.0}
TICKLED = IDLE | {"gr_engine_ratio": 0.013, "sm_active_ratio": 0.004}

MUST_FIRE: dict[str, Scene] = {
    "15 minutes": lambda w, n: w.gpu(n, (30, WORK), (15, IDLE), (30, WORK)).job(n, [n], 0, 75),
    "40 minutes": lambda w, n: w.gpu(n, (20, WORK), (40, IDLE), (20, WORK)).job(n, [n], 0, 80),
    "from the start": lambda w, n: w.gpu(n, (30, IDLE), (30, WORK)).job(n, [n], 5, 60),
    "an hour more than suspended": lambda w, n: w.gpu(n, (20, WORK), (120, IDLE), (20, WORK)).job(
        n, [n], 0, 160, suspended=60
    ),
    "from its start, suspended meanwhile": lambda w, n: w.gpu(n, (130, IDLE)).job(n, [n], 5, 125, suspended=60),
    "suspended after the idle time": lambda w, n: w.gpu(n, (20, WORK), (40, IDLE), (20, WORK), (60, IDLE)).job(
        n, [n], 0, None, heard=140, state="SUSPENDED", suspended=0
    ),
    "one hour": lambda w, n: w.gpu(n, (20, WORK), (60, IDLE), (20, WORK)).job(n, [n], 0, 100),
    "two hours": lambda w, n: w.gpu(n, (20, WORK), (120, IDLE), (20, WORK)).job(n, [n], 0, 160),
    "one of four": lambda w, n: (
        w.gpu(f"{n}-0", (120, WORK))
        .gpu(f"{n}-1", (120, WORK))
        .gpu(f"{n}-2", (20, WORK), (60, IDLE), (40, WORK))
        .gpu(f"{n}-3", (120, WORK))
        .job(n, [f"{n}-{i}" for i in range(4)], 0, 120)
    ),
    "a slice": lambda w, n: w.gpu(n, (20, WORK), (40, IDLE), (20, WORK), gi=1, profile="1g.10gb", job=n).job(
        n, 1, 0, 80, profile="1g.10gb"
    ),
    "tickled": lambda w, n: w.gpu(
        n, (20, WORK), *(((4, IDLE), (1, TICKLED | {"gpu_util_ratio": 1.0})) * 8), (20, WORK)
    ).job(n, [n], 0, 80),
    "GPU_UTIL only": lambda w, n: w.gpu(
        n, (20, {"gpu_util_ratio": 0.9}), (40, UTIL_ONLY), (20, {"gpu_util_ratio": 0.9})
    ).job(n, [n], 0, 80),
    "no power, no memory, no tensor": lambda w, n: w.gpu(
        n,
        (20, without(WORK, "power_watts", "dram_active_ratio", "tensor_active_ratio")),
        (40, without(IDLE, "power_watts", "dram_active_ratio", "tensor_active_ratio")),
        (20, without(WORK, "power_watts", "dram_active_ratio", "tensor_active_ratio")),
    ).job(n, [n], 0, 80),
    "a context at 120 W": lambda w, n: w.gpu(n, (20, WORK), (40, IDLE | {"power_watts": 120}), (20, WORK)).job(
        n, [n], 0, 80
    ),
    "two idle runs": lambda w, n: w.gpu(n, (20, WORK), (20, IDLE), (20, WORK), (30, IDLE), (10, WORK)).job(
        n, [n], 0, 100
    ),
    "expired exemption": lambda w, n: w.gpu(n, (20, WORK), (40, IDLE), (20, WORK)).job(
        n, [n], 0, 80, labels={EXEMPT: "2026-01-01"}
    ),
    "requeued onto another GPU": lambda w, n: (
        w.gpu(f"{n}-0", (20, WORK), (40, IDLE))
        .gpu(f"{n}-1", (60, WORK), start=70)
        .job(n, [f"{n}-0"], 0, 60, run_key=f"{n}a")
        .job(n, [f"{n}-1"], 70, 130, run_key=f"{n}b")
    ),
    "exemption that ends": lambda w, n: w.gpu(n, (120, IDLE)).job(
        n, [n], 0, 120, labels={EXEMPT: "2026-01-05T01:00:00Z"}
    ),
    "all GPUs of a node": lambda w, n: (
        w.gpu(f"{n}-0", (20, WORK), (40, IDLE), (20, WORK), node=f"node-{n}")
        .gpu(f"{n}-1", (80, WORK), node=f"node-{n}")
        .job(n, 2, 0, 80, node=f"node-{n}")
    ),
    "two jobs with all GPUs of an idle node": lambda w, n: two_jobs(
        w.gpu(f"{n}-0", (30, WORK), (60, IDLE), (30, WORK), node=f"node-{n}").gpu(
            f"{n}-1", (40, WORK), (60, IDLE), (20, WORK), node=f"node-{n}"
        ),
        n,
    ),
    "one of two GPUs that both idle": lambda w, n: (
        w.gpu(f"{n}-0", (30, WORK), (60, IDLE), (30, WORK), node=f"node-{n}")
        .gpu(f"{n}-1", (40, WORK), (60, IDLE), (20, WORK), node=f"node-{n}")
        .job(n, 1, 0, 120, node=f"node-{n}")
    ),
    "two of three idle GPUs": lambda w, n: two_jobs(
        w.gpu(f"{n}-0", (30, WORK), (60, IDLE), (30, WORK), node=f"node-{n}")
        .gpu(f"{n}-1", (120, IDLE), node=f"node-{n}")
        .gpu(f"{n}-2", (120, IDLE), node=f"node-{n}"),
        n,
    ),
    "two scrapers": lambda w, n: (
        w.gpu(n, (20, WORK), (40, IDLE), (20, WORK))
        .gpu(n, (20, WORK), (40, IDLE), (20, WORK), start=0.2)
        .job(n, [n], 0, 80)
    ),
    "array": lambda w, n: (
        w.gpu(f"{n}-0", (20, WORK), (40, IDLE), (20, WORK))
        .gpu(f"{n}-1", (20, WORK), (40, IDLE), (20, WORK))
        .job(f"{n}_0", [f"{n}-0"], 0, 80)
        .job(f"{n}_1", [f"{n}-1"], 0, 80)
    ),
    "deployment": lambda w, n: (
        w.gpu(f"{n}-0", (20, WORK), (40, IDLE), (20, WORK), pod=f"{n}-abc")
        .gpu(f"{n}-1", (40, WORK), (30, IDLE), (10, WORK), pod=f"{n}-def")
        .job(f"ml/{n}", 1, 0, 80, run_key=f"{n}-abc", scheduler="kubernetes", pod=f"{n}-abc")
        .job(f"ml/{n}", 1, 0, 80, run_key=f"{n}-def", scheduler="kubernetes", pod=f"{n}-def")
    ),
    "requeued": lambda w, n: (
        w.gpu(n, (20, WORK), (20, IDLE), (30, WORK), (20, IDLE), (20, WORK))
        .job(n, [n], 0, 50, run_key=f"{n}@0", state="REQUEUED")
        .job(n, [n], 50, 110, run_key=f"{n}@50")
    ),
    "an hour later": lambda w, n: (
        w.gpu(n, (20, WORK), (20, IDLE), (100, WORK), (30, IDLE), (30, WORK))
        .job(n, [n], 0, 60, run_key=f"{n}@0")
        .job(n, [n], 120, 180, run_key=f"{n}@120")
    ),
    "no container runs": lambda w, n: w.gpu(n, (80, IDLE), pod=f"{n}-0").job(
        f"ml/{n}", 1, 0, 80, scheduler="kubernetes", pod=f"{n}-0", state="ImagePullBackOff"
    ),
    "a container that failed and runs again": lambda w, n: w.gpu(n, (80, IDLE), pod=f"{n}-0").job(
        f"ml/{n}", 1, 0, 80, scheduler="kubernetes", pod=f"{n}-0", state="CrashLoopBackOff"
    ),
    "a forgotten notebook": lambda w, n: w.gpu(n, (20, WORK), (60, IDLE), pod=f"{n}-0").job(
        f"ml/{n}", 1, 0, 80, scheduler="kubernetes", pod=f"{n}-0", labels={"notebook-name": "ada"}
    ),
    "61 minutes later": lambda w, n: (
        w.gpu(n, (20, WORK), (20, IDLE), (101, WORK), (30, IDLE), (30, WORK))
        .job(n, [n], 0, 60, run_key=f"{n}@0")
        .job(n, [n], 121, 190, run_key=f"{n}@121")
    ),
} | {
    f"every {step} seconds": lambda w, n, step=step: w.gpu(n, (60, WORK), (60, IDLE), (60, WORK), step_s=step).job(
        n, [n], 0, 180
    )
    for step in (10, 15, 30, 90, 120, 300, 600)
}


CASES = Cases(MUST_NOT_FIRE, MUST_FIRE)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world of all cases, with every rule, here and only here: tests of other rules run their own."""
    with CASES.analyzed(tmp_path_factory.mktemp("fleet")) as world:
        yield world


def found(world: World, case: str) -> list[Found]:
    """Findings of a case, whatever its jobs are called."""
    name = CASES.name(case)
    return [f for f in world.findings(RULE) if f.job.removeprefix("ml/").startswith(name)]


@pytest.mark.parametrize("case", MUST_NOT_FIRE)
def test_it_does_not_accuse(fleet: World, case: str) -> None:
    """A false accusation costs more than a miss."""
    assert [] == found(fleet, case)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param("15 minutes", [(30, 45, 14 * 60)], id="15 idle minutes, the first is free"),
        pytest.param("40 minutes", [(20, 60, 39 * 60)], id="idle after activity, work after it"),
        pytest.param(
            "from the start", [(5, 30, 24 * 60)], id="idle from the start counts from the start, once it is long"
        ),
        pytest.param(
            "an hour more than suspended",
            [(80, 140, 59 * 60)],
            id="time in which the scheduler stopped it is not held against it",
        ),
        pytest.param("suspended after the idle time", [(20, 60, 39 * 60)], id="idle before it was suspended"),
        pytest.param("one of four", [(20, 80, 59 * 60)], id="one idle GPU of four is charged alone"),
        pytest.param(
            "two jobs with all GPUs of an idle node",
            [(40, 90, 49 * 60), (40, 90, 49 * 60)],
            id="of two jobs with all GPUs of a node each is charged for what all of them idled",
        ),
        pytest.param(
            "one of two GPUs that both idle", [(40, 90, 49 * 60)], id="whichever of two GPUs that idle it has"
        ),
        pytest.param(
            "two of three idle GPUs",
            [(30, 90, 59 * 60), (30, 90, 59 * 60)],
            id="whichever two of three GPUs that idle they have",
        ),
        pytest.param("a slice", [(20, 60, Fraction(39 * 60, 7))], id="a slice wastes its share of the GPU"),
        pytest.param(
            "tickled", [(20, 60, 39 * 60)], id="a kernel every five minutes that only GPU_UTIL sees hides nothing"
        ),
        pytest.param(
            "GPU_UTIL only", [(20, 60, 39 * 60)], id="GPU_UTIL 0 on a whole GPU is idle where nothing better is sent"
        ),
        pytest.param("no power, no memory, no tensor", [(20, 60, 39 * 60)], id="engine and SMs alone are enough"),
        pytest.param(
            "a context at 120 W", [(20, 60, 39 * 60)], id="an open context on an H100 draws 120 W and is idle"
        ),
        pytest.param("two idle runs", [(20, 90, (19 + 29) * 60)], id="two idle runs of one job are one finding"),
        pytest.param("expired exemption", [(20, 60, 39 * 60)], id="an exemption that has expired exempts nobody"),
        pytest.param("exemption that ends", [(60, 120, 59 * 60)], id="what was idle under an exemption stays exempt"),
        pytest.param("all GPUs of a node", [(20, 60, 39 * 60)], id="a job that holds all GPUs needs no names"),
        pytest.param("array", [(20, 60, 39 * 60)] * 2, id="array tasks are jobs of their own"),
        pytest.param("deployment", [(20, 70, (39 + 29) * 60)], id="pods of one Deployment are one finding"),
        pytest.param("requeued", [(20, 90, (19 + 19) * 60)], id="a requeued run continues the finding"),
        pytest.param("an hour later", [(20, 170, (19 + 29) * 60)], id="a run within an hour continues the finding"),
        pytest.param(
            "61 minutes later", [(20, 40, 19 * 60), (141, 171, 29 * 60)], id="a run after 61 minutes is another finding"
        ),
        *(
            pytest.param(case, [(60, 120, 59 * 60)], id=f"60 idle minutes sampled {case}")
            for case in MUST_FIRE
            if case.startswith("every ")
        ),
    ],
)
def test_it_finds_the_idle_time(fleet: World, case: str, expected: list[tuple[float, float, Fraction]]) -> None:
    """Start and end of the condition in minutes, wasted GPU-seconds exactly."""
    assert expected == [(f.started, f.ended, f.wasted_s) for f in found(fleet, case)]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param("one of four", ("-2",), id="only the idle one of four"),
        pytest.param("deployment", ("-0", "-1"), id="the GPUs of both pods"),
        pytest.param("a slice", ("/1",), id="the slice, not its GPU"),
    ],
)
def test_it_names_the_idle_devices_only(fleet: World, case: str, expected: tuple[str, ...]) -> None:
    """The idle j of k."""
    assert [tuple(CASES.name(case) + suffix for suffix in expected)] == [f.devices for f in found(fleet, case)]


@pytest.mark.parametrize(
    ("case", "shape", "tier", "confidence"),
    [
        ("40 minutes", "after activity", "notify", 0.7),
        ("from the start", "from its start", "notify", 0.7),
        ("from its start, suspended meanwhile", "from its start", "warn", 0.85),
        ("one of four", "some of its devices", "warn", 0.85),
        ("one hour", "after activity", "warn", 0.85),
        ("requeued onto another GPU", "after activity", "notify", 0.7),
        ("two hours", "after activity", "reclaim", 0.95),
        ("GPU_UTIL only", "after activity", "notify", 0.7 * 0.4),
    ],
)
def test_it_says_how_sure_it_is(fleet: World, case: str, shape: str, tier: str, confidence: float) -> None:
    """Longer is surer; without profiling or power it is hardly sure."""
    (finding,) = found(fleet, case)

    assert (shape, tier) == (finding.evidence["shape"], finding.evidence["tier"])
    assert pytest.approx(confidence) == finding.confidence


def test_waste_stays_within_the_bucket_it_claims(fleet: World) -> None:
    """Seconds that the ledger does not call hoarded are nobody's waste."""
    over = {
        f.job: (f.wasted_s, booked)
        for f in fleet.findings(RULE)
        if f.wasted_s > (booked := fleet.booked_s("hoarded", job=f.job)) or f.bucket != "hoarded"
    }

    assert {} == over
    assert {"resolved"} == {f.state for f in fleet.findings(RULE)}


def test_a_summary_counts_devices(fleet: World) -> None:
    """One sentence with who, how many and how long; the remedy fits the shape."""
    (finding,) = found(fleet, "one of four")

    assert (
        "1 of 4 devices idle, some of its devices: 1 device-hour in 1 idle run, the longest 1 h."
        == IDLE_HOARDING.summary(finding.evidence)
    )
    assert IDLE_HOARDING.remedy(finding.evidence).startswith("Shrink the request to 3 devices")


def test_it_says_why_no_container_runs(fleet: World) -> None:
    (pulls,), (fails,) = found(fleet, "no container runs"), found(fleet, "a container that failed and runs again")

    assert ("ImagePullBackOff", None) == (pulls.evidence.get("not_running"), fails.evidence.get("not_running"))
    assert IDLE_HOARDING.summary(pulls.evidence).endswith("No container of its pod runs: ImagePullBackOff.")
    assert "pull secret" in IDLE_HOARDING.remedy(pulls.evidence)
    assert "pull secret" not in IDLE_HOARDING.remedy(pulls.evidence | {"job_ended": True})


def test_the_remedy_of_a_session_is_one_for_sessions(fleet: World) -> None:
    (notebook,), (job,) = found(fleet, "a forgotten notebook"), found(fleet, "one hour")

    assert ("interactive", None) == (notebook.evidence.get("use"), job.evidence.get("use"))
    assert "idle culler" in IDLE_HOARDING.remedy(notebook.evidence | {"tier": "reclaim"})
    assert "time limit" in IDLE_HOARDING.remedy(notebook.evidence | {"job_ended": True})
    assert "resubmitted" in IDLE_HOARDING.remedy(job.evidence | {"tier": "reclaim"})


# What happens to a finding over time -------------------------------------------------------------------------------


def test_it_is_open_while_the_job_idles_and_resolves_when_it_works(world: World) -> None:
    """The same finding with the same key: opened once, closed at the end of the idle time."""
    world.gpu("G0", (20, WORK), (60, IDLE)).job("7", ["G0"], 0, None, heard=80).analyze(now=80, detectors=[RULE])
    (first,) = world.findings(RULE)
    world.gpu("G0", (20, IDLE), start=80).job("7", ["G0"], 0, None, heard=100).analyze(now=100, detectors=[RULE])
    (second,) = world.findings(RULE)
    world.gpu("G0", (30, WORK), start=100).job("7", ["G0"], 0, None, heard=130).analyze(now=130, detectors=[RULE])
    (third,) = world.findings(RULE)

    assert ("open", 20, None, 80) == (first.state, first.started, first.ended, first.last_seen)
    assert ("open", 20, None, 100) == (second.state, second.started, second.ended, second.last_seen)
    assert ("resolved", "condition ended", 20, 100) == (third.state, third.reason, third.started, third.ended)
    assert [59 * 60, 79 * 60, 79 * 60] == [first.wasted_s, second.wasted_s, third.wasted_s]
    assert {first.key} == {first.key, second.key, third.key}
    assert {us(80)} == {first.opened_us, second.opened_us, third.opened_us}


def test_analysing_again_keeps_everything(world: World) -> None:
    """Also when the whole window is computed anew, at another time."""
    world.gpu("G0", (20, WORK), (60, IDLE), (20, WORK)).job("7", ["G0"], 0, 100).analyze(now=100, detectors=[RULE])
    before = world.rows("finding")
    world.analyze(now=500, detectors=[RULE])
    world.analyze(now=900, since_us=T0, detectors=[RULE])

    assert 1 == len(before)
    assert before == world.rows("finding")


def test_late_samples_keep_the_key(world: World) -> None:
    """Backfilled idle hours lengthen the same finding."""
    world.gpu("G0", (20, WORK), (40, IDLE), (60, None), (20, WORK)).job("7", ["G0"], 0, 140).analyze(
        now=140, detectors=[RULE]
    )
    (before,) = world.findings(RULE)
    world.gpu("G0", (60, IDLE), start=60).analyze(now=200, detectors=[RULE])
    (after,) = world.findings(RULE)

    assert before.key == after.key
    assert (60, 120) == (before.ended, after.ended)
    assert us(140) == after.opened_us


def test_late_work_withdraws_the_finding_and_what_it_claimed(world: World) -> None:
    """A second exporter's late samples show that the GPU worked: the finding says why it went, and claims nothing of the ledger."""
    world.gpu("G0", (20, WORK), (20, IDLE), (20, WORK)).job("7", ["G0"], 0, 60).analyze(now=60, detectors=[RULE])
    world.gpu("G0", (20, WORK), start=20).analyze(now=90, detectors=[RULE])
    (finding,) = world.findings(RULE)

    assert ("resolved", "records changed", 0) == (finding.state, finding.reason, finding.wasted_s)
    assert 0 == world.booked_s("hoarded")


def test_another_threshold_resolves_the_finding_as_changed_by_the_rule(world: World) -> None:
    """20 idle minutes are none when the site asks for 25."""
    world.gpu("G0", (20, WORK), (20, IDLE), (20, WORK)).job("7", ["G0"], 0, 60).analyze(now=60, detectors=[RULE])
    world.settings = Settings(idle_minutes=25)
    world.analyze(now=90, since_us=T0, detectors=[RULE])

    assert [("resolved", "rule_changed")] == [(f.state, f.reason) for f in world.findings(RULE)]


def test_idleness_ends_with_its_job_and_not_with_a_later_word_of_the_scheduler(world: World) -> None:
    """Samples come a few minutes after Slurm's records: nobody saw the GPU of the job that runs work meanwhile."""
    world.gpu("G0", (20, WORK), (80, IDLE)).job("runs", ["G0"], 0, None, heard=107)
    world.gpu("G1", (20, WORK), (80, IDLE)).job("ended", ["G1"], 0, 90)
    world.analyze(now=107, detectors=[RULE])

    assert [("open", None)] == [(f.state, f.ended) for f in world.findings(RULE, "runs")]
    assert [("resolved", 90)] == [(f.state, f.ended) for f in world.findings(RULE, "ended")]


# Words ---------------------------------------------------------------------------------------------------------------


def test_the_page_is_true(checkout: Path) -> None:
    """Every threshold and default of the module stands on the page, and nothing else."""
    page = checkout / "docs/detectors/idle-hoarding.md"

    assert printed_thresholds(IDLE_HOARDING) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
