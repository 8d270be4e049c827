"""What a token bound to teams is refused because the answer would show the usage of others: 403 `team_scope`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.api import Api

WINDOW = "2026-W45"
DAY = "2026-11-02T00:00:00Z,2026-11-03T00:00:00Z"
POLICY: dict[str, Any] = {"name": "p", "valid_from": "2026-11-01"}
SHARED = {"name": "support", "amount": "1000", "per": "day", "currency": "USD"}


@pytest.fixture(scope="module")
def token(filled: Api) -> str:
    """A token of team red."""
    return filled.token("read", "red")


def charge_of(api: Api) -> str:
    """The id of red's charge."""
    items = api.get(f"/api/v1/chargeback?window={WINDOW}&team=red", token=api.service.local_secret).json()["items"]
    return str(items[0]["charge"])


WEIGHING = [
    pytest.param({"shared": [SHARED | {"split": "proportional", "teams": ["red", "blue"]}]}, "shared.0", id="pair"),
    pytest.param({"shared": [SHARED | {"split": "even"}]}, "shared.0", id="a cost that every team shares"),
    pytest.param({"payers": {"idle": "proportional"}}, "payers.idle", id="idle time by what was held"),
    pytest.param({"payers": {"unused": "even"}, "basis": "used"}, "payers.unused", id="unused time by team"),
    pytest.param({"quotas": [{"team": "red", "gpus": "8"}]}, "quotas", id="a quota of free GPUs"),
    pytest.param({"preset": "share-idle"}, "payers.idle", id="a preset that shares idle time"),
]


@pytest.mark.parametrize(("fields", "place"), WEIGHING)
def test_a_policy_that_weighs_others_is_not_compared(filled: Api, token: str, fields: Any, place: str) -> None:
    for path in (f"policies/what-if?window={WINDOW}", f"charges/{charge_of(filled)}/what-if"):
        answer = filled.request("POST", f"/api/v1/{path}", json={"policies": [POLICY | fields]}, token=token)
        whole = filled.request(
            "POST", f"/api/v1/{path}", json={"policies": [POLICY | fields]}, token=filled.token("read")
        )

        error = answer.json()["error"]
        assert (403, "team_scope", f"policies.0.{place}") == (answer.status_code, error["code"], error["field"])
        assert 200 == whole.status_code


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"basis": "used"}, id="what its own jobs used"),
        pytest.param({"discounts": [{"queue": "*", "factor": "0.5"}]}, id="a discount"),
        pytest.param({"shared": [SHARED | {"split": "proportional", "teams": ["red"]}]}, id="a cost of its own"),
        pytest.param(
            {"shared": [SHARED | {"split": "fixed", "percentages": {"red": 30, "blue": 70}}]}, id="fixed parts"
        ),
    ],
)
def test_a_policy_over_its_own_rows_is_compared(filled: Api, token: str, fields: Any) -> None:
    for path in (f"policies/what-if?window={WINDOW}", f"charges/{charge_of(filled)}/what-if"):
        answer = filled.request("POST", f"/api/v1/{path}", json={"policies": [POLICY | fields]}, token=token)

        assert 200 == answer.status_code, answer.text


def test_a_document_does_not_show_which_teams_and_pools_exist(filled: Api, token: str) -> None:
    """A wrong name is an error for those who see the whole fleet only."""
    seen = set()
    for team, pool in (("blue", "batch"), ("none-such", "none-such")):
        fields = {"quotas": [{"team": team, "gpus": "1", "pool": pool}]}
        answer = filled.request(
            "POST", f"/api/v1/charges/{charge_of(filled)}/what-if", json={"policies": [POLICY | fields]}, token=token
        )
        seen.add((answer.status_code, answer.text))

    assert 1 == len(seen)


def test_a_named_policy_that_weighs_others_is_not_compared(filled: Api, token: str) -> None:
    path = f"/api/v1/charges/{charge_of(filled)}/explain"

    error = filled.get(f"{path}?policy=share-idle", token=token).json()["error"]
    assert ("team_scope", "policy") == (error["code"], error["field"])
    assert filled.get(f"{path}?policy=pay-for-use", token=token).json()["under"]["policies"] == ["pay-for-use"]


@pytest.mark.parametrize(
    "query",
    [
        "shareCost=1000",
        "shareNamespaces=bluelab",
        "shareLabels=app:x",
        "includeIdle=true&shareIdle=true",
        "includeIdle=true&shareIdle=even",
        "includeIdle=true&includeProportionalAssetResourceCosts=true",
    ],
)
def test_opencost_does_not_divide_the_cost_of_others(filled: Api, token: str, query: str) -> None:
    for path in ("/allocation", "/model/allocation/summary/topline"):
        answer = filled.get(f"{path}?window={DAY}&aggregate=team&{query}", token=token)

        assert (403, "team_scope") == (answer.status_code, answer.json()["error"]["code"])
        whole = filled.get(f"{path}?window={DAY}&aggregate=team&{query}", token=filled.service.local_secret)
        assert 200 == whole.status_code


@pytest.mark.parametrize("query", ["", "includeIdle=true", "shareSplit=weighted", "shareIdle=true", "shareCost=0"])
def test_opencost_parameters_without_effect_are_answered(filled: Api, token: str, query: str) -> None:
    answer = filled.get(f"/allocation?window={DAY}&aggregate=team&{query}", token=token)

    assert ["red"] == list(answer.json()["data"][0])


@pytest.mark.parametrize("path", ["topology", "quality", "capacity/shapes", "commitments", "audit-card"])
def test_routes_of_the_whole_fleet_are_refused_with_this_code(filled: Api, token: str, path: str) -> None:
    answer = filled.get(f"/api/v1/{path}", token=token)

    assert (403, "team_scope") == (answer.status_code, answer.json()["error"]["code"])
