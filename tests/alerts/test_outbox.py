"""The outbox: in order, one sender at a time, the same key after a crash, and an end to every attempt."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwatch.alerts.changes import enqueue
from gpuwatch.alerts.outbox.digest import choose, fold, read
from gpuwatch.alerts.outbox.records import Batch, Status
from gpuwatch.alerts.outbox.repository import KEEP_US, Outbox
from gpuwatch.alerts.repository import Channels
from gpuwatch.core.clock import DAY_US, HOUR_US, SECOND_US
from gpuwatch.findings.read import Finding
from gpuwatch.state import State
from tests.worlds.alerts import SLACK_URL, T0_US, add_channel, finding, several

pytestmark = pytest.mark.both_engines

HOLD_US = 60 * SECOND_US
FRESH = count()
IN_SHAPE = {
    "open": partial(finding, severity="medium"),
    "worse": partial(finding, severity="high"),
    "over": partial(finding, severity="high", state="resolved"),
}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State.open(tmp_path) as opened:
        add_channel(opened)
        yield opened


def claim(state: State, now_us: int, name: str = "ops") -> Batch | None:
    """The next message, as the deliverer takes it."""
    channel = Channels(state).get(name)
    quiet = channel.timing.quiet_until_us(now_us) is not None
    passing = channel.timing.passing if quiet else None
    return Outbox(state).claim(name, now_us, HOLD_US, 1000, passing, partial(choose, channel))


def taken(state: State, now_us: int) -> Batch:
    """The next message, which must be there."""
    batch = claim(state, now_us)
    assert batch is not None
    return batch


def events_of(batch: Batch) -> list[tuple[str, str]]:
    """Finding and event of each alert of a message."""
    return [(alert.finding["key"], alert.event) for alert in fold([read(row) for row in batch.rows])]


def world(*keys: str, state: str = "open", severity: str = "high") -> list[Finding]:
    """Findings by key."""
    return [finding(key, severity, state) for key in keys]


def test_nothing_queued_is_nothing_to_send(state: State) -> None:
    assert claim(state, T0_US) is None
    assert {} == Outbox(state).status()


def test_messages_go_out_in_order(state: State) -> None:
    enqueue(state, world("a", "b"), T0_US)
    enqueue(state, world("a", "b", "c"), T0_US + 1)
    heard = []
    while batch := claim(state, T0_US + 2):
        heard += events_of(batch)
        Outbox(state).sent(batch, T0_US + 3)

    assert [("a", "opened"), ("b", "opened"), ("c", "opened")] == heard


def test_one_sender_holds_the_channel(state: State) -> None:
    enqueue(state, world("a", "b"), T0_US)
    taken(state, T0_US)

    assert claim(state, T0_US + HOLD_US - 1) is None


def test_two_senders_at_once_get_each_message_once(state: State) -> None:
    """Threads race for the queue; sqlite's lock and the state of the row decide."""
    enqueue(state, several(8), T0_US)

    def drain(_: int) -> list[str]:
        mine = []
        for _ in range(200):
            batch = claim(state, T0_US + 1)
            if batch is not None:
                mine += [row.dedup for row in batch.rows]
                Outbox(state).sent(batch, T0_US + 2)
        return mine

    with ThreadPoolExecutor(4) as pool:
        sent = [key for keys in pool.map(drain, range(4)) for key in keys]

    assert sorted(f"ops|f{i}|opened|1|high" for i in range(8)) == sorted(sent)


def test_a_crash_between_sending_and_marking_repeats_one_message_under_its_key(state: State) -> None:
    enqueue(state, world("a", "b"), T0_US)
    first = taken(state, T0_US)
    # The process dies here. Meanwhile more happens; the message is repeated as it was.
    enqueue(state, world("a", state="resolved"), T0_US + HOUR_US)
    again = taken(state, T0_US + HOUR_US)

    assert ("ops|a|opened|1|high", first.rows[0].id) == (again.key, again.rows[0].id)
    assert first.key == again.key


def test_a_digest_that_crashed_is_repeated_whole_under_its_key(state: State) -> None:
    enqueue(state, several(12), T0_US)
    first = taken(state, T0_US)
    enqueue(state, [*several(12), finding("new")], T0_US + 1)
    again = taken(state, T0_US + HOUR_US)

    assert 12 == len(first.rows)
    assert (first.key, [row.id for row in first.rows]) == (again.key, [row.id for row in again.rows])


