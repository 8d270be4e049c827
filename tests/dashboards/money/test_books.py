"""Arithmetic of the pages: sums close, gaps stay gaps, money without a price is no zero."""

from __future__ import annotations

import asyncio
from datetime import datetime
from decimal import Decimal
from typing import Any, cast

import pytest

from gpuwatch.dashboards import client
from gpuwatch.dashboards.components import ledger_math
from gpuwatch.dashboards.components.ledger_math import Sum
from gpuwatch.dashboards.shell.query import Query

ROWS = [
    {"bucket": "compute", "team": "a", "pool": "x", "gpu_seconds": "3600.5", "cost": "2.00"},
    {"bucket": "compute", "team": "b", "pool": "y", "gpu_seconds": "0.5", "cost": None},
    {"bucket": "hoarded", "team": "b", "pool": "y", "gpu_seconds": "10", "cost": None},
]


def test_rows_add_up_by_a_column() -> None:
    sums = ledger_math.by_key(ROWS, "bucket")

    assert {"compute": Sum(Decimal(3601), Decimal(2)), "hoarded": Sum(Decimal(10), None)} == sums
    assert Sum(Decimal(3611), Decimal(2)) == ledger_math.total(sums)
    assert Sum(Decimal(10), None) == ledger_math.total(sums, ["hoarded", "gap"])


def test_a_ratio_of_nothing_says_nothing() -> None:
    assert None is ledger_math.ratio(5, 0)
    assert None is ledger_math.ratio(None, 5)
    assert Decimal("0.5") == ledger_math.ratio("1", 2)


def test_a_trend_keeps_what_is_missing_apart_from_zero() -> None:
    rows = [
        {"start": "2026-11-02T00:00:00Z", "bucket": "compute", "gpu_seconds": "7200"},
        {"start": "2026-11-01T00:00:00Z", "bucket": "gap", "gpu_seconds": "3600"},
        {"start": None, "bucket": "gap", "gpu_seconds": "3600"},
    ]
    trend = ledger_math.trend(rows, "1d")

    assert ["2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z"] == trend.starts
    assert {"compute": [None, 2.0], "gap": [1.0, None]} == trend.hours
    assert [0.0, 1.0] == trend.share(["compute"])
    assert [None, 1.0] == trend.share(["compute"], ["compute"])


def test_steps_cut_by_the_window_are_known() -> None:
    """A window of seven days to this minute begins and ends within a day."""
    rows = [{"start": f"2026-11-0{day}T00:00:00Z", "bucket": "gap", "gpu_seconds": "1"} for day in (1, 2, 3)]
    window = ledger_math.window_of({"window": {"start": "2026-11-01T12:00:00Z", "end": "2026-11-03T12:00:00Z"}})

    assert {0, 2} == ledger_math.trend(rows, "1d", window).cut
    assert set() == ledger_math.trend(rows, "1d").cut


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param(0, False, id="nothing before"),
        pytest.param(49, False, id="too little before"),
        pytest.param(50, True, id="half before"),
    ],
)
def test_a_change_needs_something_to_compare_with(before: int, expected: bool) -> None:
    assert expected is ledger_math.comparable(Sum(Decimal(before)), Sum(Decimal(100)))


def test_windows_are_reported_as_the_api_takes_them() -> None:
    window = ledger_math.window_of({"window": {"start": "2026-11-01T00:00:00Z", "end": "2026-11-03T00:00:00+00:00"}})

    assert window is not None
    assert "2026-11-01T00:00:00Z,2026-11-03T00:00:00Z" == ledger_math.text_of(*window)
    assert None is ledger_math.window_of({"window": {"start": "2026-11-01T00:00:00Z"}})


def at(text: str) -> datetime:
    """A time of November 2026 or about it: `11-21T08:13`."""
    return datetime.fromisoformat(f"2026-{text}:00+00:00")


