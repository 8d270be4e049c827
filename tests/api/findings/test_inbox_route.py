"""The findings inbox over the API: counts, causes, and one action on many findings."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from gpuwatch.core.clock import DAY_US, rfc3339
from tests.worlds.api import NOW_US, Api

INBOX, FINDINGS, ACTIONS = "/api/v1/inbox", "/api/v1/findings", "/api/v1/inbox/actions"
LATER = rfc3339(NOW_US + DAY_US)


def keys_of(api: Api, *teams: str) -> list[str]:
    """The keys of the teams' findings."""
    items = api.get(FINDINGS).json()["items"]
    return [next(item["key"] for item in items if item["team"] == team) for team in teams]


def act(api: Api, keys: list[str], action: str, token: str | None = None, **more: Any) -> Any:
    """The answer to one action on many findings."""
    return api.request("POST", ACTIONS, json={"keys": keys, "action": action, **more}, token=token)


def test_nothing_is_open_and_nothing_is_counted(filled: Api) -> None:
    found = filled.get(INBOX).json()

    assert ([], 0, None) == (found["causes"], found["causes_total"], found["total"]["cost_a_day"])
    assert {"open": 0, "resolved": 2, "acked": 0, "snoozed": 0, "exempt": 0} == found["states"]


def test_causes_add_up_to_the_list(filled: Api) -> None:
    """The causes of a state hold its findings, in the order of the list."""
    listed = filled.get(f"{FINDINGS}?state=resolved&sort=priority").json()["items"]
    causes = filled.get(f"{INBOX}?state=resolved").json()["causes"]

    assert {one["key"] for one in listed} == {key for cause in causes for key in cause["keys"]}
    assert [one["team"] for one in listed] == [cause["team"] for cause in causes]
    assert [1, 1] == [cause["findings"] for cause in causes]


def test_pages_by_priority(filled: Api) -> None:
    whole = filled.get(f"{FINDINGS}?sort=priority").json()["items"]
    first = filled.get(f"{FINDINGS}?sort=priority&limit=1").json()
    second = filled.get(f"{FINDINGS}?sort=priority&limit=1&cursor={first['next']}").json()

    assert whole == first["items"] + second["items"]
    assert second["next"] is None


def test_the_order_is_that_of_the_first_actions(filled: Api) -> None:
    """The list and "Do first" rank by one definition."""
    from gpuwatch.findings.priority import mean_price_of, of_finding
    from gpuwatch.findings.read import facts_of, page

    with filled.service.reader() as store:
        found = page(store, sort="priority", now_us=NOW_US).items
    facts = [facts_of(one) for one in found]
    currency, mean = mean_price_of(facts)
    scores = [of_finding(one, NOW_US, currency, mean) for one in facts]

    assert 2 == len(scores)
    assert sorted(scores, reverse=True) == scores


def test_a_token_of_a_team_counts_its_own(books: Api) -> None:
    found = books.get(f"{INBOX}?state=resolved", token=books.token("read", "red")).json()

    assert (1, ["red"]) == (found["states"]["resolved"], [cause["team"] for cause in found["causes"]])


