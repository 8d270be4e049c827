"""Findings over the API: filters, detail, and what owners say of them."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.core.clock import DAY_US, rfc3339
from tests.worlds.api import NOW_US, Api

pytestmark = pytest.mark.both_engines

FINDINGS = "/api/v1/findings"
LATER = rfc3339(NOW_US + DAY_US)


def keys(api: Api, query: str = "", **more: Any) -> list[str]:
    """The teams of the findings of a query, in its order."""
    return [item["team"] for item in api.get(f"{FINDINGS}{query}", **more).json()["items"]]


def key_of(api: Api, team: str) -> str:
    """The key of a team's finding."""
    return str(api.get(f"{FINDINGS}?team={team}").json()["items"][0]["key"])


@pytest.mark.parametrize(
    ("query", "teams"),
    [
        pytest.param("?team=green", [], id="a team that has none"),
        pytest.param("?detector=blind-spot", [], id="another rule"),
        pytest.param("?state=open", [], id="none is open"),
        pytest.param("?cluster=c2", [], id="another cluster"),
        pytest.param("?window=24h", [], id="a window after them"),
        pytest.param("?q=no+such+word", [], id="words that none has"),
        pytest.param("?team=red", ["red"], id="one team"),
        pytest.param("?team=red,blue", ["blue", "red"], id="two teams by comma"),
        pytest.param("?team=red&team=blue", ["blue", "red"], id="two teams by repetition"),
        pytest.param("?window=2026-W45&detector=idle-hoarding&state=resolved", ["blue", "red"], id="all at once"),
        pytest.param("?q=ursula", ["red"], id="words of one"),
    ],
)
def test_filters(filled: Api, query: str, teams: list[str]) -> None:
    """A filter that is not given lets everything pass."""
    assert teams == sorted(keys(filled, query))


def test_pages(filled: Api) -> None:
    """One after another they are the whole."""
    first = filled.get(f"{FINDINGS}?limit=1").json()
    second = filled.get(f"{FINDINGS}?limit=1&cursor={first['next']}").json()

    assert filled.get(FINDINGS).json()["items"] == first["items"] + second["items"]
    assert second["next"] is None


def test_the_detail_shows_the_evidence(filled: Api) -> None:
    """The list's object, its series, and what was books."""
    key = key_of(filled, "red")
    detail = filled.get(f"{FINDINGS}/{key}").json()
    listed = filled.get(f"{FINDINGS}?team=red").json()["items"][0]

    assert listed == {name: detail[name] for name in listed}
    assert ([], True) == (detail["actions"], len(detail["series"]["points"]) > 1)


def test_the_detail_names_earlier_findings_about_the_same(books: Api) -> None:
    """Not those of another subject or rule, of another team for a bound token, too long ago, or withdrawn."""
    key = key_of(books, "red")
    cases = {
        "before": "started_us = started_us - 3 * 86400000000",
        "day-before": "started_us = started_us - 86400000000, ended_us = null",
        "another-subject": "started_us = started_us - 86400000000, subject_id = 'other'",
        "another-rule": "started_us = started_us - 86400000000, detector = 'straggler'",
        "long-ago": "started_us = started_us - 31 * 86400000000",
        "withdrawn": "started_us = started_us - 86400000000, resolved_reason = 'records changed'",
        "of-blue": "started_us = started_us - 2 * 86400000000, team = 'blue', run_id = null",
        "later": "started_us = started_us + 1",
    }
    with books.service.reader() as store:
        for name, change in cases.items():
            store.sql("create or replace temp table copied as select * from finding where key = $key", key=key)
            store.sql(f"update copied set key = '{name}', {change}")
            store.sql("insert into finding select * from copied")
    whole, first = (books.get(f"{FINDINGS}/{each}").json()["earlier"] for each in (key, "before"))
    bound = books.get(f"{FINDINGS}/{key}", token=books.token("read", "red")).json()["earlier"]

    assert ["day-before", "of-blue", "before"] == [one["key"] for one in whole]
    assert ["day-before", "before"] == [one["key"] for one in bound]
    assert ["long-ago"] == [one["key"] for one in first]


def test_another_teams_finding_is_not_there(books: Api) -> None:
    """Neither to read nor to speak of; its key tells nothing."""
    key, text = key_of(books, "blue"), books.token("read", "red")

    assert [404, 404, 404] == [
        books.get(f"{FINDINGS}/{key}", token=text).status_code,
        books.request("POST", f"{FINDINGS}/{key}/ack", json={"reason": "x"}, token=text).status_code,
        books.get(f"{FINDINGS}/none-0", token=text).status_code,
    ]


@pytest.mark.parametrize(
    ("action", "body", "status"),
    [
        pytest.param("ack", {}, 400, id="no reason"),
        pytest.param("ack", {"reason": "  "}, 400, id="a blank reason"),
        pytest.param("ack", {"reason": "x" * 501}, 400, id="a reason without end"),
        pytest.param("snooze", {"reason": "later"}, 400, id="a snooze without an end"),
        pytest.param("snooze", {"reason": "later", "until": rfc3339(NOW_US)}, 400, id="an end that is now"),
        pytest.param("snooze", {"reason": "later", "until": "2099-01-01T00:00:00Z"}, 400, id="an end beyond a year"),
        pytest.param("snooze", {"reason": "later", "until": "friday"}, 400, id="an end that is no time"),
        pytest.param("ack", {"reason": "x", "colour": "red"}, 400, id="a field that nobody knows"),
        pytest.param("delete", {"reason": "x"}, 400, id="an action that nobody knows"),
    ],
)
def test_an_action_that_is_refused(filled: Api, action: str, body: dict[str, Any], status: int) -> None:
    """Nothing is recorded."""
    key = key_of(filled, "red")
    answer = filled.request("POST", f"{FINDINGS}/{key}/{action}", json=body)

    assert (status, []) == (answer.status_code, filled.get(f"{FINDINGS}/{key}").json()["actions"])


def test_an_answer_is_shown_and_audited(books: Api) -> None:
    """The newest first; the audit log has who, what and why."""
    key = key_of(books, "red")
    reader = books.token("read", "red", name="ursula")
    books.request("POST", f"{FINDINGS}/{key}/ack", json={"reason": "known"}, token=reader)
    answer = books.request("POST", f"{FINDINGS}/{key}/snooze", json={"reason": "later", "until": LATER}, token=reader)
    admin = books.token("admin")
    detail = books.get(f"{FINDINGS}/{key}", token=admin).json()
    audit = books.service.state.audit(10)
    entry = next(row for row in audit if row.what == f"finding {key} snooze")

    assert {
        "action": "snooze",
        "until": LATER,
        "reason": "later",
        "actor": "ursula",
        "at": rfc3339(NOW_US),
        "verdict": None,
        "assignee": None,
    } == answer.json()
    assert ["snooze", "ack"] == [row["action"] for row in detail["actions"]]
    assert ("ursula", True, True) == (entry.actor, '"known"' in str(entry.before), '"later"' in str(entry.after))


def test_exempting_is_for_admins(books: Api) -> None:
    """It takes money off the table for good."""
    key = key_of(books, "red")
    path = f"{FINDINGS}/{key}/exempt"

    assert [403, 403, 200] == [
        books.request("POST", path, json={"reason": "ours"}, token=books.token(*words)).status_code
        for words in (("read", "red"), ("read",), ("admin",))
    ]
