"""The overview over the API: what was avoidable, by whom, and what to do first."""

from __future__ import annotations

from typing import Any

from tests.worlds.api import Api

OVERVIEW = "/api/v1/overview"
WEEK = "2026-W45"
AFTERNOON = "2026-11-02T03:00:00Z,2026-11-02T06:00:00Z"


def asked(api: Api, window: str = WEEK, **more: Any) -> Any:
    """The answer for a window."""
    token = more.pop("token", None)
    answer = api.get(OVERVIEW, params={"window": window, **more}, token=token)
    assert 200 == answer.status_code, answer.text
    return answer.json()


def test_the_waste_of_a_week_and_its_largest_loss(filled: Api) -> None:
    """Two jobs held an idle GPU each for six hours at two dollars. Six hours are not projected to a day."""
    found = asked(filled)
    ledger = filled.get("/api/v1/ledger", params={"window": WEEK, "by": "team"}).json()
    (loss,) = found["actions"]

    assert ledger["avoidable"] == found["now"]["avoidable"]
    assert [one["avoidable"] for one in ledger["groups"]] == [one["avoidable"] for one in found["teams"]]
    assert (21_600, "36.00", None) == (found["now"]["covered_seconds"], found["now"]["cost"], found["before"])
    assert ("loss:hoarded", "24.00", "24.00") == (loss["id"], loss["loss"]["cost"], loss["cost_a_day"])
    assert [("blue", "12.00"), ("red", "12.00")] == [
        (one["team"], one["cost_a_day"]) for one in loss["owners"]["items"]
    ]


def test_the_largest_loss_by_team_and_kind_of_work(filled: Api) -> None:
    """Twelve of the 24 dollars each; the parts are those of the window, not of a day."""
    (loss,) = asked(filled)["actions"]

    assert [("blue", "batch", "12.00", "21600.000000"), ("red", "batch", "12.00", "21600.000000")] == [
        (one["team"], one["kind"], one["cost"], one["gpu_seconds"]) for one in loss["loss"]["parts"]
    ]
    assert (
        "Training and batch jobs ($24.00): ask for the GPUs that are used, and end jobs with their work."
        == loss["remedy"]
    )
    assert (False, "24.00") == (loss["day_rate"], loss["cost_so_far"])


def test_the_period_before_is_compared_by_its_own_time(filled: Api) -> None:
    """Three hours after the three in which the pods worked too."""
    found = asked(filled, AFTERNOON)

    assert {"start": "2026-11-02T00:00:00Z", "end": "2026-11-02T03:00:00Z"} == found["before"]["window"]
    assert (10_800, 10_800) == (found["now"]["covered_seconds"], found["before"]["covered_seconds"])
    assert ("12.00", "12.23") == (found["now"]["avoidable"]["cost"], found["before"]["avoidable"]["cost"])
    assert 10_800 == found["shift_seconds"]


def test_filters_narrow_every_part(filled: Api) -> None:
    found = asked(filled, team="red", pool="batch")

    assert ["red"] == [one["team"] for one in found["teams"]]
    assert ("12.00", "12.00") == (found["now"]["cost"], found["actions"][0]["loss"]["cost"])
    assert (None, []) == (asked(filled, cluster="c9")["now"]["cost"], asked(filled, cluster="c9")["actions"])


def test_a_token_of_a_team_sees_that_team_only(books: Api) -> None:
    found = asked(books, token=books.token("read", "red"))

    assert ["red"] == [one["team"] for one in found["teams"]]
    assert ["red"] == [one["team"] for one in found["actions"][0]["owners"]["items"]]
    assert "blue" not in str(found)


def test_a_service_without_data_has_nothing_to_do(bare: Api) -> None:
    found = asked(bare)

    assert (0, None, [], []) == (
        found["now"]["covered_seconds"],
        found["before"],
        found["teams"],
        found["actions"],
    )


def test_the_teams_that_ran_something(books: Api) -> None:
    def names(window: str, token: str | None = None) -> list[str]:
        answer = books.get("/api/v1/holders", params={"window": window}, token=token)
        return [one["team"] for one in answer.json()["items"]]

    assert (["blue", "red"], []) == (names(WEEK), names("2026-W44"))
    assert ["red"] == names(WEEK, books.token("read", "red"))
