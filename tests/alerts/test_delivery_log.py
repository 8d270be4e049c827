"""The delivery log: messages in words without secrets, and one that is tried again arrives, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpuwatch.alerts.changes import enqueue
from gpuwatch.alerts.messages.repository import deliveries, retry
from gpuwatch.alerts.outbox.repository import Outbox
from gpuwatch.alerts.outbox.tables import OUTBOX
from gpuwatch.alerts.repository import Channels
from gpuwatch.core.clock import DAY_US, SECOND_US, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.state import State
from tests.worlds.alerts import SLACK_URL, T0_US, add_channel, finding
from tests.worlds.api import Api, open_api

pytestmark = pytest.mark.both_engines

LATER_US = T0_US + DAY_US


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State.open(tmp_path) as opened:
        add_channel(opened)
        yield opened


def queued(state: State, *keys: str) -> None:
    """A message for each of these findings."""
    enqueue(state, [finding(key) for key in keys], T0_US)


def fail(state: State, retry_us: int | None) -> None:
    """The next message does not arrive."""
    batch = Outbox(state).claim("ops", T0_US + SECOND_US, SECOND_US, 1, None, lambda rows: rows[:1])
    assert batch is not None
    Outbox(state).failed(batch, "hooks.slack.com answered 404", retry_us, T0_US + SECOND_US)


def states(state: State, **words: Any) -> list[tuple[int, str]]:
    return [(row["id"], row["state"]) for row in deliveries(state, **words)]


def test_an_empty_outbox_has_no_messages(state: State) -> None:
    assert [] == deliveries(state)
    assert None is retry(state, 1, ["ops"], "ann", LATER_US)


def test_a_message_has_its_finding_in_words_and_no_secret(state: State) -> None:
    queued(state, "f1")
    (row,) = deliveries(state)

    assert {
        "id": 1, "channel": "ops", "event": "opened", "subject": finding("f1").summary, "finding": "f1", "severity": "high",
        "team": "red", "to": [], "state": "waiting", "tries": 0, "created_at": rfc3339(T0_US), "tried_at": None,
        "sent_at": None, "next_at": rfc3339(T0_US), "last_error": None,
    } == row  # fmt: skip
    assert SLACK_URL not in json.dumps(row)


def test_a_failed_try_shows_its_error_and_the_next_one(state: State) -> None:
    queued(state, "f1")
    fail(state, T0_US + 60 * SECOND_US)
    (row,) = deliveries(state)

    assert ("waiting", 1, "hooks.slack.com answered 404") == (row["state"], row["tries"], row["last_error"])
    assert (rfc3339(T0_US + SECOND_US), rfc3339(T0_US + 60 * SECOND_US)) == (row["tried_at"], row["next_at"])


def test_filters_and_pages(state: State) -> None:
    queued(state, "a", "b", "c")
    fail(state, None)

    assert [(3, "waiting"), (2, "waiting"), (1, "given_up")] == states(state)
    assert [(1, "given_up")] == states(state, states=["given_up", "sent"])
    assert [(2, "waiting")] == states(state, below=3, limit=1)
    assert [] == states(state, channel="other")


def test_a_payload_that_cannot_be_read_is_named_by_its_key(state: State) -> None:
    queued(state, "f1")
    with state.transaction(write=True) as connection:
        connection.execute(sa.update(OUTBOX).values(payload="["))

    assert ["f1"] == [row["subject"] for row in deliveries(state)]


def test_a_report_names_its_week_its_team_and_its_recipients(state: State) -> None:
    payload = {"report": {"week": "2026-W47", "team": "red"}, "to": ["ann@example.com"]}
    Outbox(state).announce("ops", "report 2026-W47 red", "report", json.dumps(payload), T0_US)
    (row,) = deliveries(state)

    assert ("Report of week 2026-W47 for red", None, ["ann@example.com"]) == (row["subject"], row["finding"], row["to"])


def test_a_message_that_was_given_up_is_queued_again_and_the_log_says_by_whom(state: State) -> None:
    queued(state, "f1")
    fail(state, None)
    again = retry(state, 1, ["ops"], "ann", LATER_US)

    assert again is not None
    assert ("waiting", 0, rfc3339(LATER_US)) == (again["state"], again["tries"], again["next_at"])
    assert ("ann", "channel ops message 1 tried again") == (state.audit(1)[0].actor, state.audit(1)[0].what)
    batch = Outbox(state).claim("ops", LATER_US, SECOND_US, 1, None, lambda rows: rows)
    assert batch is not None
    Outbox(state).failed(batch, "refused", LATER_US + SECOND_US, LATER_US)
    assert [(1, "waiting")] == states(state)  # its three days begin with the new try


def test_one_that_waits_is_due_at_once_and_keeps_its_tries(state: State) -> None:
    queued(state, "f1")
    fail(state, LATER_US + DAY_US)
    again = retry(state, 1, ["ops"], "ann", LATER_US)

    assert again is not None
    assert (1, rfc3339(LATER_US)) == (again["tries"], again["next_at"])


@pytest.mark.parametrize("name", ["sent", "withdrawn", "sending"])
def test_what_arrived_or_is_on_its_way_is_not_sent_twice(state: State, name: str) -> None:
    queued(state, "f1")
    with state.transaction(write=True) as connection:
        connection.execute(sa.update(OUTBOX).values(state=name))

    with pytest.raises(UsageError, match=f"message 1: it is {name}"):
        retry(state, 1, ["ops"], "ann", LATER_US)
    assert [(1, name)] == states(state)
    assert [] == [entry for entry in state.audit() if "tried again" in entry.what]


def test_the_messages_of_a_removed_channel_stay_where_they_are(state: State) -> None:
    queued(state, "f1")
    Channels(state).replace([], "ann", LATER_US)

    with pytest.raises(UsageError, match="its channel ops no longer exists"):
        retry(state, 1, [], "ann", LATER_US)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """The API with two messages, the older one given up."""
    opened = open_api(tmp_path)
    add_channel(opened.service.state)
    queued(opened.service.state, "a", "b")
    fail(opened.service.state, None)
    yield opened
    opened.service.stop()


def test_the_route_pages_filters_and_refuses_what_it_does_not_know(api: Api) -> None:
    token = api.token("read")
    first = api.get("/api/v1/deliveries?limit=1", token=token).json()
    second = api.get(f"/api/v1/deliveries?limit=1&cursor={first['next']}", token=token).json()

    assert [[2], [1], None] == [
        [row["id"] for row in first["items"]],
        [row["id"] for row in second["items"]],
        second["next"],
    ]
    assert [1] == [row["id"] for row in api.get("/api/v1/deliveries?state=given_up", token=token).json()["items"]]
    wrong = api.get("/api/v1/deliveries?state=lost", token=token)
    assert (400, "state") == (wrong.status_code, wrong.json()["error"]["field"])


def test_who_may_read_and_who_may_try_again(api: Api) -> None:
    """Other teams' findings are in the log; only an administrator sends messages."""
    bound, reader, admin = api.token("read", "red"), api.token("read"), api.token("admin")

    assert 403 == api.get("/api/v1/deliveries", token=bound).status_code
    assert 403 == api.request("POST", "/api/v1/deliveries/1/retry", token=reader).status_code
    assert 404 == api.request("POST", "/api/v1/deliveries/99/retry", token=admin).status_code
    done = api.request("POST", "/api/v1/deliveries/1/retry", token=admin)
    assert (200, "waiting", 0) == (done.status_code, done.json()["state"], done.json()["tries"])


def test_a_message_that_arrived_is_a_conflict(api: Api) -> None:
    with api.service.state.transaction(write=True) as connection:
        connection.execute(sa.update(OUTBOX).values(state="sent"))
    refused = api.request("POST", "/api/v1/deliveries/1/retry", token=api.token("admin"))

    assert (409, "conflict") == (refused.status_code, refused.json()["error"]["code"])
