"""A slice over a window: who held it longest, how it was used; unknown use is not idle."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpuwatch.dashboards.components import slice_use
from gpuwatch.dashboards.pages import mig

GPU = {"gpu": "GPU-a", "node": "n1"}


def row(owner: str | None = "nlp", busy: float | None = 0.5, **more: Any) -> dict[str, Any]:
    """A slice as the API adds it up."""
    return {
        "slice": "GPU-a/GI-1",
        "profile": "1g.10gb",
        "owner": owner,
        "owners": 1 if owner else 0,
        "job": "1" if owner else None,
        "held_seconds": "100" if owner else "0",
        "free_seconds": "50",
        "share": "1/7",
        "cost": "1.50",
        "currency": "USD",
        "idle_seconds": None if busy is None else "0",
        "utilisation": {"gr_engine_ratio": busy},
        "placement": {"start": 1, "size": 1, "compute_slices": 1, "memory_slices": 1},
        **more,
    }


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(row(None, None), "free", id="nobody held it"),
        pytest.param(row(busy=None), "unmeasured", id="held and not measured is not idle"),
        pytest.param(row(busy=0.5), "used", id="used"),
        pytest.param(row(busy=0.01), "low", id="barely used"),
        pytest.param(row(busy=0.2, idle_seconds="49"), "used", id="idle for less than half"),
        pytest.param(row(busy=0.2, idle_seconds="50"), "idle", id="idle for half of its held time"),
        pytest.param(row(free_seconds="9999"), "used", id="free time does not count against it"),
    ],
)
def test_the_state_of_a_slice(found: dict[str, Any], expected: str) -> None:
    assert expected == slice_use.summed(GPU, found).state


def test_a_slice_says_who_held_it_and_how_many_more() -> None:
    found = slice_use.summed(GPU, row("vision", 0.3, owners=2))

    assert ("vision", "1", 1) == (found.owner, found.job, found.others)
    assert (Decimal(100), Decimal(50), Decimal(0)) == (found.held_s, found.free_s, found.idle_s)
    assert "1g.10gb: vision and 1 more, 30 % busy, share 1/7" == found.words


@pytest.mark.parametrize(
    ("tenancy", "expected"),
    [
        pytest.param({"team": "__platform__", "job": None}, None, id="nobody"),
        pytest.param({"team": "__platform__", "job": "7"}, "__platform__", id="a job of the platform"),
        pytest.param({"team": None, "user": "ann", "job": "7"}, "ann", id="a user without a team"),
        pytest.param({"team": None, "user": None, "job": "7"}, "__unallocated__", id="a job of nobody known"),
    ],
)
def test_who_held_a_slice(tenancy: dict[str, Any], expected: str | None) -> None:
    assert expected == slice_use.owner_of(tenancy)


def test_slices_of_a_gpu_come_in_the_order_of_memory() -> None:
    far = row(slice="GPU-a/GI-0", placement={"start": 4})
    lost = row(slice="GPU-a/GI-9", placement=None)

    assert [1, 4, 8] == [part.start for part in mig.in_order(GPU, [lost, far, row()])]


def test_nonsense_is_unknown() -> None:
    assert None is slice_use.share("1/0")
    assert None is slice_use.share(None)
    assert 3 == slice_use.whole(-1, 3) == slice_use.whole("x", 3) == slice_use.whole(10**9, 3)
