"""GET /what-if/quotas: the values, the bounds, and what a token bound to teams gets."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.api.schema.findings.quotas import Quotas
from tests.worlds.api import BLUE_WORDS, Api

ROUTE = "/api/v1/what-if/quotas"
WEEK = "2026-W45"


def ask(api: Api, token: str | None = None, **words: Any) -> dict[str, Any]:
    response = api.get(ROUTE, token=token or api.service.local_secret, params={"window": WEEK, "team": "red", **words})
    assert 200 == response.status_code, response.text
    found: dict[str, Any] = response.json()
    Quotas.model_validate(found)
    return found


def test_an_empty_store_has_no_runs(bare: Api) -> None:
    assert ([], 0) == (ask(bare)["items"], ask(bare)["runs"])


def test_a_job_and_a_slice_fit_two_gpus_and_not_one(filled: Api) -> None:
    """Red holds a GPU for six hours, and a slice of a seventh for two."""
    found = ask(filled, gpus="1")
    at = {item["gpus"]: item for item in found["items"]}

    assert ("1.142857", 2, "6.285714") == (found["peak_gpus"], found["runs"], found["held_gpu_hours"])
    assert (1, "6.000000") == (at["1.000000"]["delayed_runs"], at["1.000000"]["waiting_hours"])
    assert (0, "329.714286") == (at["2.000000"]["delayed_runs"], at["2.000000"]["unused_gpu_hours"])


def test_a_token_bound_to_teams_asks_about_its_own(filled: Api) -> None:
    token = filled.token("read", "red")
    found = ask(filled, token)

    assert {None} == {item["sooner"] for item in found["items"]}
    assert not any(word in str(found) for word in BLUE_WORDS)


@pytest.mark.parametrize(("words", "field"), [({"team": "blue"}, "team"), ({"requests": "true"}, "requests")])
def test_a_token_bound_to_teams_is_refused_what_depends_on_others(filled: Api, words: Any, field: str) -> None:
    params = {"window": WEEK, "team": "red", **words}
    answer = filled.get(ROUTE, token=filled.token("read", "red"), params=params)

    error = answer.json()["error"]
    assert (403, "team_scope", field) == (answer.status_code, error["code"], error["field"])


@pytest.mark.parametrize(
    ("params", "field"),
    [({"team": "red", "window": "32d"}, "window"), ({"team": "red", "gpus": "-1"}, "gpus"), ({}, "team")],
)
def test_a_bad_question_names_its_mistake(filled: Api, params: Any, field: str) -> None:
    answer = filled.get(ROUTE, token=filled.service.local_secret, params=params)

    assert 400 <= answer.status_code < 500
    assert field == answer.json()["error"]["field"]
