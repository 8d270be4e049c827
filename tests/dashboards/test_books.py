"""Arithmetic of the pages: sums close, gaps stay gaps, money without a price is no zero."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any, cast

import pytest

from gpuwatch.dashboards import books, client
from gpuwatch.dashboards.books import Sum
from gpuwatch.dashboards.query import Query

ROWS = [
    {"bucket": "compute", "team": "a", "pool": "x", "gpu_seconds": "3600.5", "cost": "2.00"},
    {"bucket": "compute", "team": "b", "pool": "y", "gpu_seconds": "0.5", "cost": None},
    {"bucket": "hoarded", "team": "b", "pool": "y", "gpu_seconds": "10", "cost": None},
]


def test_rows_add_up_by_a_column() -> None:
    sums = books.by_key(ROWS, "bucket")

    assert {"compute": Sum(Decimal(3601), Decimal(2)), "hoarded": Sum(Decimal(10), None)} == sums
    assert Sum(Decimal(3611), Decimal(2)) == books.total(sums)
    assert Sum(Decimal(10), None) == books.total(sums, ["hoarded", "gap"])


def test_a_mix_is_by_owner_and_bucket() -> None:
    expected = {"a": {"compute": Decimal("3600.5")}, "b": {"compute": Decimal("0.5"), "hoarded": Decimal(10)}}

    assert expected == books.mixes(ROWS, "team")


def test_a_pool_is_told_apart_by_dimension() -> None:
    query = Query("/", {"pool": "y"})

    assert "bucket,pool" == books.asked("bucket", query)
    assert ROWS[1:] == books.within({"items": ROWS}, query)
    assert [] == books.within(None, query)


def test_a_ratio_of_nothing_says_nothing() -> None:
    assert None is books.ratio(5, 0)
    assert None is books.ratio(None, 5)
    assert Decimal("0.5") == books.ratio("1", 2)


def test_a_trend_keeps_what_is_missing_apart_from_zero() -> None:
    rows = [
        {"start": "2026-11-02T00:00:00Z", "bucket": "compute", "gpu_seconds": "7200"},
        {"start": "2026-11-01T00:00:00Z", "bucket": "gap", "gpu_seconds": "3600"},
        {"start": None, "bucket": "gap", "gpu_seconds": "3600"},
    ]
    trend = books.trend(rows, "1d")

    assert ["2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z"] == trend.starts
    assert {"compute": [None, 2.0], "gap": [1.0, None]} == trend.hours
    assert [0.0, 1.0] == trend.share(["compute"])
    assert [None, 1.0] == trend.share(["compute"], ["compute"])


def test_steps_cut_by_the_window_are_known() -> None:
    """A window of seven days to this minute begins and ends within a day."""
    rows = [{"start": f"2026-11-0{day}T00:00:00Z", "bucket": "gap", "gpu_seconds": "1"} for day in (1, 2, 3)]
    window = books.window_of({"window": {"start": "2026-11-01T12:00:00Z", "end": "2026-11-03T12:00:00Z"}})

    assert {0, 2} == books.trend(rows, "1d", window).cut
    assert set() == books.trend(rows, "1d").cut


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param(0, False, id="nothing before"),
        pytest.param(49, False, id="too little before"),
        pytest.param(50, True, id="half before"),
    ],
)
def test_a_change_needs_something_to_compare_with(before: int, expected: bool) -> None:
    assert expected is books.comparable(Sum(Decimal(before)), Sum(Decimal(100)))


def test_windows_are_told_as_the_api_takes_them() -> None:
    window = books.window_of({"window": {"start": "2026-11-01T00:00:00Z", "end": "2026-11-03T00:00:00+00:00"}})

    assert window is not None
    assert "2026-11-01T00:00:00Z,2026-11-03T00:00:00Z" == books.text_of(*window)
    assert "1h" == books.step_of(*window)
    assert None is books.window_of({"window": {"start": "2026-11-01T00:00:00Z"}})


@pytest.mark.parametrize(
    ("window", "step"),
    [
        pytest.param("24h", "1h", id="a day by its name"),
        pytest.param("7d", "1d", id="a week by its name"),
        pytest.param("2026-11-01T00:00:00Z,2026-11-04T00:00:00Z", "1h", id="three days by their ends"),
        pytest.param("2026-11-01T00:00:00Z,2026-11-04T00:00:01Z", "1d", id="a second more"),
        pytest.param("nonsense,", "1d", id="no window at all"),
    ],
)
def test_short_windows_are_shown_by_the_hour(window: str, step: str) -> None:
    assert step == books.step_of_window(window)


def test_steps_that_do_not_fit_one_answer_are_left_out() -> None:
    """A year by day has more rows than an answer: its first page would read as if the window ended there."""
    asked: list[tuple[str, str | None]] = []

    class Api:
        async def ledger(self, window: str, by: str, step: str | None = None) -> dict[str, Any]:
            asked.append((window, step))
            ends = {"start": "2026-11-01T00:00:00Z", "end": "2026-11-03T00:00:00Z"}
            return {"items": [], "window": ends, "next": "c2" if step else None}

    found = asyncio.run(books.history(cast(client.Api, Api()), Query("/")))

    assert [("7d", None), ("7d", "1d"), ("2026-10-30T00:00:00Z,2026-11-01T00:00:00Z", None)] == asked
    assert None is found.stepped
    assert None is found.now["next"]
