"""What is queued: openings, worsenings and ends, once each, and nothing that an owner has answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.alerts.changes import changes, enqueue
from gpuwatch.alerts.channel import Channel
from gpuwatch.alerts.outbox.records import Mark
from gpuwatch.alerts.outbox.repository import MAX_QUEUED, Outbox
from gpuwatch.alerts.timing import Timing
from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US
from gpuwatch.findings.read import Finding
from gpuwatch.state import State
from tests.worlds.alerts import SLACK_URL, T0_US, add_channel, finding, several

OPS = Channel("ops", "slack", SLACK_URL)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State.open(tmp_path) as opened:
        yield opened


def events_heard(steps: Sequence[tuple[float, Finding]], channel: Channel = OPS) -> list[tuple[str, str | None]]:
    """Events (and severity before) that a channel hears while one finding goes through `steps` (hours, finding)."""
    marks: dict[str, Mark] = {}
    heard: list[tuple[str, str | None]] = []
    for hours, seen in steps:
        for change in changes(channel, [seen], marks, T0_US + int(hours * HOUR_US)):
            marks[change.finding_key] = change.mark
            if change.event is not None:
                heard.append((change.event, marks[change.finding_key].severity))
    return heard


RED = replace(OPS, teams=("red",))
LOW, MEDIUM, HIGH = (finding(severity=severity) for severity in ("low", "medium", "high"))
OVER = finding(state="resolved")


@pytest.mark.parametrize(
    ("steps", "channel", "expected"),
    [
        pytest.param([(0, LOW)], OPS, [], id="below the severity of the channel"),
        pytest.param([(0, OVER)], OPS, [], id="over when first seen"),
        pytest.param([(0, finding(state="acked"))], OPS, [], id="acknowledged"),
        pytest.param([(0, finding(state="snoozed"))], OPS, [], id="snoozed"),
        pytest.param([(0, finding(state="exempt"))], OPS, [], id="exempt"),
        pytest.param([(0, finding(team="blue"))], RED, [], id="another team's"),
        pytest.param(
            [(0, HIGH), (1, finding(severity="high", team="blue")), (2, finding(team="blue", state="resolved"))],
            RED,
            [("opened", "high")],
            id="the end of what turned out to be another team's",
        ),
        pytest.param([(0, LOW), (1, finding(severity="low", state="resolved"))], OPS, [], id="low, then over"),
        pytest.param([(0, HIGH), (1, HIGH), (2, HIGH)], OPS, [("opened", "high")], id="an opening is told once"),
        pytest.param([(0, HIGH), (1, MEDIUM), (2, HIGH)], OPS, [("opened", "high")], id="a severity that swings"),
        pytest.param([(0, HIGH)], RED, [("opened", "high")], id="the team's own"),
        pytest.param(
            [(0, MEDIUM), (1, HIGH), (2, OVER), (3, OVER)],
            OPS,
            [("opened", "medium"), ("worsened", "high"), ("resolved", "high")],
            id="a whole life",
        ),
        pytest.param([(0, LOW), (1, MEDIUM)], OPS, [("worsened", "medium")], id="it rises to the channel's severity"),
        pytest.param(
            [(0, LOW), (1, MEDIUM)],
            replace(OPS, events=("opened",)),
            [("opened", "medium")],
            id="it rises, and the channel hears of openings only",
        ),
        pytest.param(
            [(0, HIGH), (1, OVER)], replace(OPS, events=("resolved",)), [("resolved", "high")], id="ends only"
        ),
        pytest.param(
            [(0, HIGH), (1, finding(state="acked")), (2, OVER)],
            OPS,
            [("opened", "high"), ("resolved", "high")],
            id="who was told of the start is told of the end",
        ),
        pytest.param([(0, finding(state="snoozed")), (1, HIGH)], OPS, [("opened", "high")], id="a snooze that ran out"),
        pytest.param(
            [
                (0, HIGH),
                (1, finding(state="snoozed")),
                (2, finding(state="snoozed")),
                (60, HIGH),
                (61, HIGH),
                (62, OVER),
            ],
            OPS,
            [("opened", "high"), ("opened", "high"), ("resolved", "high")],
            id="a snooze that ran out after it was told",
        ),
        pytest.param(
            [(0, HIGH), (1, OVER), (1.5, HIGH), (1.6, OVER), (1.7, HIGH), (1.8, OVER)],
            OPS,
            [("opened", "high"), ("resolved", "high")],
            id="flapping within an hour",
        ),
        pytest.param(
            [(0, HIGH), (1, OVER), (1.5, HIGH), (2, HIGH)],
            OPS,
            [("opened", "high"), ("resolved", "high"), ("opened", "high")],
            id="open again, and still so when the hour is over",
        ),
    ],
)
def test_what_a_channel_hears(
    steps: Sequence[tuple[float, Finding]], channel: Channel, expected: list[tuple[str, str | None]]
) -> None:
    assert expected == events_heard(steps, channel)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["open", "resolved", "acked", "snoozed", "exempt"]),
            st.sampled_from(["info", "low", "medium", "high", "critical"]),
            st.integers(0, 90),
        ),
        max_size=30,
    )
)
def test_any_history_makes_sense_to_its_reader(history: list[tuple[str, str, int]]) -> None:
    """Ends follow starts, and no start comes within an hour of the end before it, or else its owner spoke in between."""
    marks: dict[str, Mark] = {}
    heard: list[tuple[str, int]] = []
    acted: set[int] = set()
    keys: list[tuple[str | None, int, str]] = []
    now_us = T0_US
    for state, severity, minutes in history:
        now_us += minutes * MINUTE_US
        acted |= {len(heard)} if state in ("acked", "snoozed", "exempt") else set()
        for change in changes(OPS, [finding(severity=severity, state=state)], marks, now_us):
            marks["f1"] = change.mark
            if change.event is not None:
                heard.append((change.event, now_us))
                keys.append((change.event, change.mark.episode, change.mark.severity))
        assert [] == changes(OPS, [finding(severity=severity, state=state)], marks, now_us)

    assert not heard or heard[0][0] != "resolved"
    for place, ((before, ended_us), (after, at_us)) in enumerate(pairwise(heard), 1):
        assert (before, after) not in {("resolved", "resolved"), ("resolved", "worsened")}
        if after == "opened" and not (before != "resolved" and place in acted):
            assert before == "resolved" and at_us - ended_us >= HOUR_US
    assert len(keys) == len(set(keys))


def rows(state: State) -> int:
    """Messages that wait for `ops`."""
    status = Outbox(state).status()
    return status["ops"].pending if "ops" in status else 0


def test_the_same_findings_again_queue_nothing(state: State) -> None:
    add_channel(state)

    assert [3, 0, 0] == [enqueue(state, several(3), T0_US + hours * HOUR_US) for hours in range(3)]
    assert 3 == rows(state)


def test_each_channel_hears_for_itself(state: State) -> None:
    add_channel(state)
    add_channel(state, name="red", teams=["red"], severity_min="high")
    add_channel(state, name="off", enabled=False)
    world = [finding("a"), finding("b", severity="medium"), finding("c", team="blue")]

    assert 4 == enqueue(state, world, T0_US)
    assert {"ops": 3, "red": 1} == {name: status.pending for name, status in Outbox(state).status().items()}


def test_old_history_is_not_sent(state: State) -> None:
    add_channel(state)

    assert 0 == enqueue(state, several(2000, "resolved"), T0_US)


def test_the_queue_is_bounded_and_nothing_is_forgotten(state: State) -> None:
    """What does not fit is not marked, so it is queued when there is room again."""
    add_channel(state)
    world = several(MAX_QUEUED + 5)

    assert [MAX_QUEUED, 0] == [enqueue(state, world, T0_US), enqueue(state, world, T0_US + 1)]
    batch = Outbox(state).claim("ops", T0_US + 2, 1, 1000, None, lambda due: due)
    assert batch is not None
    Outbox(state).sent(batch, T0_US + 3)
    assert 5 == enqueue(state, world, T0_US + 4)


@pytest.mark.parametrize(
    ("digest", "hours", "expected"),
    [
        pytest.param("off", 1.5, 1.5, id="at once"),
        pytest.param("hourly", 1.5, 2, id="the next full hour"),
        pytest.param("hourly", 2, 3, id="on the hour, the next one"),
        pytest.param("daily", 7, 8, id="the same morning"),
        pytest.param("daily", 8, 32, id="at eight, the next morning"),
        pytest.param("daily", 9, 32, id="the next morning"),
    ],
)
def test_digests_are_due_at_fixed_times(digest: str, hours: float, expected: float) -> None:
    assert T0_US % DAY_US == 0
    assert T0_US + int(expected * HOUR_US) == Timing(digest=digest).due_us(T0_US + int(hours * HOUR_US))


def test_a_finding_that_nobody_could_price_has_a_message(state: State) -> None:
    add_channel(state, severity_min="low")
    unpriced: dict[str, Any] = {"severity": "low", "wasted_cost": None, "currency": None}

    assert 1 == enqueue(state, [finding(**unpriced)], T0_US)