def test_who_lost_its_hold_changes_nothing_but_success(state: State) -> None:
    """A slow sender that fails late must not queue what another one sends; one that succeeded has sent it."""
    enqueue(state, world("a"), T0_US)
    outbox = Outbox(state)
    slow, fast = taken(state, T0_US), taken(state, T0_US + HOLD_US)
    outbox.failed(slow, "late", T0_US, T0_US + HOLD_US + 1)
    assert claim(state, T0_US + HOLD_US + 1) is None
    outbox.sent(slow, T0_US + HOLD_US + 2)
    outbox.failed(fast, "late", T0_US, T0_US + HOLD_US + 3)

    assert (0, 0, None) == (
        outbox.status()["ops"].pending,
        outbox.status()["ops"].dead,
        outbox.status()["ops"].last_error,
    )


def test_a_failure_holds_up_what_stands_behind_it(state: State) -> None:
    enqueue(state, world("a", "b"), T0_US)
    Outbox(state).failed(taken(state, T0_US), "it answers 500", T0_US + HOUR_US, T0_US)

    assert claim(state, T0_US + HOUR_US - 1) is None
    assert [("a", "opened")] == events_of(taken(state, T0_US + HOUR_US))
    status = Outbox(state).status()["ops"]
    assert (2, 0, "it answers 500", T0_US + HOUR_US) == (
        status.pending,
        status.dead,
        status.last_error,
        status.last_error_us,
    )


def test_a_permanent_failure_is_shown_and_the_next_message_goes_on(state: State) -> None:
    enqueue(state, world("a", "b"), T0_US)
    Outbox(state).failed(taken(state, T0_US), "it answers 404 no_service", None, T0_US)

    assert [("b", "opened")] == events_of(taken(state, T0_US))
    status = Outbox(state).status()["ops"]
    assert (1, 1, "it answers 404 no_service") == (status.pending, status.dead, status.last_error)


def test_after_three_days_it_is_given_up(state: State) -> None:
    enqueue(state, world("a"), T0_US)
    now_us = T0_US + 3 * DAY_US
    Outbox(state).failed(taken(state, now_us), "it answers 500", now_us + 1, now_us)

    assert claim(state, now_us + DAY_US) is None
    status = Outbox(state).status()["ops"]
    assert (0, 1, "given up after 3 days: it answers 500") == (status.pending, status.dead, status.last_error)


def test_a_corrected_address_gets_what_the_old_one_did_not(state: State) -> None:
    enqueue(state, world("a"), T0_US)
    Outbox(state).failed(taken(state, T0_US), "it answers 404", None, T0_US)
    add_channel(state, severity_min="high")
    assert claim(state, T0_US + 1) is None
    add_channel(state, SLACK_URL + "new", severity_min="high")

    assert [("a", "opened")] == events_of(taken(state, T0_US + 1))


def test_what_waits_for_a_removed_channel_is_given_up(state: State) -> None:
    enqueue(state, world("a"), T0_US)
    Channels(state).replace([], "ann", T0_US)

    assert (0, 1, "the channel was removed") == (
        Outbox(state).status()["ops"].pending,
        Outbox(state).status()["ops"].dead,
        Outbox(state).status()["ops"].last_error,
    )


@pytest.mark.parametrize("answer", ["acked", "snoozed", "exempt"])
def test_what_waits_when_its_owner_speaks_is_not_sent_nor_is_its_end(state: State, answer: str) -> None:
    add_channel(state, digest="hourly")
    enqueue(state, world("a", "b"), T0_US)
    enqueue(state, [*world("a", state=answer), *world("b")], T0_US + 1)
    enqueue(state, [*world("a", state="resolved"), *world("b")], T0_US + 2)

    assert [("b", "opened")] == events_of(taken(state, T0_US + HOUR_US))
    status = Outbox(state).status()["ops"]
    assert (1, 0) == (status.pending, status.dead)


