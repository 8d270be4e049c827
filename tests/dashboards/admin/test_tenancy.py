"""A slice over a window: who held it longest, how it was used; unknown use is not idle."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpuwatch.dashboards.components import slice_use


def row(team: str | None = "nlp", seconds: float = 100, busy: float | None = 0.5, **more: Any) -> dict[str, Any]:
    """A tenancy of one slice."""
    return {
        "slice": "GPU-a/GI-1",
        "gpu": "GPU-a",
        "profile": "1g.10gb",
        "team": team,
        "job": None if team == "__platform__" else "1",
        "start": "2026-11-01T00:00:00Z",
        "device_seconds": str(seconds),
        "share": "1/7",
        "cost": "1.50",
        "currency": "USD",
        "idle_seconds": None if busy is None else "0",
        "utilisation": {"gr_engine_ratio": busy},
        "placement": {"start": 1, "size": 1, "compute_slices": 1, "memory_slices": 1},
        **more,
    }


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([row("__platform__", busy=None)], "free", id="nobody held it"),
        pytest.param([row(busy=None)], "unmeasured", id="held and not measured is not idle"),
        pytest.param([row(busy=0.5)], "used", id="used"),
        pytest.param([row(busy=0.01)], "low", id="barely used"),
        pytest.param([row(busy=0.2, idle_seconds="49")], "used", id="idle for less than half"),
        pytest.param([row(busy=0.2, idle_seconds="50")], "idle", id="idle for half of its held time"),
        pytest.param([row(), row("__platform__", 9999, None)], "used", id="free time does not count against it"),
    ],
)
def test_the_state_of_a_slice(rows: list[dict[str, Any]], expected: str) -> None:
    assert expected == slice_use.one(rows).state


def test_tenancies_of_a_slice_are_one() -> None:
    rows = [
        row(seconds=100, busy=0.9),
        row("vision", 300, 0.1, job="2", idle_seconds="60"),
        row("__platform__", 50, None),
    ]
    found = slice_use.one(rows)

    assert ("vision", "2", 1) == (found.owner, found.job, found.others)
    assert (Decimal(400), Decimal(50), Decimal(60)) == (found.held_s, found.free_s, found.idle_s)
    assert Decimal("0.3") == found.busy
    assert Decimal("3.00") == found.cost
    assert "1g.10gb: vision and 1 more, 30 % busy, share 1/7" == found.words


def test_slices_of_a_gpu_come_in_the_order_of_memory() -> None:
    far = row(slice="GPU-a/GI-0", placement={"start": 4})
    lost = row(slice="GPU-a/GI-9", placement=None)

    assert [1, 4, 8] == [part.start for part in slice_use.slices([lost, far, row()])["GPU-a"]]


def test_nonsense_is_unknown() -> None:
    assert None is slice_use.share("1/0")
    assert None is slice_use.share(None)
    assert 3 == slice_use.whole(-1, 3) == slice_use.whole("x", 3) == slice_use.whole(10**9, 3)
