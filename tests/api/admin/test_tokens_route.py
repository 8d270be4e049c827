"""Tokens over the API: made once visibly, listed without their text, revoked at once; only by administrators."""

from __future__ import annotations

import pytest

from tests.worlds.api import Api

PATH = "/api/v1/tokens"


def test_a_token_is_shown_once_and_works_until_it_is_revoked(api: Api) -> None:
    made = api.request("POST", PATH, json={"name": "vision", "scope": "read", "teams": ["vision"]})
    text, one = made.json()["token"], made.json()["id"]
    admin = api.token("admin", name="ann")
    used = api.get("/api/v1/me", token=text).json()
    listed = api.get(PATH, token=admin)
    revoked = api.request("DELETE", f"{PATH}/{one}", token=admin).json()["items"]

    assert (201, "read", ["vision"]) == (made.status_code, used["scope"], used["teams"])
    assert {"vision", "ann"} == {row["name"] for row in listed.json()["items"]}
    assert text not in listed.text
    assert [(one, "2026-11-10T00:00:00Z")] == [(row["id"], row["revoked_at"]) for row in revoked]
    assert 401 == api.get("/api/v1/me", token=text).status_code
    log = api.get("/api/v1/audit", token=admin, params={"what": "tokens"})
    assert ["token " + one + " revoked", "ann"] == [log.json()["items"][0][name] for name in ("what", "actor")]
    assert text not in log.text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param({"name": "a", "scope": "owner"}, "scope", id="no such scope"),
        pytest.param({"name": "loopback", "scope": "read"}, "name", id="a reserved name"),
        pytest.param({"name": "a", "scope": "admin", "teams": ["x"]}, "teams", id="an administrator of teams"),
        pytest.param({"name": "a", "scope": "read", "teams": []}, "teams", id="no team"),
        pytest.param({"name": "a", "scope": "read", "expires_at": "2026-01-01T00:00:00Z"}, "expires_at", id="expired"),
        pytest.param({"name": "a", "scope": "read", "expires_at": "soon"}, "expires_at", id="no time"),
        pytest.param({"name": "", "scope": "read"}, "name", id="no name"),
    ],
)
def test_a_wrong_token_is_refused_at_its_field(bare: Api, body: dict[str, object], field: str) -> None:
    found = bare.request("POST", PATH, json=body)

    assert (400, field) == (found.status_code, found.json()["error"]["field"])
    assert [] == bare.get(PATH).json()["items"]


def test_only_an_administrator_sees_or_makes_tokens(api: Api) -> None:
    token = api.token("read")
    calls = [("GET", PATH), ("POST", PATH), ("DELETE", f"{PATH}/ab")]

    assert [403] * 3 == [api.request(method, path, token=token).status_code for method, path in calls]
    assert 404 == api.request("DELETE", f"{PATH}/ab", token=api.token("admin")).status_code
