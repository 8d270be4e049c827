"""What a proposed rate card or team map would change is what it changes when it is set; nothing is stored before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.worlds.api import Api

WINDOW = "2026-11-02T00:00:00Z,2026-11-03T00:00:00Z"
"""The first day of the samples."""
RULES = [
    {"match_kind": kind, "match": f"{team}{word}", "team": team}
    for kind, word in (("account", "acct"), ("namespace", "lab"))
    for team in ("red", "blue")
]


def rate(price: str, model: str = "H100", **more: Any) -> dict[str, Any]:
    """A rate from the beginning on."""
    return {
        "gpu_model": model,
        "pricing": "owned",
        "usd_per_gpu_hour": price,
        "valid_from": "2026-01-01T00:00:00Z",
    } | more


OWNED = {
    "name": "rack", "gpu_model": "H100", "gpus": 8, "capex": "350400", "years": "5", "kw": "0", "price_per_kwh": "0",
    "valid_from": "2026-01-01T00:00:00Z",
}  # fmt: skip
"""Costs 1 per GPU-hour."""
CASES: Mapping[str, tuple[str, list[dict[str, Any]]]] = {
    "the same price changes nothing": ("rates", [rate("2")]),
    "twice the price costs twice as much": ("rates", [rate("4")]),
    "a price that changes within the day": (
        "rates",
        [rate("2", valid_to="2026-11-02T03:30:00Z"), rate("5", valid_from="2026-11-02T03:30:00Z")],
    ),
    "a price for MIG slices only": ("rates", [rate("2"), rate("7", mig_profile="1g.10gb")]),
    "a commitment that covers one GPU puts it into another class": (
        "rates",
        [rate("2"), rate("0.5", pricing="reserved", quantity=1, commitment_id="ri")],
    ),
    "no price": ("rates", [rate("2", "A100")]),
    "the same rules change nothing": ("teams", RULES),
    "a user of red moves to blue": (
        "teams",
        [{"match_kind": "account", "match": "redacct", "team": "blue"}, *RULES[1:]],
    ),
    "without rules the accounts name the teams": ("teams", []),
}


@pytest.fixture
def by_team(books: Api) -> Any:
    """What each team pays in the window, by current data."""

    def read() -> dict[str | None, str]:
        found = books.get("/api/v1/chargeback", params={"window": WINDOW, "by": "team"}).json()
        return {row["team"]: row["cost"] for row in found["items"] if row["cost"] is not None}

    return read


def asked(api: Api, path: str, items: list[dict[str, Any]]) -> Any:
    """The answer to a what-if."""
    found = api.request("POST", f"/api/v1/{path}/what-if", json={"items": items}, params={"window": WINDOW})
    assert 200 == found.status_code, found.text
    return found.json()


def test_what_is_foreseen_is_what_happens(books: Api, by_team: Any) -> None:
    """Each case is first asked, then set: the amounts are those of the answer, before and after."""
    for name, (path, items) in CASES.items():
        before = by_team()
        foreseen = asked(books, path, items)["items"]
        unchanged = by_team()
        assert 200 == books.request("PUT", f"/api/v1/{path}", json={"items": items}).status_code
        after = by_team()
        now, then = ({row["team"]: row[key] for row in foreseen} for key in ("now", "then"))

        assert before == unchanged, name
        assert before == {team: now[team] for team in before}, name
        assert {"0.00"} >= {now[team] for team in now.keys() - before.keys()}, name
        assert after == {team: then[team] for team in after}, name
        assert {"0.00"} >= {f"{float(then[team]):.2f}" for team in then.keys() - after.keys()}, name


def test_owned_hardware_is_foreseen_too(books: Api, by_team: Any) -> None:
    """Where the rate card has no rate for owned GPUs, their costs price them."""
    books.request("PUT", "/api/v1/rates", json={"items": [rate("2", pricing="on_demand")]})
    foreseen = {row["team"]: row["then"] for row in asked(books, "owned", [OWNED])["items"]}
    before = by_team()
    books.request("PUT", "/api/v1/owned", json={"items": [OWNED]})

    assert before != by_team()
    assert by_team() == foreseen


def test_closed_periods_are_named(books: Api) -> None:
    """Their bill stays, so whoever reads the preview must know it."""
    books.request("POST", "/api/v1/periods", json={"period": "2026-W45", "force": True})

    assert ["2026-W45"] == asked(books, "rates", [rate("4")])["closed"]


@pytest.mark.parametrize(
    ("path", "items", "words"),
    [
        pytest.param("rates", [rate("2"), rate("3")], "valid at once", id="two rates at once"),
        pytest.param("rates", [rate("x")], "items.0.usd_per_gpu_hour", id="no number"),
        pytest.param("owned", [OWNED | {"pue": "x"}], "pue", id="no number for hardware"),
        pytest.param("teams", [RULES[0], RULES[0] | {"team": "blue"}], "items.1", id="a rule that can never decide"),
    ],
)
def test_a_list_that_would_be_refused_is_refused(books: Api, path: str, items: Any, words: str) -> None:
    found = books.request("POST", f"/api/v1/{path}/what-if", json={"items": items})

    assert (400, True) == (found.status_code, words in found.json()["error"]["message"])


def test_a_token_of_a_team_asks_for_nothing_of_others(books: Api) -> None:
    token = books.token("read", "red")

    assert [(403, "team_scope")] * 3 == [
        (found.status_code, found.json()["error"]["code"])
        for path in ("rates", "owned", "teams")
        for found in [books.request("POST", f"/api/v1/{path}/what-if", json={"items": []}, token=token)]
    ]
