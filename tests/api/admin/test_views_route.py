"""Saved views: each caller has its own; an address outside the pages is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.state.views import VIEWS_MAX, View, Views
from tests.worlds.api import Api

ADDRESS = "/ui/teams?window=7d&team=red"


def names(api: Api, token: str) -> list[str]:
    return [view["name"] for view in api.get("/api/v1/views", token=token).json()["items"]]


def save(api: Api, name: str, address: Any, token: str) -> Any:
    return api.request("PUT", f"/api/v1/views/{name}", token=token, json={"address": address})


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("https://elsewhere.example/ui/", id="another site"),
        pytest.param("//elsewhere.example", id="another host"),
        pytest.param("/api/v1/teams", id="no page"),
        pytest.param("javascript:alert(1)", id="a script"),
        pytest.param("/ui/a b", id="a space"),
        pytest.param("/ui/\n", id="a line break"),
        pytest.param(f"/ui/{'x' * 2000}", id="too long"),
        pytest.param(7, id="a number"),
    ],
)
def test_only_addresses_of_pages_are_saved(api: Api, address: Any) -> None:
    token = api.token("read")
    answer = save(api, "v", address, token)

    assert 422 == answer.status_code or 400 == answer.status_code
    assert "address" in answer.json()["error"]["field"]
    assert [] == names(api, token)


def test_a_view_is_saved_replaced_and_deleted_by_its_owner_only(api: Api) -> None:
    mine, other = api.token("read", name="a"), api.token("read", "red", name="b")

    assert 201 == save(api, "My week", ADDRESS, mine).status_code
    assert 200 == save(api, "My week", "/ui/jobs", mine).status_code
    assert ([], 404) == (names(api, other), api.request("DELETE", "/api/v1/views/My week", token=other).status_code)
    assert ["/ui/jobs"] == [view["address"] for view in api.get("/api/v1/views", token=mine).json()["items"]]
    assert 204 == api.request("DELETE", "/api/v1/views/My week", token=mine).status_code
    assert [] == names(api, mine)


def test_a_person_saves_a_hundred_views_and_may_still_replace_one(api: Api) -> None:
    views = Views(api.service.state)
    for number in range(VIEWS_MAX):
        views.save("local", View(f"v{number}", ADDRESS, 1))
    secret = api.service.local_secret

    answer = save(api, "one more", ADDRESS, secret)

    assert (400, "name") == (answer.status_code, answer.json()["error"]["field"])
    assert 200 == save(api, "v7", "/ui/jobs", secret).status_code


def test_a_token_for_ingest_has_no_views(api: Api) -> None:
    assert 403 == api.get("/api/v1/views", token=api.token("ingest")).status_code
