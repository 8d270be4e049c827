"""One slow GPU in a gang: uneven work that is nobody's fault first, then a slow GPU, and what the others waited."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.detectors.straggler import STRAGGLER
from tests.worlds.detectors import Found, World, level, page_rows, printed_thresholds, us, without

RULE = "straggler"
MINUTES = 125
CLOCK = {"sm_clock_mhz": 1900.0, "gpu_temp_celsius": 60.0, "clocks_event_reasons": 0, "pcie_gen": 5, "pcie_gen_max": 5}
PORT = {"pcie_lanes": 16, "pcie_lanes_max": 16, "nvlink_crc_flit_error_count": 7}
FAST = level(0.98, 0.60, 0.30, 0.30, 500, **CLOCK, **PORT)
"""Waits: engine busy in the collective, SMs and tensor cores less."""
SLOW = level(0.98, 0.85, 0.45, 0.40, 450, **CLOCK, **PORT)
"""Computes 1.5 times as long."""
LOW_CLOCK = SLOW | {"sm_clock_mhz": 1400.0}

Scene = Callable[[World, str], object]


def gang(odd: dict[str, Any], rest: dict[str, Any] = FAST, *, gpus: int = 8, phases: Any = None, **job: Any) -> Scene:
    """A job on GPUs of which the first reads otherwise than the rest."""

    def play(w: World, n: str) -> None:
        w.gpu(f"{n}/0", *(phases or ((MINUTES, odd),)), node=n)
        for i in range(1, gpus):
            w.gpu(f"{n}/{i}", (MINUTES, rest), node=n)
        w.job(n, [f"{n}/{i}" for i in range(gpus)], 5, 120, node=n, **job)

    return play


def errors(w: World, n: str) -> None:
    """A slow GPU whose CRC errors rise."""
    gang(SLOW, phases=tuple((1, SLOW | {"nvlink_crc_flit_error_count": 7 + i}) for i in range(MINUTES)))(w, n)


MUST_NOT_FIRE: dict[str, Scene] = {
    "all alike": gang(FAST),
    "uneven work without a cause: a stage, an expert, rank 0": gang(SLOW),
    "a low clock that nobody waits for": gang(FAST | {"sm_clock_mhz": 1400.0}),
    "less work at a low clock": gang(level(0.98, 0.4, 0.2, 0.2, 300, **CLOCK, **PORT) | {"sm_clock_mhz": 1400.0}),
    "all of them at a low clock": gang(LOW_CLOCK, FAST | {"sm_clock_mhz": 1400.0}),
    "all of them held down by heat": gang(
        SLOW | {"clocks_event_reasons": 0x20}, FAST | {"clocks_event_reasons": 0x20}
    ),
    "a software power cap": gang(SLOW | {"clocks_event_reasons": 0x4}),
    "a host of an older PCIe generation": gang(SLOW | {"pcie_gen": 4}, FAST | {"pcie_gen": 4}),
    "old NVLink errors that do not rise": gang(SLOW | {"nvlink_crc_flit_error_count": 900}),
    "a clock 7 % lower": gang(SLOW | {"sm_clock_mhz": 1767.0}),
    "9 degrees hotter": gang(SLOW | {"gpu_temp_celsius": 69.0}),
    "three GPUs": gang(LOW_CLOCK, gpus=3),
    "two windows of four": gang(LOW_CLOCK, phases=((5, FAST), *(((10, LOW_CLOCK), (10, FAST)) * 6))),
    "a pipeline": gang(LOW_CLOCK, labels={"gpuwatch.io/parallelism": "pipeline"}),
    "mixture of experts": gang(LOW_CLOCK, labels={"parallelism": "MoE"}),
    "replicas of a server": gang(LOW_CLOCK, labels={"workload-class": "inference"}),
    "an exempt label that has not expired": gang(LOW_CLOCK, labels={"gpuwatch.io/exempt-until": "2026-12-31"}),
    "the others idle": gang(LOW_CLOCK, level(0.0, 0.0, 0.0, 0.0, 80, **CLOCK, **PORT)),
    "nobody reads clocks, heat or links": gang(without(SLOW, *CLOCK, *PORT), without(FAST, *CLOCK, *PORT)),
    "a twentieth more": gang(FAST | {"tensor_active_ratio": 0.315, "sm_clock_mhz": 1400.0}),
    "as uneven as the rest": lambda w, n: [
        *(
            w.gpu(f"{n}/{i}", (MINUTES, FAST | {"tensor_active_ratio": 0.2 + 0.05 * i, "sm_clock_mhz": 1900.0 - 50 * i}), node=n)
            for i in range(8)
        ),
        w.job(n, [f"{n}/{i}" for i in range(8)], 5, 120, node=n),
    ],
}  # fmt: skip

MUST_FIRE: dict[str, tuple[Scene, str]] = {
    "a low clock": (gang(LOW_CLOCK), "low clock"),
    "hardware slowdown": (gang(SLOW | {"clocks_event_reasons": 0x8}), "hardware or thermal slowdown"),
    "10.5 degrees hotter": (gang(SLOW | {"gpu_temp_celsius": 70.5}), "hot"),
    "half of its PCIe lanes": (gang(SLOW | {"pcie_lanes": 8}), "PCIe link below its width or generation"),
    "NVLink errors that rise": (errors, "NVLink errors"),
    "no tensor cores: by its SMs": (
        gang(
            LOW_CLOCK | {"tensor_active_ratio": 0.0, "fp32_active_ratio": 0.6},
            FAST | {"tensor_active_ratio": 0.0, "fp32_active_ratio": 0.4},
        ),
        "low clock",
    ),
    "three windows of four": (
        gang(LOW_CLOCK, phases=((5, FAST), *(((15, LOW_CLOCK), (5, FAST)) * 6))),
        "low clock",
    ),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Every scene in one fleet, judged at once."""
    world = World(tmp_path_factory.mktemp("world"))
    for number, scene in enumerate([*MUST_NOT_FIRE.values(), *(scene for scene, _ in MUST_FIRE.values())]):
        with world.store.transaction():
            scene(world, f"s{number}")
    assert [] == world.analyze(now=MINUTES, detectors=[RULE]).failed_rules
    yield world
    world.store.close()


