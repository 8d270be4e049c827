"""The demo's summary names who, where and how much."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.audit.summary import finding_line
from tests.worlds.alerts import finding


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param(
            {"headline": "train-llm (job 4711) of team red on n1 holds 8 idle GPUs"},
            "$480, high: train-llm (job 4711) of team red on n1 holds 8 idle GPUs. Release the devices.",
            id="a headline",
        ),
        pytest.param(
            {"wasted_cost": None},
            "cost unknown, high: GPUs held and idle: job 4711, team red. Release the devices.",
            id="a site detector, no price",
        ),
        pytest.param(
            {
                "wasted_cost": "0.00",
                "bucket": None,
                "evidence": {"lost_gpu_hours": 40.0, "lost_cost": "800.00", "currency": "USD"},
            },
            "$800 of lost work, high: GPUs held and idle: job 4711, team red. Release the devices.",
            id="lost work",
        ),
    ],
)
def test_a_finding_is_one_line(changed: dict[str, Any], expected: str) -> None:
    assert expected == finding_line(finding(**changed))
