"""Search by name: what is found, in which order, and by whom."""

from __future__ import annotations

import pytest

from tests.worlds.api import Api


def found(api: Api, q: str, *teams: str, each: int = 5) -> list[tuple[str, str]]:
    answer = api.request("GET", "/api/v1/search", params={"q": q, "each": each}, token=api.token("read", *teams))
    assert 200 == answer.status_code
    return [(item["kind"], item["id"]) for item in answer.json()["items"] if item["kind"] != "finding"]


@pytest.mark.parametrize(
    ("q", "wanted"),
    [
        pytest.param("no such name", [], id="nothing"),
        pytest.param("  ", [], id="blanks"),
        pytest.param("%", [], id="no pattern"),
        pytest.param("URSULA", [("user", "ursula")], id="a user, in any case"),
        pytest.param("redtrain", [("job", "9001")], id="a job by its name"),
        pytest.param("9002", [("job", "9002")], id="a job by its id"),
        pytest.param("GPU-mig", [("gpu", "GPU-mig")], id="a GPU once, however it is cut"),
        pytest.param("bluenode", [("node", "bluenode")], id="a node"),
    ],
)
def test_what_is_found(filled: Api, q: str, wanted: list[tuple[str, str]]) -> None:
    assert wanted == found(filled, q)


def test_a_team_finds_its_own_only(filled: Api) -> None:
    assert ("team", "red") in found(filled, "red", "red")
    for theirs in ("blue", "boris", "9002", "bluetrain", "bluenode", "GPU-blue"):
        assert [] == found(filled, theirs, "red"), theirs
        assert found(filled, theirs), theirs


def test_kinds_are_bounded_and_findings_are_found_by_their_texts(filled: Api) -> None:
    text = filled.token("read")
    answer = filled.get("/api/v1/search?q=red&each=1", token=text).json()["items"]
    kinds = [item["kind"] for item in answer]

    assert sorted(set(kinds)) == sorted(kinds)
    (finding,) = [item for item in answer if item["kind"] == "finding"]
    assert filled.get(f"/api/v1/findings/{finding['id']}", token=text).json()["title"] in finding["name"]
    assert 400 == filled.get("/api/v1/search", token=text).status_code
    assert 400 == filled.get("/api/v1/search?q=a&each=21", token=text).status_code
