"""Charges opened over HTTP: by whom they may be seen, page by page, and under other policies."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from gpuwatch.api.schema.billing.charges import Explained, Under
from gpuwatch.billing.charge_id import decode, encode
from gpuwatch.core.clock import Window
from tests.worlds.api import BLUE_WORDS, Api

WINDOW = "2026-11-02,2026-11-03"
POLICIES: dict[str, Any] = {"policies": [{"name": "shared", "valid_from": "1970-01-01", "preset": "share-idle"}]}


def charges(api: Api, by: str = "team", token: str | None = None) -> list[dict[str, Any]]:
    route = f"/api/v1/chargeback?window={WINDOW}&by={by}"
    found: list[dict[str, Any]] = api.get(route, token=token or api.service.local_secret).json()["items"]
    return found


def charge_of(api: Api, team: str) -> str:
    return next(str(row["charge"]) for row in charges(api) if row["team"] == team)


def opened(api: Api, charge: str, query: str = "", token: str | None = None) -> Any:
    """An administrator's answer, where no token is given: others of this module have made one."""
    return api.get(f"/api/v1/charges/{charge}/explain{query}", token=token or api.service.local_secret)


def posted(api: Api, charge: str, token: str | None = None, **body: Any) -> Any:
    route = f"/api/v1/charges/{charge}/what-if"
    return api.request("POST", route, token=token or api.service.local_secret, **body)


@pytest.mark.parametrize(
    "charge",
    ["c1.", "c2.abcd", "x", "c1.%00", "c1." + "A" * 1900, "c1." + "A" * 3000, "c1.alsx=", "..%2f..", "c1.ä"],
    ids=["nothing", "another version", "a letter", "nul", "noise", "too long", "padding", "a path", "no ASCII"],
)
def test_a_broken_id_is_refused(filled: Api, charge: str) -> None:
    answer = opened(filled, charge)

    assert answer.status_code in (400, 404)
    assert {"code", "message", "hint"} <= answer.json()["error"].keys()
    assert "Traceback" not in answer.text


def test_a_charge_that_is_not_there_is_not_found(filled: Api) -> None:
    asked = decode(charge_of(filled, "red"))
    others = [
        replace(asked, group=(("team", "nobody"),)),
        replace(asked, window=Window(asked.window.start_us - 10**15, asked.window.start_us - 9 * 10**14)),
        replace(asked, kind="shared"),
        replace(asked, currency="EUR"),
        replace(asked, cluster="another"),
    ]

    for other in others:
        answer = opened(filled, encode(other))
        assert (404, "not_found") == (answer.status_code, answer.json()["error"]["code"])
        assert 404 == posted(filled, encode(other), json=POLICIES).status_code


def test_what_no_chargeback_has_made_is_not_found(filled: Api) -> None:
    asked = decode(charge_of(filled, "red"))
    windows = (Window(-(10**17) * 9, 0), Window(0, 9 * 10**18), Window(0, 10**30), Window(0, 1))
    groups = ((("team", "red"), ("team", "red")), (("team", "red\0"),), (("slice", "GPU-red"),), (("team", None),))
    made = [replace(asked, window=window) for window in windows] + [replace(asked, group=group) for group in groups]

    for other in made:
        for kind in ("allocated", "platform", "correction"):
            answer = opened(filled, encode(replace(other, kind=kind)), "?policy=share-idle")
            assert 404 == answer.status_code, answer.text
        assert 404 == posted(filled, encode(other), json=POLICIES).status_code


def test_a_team_opens_its_own_charges_only(filled: Api) -> None:
    token = filled.token("read", "red")
    own, other, platform = (charge_of(filled, team) for team in ("red", "blue", "__platform__"))

    answer = opened(filled, own, "?policy=pay-for-use", token=token)
    assert 200 == answer.status_code
    assert not [word for word in BLUE_WORDS if word in answer.text]
    missing = opened(filled, encode(replace(decode(own), group=(("team", "nobody"),))), token=token)
    for hidden in (other, platform):
        refused = opened(filled, hidden, "?policy=pay-for-use", token=token)
        assert (404, missing.json()) == (refused.status_code, refused.json())
        own_rows = {"policies": [{"name": "own", "valid_from": "1970-01-01", "preset": "pay-for-use"}]}
        assert 404 == posted(filled, hidden, token, json=own_rows).status_code