def test_what_is_open_again_after_its_owner_acted_is_sent_with_its_end(state: State) -> None:
    add_channel(state, digest="hourly")
    enqueue(state, world("a"), T0_US)
    enqueue(state, world("a", state="snoozed"), T0_US + 1)
    enqueue(state, world("a"), T0_US + 2)
    batch = taken(state, T0_US + HOUR_US)
    assert [("a", "opened")] == events_of(batch)
    Outbox(state).sent(batch, T0_US + HOUR_US)
    enqueue(state, world("a", state="resolved"), T0_US + HOUR_US)

    assert [("a", "resolved")] == events_of(taken(state, T0_US + 2 * HOUR_US))


def test_who_heard_of_it_before_its_owner_spoke_hears_its_end(state: State) -> None:
    enqueue(state, world("a"), T0_US)
    Outbox(state).sent(taken(state, T0_US), T0_US)
    add_channel(state, digest="hourly")
    for place, shape in enumerate(("snoozed", "open", "acked", "resolved")):
        enqueue(state, world("a", state=shape), T0_US + place)

    assert [("a", "resolved")] == events_of(taken(state, T0_US + HOUR_US))


def test_the_end_of_what_never_arrived_is_not_sent_unless_both_are(state: State) -> None:
    enqueue(state, world("a"), T0_US)
    Outbox(state).failed(taken(state, T0_US), "it answers 404", None, T0_US)
    enqueue(state, world("a", state="resolved"), T0_US + 1)
    assert claim(state, T0_US + 2) is None
    add_channel(state, SLACK_URL + "new")
    batch = taken(state, T0_US + 3)

    assert [("a", "resolved")] == events_of(batch)
    assert ("opened",) == fold([read(row) for row in batch.rows])[0].earlier


def test_a_channel_that_is_removed_and_comes_back_gets_what_it_missed(state: State) -> None:
    enqueue(state, world("a", "b"), T0_US)
    on_its_way = taken(state, T0_US)
    Channels(state).replace([], "ann", T0_US + 1)
    assert frozenset() == Outbox(state).waiting()
    Outbox(state).sent(on_its_way, T0_US + 2)
    add_channel(state)

    assert [("b", "opened")] == events_of(taken(state, T0_US + 3))


def test_a_digest_that_crashed_is_repeated_whole_in_quiet_hours_too(state: State) -> None:
    """Half of it under the same key would make a receiver drop the other half."""
    enqueue(state, [finding("a", "critical"), *several(11)], T0_US)
    first = taken(state, T0_US)
    add_channel(state, quiet_hours="00:30-02:00")
    again = taken(state, T0_US + HOUR_US)

    assert 12 == len(first.rows)
    assert (first.key, [row.id for row in first.rows]) == (again.key, [row.id for row in again.rows])


def test_nothing_waits_for_a_channel_that_became_an_alertmanager(state: State) -> None:
    enqueue(state, world("a"), T0_US)
    add_channel(state, kind="alertmanager")

    assert frozenset() == Outbox(state).waiting()


def test_an_end_overtakes_what_was_not_sent(state: State) -> None:
    """Down for a day: what opened and was resolved meanwhile is one message, also if its first attempts failed."""
    enqueue(state, world("a", severity="medium"), T0_US)
    Outbox(state).failed(taken(state, T0_US), "it answers 500", T0_US + HOUR_US, T0_US)
    enqueue(state, world("a", severity="high"), T0_US + 10)
    enqueue(state, world("a", state="resolved"), T0_US + 20)
    enqueue(state, world("b"), T0_US + 30)
    batch = taken(state, T0_US + DAY_US)

    assert [("a", "resolved")] == events_of(batch)
    assert "ops|a|resolved|1|high" == batch.key
    assert ("opened", "worsened") == fold([read(row) for row in batch.rows])[0].earlier
    Outbox(state).sent(batch, T0_US + DAY_US)
    assert [("b", "opened")] == events_of(taken(state, T0_US + DAY_US))


def test_what_worsened_before_it_was_sent_has_opened(state: State) -> None:
    enqueue(state, world("a", severity="medium"), T0_US)
    enqueue(state, world("a", severity="high"), T0_US + 10)
    alerts = fold([read(row) for row in taken(state, T0_US + 20).rows])

    assert [("opened", "high", None, ("opened",))] == [
        (a.event, a.finding["severity"], a.previous_severity, a.earlier) for a in alerts
    ]


