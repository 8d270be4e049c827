"""What other exchange rates would change is what they change when they are set; nothing is stored before."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.worlds.api import Api

WINDOW = "2026-11-02T00:00:00Z,2026-11-03T00:00:00Z"
RATE = {"from": "USD", "to": "EUR", "rate": "0.5", "valid_from": "2026-10-20T00:00:00Z"}


def charged(api: Api) -> dict[tuple[str | None, str], Decimal]:
    """What each team pays, by current data."""
    items = api.get("/api/v1/chargeback", params={"window": WINDOW, "by": "team"}).json()["items"]
    return {(row["team"], row["currency"]): Decimal(row["cost"]) for row in items if row["cost"] is not None}


def ask(api: Api, body: dict[str, Any]) -> Any:
    reply = api.request("POST", "/api/v1/fx/what-if", params={"window": WINDOW}, json=body)
    assert 200 == reply.status_code, reply.text
    return reply.json()


@pytest.mark.parametrize(
    "body",
    [
        {"items": [], "currency": None},
        {"items": [RATE], "currency": None},
        {"items": [RATE], "currency": "EUR"},
        {"items": [RATE, RATE | {"rate": "0.8", "valid_from": "2026-11-02T06:00:00Z"}], "currency": "EUR"},
        {"items": [], "currency": "EUR"},
        {"items": [RATE], "currency": "EUR", "max_age_days": 5},
    ],
    ids=[
        "as it is",
        "rates alone",
        "half the amount",
        "a rate that begins at noon",
        "no rate",
        "a rate that is too old",
    ],
)
def test_the_answer_is_what_happens_when_it_is_set(books: Api, body: dict[str, Any]) -> None:
    before = charged(books)
    answer = ask(books, body)["items"]

    assert before == charged(books)  # nothing is stored
    assert 0 == books.get("/api/v1/fx").json()["version"]
    assert before == {(row["team"], row["currency"]): Decimal(row["now"]) for row in answer if Decimal(row["now"])}
    assert 200 == books.request("PUT", "/api/v1/fx", json=body).status_code
    then = {(row["team"], row["currency"]): Decimal(row["then"]) for row in answer if Decimal(row["then"])}
    assert {key: cost for key, cost in charged(books).items() if cost} == then


def test_two_rates_of_one_instant_are_refused(books: Api) -> None:
    reply = books.request("POST", "/api/v1/fx/what-if", json={"items": [RATE, RATE | {"rate": "0.7"}]})

    assert 400 == reply.status_code
    assert "two rates of the same pair" in reply.json()["error"]["message"]
