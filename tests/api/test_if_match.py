"""Lists that are replaced whole: If-Match refuses to overwrite a change that the sender has not seen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.api import Api

RATE = {"gpu_model": "H100", "pricing": "owned", "usd_per_gpu_hour": "2.50", "valid_from": "2026-01-01T00:00:00Z"}
OWNED = {
    "name": "rack",
    "gpu_model": "H100",
    "gpus": 8,
    "capex": "320000",
    "years": "5",
    "kw": "10.2",
    "price_per_kwh": "0.2",
    "valid_from": "2026-01-01T00:00:00Z",
}
BUDGET = {"team": "red", "period": "month", "amount": "100", "currency": "USD"}
CHANNEL = {"name": "ops", "kind": "webhook", "url": "https://hooks.example.com/secret-path"}
POLICY = {"name": "standard", "valid_from": "2026-01-01T00:00:00Z"}
LISTS: dict[str, tuple[str, Any, Any]] = {
    "rates": ("rates", {"items": [RATE]}, {"items": [RATE | {"usd_per_gpu_hour": "3"}]}),
    "owned": ("owned", {"items": [OWNED]}, {"items": [OWNED | {"pue": "1.3"}]}),
    "teams": (
        "teams",
        {"items": [{"match_kind": "user", "match": "ann", "team": "red"}]},
        {"items": [{"match_kind": "user", "match": "bob", "team": "red"}]},
    ),
    "fx": (
        "fx",
        {"items": [{"from": "EUR", "to": "USD", "rate": "1.1", "valid_from": "2026-01-01T00:00:00Z"}]},
        {"items": []},
    ),
    "budgets": ("budgets/set", {"items": [BUDGET]}, {"items": [BUDGET | {"amount": "200"}]}),
    "recipients": (
        "recipients",
        {"items": [{"team": "red", "to": ["ann@example.com"]}]},
        {"items": [{"team": "red", "to": ["bob@example.com"]}]},
    ),
    "policies": ("policies", {"policies": [POLICY]}, {"policies": [POLICY | {"name": "other"}]}),
    "detectors/card": ("detectors/card", {"off": ["idle-hoarding"]}, {"off": []}),
    "channels": ("channels", {"items": [CHANNEL]}, {"items": []}),
}
"""By the path of PUT: that of GET, a first list and a second one."""


def put(api: Api, path: str, body: Any, tag: str | None = None) -> Any:
    """A PUT, with a tag or without."""
    return api.request("PUT", f"/api/v1/{path}", json=body, headers={} if tag is None else {"If-Match": tag})


def content(api: Api, path: str) -> Any:
    """What a list has."""
    found = api.get(f"/api/v1/{path}").json()
    return {name: value for name, value in found.items() if name not in ("history", "version")}


@pytest.mark.parametrize("path", LISTS)
def test_only_who_has_seen_a_list_replaces_it(api: Api, path: str) -> None:
    """A tag from before another person's change is refused, and nothing is changed; a fresh one is accepted."""
    where, first, second = LISTS[path]
    unset = api.get(f"/api/v1/{where}").headers["etag"]
    made = put(api, path, first, unset)
    stored = content(api, where)
    refused = put(api, path, second, unset)
    error = refused.json()["error"]
    tags = api.get(f"/api/v1/{where}").headers["etag"], made.headers["etag"]

    assert (200, 412) == (made.status_code, refused.status_code)
    assert ("changed_meanwhile", True) == (error["code"], error["message"].startswith("nothing was changed: "))
    assert stored == content(api, where)
    assert 1 == len({tag.partition("-")[0] for tag in tags})
    assert 200 == put(api, path, second, tags[1]).status_code
    assert stored != content(api, where)


def test_without_a_tag_a_list_is_replaced_as_ever(api: Api) -> None:
    """And with the tag * too."""
    found = [
        put(api, path, body, tag).status_code
        for path, (_, first, second) in LISTS.items()
        if path != "owned"  # the rate card of this test has a rate for owned hardware
        for body, tag in ((first, None), (second, "*"))
    ]

    assert [200, 200] * (len(LISTS) - 1) == found