Judged = dict[str, list[Found]]


@pytest.fixture(scope="module")
def judged(world: World) -> Judged:
    return {name: world.findings(RULE, f"s{number}") for number, name in enumerate([*MUST_NOT_FIRE, *MUST_FIRE])}


@pytest.mark.parametrize("name", MUST_NOT_FIRE)
def test_no_slow_gpu(judged: Judged, name: str) -> None:
    assert [] == judged[name]


@pytest.mark.parametrize("name", MUST_FIRE)
def test_a_slow_gpu_is_named_with_its_cause(judged: Judged, name: str) -> None:
    (found,) = judged[name]

    assert (f"{found.job}/0",) == found.devices
    assert MUST_FIRE[name][1] == found.evidence["causes"]


def test_others_wait_a_third_of_the_time(world: World, judged: Judged) -> None:
    """The others compute .30 where it computes .45: a third of 100 minutes, of each of seven."""
    (found,) = judged["a low clock"]
    others = Fraction(7 * 6000, 3)

    assert (15.0, 115.0) == (found.started, found.last_seen)
    assert pytest.approx(float(others), rel=1e-3) == float(found.wasted_s)
    assert (8, 1, 20) == tuple(found.evidence[name] for name in ("gpus", "slow_gpus", "windows"))
    assert (0.3333, 1400, 1900) == tuple(
        round(found.evidence[name], 4) for name in ("loss_ratio", "sm_clock_mhz", "gang_sm_clock_mhz")
    )
    assert 0.8 == found.confidence
    assert 0.6 == judged["10.5 degrees hotter"][0].confidence


def test_the_slow_one_wastes_nothing_itself(world: World, judged: Judged) -> None:
    (found,) = judged["a low clock"]
    claimed = world.store.sql("select distinct device_id from granted_claim where subject_id = $job", job=found.job)

    assert 7 == len(claimed)
    assert f"{found.job}/0" not in {world.names[device] for (device,) in claimed}


def test_judging_some_hours_again_changes_nothing(world: World, judged: Judged) -> None:
    world.analyze(now=MINUTES, detectors=[RULE], since_us=us(60), until_us=us(120))

    assert sorted((one for found in judged.values() for one in found), key=lambda one: one.key) == sorted(
        world.findings(RULE), key=lambda one: one.key
    )


def test_words() -> None:
    record = {
        "gpu": "GPU-a",
        "node": "n7",
        "causes": "low clock",
        "gpus": 8,
        "windows": 24,
        "busy_ratio": 0.45,
        "gang_busy_ratio": 0.3,
        "loss_ratio": 0.333,
        "sm_clock_mhz": 1400.0,
        "gang_sm_clock_mhz": 1900.0,
    }

    assert (
        "GPU-a on n7 at 1400 MHz, others at 1900 (low clock) computes 45 % of the time, the middle of its 8 GPUs 30 %: "
        "the others wait 33 % of the time in 2 h."
    ) == STRAGGLER.summary(record)
    assert "GPU-a on n7 (low clock)" in STRAGGLER.summary(record | {"sm_clock_mhz": 1900.0})
    assert "Drain n7" in STRAGGLER.remedy(record)


def test_the_page_prints_the_thresholds() -> None:
    page = Path(__file__).parents[2] / "docs/detectors" / f"{RULE}.md"

    assert printed_thresholds(STRAGGLER) == page_rows(page)