def test_a_row_of_all_teams_is_shown_to_a_team_as_its_own(filled: Api) -> None:
    token = filled.token("read", "red")
    (row,) = charges(filled, "gpu_model", token=token)
    answer = opened(filled, row["charge"], token=token).json()

    assert {"red"} == {line["owner"] for line in answer["items"]}
    assert row["cost_exact"] == answer["cost_exact"]
    assert Decimal(row["cost_exact"]) == sum(Decimal(line["cost_exact"]) for line in answer["items"])


def test_only_readers_open_charges(books: Api) -> None:
    charge = charge_of(books, "red")
    token = books.token("ingest")

    assert 403 == opened(books, charge, token=token).status_code
    assert 401 == opened(books, charge, token="gw_wrong").status_code


def test_every_line_is_on_one_page(filled: Api) -> None:
    charge = charge_of(filled, "__platform__")
    all_of_it = opened(filled, charge).json()
    Explained.model_validate(all_of_it)
    assert all_of_it["lines"] == len(all_of_it["items"]) > 2

    found, query = [], "?limit=1"
    while query:
        page = opened(filled, charge, query).json()
        found += page["items"]
        query = f"?limit=1&cursor={page['next']}" if page["next"] else ""
    assert all_of_it["items"] == found
    assert [found[1]] == opened(filled, charge, "?limit=1&offset=1").json()["items"]


def test_behind_the_last_line_there_is_nothing(filled: Api) -> None:
    charge = charge_of(filled, "red")
    answer = opened(filled, charge, "?offset=1000000000").json()

    assert ([], None) == (answer["items"], answer["next"])
    assert Decimal(answer["cost"]) > 0
    for wrong in ("offset=-1", "offset=1000000001", "limit=0", "limit=1001", "cursor=abc", "offset=x"):
        assert 400 == opened(filled, charge, f"?{wrong}").status_code


def test_a_cursor_is_of_one_charge(filled: Api) -> None:
    cursor = opened(filled, charge_of(filled, "__platform__"), "?limit=1").json()["next"]

    assert "cursor" == opened(filled, charge_of(filled, "red"), f"?cursor={cursor}").json()["error"]["field"]
    both = opened(filled, charge_of(filled, "__platform__"), f"?cursor={cursor}&offset=1")
    assert (400, "offset") == (both.status_code, both.json()["error"]["field"])


def test_another_policy_is_asked_about_by_name_and_by_document(filled: Api) -> None:
    charge = charge_of(filled, "red")
    plain = opened(filled, charge).json()
    named = opened(filled, charge, "?policy=share-idle").json()
    document = posted(filled, charge, json=POLICIES)

    assert plain["under"] is None
    Under.model_validate(named["under"])
    assert plain["cost"] == named["under"]["now"]
    assert Decimal(named["under"]["cost"]) - Decimal(plain["cost"]) == Decimal(named["under"]["difference"]) > 0
    assert named["under"] | {"policies": ["shared"]} == document.json()


def test_a_wrong_policy_is_refused(filled: Api) -> None:
    charge = charge_of(filled, "red")

    answer = opened(filled, charge, "?policy=generous")
    assert (400, "policy") == (answer.status_code, answer.json()["error"]["field"])
    assert "share-idle" in answer.json()["error"]["message"]
    wrong = posted(filled, charge, json={"policies": [{"name": "x", "basis": "all"}]})
    assert 400 == wrong.status_code and "policies.0" in wrong.json()["error"]["field"]
    assert 400 == posted(filled, charge, json=[1]).status_code
    assert 415 == posted(filled, charge, content=b"x").status_code
