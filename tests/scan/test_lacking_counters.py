"""A scan of a fleet whose exporter has its default counters names the one that tells work from waiting."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.scan.document import headline
from gpuwatch.scan.facts import read_scan
from gpuwatch.state import State
from tests.worlds.world import BUSY, HOUR, SETTINGS, Gpu, World, claim, minutes, node, samples, us


def scanned(readings: dict[str, float]) -> dict[str, Any]:
    world = World().add(node(devices={"": 1}), claim("1", 0, HOUR), samples(Gpu(), minutes(0, HOUR), readings)).book()
    with State.open("sqlite://") as state:
        analyze(world.store, state, SETTINGS, now_us=us(4 * HOUR))
        return read_scan(world.store, state, None, us(4 * HOUR))


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        pytest.param(dict(BUSY), [], id="all that is needed is there"),
        pytest.param(
            {"gpu_util_ratio": 0.97, "gr_engine_ratio": 0.9, "tensor_active_ratio": 0.4, "dram_active_ratio": 0.2},
            [
                "1 held device delivers no DCGM_FI_PROF_SM_ACTIVE, DCGM_FI_PROF_SM_OCCUPANCY: a busy GPU may be working or waiting."
            ],
            id="SM activity is not",
        ),
    ],
)
def test_counters_that_are_missing_come_first(readings: dict[str, float], expected: list[str]) -> None:
    card = scanned(readings)
    found = [one["what"] for one in card["unknown"] if "deliver" in one["what"]]

    assert expected == found
    if expected:
        assert expected[0] == card["unknown"][0]["what"]
        assert "GPU time" in headline(card)
