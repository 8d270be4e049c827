"""Rules, the card that sets them, back-tests, feedback and reclaims over the API: scopes, teams and errors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.api import BLUE_WORDS, Api

CARD = {
    "preset": "princeton",
    "teams": [{"team": "red", "off": ["idle-hoarding"]}, {"team": "blue", "preset": "meta-rsc"}],
}


def put(api: Api, body: Any, **more: Any) -> Any:
    return api.request("PUT", "/api/v1/detectors/card", json=body, **more)


def test_every_rule_is_listed_with_its_numbers_and_their_sources(filled: Api) -> None:
    found = filled.get("/api/v1/detectors", params={"limit": 1000}).json()
    rule = next(item for item in found["items"] if item["id"] == "idle-hoarding")

    assert (900_000_000, None) == (rule["thresholds"]["idle_us_min"], rule["feedback"]["precision"])
    assert ("default", False, "gpuwatch") == (rule["preset"], rule["off"], rule["origin"])
    assert rule["thresholds"].keys() == rule["sources"].keys()
    assert [] == found["refused"]
    assert (["info", "low", "medium", "high"], ["info"]) == (
        rule["severities"],
        next(item["severities"] for item in found["items"] if item["id"] == "right-sizing"),
    )


def test_presets_say_what_they_set_and_from_where(filled: Api) -> None:
    found = {one["name"]: one for one in filled.get("/api/v1/detectors").json()["presets"]}

    assert ["default", "meta-rsc", "princeton", "gpu-pruner"] == [*found]
    assert {(60 * 60_000_000, "job_defense_shield, cancel_gpu_jobs: warns at 60 minutes")} == {
        (value["value"], value["source"])
        for value in found["princeton"]["values"]
        if (value["rule"], value["name"]) == ("idle-hoarding", "warn_us")
    }


def test_a_card_is_set_and_holds(books: Api) -> None:
    assert {"changed": True, "version": 1, "rows": 3} == put(books, CARD).json()
    assert not put(books, CARD).json()["changed"]
    card = books.get("/api/v1/detectors/card").json()
    assert ("princeton", ["red", "blue"], [1]) == (
        card["preset"],
        [layer["team"] for layer in card["teams"]],
        [version["version"] for version in card["history"]],
    )
    assert put(books, card).json()["version"] == 1
    rules = {item["id"]: item for item in books.get("/api/v1/detectors", params={"limit": 1000}).json()["items"]}
    assert (3_600_000_000, "princeton") == (
        rules["idle-hoarding"]["thresholds"]["idle_us_min"],
        rules["idle-hoarding"]["preset"],
    )
    assert "job_defense_shield" in rules["idle-hoarding"]["sources"]["idle_us_min"]


def test_a_card_may_be_toml(books: Api) -> None:
    answer = books.request(
        "PUT", "/api/v1/detectors/card", content=b'preset = "meta-rsc"', headers={"Content-Type": "application/toml"}
    )

    assert (200, "meta-rsc") == (answer.status_code, books.get("/api/v1/detectors/card").json()["preset"])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param({"preset": "nope"}, "preset", id="an unknown preset"),
        pytest.param({"off": ["nope"]}, "off", id="an unknown rule"),
        pytest.param({"teams": [{"team": "green"}]}, "teams.0.team", id="an unknown team"),
        pytest.param({"thresholds": {"idle-hoarding": {"idle_us_min": "x"}}}, "thresholds.idle-hoarding.idle_us_min", id="no time"),
        pytest.param([], "body", id="a list"),
    ],
)  # fmt: skip
def test_a_wrong_card_changes_nothing_and_names_its_place(filled: Api, body: Any, field: str) -> None:
    answer = put(filled, body)

    assert (400, field) == (answer.status_code, answer.json()["error"]["field"])
    assert 0 == filled.get("/api/v1/detectors/card").json()["version"]


def test_only_admins_set_and_teams_see_their_own(books: Api) -> None:
    put(books, CARD)
    red, everybody = books.token("read", "red"), books.token("read")

    assert [403, 403] == [put(books, CARD, token=token).status_code for token in (red, everybody)]
    card = books.get("/api/v1/detectors/card", token=red).json()
    assert (["red"], []) == ([layer["team"] for layer in card["teams"]], card["history"])
    rules = books.get("/api/v1/detectors", token=red).json()
    assert {None} == {item["feedback"] for item in rules["items"]}
    assert ["red", "blue"] == [t["team"] for t in books.get("/api/v1/detectors/card", token=everybody).json()["teams"]]


def tried(api: Api, body: Any, rule: str = "idle-hoarding", **more: Any) -> Any:
    return api.request("POST", f"/api/v1/detectors/{rule}/backtest", json=body, **more)


WINDOW = "2026-11-02T00:00:00Z,2026-11-03T00:00:00Z"


def test_a_back_test_says_who_and_how_much(books: Api) -> None:
    found = tried(books, {"window": WINDOW, "thresholds": {"idle_us_min": "7h"}}).json()

    assert ({"9001", "9002"}, {"gone"}) == (
        {item["subject"]["id"] for item in found["items"]},
        {item["change"] for item in found["items"]},
    )
    assert (0, 2) == (found["total"]["findings"], found["today"]["findings"])


def test_a_bound_token_sees_its_own_team(books: Api) -> None:
    answer = tried(books, {"window": WINDOW, "preset": "default"}, token=books.token("read", "red"))

    assert ["9001"] == [item["subject"]["id"] for item in answer.json()["items"]]
    assert not [word for word in BLUE_WORDS if word in answer.text]


@pytest.mark.parametrize(
    ("rule", "body", "status", "field"),
    [
        pytest.param("nope", {}, 404, "rule", id="an unknown rule"),
        pytest.param("idle-hoarding", {"window": "60d"}, 400, "window", id="a window without end"),
        pytest.param("idle-hoarding", {"window": "soon"}, 400, "window", id="no window"),
        pytest.param("idle-hoarding", {"preset": "nope"}, 400, None, id="an unknown preset"),
        pytest.param("idle-hoarding", {"thresholds": {"nope": 1}}, 400, None, id="an unknown threshold"),
        pytest.param("idle-hoarding", {"cluster": "c9"}, 400, None, id="an unknown cluster"),
        pytest.param("idle-hoarding", {"colour": 1}, 400, "colour", id="an unknown field"),
    ],
)
def test_what_cannot_be_tried_is_refused(filled: Api, rule: str, body: Any, status: int, field: str | None) -> None:
    answer = tried(filled, body, rule)

    assert status == answer.status_code
    assert field is None or field == answer.json()["error"]["field"]


def test_an_ingester_tries_nothing(books: Api) -> None:
    assert [403, 403, 403] == [
        tried(books, {}, token=books.token("ingest")).status_code,
        books.get("/api/v1/reclaim", token=books.token("ingest")).status_code,
        books.get("/api/v1/detectors", token=books.token("ingest")).status_code,
    ]


def test_a_verdict_counts_for_its_rule(books: Api) -> None:
    key = books.get("/api/v1/findings", params={"detector": "idle-hoarding"}).json()["items"][0]["key"]
    answer = books.request(
        "POST", f"/api/v1/findings/{key}/ack", json={"reason": "data loading", "verdict": "false_positive"}
    ).json()
    wrong = books.request("POST", f"/api/v1/findings/{key}/ack", json={"reason": "x", "verdict": "maybe"})
    rules = {item["id"]: item for item in books.get("/api/v1/detectors", params={"limit": 1000}).json()["items"]}

    assert ("false_positive", 400) == (answer["verdict"], wrong.status_code)
    entry = rules["idle-hoarding"]["feedback"]
    assert (0, 1, 0.0, 0.0, 0.7935) == tuple(
        entry[word] for word in ("true_positives", "false_positives", "precision", "precision_low", "precision_high")
    )
    assert "false_positive" == books.get(f"/api/v1/findings/{key}").json()["actions"][0]["verdict"]


def test_reclaims_of_a_fleet_without_open_jobs_are_none(filled: Api) -> None:
    found = filled.get("/api/v1/reclaim").json()

    assert ([], None) == (found["items"], found["next"])
    assert 400 == filled.get("/api/v1/reclaim", params={"step": "end"}).status_code
