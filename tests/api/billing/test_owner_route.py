"""Who would own something: the answer of the rules in force, and the rule that decides."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.api import Api


def asked(api: Api, **words: Any) -> list[tuple[str, int | None, str]]:
    """(team, place of the rule, reason) of each answer."""
    found = api.get("/api/v1/teams/owner", params=words)
    assert 200 == found.status_code, found.text
    return [(one["team"], (one["rule"] or {}).get("place"), one["why"]) for one in found.json()["items"]]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param({"user": "nobody"}, ("__unallocated__", None, "no label and no rule matches"), id="nothing decides"),
        pytest.param({"account": "fresh"}, ("fresh", None, "inferred from account fresh"), id="the account names the team"),
        pytest.param({"account": "redacct"}, ("red", 1, "account redacct"), id="a rule about the account"),
        pytest.param({"namespace": "bluelab"}, ("blue", 4, "namespace bluelab"), id="a rule about the namespace"),
        pytest.param(
            {"namespace": "bluelab", "account": "redacct"}, ("blue", 4, "namespace bluelab"), id="the namespace comes first"
        ),
        pytest.param(
            {"namespace": "bluelab", "label": "gpuwatch.io/team=green"}, ("green", None, "label gpuwatch.io/team"),
            id="the team's own label comes before every rule",
        ),
        pytest.param({"job": "redpod"}, ("red", 3, "namespace redlab"), id="a pod by its name"),
        pytest.param({"job": "redlab/redpod"}, ("red", 3, "namespace redlab"), id="a pod with its namespace"),
        pytest.param({"job": "9002"}, ("blue", 2, "account blueacct"), id="a Slurm job"),
        pytest.param({"job": "9002", "account": "redacct"}, ("red", 1, "account redacct"), id="a job under another account"),
    ],
)  # fmt: skip
def test_the_rules_answer(filled: Api, words: dict[str, str], expected: tuple[str, int | None, str]) -> None:
    assert [expected] == asked(filled, **words)


def test_an_answer_has_the_words_that_it_was_found_by(filled: Api) -> None:
    (found,) = filled.get("/api/v1/teams/owner", params={"job": "9001"}).json()["items"]

    assert ("redacct", "ursula", None) == tuple(found["of"][name] for name in ("account", "user", "labels"))
    assert {"place": 1, "match_kind": "account", "match": "redacct", "team": "red"} == found["rule"]


@pytest.mark.parametrize(
    ("words", "status"),
    [
        pytest.param({}, 400, id="nothing is given"),
        pytest.param({"label": "a"}, 400, id="a label without a value"),
        pytest.param({"job": "none"}, 404, id="no such job"),
        pytest.param({"pod": "x"}, 400, id="a misspelt word"),
    ],
)
def test_a_question_without_an_answer_is_refused(filled: Api, words: dict[str, str], status: int) -> None:
    assert status == filled.get("/api/v1/teams/owner", params=words).status_code


def test_a_token_of_a_team_may_not_ask(books: Api) -> None:
    """A user or namespace of another team would be named."""
    found = books.get("/api/v1/teams/owner", params={"user": "boris"}, token=books.token("read", "red"))

    assert (403, "team_scope") == (found.status_code, found.json()["error"]["code"])
