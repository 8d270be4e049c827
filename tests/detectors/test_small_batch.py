"""Batches too small for the GPU: what is none or belongs to another rule, then what is, to the microsecond."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from gpuwatch.detectors.small_batch import SMALL_BATCH
from tests.worlds.cases import Cases, Scene
from tests.worlds.detectors import (
    IDLE,
    PAGE_HEADINGS,
    T0,
    Found,
    Level,
    World,
    level,
    page_headings,
    page_rows,
    printed_thresholds,
    without,
)

RULE = "small-batch"
GIB = 2**30
MEMORY = {"fb_used_bytes": 20 * GIB, "fb_total_bytes": 80 * GIB}
SMALL = level(0.75, 0.24, 0.05, 0.10, 250, sm_occupancy_ratio=0.1) | MEMORY
"""A server that takes one request at a time: .25 of a second is a gap, .51 stalled, .115 below the roof, .125 memory."""
HOLLOW = SMALL | {"gr_engine_ratio": 0.95, "gpu_util_ratio": 0.95}
"""The same, but busy all the time: false-utilization speaks of it."""
LOST = Fraction(1, 2)
"""1 - .24 / .8 is .7: at most half is claimed, of `stalled`."""
WORK = level(0.97, 0.87, 0.45, 0.43, 600) | MEMORY
DECODE = level(0.98, 0.38, 0.06, 0.66, 300, sm_occupancy_ratio=0.2) | MEMORY


def held(readings: Level, minutes: float = 240, **job: object) -> Scene:
    """One GPU that reads the same for four hours, in one job."""
    return lambda w, n: w.gpu(n, (minutes, readings)).job(n, [n], 0, minutes, **job)  # type: ignore[arg-type]


def gang(readings: Level) -> Scene:
    """Two GPUs that read the same for four hours, in one job."""
    return lambda w, n: (
        w.gpu(f"{n}-0", (240, readings)).gpu(f"{n}-1", (240, readings)).job(n, [f"{n}-0", f"{n}-1"], 0, 240)
    )


MUST_NOT_FIRE: dict[str, Scene] = {
    "no sample at all": lambda w, n: w.job(n, 1, 0, 240, node=f"node-{n}"),
    "idle": held(IDLE | MEMORY),
    "well-tuned training": held(WORK),
    "a memory-bound decode": held(DECODE),
    "a GEMM of low occupancy": held(level(0.98, 0.39, 0.38, 0.20, 300, sm_occupancy_ratio=0.08) | MEMORY),
    "memory at 60 % of its roof": held(SMALL | {"dram_active_ratio": 0.481}),
    "memory is full": held(SMALL | {"fb_used_bytes": 50 * GIB}),
    "nobody read the memory": held(without(SMALL, "fb_used_bytes", "fb_total_bytes")),
    "more than half of the board power": held(SMALL | {"power_watts": 360}),
    "nobody read the power": held(without(SMALL, "power_watts")),
    "a model that nobody knows": lambda w, n: w.gpu(n, (240, SMALL), model="Future 9000").job(n, [n], 0, 240),
    "many warps an SM": held(SMALL | {"sm_occupancy_ratio": 0.35}),
    "40 % of the SMs": held(SMALL | {"sm_active_ratio": 0.4}),
    "active for less than 60 % of the time": held(SMALL | {"gr_engine_ratio": 0.55, "gpu_util_ratio": 0.55}),
    "fed by the host over PCIe": held(SMALL | {"pcie_rx_bytes_per_s": 2e9, "pcie_tx_bytes_per_s": 0.0}),
    "a gang that waits on its links": gang(SMALL | {"nvlink_tx_bytes_per_s": 2e11, "nvlink_rx_bytes_per_s": 2e11}),
    "80 minutes between warm-up and end": held(SMALL, 92),
    "small for an hour": lambda w, n: w.gpu(n, (60, SMALL), (180, WORK)).job(n, [n], 0, 240),
    "half of all windows": lambda w, n: w.gpu(n, *(((10, SMALL), (10, WORK)) * 12)).job(n, [n], 0, 240),
    "hours of which false-utilization speaks": held(HOLLOW),
    "the hour after it, of which little is known": lambda w, n: w.gpu(n, (175, HOLLOW), (20, None), (8, HOLLOW)).job(
        n, [n], 0, 203
    ),
    "the hour before it": lambda w, n: w.gpu(n, (40, None), (205, HOLLOW)).job(n, [n], 25, 245),
    "clocks held down by heat": held(SMALL | {"clocks_event_reasons": 0x20}),
    "label latency-critical": held(SMALL, labels={"latency-critical": "true"}),
    "an exempt label that has not expired": held(SMALL, labels={"gpuwatch.io/exempt-until": "2026-12-31"}),
    "SM_ACTIVE missing": held(without(SMALL, "sm_active_ratio")),
    "samples of two minutes in every five": lambda w, n: w.gpu(n, *(((2, SMALL), (3, None)) * 48)).job(n, [n], 0, 240),
}

MUST_FIRE: dict[str, Scene] = {
    "four hours": held(SMALL),
    "95 minutes": held(SMALL, 105),
    "no occupancy": held(without(SMALL, "sm_occupancy_ratio")),
    "a slice": lambda w, n: w.gpu(n, (240, SMALL), gi=1, profile="1g.10gb", job=n).job(n, 1, 0, 240, profile="1g.10gb"),
    "both of a gang": gang(SMALL),
    "SMs at 38 %": held(SMALL | {"sm_active_ratio": 0.38}),
}


CASES = Cases(MUST_NOT_FIRE, MUST_FIRE)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world of all cases."""
    with CASES.analyzed(tmp_path_factory.mktemp("fleet"), detectors=[RULE, "false-utilization"]) as world:
        yield world