def test_one_of_another_team_stops_the_whole_action(books: Api) -> None:
    """All or none; and no answer reveals that the other finding exists."""
    mine, other = keys_of(books, "red", "blue")
    token = books.token("read", "red")
    refused = act(books, [mine, other], "assign", token, assignee="ursula")
    unknown = act(books, [mine, "none-0"], "assign", token, assignee="ursula")

    assert (404, 404) == (refused.status_code, unknown.status_code)
    assert refused.json()["error"]["message"].replace(other, "") == unknown.json()["error"]["message"].replace(
        "none-0", ""
    )
    assert [] == books.get(f"{FINDINGS}/{mine}", token=token).json()["actions"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param({"action": "ack"}, 400, id="no reason"),
        pytest.param({"action": "assign", "assignee": "x" * 201}, 400, id="a name without end"),
        pytest.param({"action": "assign", "assignee": "a\u0000b"}, 400, id="a name that cannot be printed"),
        pytest.param({"action": "ack", "reason": "x", "assignee": "ada"}, 400, id="a name with another action"),
        pytest.param({"action": "judge"}, 400, id="a judgement without a verdict"),
        pytest.param({"action": "judge", "verdict": "true_positive", "until": LATER}, 400, id="a judgement that ends"),
        pytest.param({"action": "snooze", "reason": "x"}, 400, id="a snooze without an end"),
        pytest.param({"action": "assign", "keys": []}, 400, id="no finding"),
        pytest.param({"action": "assign", "keys": ["k"] * 501}, 400, id="too many findings"),
        pytest.param({"action": "assign", "keys": ["<script>"]}, 404, id="a key that is none"),
    ],
)
def test_an_action_that_is_refused(filled: Api, body: dict[str, Any], status: int) -> None:
    keys = keys_of(filled, "red")
    answer = filled.request("POST", ACTIONS, json={"keys": keys, **body})

    assert (status, "<script>" in answer.text) == (answer.status_code, False)
    assert [] == filled.get(f"{FINDINGS}/{keys[0]}").json()["actions"]


def test_one_action_on_many_findings_is_audited_for_each(books: Api) -> None:
    keys = keys_of(books, "red", "blue")
    reader, admin = books.token("read", name="ursula"), books.token("admin", name="root")

    assert 403 == act(books, keys, "exempt", reader, reason="dev pool").status_code
    assert 200 == act(books, keys, "assign", reader, assignee=" ada ").status_code
    answer = act(books, keys, "exempt", admin, reason="dev pool", until=LATER).json()["items"]
    listed = books.get(FINDINGS, token=admin).json()["items"]
    entries = {row.what: row for row in books.service.state.audit(20)}

    assert [(key, "exempt", LATER, "root") for key in keys] == [
        (one["key"], one["action"], one["until"], one["actor"]) for one in answer
    ]
    assert ["ada", "ada"] == [item["assignee"] for item in listed]
    for key in keys:
        assert ("ursula", True) == (
            entries[f"finding {key} assign"].actor,
            '"ada"' in str(entries[f"finding {key} assign"].after),
        )
        assert ("root", True) == (
            entries[f"finding {key} exempt"].actor,
            '"ada"' in str(entries[f"finding {key} exempt"].before),
        )
    assert 200 == act(books, keys, "assign", reader).status_code
    assert [None, None] == [item["assignee"] for item in books.get(FINDINGS, token=admin).json()["items"]]


def test_judgements_are_the_measured_precision_of_the_rule(books: Api) -> None:
    """The newest judgement of a finding counts, resolved or not; the state stays."""
    red, blue = keys_of(books, "red", "blue")
    admin = books.token("admin")
    act(books, [red, blue], "judge", admin, verdict="false_positive")
    act(books, [red], "judge", admin, verdict="true_positive", reason="checked with the team")
    rules = {one["id"]: one for one in books.get("/api/v1/detectors", token=admin).json()["items"]}
    listed = {one["key"]: one for one in books.get(FINDINGS, token=admin).json()["items"]}

    assert (1, 1, 0.5) == tuple(
        rules["idle-hoarding"]["feedback"][name] for name in ("true_positives", "false_positives", "precision")
    )
    assert [("resolved", "true_positive"), ("resolved", "false_positive")] == [
        (listed[key]["state"], listed[key]["verdict"]) for key in (red, blue)
    ]


def test_the_export_has_every_finding_that_the_caller_sees(books: Api) -> None:
    (key,) = keys_of(books, "red")
    token = books.token("read", "red")
    act(books, [key], "assign", token, assignee="=ada")
    answer = books.get(f"{FINDINGS}?format=csv&limit=1", token=token)
    (row,) = csv.DictReader(io.StringIO(answer.text))

    assert "text/csv" in answer.headers["content-type"]
    assert (key, "red", "ada") == (row["key"], row["team"], row["assignee"].strip("='"))