def test_the_version_of_the_answer_is_a_tag(api: Api) -> None:
    """Who keeps JSON only needs no header; weak tags and several of them are understood, words are not."""
    _, first, second = LISTS["rates"]
    put(api, "rates", first)

    assert 412 == put(api, "rates", second, '"0"').status_code
    assert 412 == put(api, "rates", second, "nothing").status_code
    assert 412 == put(api, "rates", second, "").status_code
    assert 200 == put(api, "rates", second, '"1"').status_code
    assert 200 == put(api, "rates", first, 'W/"7-ab", W/"2-cd"').status_code


def test_a_refusal_names_who_changed_it(api: Api) -> None:
    """And the audit log has one entry, that of the change that was made."""
    token = api.token("admin", name="ann")
    path, first, second = LISTS["rates"]
    api.request("PUT", f"/api/v1/{path}", json=first, token=token)
    refused = api.request("PUT", f"/api/v1/{path}", json=second, token=token, headers={"If-Match": '"0"'})
    log = api.get("/api/v1/audit", token=token, params={"what": "rates"}).json()["items"]

    assert (
        "nothing was changed: rates: version 1, set by ann at 2026-11-10T00:00:00Z, is in force, "
        "which is not the one that you read"
    ) == refused.json()["error"]["message"]
    assert [("ann", "rates replaced")] == [(entry["actor"], entry["what"]) for entry in log]


def test_the_same_list_under_an_old_tag_is_refused_too(api: Api) -> None:
    """Nothing would change, but the sender should see what is there."""
    _, first, _ = LISTS["rates"]
    put(api, "rates", first)

    assert 412 == put(api, "rates", first, '"0"').status_code


def test_tags_still_spare_answers(api: Api) -> None:
    """A list with a version is 304 while its answer is the same."""
    tag = api.get("/api/v1/rates").headers["etag"]

    assert 304 == api.get("/api/v1/rates", headers={"If-None-Match": tag}).status_code


def test_the_description_names_the_header(api: Api) -> None:
    """Every route that replaces a list documents If-Match and 412; a saved view is the caller's own."""
    paths = api.app.openapi()["paths"]
    found = {
        path: methods["put"] for path, methods in paths.items() if "put" in methods and path != "/api/v1/views/{name}"
    }

    assert {f"/api/v1/{path}" for path in LISTS} == set(found)
    assert [] == [
        path
        for path, route in found.items()
        if "412" not in route["responses"] or "if-match" not in {one["name"] for one in route["parameters"]}
    ]


SPOT = {
    "InstanceType": "p5.48xlarge",
    "AvailabilityZone": "us-east-1a",
    "ProductDescription": "Linux/UNIX",
    "SpotPrice": "16",
    "Timestamp": "2026-11-01T00:00:00Z",
}


def add_spot(api: Api, *prices: dict[str, str], tag: str | None = None) -> Any:
    """Adds spot prices."""
    headers = {} if tag is None else {"If-Match": tag}
    path = "/api/v1/spot?instance=p5.48xlarge%3DH100%3A8"
    return api.request("POST", path, json={"SpotPriceHistory": list(prices)}, headers=headers)


def test_spot_prices_are_added_only_to_those_that_were_read(api: Api) -> None:
    unset = api.get("/api/v1/spot").headers["etag"]
    later = SPOT | {"Timestamp": "2026-11-02T00:00:00Z"}
    made = add_spot(api, SPOT, tag=unset)
    refused = add_spot(api, later, tag=unset)

    assert (200, 412) == (made.status_code, refused.status_code)
    assert "changed_meanwhile" == refused.json()["error"]["code"]
    assert 1 == len(api.get("/api/v1/spot").json()["items"])
    assert 200 == add_spot(api, later, tag=made.headers["etag"]).status_code
    assert 200 == add_spot(api, SPOT | {"Timestamp": "2026-11-03T00:00:00Z"}).status_code
    assert 3 == len(api.get("/api/v1/spot").json()["items"])