def found(world: World, case: str) -> list[Found]:
    """Findings of a case."""
    return world.findings(RULE, CASES.name(case))


@pytest.mark.parametrize("case", MUST_NOT_FIRE)
def test_it_does_not_accuse(fleet: World, case: str) -> None:
    """A false accusation costs more than a miss."""
    assert [] == found(fleet, case)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param("four hours", [(10, 235, 225 * 60 * LOST)], id="half of the time, of what is stalled"),
        pytest.param("95 minutes", [(10, 100, 90 * 60 * LOST)], id="18 windows are enough"),
        pytest.param("no occupancy", [(10, 235, 225 * 60 * LOST)], id="occupancy need not be read"),
        pytest.param(
            "a slice", [(10, 235, 225 * 60 * LOST / 7)], id="a slice wastes its share, whatever the board draws"
        ),
        pytest.param("both of a gang", [(10, 235, 2 * 225 * 60 * LOST)], id="both devices are one finding"),
        # .37 stalled and half of .38 - .125 below the roof, of .5 that 1 - .38 / .8 = .525 allows
        pytest.param(
            "SMs at 38 %",
            [(10, 235, 225 * 60 * (Fraction(37, 100) + Fraction(255, 2000)))],
            id="stalled first, then half of what is below the roof",
        ),
    ],
)
def test_it_finds_the_small_kernels(fleet: World, case: str, expected: list[tuple[float, float, Fraction]]) -> None:
    """Start and end in minutes, wasted GPU-seconds."""
    assert expected == [(f.started, f.ended, f.wasted_s) for f in found(fleet, case)]


def test_it_says_what_it_saw(fleet: World) -> None:
    """The numbers of the windows, in words."""
    (finding,) = found(fleet, "four hours")

    assert (
        "1 of 1 device active 75 % of the time with 24 % of SMs at work and 25 % of memory in use, for two hours or longer."
        == SMALL_BATCH.summary(finding.evidence)
    )
    assert ("host", 45) == (finding.evidence["workload_class"], finding.evidence["windows"])


@pytest.mark.slow
def test_hours_one_by_one_say_what_all_at_once_do(tmp_path: Path) -> None:
    """The judgement of an hour needs no more than the hour before it and the one behind it."""
    world = World(tmp_path).gpu("G0", (150, WORK), (190, SMALL), (20, WORK)).job("7", ["G0"], 0, 360)
    world.analyze(now=360, detectors=[RULE])
    (finding,) = world.findings(RULE)
    assert (150, 340) == (finding.started, finding.ended)

    for first, last in ((0, 3), (3, 4), (4, 6)):
        world.analyze(
            now=360, since_us=T0 + first * 3_600_000_000, until_us=T0 + last * 3_600_000_000, detectors=[RULE]
        )
        assert [finding] == world.findings(RULE)


def test_the_page_is_true(checkout: Path) -> None:
    """Every threshold and default of the module stands on the page, and nothing else."""
    page = checkout / "docs/detectors/small-batch.md"

    assert printed_thresholds(SMALL_BATCH) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
