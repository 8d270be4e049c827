"""GPUs over time, and one GPU with who held it."""

from __future__ import annotations

import pytest

from tests.worlds.api import Api

GPUS = "/api/v1/gpus"
DAY = "2026-11-02T00:00:00Z,2026-11-03T00:00:00Z"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("?cluster=c2", [], id="another cluster"),
        pytest.param("?pool=none-such", [], id="another pool"),
        pytest.param("?q=no+such+gpu", [], id="words that none has"),
        pytest.param("?q=REDnode", ["GPU-red"], id="words of one, whatever their case"),
        pytest.param("", ["GPU-blue", "GPU-mig", "GPU-red"], id="all, by node"),
    ],
)
def test_filters(filled: Api, query: str, expected: list[str]) -> None:
    mark = "&" if query else "?"
    assert expected == [item["gpu"] for item in filled.get(f"{GPUS}{query}{mark}window={DAY}").json()["items"]]


def test_pages_are_the_whole(filled: Api) -> None:
    whole = filled.get(f"{GPUS}?window={DAY}").json()["items"]
    first = filled.get(f"{GPUS}?window={DAY}&limit=2").json()
    second = filled.get(f"{GPUS}?window={DAY}&limit=2&cursor={first['next']}").json()

    assert whole == first["items"] + second["items"]
    assert second["next"] is None


def test_free_and_unread_steps_are_not_zero(filled: Api) -> None:
    """Values end with the samples; after that nothing is known, and nothing was held."""
    found = filled.get(f"{GPUS}?window={DAY}&q=red").json()
    (item,) = found["items"]

    assert (3600, 24, DAY.split(",")[0]) == (found["step_s"], len(found["times"]), found["times"][0])
    assert len(item["values"]) == len(item["held"]) == 24
    assert item["values"][-1] is None
    assert any(value is not None and 0 <= value <= 1 for value in item["values"])
    assert 1.0 == max(part for part in item["held"] if part is not None)
    assert item["estimated"] is False, "its job names its GPU"


@pytest.mark.parametrize("measure", ["sm_active_ratio", "fb_used_gib", "power_watts", "gpu_temp_celsius", "health"])
def test_every_measure_has_a_step_for_each_time(filled: Api, measure: str) -> None:
    found = filled.get(f"{GPUS}?window={DAY}&measure={measure}").json()

    assert {24} == {len(item["values"]) for item in found["items"]}
    assert measure == found["measure"]


def test_one_gpu_has_its_owners_and_findings(filled: Api) -> None:
    found = filled.get(f"{GPUS}/GPU-red?window={DAY}").json()

    assert ("GPU-red", "rednode") == (found["gpu"]["gpu"], found["gpu"]["node"])
    assert {"red"} == {owner["team"] for owner in found["owners"]} | {one["team"] for one in found["findings"]}
    assert {len(found["times"])} == {len(values) for values in found["values"].values()}
    assert 404 == filled.get(f"{GPUS}/none-such").status_code


def test_a_window_that_cannot_be_drawn_is_refused(filled: Api) -> None:
    answer = filled.get(f"{GPUS}?window=2020-01-01T00:00:00Z,2026-01-01T00:00:00Z")

    assert (400, "window") == (answer.status_code, answer.json()["error"]["field"])


def test_a_token_of_a_team_is_refused(filled: Api) -> None:
    """A GPU's history has the jobs of all."""
    token = filled.token("read", "red")

    for path in (GPUS, f"{GPUS}/GPU-red"):
        answer = filled.get(path, token=token)
        assert (403, "team_scope") == (answer.status_code, answer.json()["error"]["code"])