@pytest.mark.parametrize(
    ("name", "start", "end", "as_of", "expected"),
    [
        pytest.param("today", "11-21T00:00", "11-22T00:00", None, None, id="nothing says what has books"),
        pytest.param("today", "11-21T00:00", "11-22T00:00", "11-21T00:00", None, id="nothing has books yet"),
        pytest.param(
            "today",
            "11-21T00:00",
            "11-22T00:00",
            "11-21T08:13",
            ("11-20T00:00", "11-20T08:13"),
            id="a day so far is compared with the same hours of the day before",
        ),
        pytest.param(
            "yesterday",
            "11-20T00:00",
            "11-21T00:00",
            "11-21T08:13",
            ("11-19T00:00", "11-20T00:00"),
            id="a whole day with a whole day",
        ),
        pytest.param(
            "month",
            "11-01T00:00",
            "12-01T00:00",
            "11-03T06:00",
            ("10-01T00:00", "10-03T06:00"),
            id="a month so far with the beginning of the month before",
        ),
        pytest.param(
            "month",
            "03-01T00:00",
            "04-01T00:00",
            "03-31T00:00",
            ("01-30T00:00", "03-01T00:00"),
            id="a month longer than the one before with as much time right before it",
        ),
    ],
)
def test_a_period_is_compared_with_as_much_time(
    name: str, start: str, end: str, as_of: str | None, expected: tuple[str, str] | None
) -> None:
    found = ledger_math.period_before((at(start), at(end)), name, at(as_of) if as_of else None)

    assert (expected and (at(expected[0]), at(expected[1]))) == found


@pytest.mark.parametrize(
    ("head", "known"),
    [
        pytest.param("0.000000", False, id="the books began later"),
        pytest.param(None, False, id="nobody knows"),
        pytest.param("3600.000000", True, id="the books cover its beginning"),
    ],
)
def test_a_period_that_has_books_in_part_is_not_compared_with(head: str | None, known: bool) -> None:
    asked: list[tuple[str, dict[str, str]]] = []

    class Api:
        async def ledger(self, window: str, by: str, **scope: str) -> dict[str, Any]:
            asked.append((window, scope))
            return {"items": [], "capacity_gpu_seconds": head}

    async def answer() -> dict[str, Any]:
        return {"items": ["all"]}

    query = Query("/", {"team": "nlp", "cluster": "sim"})
    past = (at("11-14T00:00"), at("11-15T00:00"))
    found = asyncio.run(ledger_math.if_recorded(cast(client.Api, Api()), past, query, answer()))

    assert ({"items": ["all"]} if known else None) == found
    assert [("2026-11-14T00:00:00Z,2026-11-14T01:00:00Z", {"cluster": "sim"})] == asked


@pytest.mark.parametrize(
    ("mix", "expected"),
    [
        pytest.param({"unobserved": "95", "gap": "5"}, None, id="hardly any of it was measured"),
        pytest.param({"unobserved": "100"}, None, id="none of it was measured"),
        pytest.param({}, 0.4, id="no buckets: what the API says"),
        pytest.param({"unobserved": "50", "gap": "25", "compute": "25"}, Decimal("0.5"), id="of what was measured"),
        pytest.param({"gap": "100"}, Decimal(0), id="measured, and no work seen"),
    ],
)
def test_the_effect_of_a_job_is_of_its_measured_time(mix: dict[str, str], expected: object) -> None:
    assert expected == ledger_math.effective({"buckets": mix, "effective_ratio": 0.4})


def test_nothing_costs_zero_only_where_there_are_prices() -> None:
    unpriced, priced = Sum(Decimal(5)), Sum(Decimal(5), Decimal(1))

    assert None is ledger_math.nothing_costs(Sum(), unpriced)
    assert None is ledger_math.nothing_costs(unpriced, priced)
    assert Decimal(0) == ledger_math.nothing_costs(Sum(), priced)
    assert Decimal(1) == ledger_math.nothing_costs(priced, priced)
