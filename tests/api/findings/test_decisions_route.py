"""Decisions over the API and the command line: who may ask, what is refused, and what each answer stands on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuwatch.cli import run
from tests.worlds.api import BLUE_WORDS, Api

WEEK = "window=2026-W45"
FLEET = ("own-vs-cloud", "consolidation?cluster=c1&pool=x", "checkpoint?params=7e9&gpus=8", "place?gpus=1")
JOBS = ("spot?spot_discount=0.6", "right-sizing")


@pytest.mark.parametrize("question", [*FLEET, *JOBS])
def test_a_token_is_needed_once_there_is_one(books: Api, question: str) -> None:
    books.token("admin")
    joined = "&" if "?" in question else "?"
    assert 401 == books.get(f"/api/v1/decisions/{question}{joined}{WEEK}").status_code


@pytest.mark.parametrize("question", FLEET)
def test_what_is_about_the_fleet_is_not_for_a_team(books: Api, question: str) -> None:
    joined = "&" if "?" in question else "?"
    answer = books.get(f"/api/v1/decisions/{question}{joined}{WEEK}", token=books.token("read", "red"))
    assert 403 == answer.status_code


@pytest.mark.parametrize("question", JOBS)
def test_a_team_sees_its_own_jobs(books: Api, question: str) -> None:
    joined = "&" if "?" in question else "?"
    answer = books.get(f"/api/v1/decisions/{question}{joined}{WEEK}", token=books.token("read", "red"))
    assert 200 == answer.status_code
    assert {"red"} >= {item["team"] for item in answer.json()["items"]}
    assert not [word for word in BLUE_WORDS if word in json.dumps(answer.json()["items"])]


@pytest.mark.parametrize("value", ["cheap", "NaN", "1e400", "-1", "0", "Infinity"])
def test_a_price_that_is_none_is_refused(books: Api, value: str) -> None:
    answer = books.get(f"/api/v1/decisions/own-vs-cloud?cloud_price={value}&{WEEK}")
    assert (400, "cloud_price") == (answer.status_code, answer.json()["error"]["field"])


def test_pools_may_be_given_one_by_one(books: Api) -> None:
    """As the command sends them; what a route takes once is refused twice."""
    route = "/api/v1/decisions/consolidation?cluster=c1&"
    together = books.get(f"{route}pool=x,y&{WEEK}").json()

    assert together == books.get(f"{route}pool=x&pool=y&{WEEK}").json()
    twice = books.get(f"{route}cluster=c2&pool=x&{WEEK}")
    assert (400, "cluster") == (twice.status_code, twice.json()["error"]["field"])


def test_an_answer_tells_its_assumptions_in_numbers_and_words(books: Api) -> None:
    for question in ("own-vs-cloud?cloud_price=3.5&", "spot?", "right-sizing?"):
        answer = books.get(f"/api/v1/decisions/{question}{WEEK}").json()
        assert {"cloud_price", "headroom", "interruptions_an_hour", "spot_discount"} == answer["assumptions"].keys()
        assert all(isinstance(note, str) for note in answer["notes"])
        assert answer["notes"]


def test_the_command_tells_what_it_takes_for_granted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "teams.csv").write_text("match_kind,match,team\n")
    assert 0 == run(["import", "bundle", str(tmp_path), "--data", str(tmp_path / "data")])
    data = ["--data", str(tmp_path / "data"), "--window", "2026-W45"]
    assert 0 == run(["decide", "own-vs-cloud", *data, "--format", "table"])
    assert "cloud GPUs would be rented for allocated hours only" in capsys.readouterr().out
    assert 2 == run(["decide", "spot", *data, "--spot-discount", "NaN"])
    assert "not a decimal number" in capsys.readouterr().err
    assert 2 == run(["decide", "consolidate", *data, "--cluster", "c9", "--pool", "p"])
    assert "cluster 'c9' has none" in capsys.readouterr().err


def test_a_checkpoint_is_checked_and_a_wrong_value_is_named(books: Api) -> None:
    path = f"/api/v1/decisions/checkpoint?params=70e9&gpus=512&write_gbps=50&{WEEK}"
    found = books.get(path).json()
    assert [980e9] == [item["value"] for item in found["items"] if item["name"] == "checkpoint_bytes"]
    assert 24 == len(found["sizes"])
    answer = books.get(f"{path}&stall_share=2")
    assert (400, "stall_share") == (answer.status_code, answer.json()["error"]["field"])


def test_places_are_ranked_with_their_reasons_and_a_wrong_value_is_named(books: Api) -> None:
    path = f"/api/v1/decisions/place?gpus=1&{WEEK}"
    found = books.get(f"{path}&cloud=name=aws,price=6.88,wait_hours=1&data_gb=4000@aws").json()
    assert {"pool", "cloud"} == {item["kind"] for item in found["items"]}
    cloud = next(item for item in found["items"] if item["kind"] == "cloud")
    assert ("165.12", "0.00", 0.0) == (cloud["cost"], cloud["egress_cost"], cloud["transfer_seconds"])
    for wrong, field in (("data_gb=4000", "data_gb"), ("cloud=price=2", "cloud"), ("link=from=a", "link")):
        answer = books.get(f"{path}&{wrong}")
        assert (400, field) == (answer.status_code, answer.json()["error"]["field"])
