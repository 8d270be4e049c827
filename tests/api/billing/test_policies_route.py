"""Policies over HTTP: set whole or not at all, asked about, and seen by who may."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from gpuwatch.billing.charge_id import decode
from tests.worlds.api import Api

WINDOW = "2026-11-02,2026-11-03"
DOCUMENT: dict[str, Any] = {
    "policies": [
        {
            "name": "p",
            "valid_from": "2026-11-01",
            "payers": {"idle": "quota_holder"},
            "quotas": [{"team": "red", "gpus": "1"}, {"team": "blue", "gpus": "2"}],
            "discounts": [{"queue": "*", "factor": "0.5"}],
        }
    ]
}


def put(api: Api, document: Any, **more: Any) -> Any:
    return api.request("PUT", "/api/v1/policies", json=document, **more)


def test_a_wrong_document_changes_nothing_and_names_the_field(books: Api) -> None:
    wrong = {"policies": [DOCUMENT["policies"][0] | {"basis": "x", "quotas": [{"team": "nobody", "gpus": -1}]}]}

    answer = put(books, wrong)
    error = answer.json()["error"]
    assert (400, "policies.0.basis") == (answer.status_code, error["field"])
    assert "nobody" in error["message"] and "is negative" in error["message"]
    assert 0 == books.get("/api/v1/policies").json()["version"]
    assert 400 == put(books, [1]).status_code
    assert 415 == books.request("PUT", "/api/v1/policies", content=b"x").status_code


def test_only_an_admin_sets_policies(books: Api) -> None:
    token = books.token("read")

    assert 403 == put(books, DOCUMENT, token=token).status_code
    assert 200 == books.get("/api/v1/policies", token=token).status_code


def test_policies_are_set_seen_and_charged(books: Api) -> None:
    before = books.get(f"/api/v1/chargeback?window={WINDOW}").json()
    answer = books.request("POST", f"/api/v1/policies/what-if?window={WINDOW}", json=DOCUMENT).json()
    done = put(books, DOCUMENT).json()
    after = books.get(f"/api/v1/chargeback?window={WINDOW}&by=team,cause").json()

    assert {"changed": True, "version": 1, "rows": 1} == done
    assert before["total"]["cost"] == after["total"]["cost"]
    sums: dict[str, Decimal] = {}
    for row in after["items"]:
        sums[row["team"]] = sums.get(row["team"], Decimal(0)) + Decimal(row["cost"])
        assert dict(decode(row["charge"]).group) == {"team": row["team"], "cause": row["cause"]}
    assert sums == {row["team"]: Decimal(row["then"]) for row in answer["items"]}
    seen = books.get("/api/v1/policies").json()
    assert ("p", 1, "PUT") == (seen["in_force"], seen["version"], seen["history"][0]["source"])


def test_a_team_sees_its_own_parts_only(books: Api) -> None:
    put(books, DOCUMENT)
    token = books.token("read", "red")

    assert "blue" not in books.get("/api/v1/policies", token=token).text
    own = {"policies": [{"name": "p", "valid_from": "2026-11-01", "discounts": [{"queue": "*", "factor": "0.5"}]}]}
    compared = books.request("POST", f"/api/v1/policies/what-if?window={WINDOW}", json=own, token=token)
    assert ["red"] == [row["team"] for row in compared.json()["items"]]


def test_a_question_of_a_team_does_not_tell_which_teams_there_are(books: Api) -> None:
    """A wrong name is an error for those who see every team."""
    asked = {"policies": [DOCUMENT["policies"][0] | {"quotas": [{"team": "nobody", "gpus": "1"}]}]}
    route = f"/api/v1/policies/what-if?window={WINDOW}"

    answers = [books.request("POST", route, json=asked, token=books.token("read", *of)) for of in (("red",), ())]
    assert [403, 400] == [answer.status_code for answer in answers]
