"""Closing periods: frozen once, corrected later, never overlapping."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpuwatch.rates import Rate
from gpuwatch.state.periods import corrections
from tests.api.api_world import Api
from tests.world import HOUR, Gpu, batch, minutes, samples, us

PERIODS = "/api/v1/periods"
W45 = {"period": "2026-W45", "force": True}
"""The books have six hours of it."""


def row(team: str, seconds: str, cost: str | None, currency: str = "USD") -> dict[str, Any]:
    """A frozen row."""
    names = {"team": team, "cluster": "c1", "gpu_model": "H100", "mig_profile": None}
    return {**names, "kind": "allocated", "currency": currency, "gpu_seconds": seconds, "cost": cost}


@pytest.mark.parametrize(
    ("frozen", "current", "expected"),
    [
        pytest.param([], [], [], id="nothing"),
        pytest.param([row("a", "1.0", "2.00")], [row("a", "1.000", "2.0")], [], id="the same, spelt otherwise"),
        pytest.param([row("a", "1", None)], [row("a", "1", None)], [], id="unpriced before and after"),
        pytest.param([row("a", "1", "2")], [row("a", "3", "5")], [row("a", "2", "3")], id="more came later"),
        pytest.param([row("a", "1", "2")], [], [row("a", "-1", "-2")], id="it went to somebody else"),
        pytest.param([], [row("b", "1", "2")], [row("b", "1", "2")], id="somebody new"),
        pytest.param([row("a", "1", None)], [row("a", "1", "2")], [row("a", "0", None)], id="a price came: no difference is known"),
        pytest.param(
            [row("a", "1", "2"), row("a", "1", "2")], [row("a", "2", "4")], [], id="rows of one group add up"
        ),
        pytest.param(
            [row("a", "1", "2", "EUR")],
            [row("a", "1", "2", "USD")],
            [row("a", "-1", "-2", "EUR"), row("a", "1", "2", "USD")],
            id="another currency is another row",
        ),
    ],
)  # fmt: skip
def test_corrections_are_current_minus_frozen(
    frozen: list[dict[str, Any]], current: list[dict[str, Any]], expected: list[dict[str, Any]]
) -> None:
    """Only where something differs."""
    assert expected == corrections(frozen, current)


def test_a_period_is_not_frozen_at_prices_that_are_out_of_date(books: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """While an analysis holds the books nothing can be priced: the sender is told to come back."""
    monkeypatch.setattr("gpuwatch.service.REPRICE_WAIT_S", 0.01)
    body = W45
    with books.service._analyzer._books:
        early = books.request("POST", PERIODS, json=body)

    assert (503, "2", 201) == (
        early.status_code,
        early.headers["retry-after"],
        books.request("POST", PERIODS, json=body).status_code,
    )


def test_a_period_with_samples_that_no_analysis_has_seen_is_not_frozen(books: Api) -> None:
    """They arrived a moment ago: the books do not have them yet."""
    for late in batch(samples(Gpu("GPU-red", "rednode"), minutes(7 * HOUR, 7 * HOUR + 60))):
        books.service.submit("late", [late]).result(20)
    early = books.request("POST", PERIODS, json=W45)

    assert (409, "conflict") == (early.status_code, early.json()["error"]["code"])


def test_a_closed_week_is_the_chargeback_of_it(books: Api) -> None:
    """To the cent, with nothing to correct."""
    answer = books.request("POST", PERIODS, json=W45)
    closed = answer.json()
    total = books.get("/api/v1/chargeback?window=2026-W45").json()["total"]

    assert (201, total["gpu_seconds"], total["cost"], "USD", "loopback", []) == (
        answer.status_code,
        closed["gpu_seconds"],
        closed["cost"],
        closed["currency"],
        closed["closed_by"],
        closed["corrections"],
    )
    assert {"start": "2026-11-02T00:00:00Z", "end": "2026-11-09T00:00:00Z"} == closed["window"]
    assert [closed] == books.get(PERIODS).json()["items"]


@pytest.mark.parametrize(
    ("period", "status"),
    [
        pytest.param("2026-W46", 409, id="the week that runs"),
        pytest.param("2026-11", 409, id="the month that runs"),
        pytest.param("2027-W01", 409, id="a week to come"),
        pytest.param("2026-W45", 409, id="closed already"),
        pytest.param("2026-W54", 400, id="no such week"),
        pytest.param("7d", 400, id="a window that is no period"),
        pytest.param("2026-10", 201, id="a month that touches no closed week"),
    ],
)
def test_what_can_be_closed(books: Api, period: str, status: int) -> None:
    """Finished, and not yet closed."""
    books.request("POST", PERIODS, json=W45)

    assert status == books.request("POST", PERIODS, json={"period": period, "force": True}).status_code


def test_an_overlap_is_refused(books: Api) -> None:
    """A month that shares days with a closed week would bill them twice."""
    books.request("POST", PERIODS, json={"period": "2026-W44", "force": True})
    answer = books.request("POST", PERIODS, json={"period": "2026-10", "force": True})

    assert (409, True) == (answer.status_code, "overlaps 2026-W44" in answer.json()["error"]["message"])


def test_hours_that_are_not_booked_cannot_be_closed(books: Api) -> None:
    """The analysis comes first."""
    books.service.store.sql("insert into dirty_hour (cluster, hour_us) values ('c1', $hour)", hour=us(0))

    assert 409 == books.request("POST", PERIODS, json=W45).status_code


def test_what_changes_later_is_a_correction(books: Api) -> None:
    """The frozen rows and their digest stay."""
    before = books.request("POST", PERIODS, json=W45).json()
    books.service.state.replace_rates([Rate("H100", "owned", Decimal("3.00"), us(0))], "test", "test", us(0))
    books.service.reprice()
    after = books.get(PERIODS).json()["items"][0]

    assert (before["digest"], before["rows"], "36.00") == (after["digest"], after["rows"], after["cost"])
    assert Decimal("18.00") == sum((Decimal(r["cost"]) for r in after["corrections"]), Decimal(0))
    assert {Decimal(0)} == {Decimal(r["gpu_seconds"]) for r in after["corrections"]}


def test_closing_is_audited(books: Api) -> None:
    """Under the name of who did it."""
    books.request("POST", PERIODS, json=W45, token=books.token("admin", name="finops"))
    entry = books.service.state.audit(1)[0]

    assert ("finops", "period 2026-W45 closed") == (entry.actor, entry.what)


def test_only_admins_close(books: Api) -> None:
    """And tokens of a team do not even see periods."""
    assert [403, 403] == [
        books.request("POST", PERIODS, json=W45, token=books.token("read")).status_code,
        books.get(PERIODS, token=books.token("read", "red")).status_code,
    ]


def test_a_week_whose_books_have_holes_is_closed_only_by_force(books: Api) -> None:
    """It could not be undone: the refusal names the days."""
    answer = books.request("POST", PERIODS, json={"period": "2026-W45"})
    error = answer.json()["error"]

    assert (409, "conflict") == (answer.status_code, error["code"])
    assert "7 of its days: 2026-11-02, 2026-11-03" in error["message"]
    assert "force" in error["hint"]