@pytest.mark.parametrize(
    ("count", "expected"),
    [pytest.param(10, 1, id="ten go out one by one"), pytest.param(11, 11, id="eleven are one message")],
)
def test_many_at_once_are_one_message(state: State, count: int, expected: int) -> None:
    enqueue(state, several(count), T0_US)

    assert expected == len(taken(state, T0_US).rows)


def test_a_digest_waits_for_its_time(state: State) -> None:
    add_channel(state, digest="hourly")
    enqueue(state, world("a"), T0_US + 1)
    enqueue(state, world("a", "b"), T0_US + 2)
    assert claim(state, T0_US + HOUR_US - 1) is None
    enqueue(state, world("a", "b", "c"), T0_US + HOUR_US)

    assert [("a", "opened"), ("b", "opened")] == events_of(taken(state, T0_US + HOUR_US))


def test_a_digest_that_is_turned_off_goes_out_at_once(state: State) -> None:
    add_channel(state, digest="daily")
    enqueue(state, world("a"), T0_US)
    assert claim(state, T0_US) is None
    add_channel(state, digest="off")

    assert [("a", "opened")] == events_of(taken(state, T0_US))


def test_delivered_messages_are_kept_for_a_month(state: State) -> None:
    enqueue(state, world("a"), T0_US)
    Outbox(state).sent(taken(state, T0_US), T0_US)
    enqueue(state, world("a"), T0_US + KEEP_US)
    assert T0_US == Outbox(state).status()["ops"].last_sent_us
    enqueue(state, world("a"), T0_US + KEEP_US + 1)

    assert {} == Outbox(state).status()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("world"), st.lists(st.sampled_from(["open", "worse", "over"]), min_size=3, max_size=3)),
        st.tuples(st.sampled_from(["sent", "failed", "refused", "crashed"]), st.none()),
        st.tuples(st.just("wait"), st.none()),
    ),
    max_size=25,
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_whatever_fails_or_crashes_everybody_hears_the_end_of_it_once(tmp_path: Path, steps: list[Any]) -> None:
    """Random changes, answers and crashes; then all goes well. Nothing arrives twice but what a crash repeated."""
    heard: list[tuple[str, str]] = []
    keys: list[str] = []
    crashed: set[str] = set()
    refused: set[str] = set()
    seen: set[str] = set()
    now_us = T0_US
    with State.open(tmp_path / str(next(FRESH))) as state:
        add_channel(state)
        outbox = Outbox(state)

        def arrive(batch: Batch) -> None:
            heard.extend(events_of(batch))
            keys.append(batch.key)
            seen.update(row.dedup for row in batch.rows)

        for what, shape in steps:
            now_us += SECOND_US
            if what == "world":
                enqueue(state, [IN_SHAPE[word](key) for key, word in zip("abc", shape, strict=True)], now_us)
            elif what == "wait":
                now_us += 2 * HOUR_US
            elif batch := claim(state, now_us):
                if what == "sent":
                    arrive(batch)
                    outbox.sent(batch, now_us)
                elif what == "crashed":
                    arrive(batch)
                    crashed.add(batch.key)
                else:
                    outbox.failed(batch, what, None if what == "refused" else now_us + HOUR_US, now_us)
                    refused |= {row.dedup for row in batch.rows} if what == "refused" else set()
        now_us += 3 * HOUR_US
        while batch := claim(state, now_us):
            arrive(batch)
            outbox.sent(batch, now_us)
        status = outbox.status().get("ops", Status())
        with state.transaction(write=False) as connection:
            marks = connection.execute(sa.text("select finding_key, state from alert_mark")).all()
            written = set(connection.scalars(sa.text("select dedup from outbox")))
            lost = set(connection.scalars(sa.text("select dedup from outbox where state = 'dead'")))

    assert (0, len(lost)) == (status.pending, status.dead)
    assert refused <= lost and {key.split("|")[2] for key in lost - refused} <= {"resolved"}
    assert written == seen | lost
    assert {key for key in keys if keys.count(key) > 1} <= crashed
    for key, mark in marks:
        heard_of = [event for about, event in heard if about == key]
        if not refused and not crashed:
            assert (mark == "resolved") == (heard_of[-1] == "resolved")
            assert heard_of.count("opened") + heard_of.count("resolved") > 0
