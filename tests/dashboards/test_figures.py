"""Figures are plain data: the order of the ledger, hatched where nobody measured, gaps left open."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.dashboards.components import figures
from tests.dashboards.fake_api import series


def test_a_stack_runs_in_the_order_of_the_ledger_and_hatches_what_nobody_measured() -> None:
    hours = {"schedulable": [1.0, None], "unobserved": [2.0, 2.0], "compute": [3.0, 3.0], "gap": [None, None]}
    figure = figures.stack(["2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z"], hours, 86400, "dark")
    bars = figure["data"]

    assert ["Compute", "Not measured", "Free"] == [bar["name"] for bar in bars]
    assert [False, True, False] == ["pattern" in bar["marker"] for bar in bars]
    assert "#35B98A" == bars[0]["marker"]["color"]
    assert [1.0, None] == bars[2]["y"]
    assert ("stack", "tozero") == (figure["layout"]["barmode"], figure["layout"]["yaxis"]["rangemode"])


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="no series"),
        pytest.param({"points": None}, id="no points"),
        pytest.param({"points": [{"at": "2026-11-01T00:00:00Z", "sm_active_ratio": None}]}, id="nothing measured"),
        pytest.param({"points": [{"at": "x", "coverage": 1.0, "devices": 3}]}, id="only how much was measured"),
    ],
)
def test_nothing_to_draw_is_no_figure(given: dict[str, Any]) -> None:
    assert None is figures.evidence(given, "light")


def test_readings_keep_their_gaps_and_thresholds_are_drawn_through_their_columns() -> None:
    limits = {"sm_active_max": 0.5, "busy_ratio_min": 0.8, "network_bytes_per_s_min": 5e9, "link_ratio_min": 0.3}
    figure = figures.evidence(series(), "light", limits)

    assert figure is not None
    assert ["Engine busy", "SMs active", "Tensor cores"] == [line["name"] for line in figure["data"]]
    assert {False} == {line["connectgaps"] for line in figure["data"]}
    assert None in figure["data"][0]["y"]
    assert [0.5, 0.8] == [mark["y0"] for mark in figure["layout"]["shapes"]]
    assert "SMs active threshold 50%" == figure["layout"]["annotations"][0]["text"]


def test_other_units_are_drawn_where_there_are_no_ratios() -> None:
    points = [{"at": "2026-11-01T00:00:00Z", "power_watts": 400.0, "coverage": 1.0}]
    figure = figures.evidence({"points": points, "columns": ["power_watts"]}, "light", {"power_watts_max": 0.5})

    assert figure is not None
    assert ["Power (W)"] == [line["name"] for line in figure["data"]]
    assert [] == figure["layout"]["shapes"]


def test_no_figure_brings_a_link_or_a_button_to_elsewhere() -> None:
    assert False is figures.CONFIG["displayModeBar"]
