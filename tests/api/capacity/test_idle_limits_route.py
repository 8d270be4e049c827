"""GET /what-if/idle-limits: the values, the bounds, and what a token bound to teams gets."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.api.schema.findings.idle_limits import IdleLimits
from tests.worlds.api import BLUE_WORDS, Api

ROUTE = "/api/v1/what-if/idle-limits"
WEEK = "2026-W45"
"""The week in which each team's GPU idled for six hours."""


def ask(api: Api, token: str | None = None, **words: Any) -> dict[str, Any]:
    response = api.get(ROUTE, token=token or api.service.local_secret, params={"window": WEEK, **words})
    assert 200 == response.status_code, response.text
    found: dict[str, Any] = response.json()
    IdleLimits.model_validate(found)
    return found


def at(found: dict[str, Any], limit: int) -> dict[str, Any]:
    return next(item for item in found["items"] if item["limit_minutes"] == limit)


def test_an_empty_store_has_nothing_to_return(bare: Api) -> None:
    found = ask(bare)

    assert ([], 0) == (found["teams"], found["requests"])
    assert {"0.000000"} == {item["returned_gpu_hours"] for item in found["items"]}


def test_six_idle_hours_of_two_gpus_are_returned_beyond_each_limit(filled: Api) -> None:
    found = ask(filled)

    assert "12.000000" == found["idle"]["returned_gpu_hours"]
    assert {15: "11.500000", 60: "10.000000", 240: "4.000000"} == {
        limit: at(found, limit)["returned_gpu_hours"] for limit in (15, 60, 240)
    }
    assert (2, 0) == (at(found, 15)["jobs"], at(found, 15)["wrong_jobs"])
    assert {"red", "blue"} == {row["team"] for row in found["teams"]}


def test_a_team_filter_keeps_the_gpus_of_that_team(filled: Api) -> None:
    found = ask(filled, team="red")

    assert ("5.750000", {"red"}) == (at(found, 15)["returned_gpu_hours"], {row["team"] for row in found["teams"]})


def test_a_token_bound_to_teams_sees_its_own_gpus_and_no_queue(filled: Api) -> None:
    token = filled.token("read", "red")
    found = ask(filled, token)
    every = ask(filled, token, team="blue")

    assert "5.750000" == at(found, 15)["returned_gpu_hours"]
    assert (None, None) == (found["requests"], at(found, 15)["sooner"])
    assert not any(word in str(found) for word in BLUE_WORDS)
    assert ("0.000000", []) == (at(every, 15)["returned_gpu_hours"], every["teams"])


def test_the_jobs_of_a_limit_are_those_of_the_callers_teams(filled: Api) -> None:
    every, own = ask(filled, jobs_at=15)["jobs"], ask(filled, filled.token("read", "red"), jobs_at=15)["jobs"]

    assert {"red", "blue"} == {job["team"] for job in every}
    assert [("red", 1, 0, "5.750000")] == [
        (job["team"], job["devices"], job["wrong_devices"], job["returned_gpu_hours"]) for job in own
    ]
    assert not any(word in str(own) for word in BLUE_WORDS)


def test_a_limit_that_is_not_tried_is_refused(filled: Api) -> None:
    answer = filled.get(ROUTE, token=filled.service.local_secret, params={"jobs_at": "7"})

    assert (400, "jobs_at") == (answer.status_code, answer.json()["error"]["field"])


def test_a_token_bound_to_teams_may_not_ask_for_the_queue(filled: Api) -> None:
    answer = filled.get(ROUTE, token=filled.token("read", "red"), params={"requests": "true"})

    error = answer.json()["error"]
    assert (403, "team_scope", "requests") == (answer.status_code, error["code"], error["field"])


@pytest.mark.parametrize("window", ["32d", "2026-01-01,2026-02-15"])
def test_a_window_longer_than_31_days_is_refused(filled: Api, window: str) -> None:
    answer = filled.get(ROUTE, token=filled.service.local_secret, params={"window": window})

    assert (400, "window") == (answer.status_code, answer.json()["error"]["field"])
