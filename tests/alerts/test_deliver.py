"""Delivery against a receiver that answers, fails, hangs, closes, redirects: once, in order, and nothing leaks."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import sys
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp.abc import AbstractResolver, ResolveResult

from gpuwatch.alerts.changes import enqueue
from gpuwatch.alerts.delivery.http_post import BACKOFF_S_MAX, RETRY_AFTER_US_MAX, judge, wait_us
from gpuwatch.alerts.outbox import deliver
from gpuwatch.alerts.outbox.deliver import HOLD_US, Deliverer, listing
from gpuwatch.alerts.outbox.repository import Outbox
from gpuwatch.core.clock import HOUR_US, MINUTE_US, SECOND_US
from gpuwatch.core.errors import StoreError, UsageError
from gpuwatch.state import State
from tests.worlds.alerts import SLACK_URL, Clock, add_channel, deliverer, finding, hook, lines, several
from tests.worlds.patience import HANG_S, PATIENCE_S

pytestmark = pytest.mark.both_engines

SECRET = "SecretSecretAbCd"


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State.open(tmp_path) as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    return Clock()


def run(story: Coroutine[Any, Any, None]) -> None:
    """A story from its beginning to its end, which comes within seconds."""
    asyncio.run(asyncio.wait_for(story, PATIENCE_S))


def fares(state: State, name: str = "ops") -> dict[str, Any]:
    """Status of a channel, as the API shows it."""
    status: dict[str, Any] = next(item["status"] for item in listing(state) if item["name"] == name)
    return status


def test_nothing_due_sends_nothing(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(200) as receiver:
            add_channel(state, receiver.url)
            add_channel(state, receiver.url, name="off", enabled=False)
            assert 0 == await deliverer(state, clock).deliver_due()
            assert [] == receiver.bodies

    run(story())


def test_every_outcome_of_a_message_is_reported(state: State, clock: Clock) -> None:
    """The service's metrics count them."""
    listed: list[tuple[str, str]] = []

    async def story() -> None:
        for number, status in enumerate((200, 503, 404)):
            async with hook(status) as receiver:
                add_channel(state, receiver.url)
                enqueue(state, [finding(key=f"idle-hoarding-{number}")], clock())
                sender = deliverer(state, clock, delivered=lambda kind, outcome: listed.append((kind, outcome)))
                await sender.deliver_due()
                add_channel(state, enabled=False)

    run(story())

    assert [("slack", "sent"), ("slack", "failed"), ("slack", "given up")] == listed[:3]


def test_a_finding_arrives_once(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(200) as receiver:
            add_channel(state, receiver.url)
            enqueue(state, [finding()], clock())
            sender = deliverer(state, clock)
            assert [1, 0] == [await sender.deliver_due(), await sender.deliver_due()]
            assert ["ops|f1|opened|1|high"] == receiver.keys
            assert "ops|f1|opened|1|high" not in json.dumps(receiver.bodies), "people do not read keys"
            assert [
                ":red_circle: *High* · GPUs held and idle: job 4711 (train-llm) on n1 · team red, alice · $480/day"
            ] == lines(receiver)

    run(story())
    assert {
        "last_sent_at": "2026-11-03T01:00:00Z",
        "last_error": None,
        "last_error_at": None,
        "pending": 0,
        "dead": 0,
    } == (fares(state))


def test_a_program_gets_the_finding_of_the_api(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(204) as receiver:
            add_channel(state, receiver.url, kind="webhook")
            enqueue(state, [finding()], clock())
            await deliverer(state, clock).deliver_due()

            assert [
                {
                    "version": 1,
                    "event": "opened",
                    "key": "ops|f1|opened|1|high",
                    "at": "2026-11-03T01:00:00Z",
                    "previous_severity": None,
                    "earlier": [],
                    "link": "https://gpuwatch.example/ui/findings/f1",
                    "text": "High · GPUs held and idle: job 4711 (train-llm) on n1 · team red, alice · $480/day",
                    "finding": finding().as_dict(),
                }
            ] == receiver.bodies

    run(story())


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(500, "it answers 500", id="a failing receiver"),
        pytest.param(503, "it answers 503", id="a receiver in maintenance"),
        pytest.param(408, "it answers 408", id="a receiver that waited too long"),
        pytest.param(429, "it answers 429", id="a receiver that is asked too often"),
        pytest.param("torn", "it answers 500", id="one that breaks off in the middle of its answer"),
        pytest.param("hang", f"127.0.0.1 gave no answer within {HANG_S:g} s", id="a receiver that hangs"),
        pytest.param("close", "127.0.0.1 closed or broke the exchange (ServerDisconnectedError)", id="one that closes"),
    ],
)
def test_what_may_pass_is_tried_again(state: State, clock: Clock, answer: int | str, expected: str) -> None:
    async def story() -> None:
        async with hook(answer, 200) as receiver:
            add_channel(state, receiver.url)
            enqueue(state, [finding("a"), finding("b")], clock())
            sender = deliverer(state, clock, timeout_s=HANG_S if answer == "hang" else PATIENCE_S)
            assert 0 == await sender.deliver_due()
            assert (expected, 2, 0) == tuple(fares(state)[n] for n in ("last_error", "pending", "dead"))
            assert 0 == await sender.deliver_due()
            clock.forward(5)
            assert 2 == await sender.deliver_due()
            assert ["a", "a", "b"] == [key.split("|")[1] for key in receiver.keys]
            assert receiver.keys[0] == receiver.keys[1]

    run(story())
    assert (None, 0, 0) == tuple(fares(state)[n] for n in ("last_error", "pending", "dead"))


def test_nobody_listens_is_tried_again(state: State, clock: Clock) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        add_channel(state, f"http://127.0.0.1:{free.getsockname()[1]}/{SECRET}")
        enqueue(state, [finding()], clock())
        run(_once(deliverer(state, clock)))

    assert 1 == fares(state)["pending"]
    assert fares(state)["last_error"].startswith("127.0.0.1 cannot be reached")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(
            400, "it answers 400; not tried again: the receiver does not accept the message", id="bad request"
        ),
        pytest.param("gone", "it answers 404 no_service; not tried again: the webhook is gone", id="webhook removed"),
        pytest.param(410, "it answers 410; not tried again: the webhook is gone", id="channel archived"),
        pytest.param(403, "it answers 403; not tried again: the webhook is gone", id="forbidden"),
        pytest.param("redirect", "it answers 302, a redirect; these are not followed", id="a redirect"),
        pytest.param("echo", "it answers 400; not tried again", id="an answer that repeats the secret"),
    ],
)
def test_what_will_not_pass_is_not_tried_again(state: State, clock: Clock, answer: int | str, expected: str) -> None:
    async def story() -> None:
        async with hook(answer, 200) as receiver:
            add_channel(state, receiver.url)
            enqueue(state, [finding("a"), finding("b")], clock())
            assert 1 == await deliverer(state, clock).deliver_due()
            assert ["a", "b"] == [key.split("|")[1] for key in receiver.keys]
            assert {f"/services/{SECRET}"} == set(receiver.paths)

    run(story())
    assert (0, 1) == (fares(state)["pending"], fares(state)["dead"])
    assert fares(state)["last_error"].startswith(expected)
    assert SECRET not in json.dumps(listing(state))


def test_a_receiver_that_asks_to_wait_is_left_alone(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(429, 200, Retry_After="120") as receiver:
            add_channel(state, receiver.url)
            enqueue(state, [finding()], clock())
            sender = deliverer(state, clock)
            await sender.deliver_due()
            clock.forward(119)
            assert 0 == await sender.deliver_due()
            clock.forward(2)
            assert 1 == await sender.deliver_due()

    run(story())


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        pytest.param(None, None, id="no header"),
        pytest.param("30", 30 * SECOND_US, id="seconds"),
        pytest.param("0", 0, id="at once"),
        pytest.param("-5", None, id="a negative number"),
        pytest.param("9" * 400, RETRY_AFTER_US_MAX, id="longer than a life"),
        pytest.param("Tue, 03 Nov 2026 01:02:00 GMT", 2 * MINUTE_US, id="a date"),
        pytest.param("Tue, 03 Nov 2020 01:02:00 GMT", 0, id="a date that has passed"),
        pytest.param("Tue, 03 Nov 2036 01:02:00 GMT", RETRY_AFTER_US_MAX, id="a date years away"),
        pytest.param("soon", None, id="a word"),
        pytest.param("²", None, id="a digit of another kind"),
    ],
)
def test_retry_after_is_read_and_bounded(header: str | None, expected: int | None, clock: Clock) -> None:
    assert expected == wait_us(header, clock())


def test_an_answer_is_repeated_only_where_it_is_an_error_word() -> None:
    errors = [
        judge(404, None, text, "https://x/the_secret", 0).error
        for text in ("no_service", "the_secret", "<b>a_b", "a b")
    ]

    assert ["it answers 404 no_service", "it answers 404", "it answers 404", "it answers 404"] == [
        (error or "").partition(";")[0] for error in errors
    ]


def test_waits_grow_and_stay_bounded(state: State, clock: Clock) -> None:
    """Down for a day: the tries come ever less often, at most every quarter of an hour."""

    async def story() -> None:
        async with hook(500) as receiver:
            add_channel(state, receiver.url)
            enqueue(state, [finding()], clock())
            sender, seen = deliverer(state, clock, chance=random.Random(1)), []
            start_us = clock()
            while clock() < start_us + 3 * HOUR_US:
                before = len(receiver.keys)
                await sender.deliver_due()
                seen += [clock()] * (len(receiver.keys) - before)
                clock.forward(20)
            gaps_s = [(b - a) / SECOND_US for a, b in pairwise(seen)]
            assert gaps_s[0] == 20
            assert max(gaps_s) <= BACKOFF_S_MAX + 20
            assert min(gaps_s[7:]) >= BACKOFF_S_MAX / 2

    run(story())


def test_down_for_a_day_then_delivered_in_order_once_and_folded(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(500) as receiver:
            add_channel(state, receiver.url)
            sender = deliverer(state, clock)
            enqueue(state, [finding("a"), finding("b", "medium")], clock())
            for _ in range(24):
                await sender.deliver_due()
                clock.forward(3600)
                enqueue(state, [finding("a", state="resolved"), finding("b"), finding("c")], clock())
            receiver.answers, receiver.bodies = [200], []
            clock.forward(3600)
            assert 3 == await sender.deliver_due()
            assert 0 == await sender.deliver_due()
            assert ["*Opened and resolved*", "*High*", "*High*"] == [
                line.split(" · ")[0].partition(" ")[2] for line in lines(receiver)
            ]
            assert ["a|resolved", "b|worsened", "c|opened"] == [
                "|".join(key.split("|")[1:3]) for key in receiver.keys[-3:]
            ]

    run(story())
    assert (0, 0) == (fares(state)["pending"], fares(state)["dead"])


def test_a_first_start_with_a_large_history_is_one_message(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(200) as receiver:
            add_channel(state, receiver.url)
            found = [replace(one, detector=f"rule-{place}") for place, one in enumerate(several(40))]
            enqueue(state, [*found, *(finding(f"old{i}", state="resolved") for i in range(500))], clock())
            assert 1 == await deliverer(state, clock).deliver_due()
            (body,) = receiver.bodies
            assert 10 == len([b for b in body["blocks"] if b["type"] == "section"]) - 1
            assert lines(receiver)[0].startswith(":bar_chart: *40 findings: 40 opened · $39,220/day")
            assert "and 30 more" in json.dumps(body)

    run(story())


def test_a_digest_goes_out_at_its_hour(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(200) as receiver:
            add_channel(state, receiver.url, digest="daily")
            sender = deliverer(state, clock)
            enqueue(state, [finding("a"), finding("b")], clock())
            enqueue(state, [finding("a", state="resolved"), finding("b"), finding("c")], clock() + HOUR_US)
            assert 0 == await sender.deliver_due()
            clock.forward(7 * 3600)
            assert [1, 0] == [await sender.deliver_due(), await sender.deliver_due()]
            assert lines(receiver)[0].startswith(":bar_chart: *3 findings: 2 opened, 1 resolved")

    run(story())


def test_a_program_gets_all_of_a_digest(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(200) as receiver:
            add_channel(state, receiver.url, kind="webhook")
            enqueue(state, several(40), clock())
            assert 1 == await deliverer(state, clock).deliver_due()
            (body,) = receiver.bodies
            assert ("digest", [f"f{i}" for i in range(40)]) == (
                body["event"],
                [item["finding"]["key"] for item in body["items"]],
            )

    run(story())


def test_a_channel_that_hangs_does_not_hold_up_another(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook("hang") as slow, hook(200) as quick:
            add_channel(state, slow.url, name="a")
            add_channel(state, quick.url, name="b")
            enqueue(state, [finding()], clock())
            assert 1 == await deliverer(state, clock, timeout_s=2 * HANG_S).deliver_due()
            assert 1 == len(quick.bodies)

    run(story())


def test_two_deliverers_at_once_send_each_message_once(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(200) as receiver:
            add_channel(state, receiver.url)
            enqueue(state, several(10), clock())
            await asyncio.gather(*(deliverer(state, clock).deliver_due() for _ in range(4)))
            assert [f"f{i}" for i in range(10)] == [key.split("|")[1] for key in receiver.keys]

    run(story())


def test_a_poisoned_row_does_not_hold_up_those_behind_it(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(200) as receiver:
            add_channel(state, receiver.url)
            enqueue(state, [finding("a"), finding("b"), finding("c")], clock())
            with state.transaction(write=True) as connection:
                connection.execute(sa.text("update outbox set payload = 'x' where finding_key = 'a'"))
                connection.execute(
                    sa.text(
                        """update outbox set payload = '{"at": "", "previous_severity": null, "finding":"""
                        """ {"key": "b", "nodes": 5}}' where finding_key = 'b'"""
                    )
                )
            await deliverer(state, clock).deliver_due()
            assert ["c"] == [key.split("|")[1] for key in receiver.keys]

    run(story())
    assert (0, 2) == (fares(state)["pending"], fares(state)["dead"])


CRASH = """
import asyncio, os, sys
from gpuwatch.alerts.outbox.deliver import Deliverer
from gpuwatch.state import State
from gpuwatch.alerts.outbox.repository import Outbox
Outbox.sent = lambda *_: os._exit(9)
state = State.open(sys.argv[1])
asyncio.run(Deliverer(state, lambda: int(sys.argv[2]), allow_private=["127.0.0.1"]).deliver_due())
"""


def test_killed_between_sending_and_marking(tmp_path: Path, clock: Clock) -> None:
    """One message comes twice, under one key; the next comes once."""

    async def story() -> None:
        async with hook(200) as receiver:
            with State.open(tmp_path) as state:
                add_channel(state, receiver.url)
                enqueue(state, [finding("a"), finding("b")], clock())
                child = await asyncio.create_subprocess_exec(sys.executable, "-c", CRASH, str(tmp_path), str(clock()))
                assert 9 == await child.wait()
                sender = deliverer(state, clock)
                assert 0 == await sender.deliver_due()
                clock.now_us += HOLD_US
                assert 2 == await sender.deliver_due()
            assert ["a", "a", "b"] == [key.split("|")[1] for key in receiver.keys]
            assert receiver.keys[0] == receiver.keys[1]

    run(story())


class Names(AbstractResolver):
    """A resolver that answers each look-up with the next list of addresses."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[ResolveResult]:
        """The next answer; none is no such name."""
        self.asked.append(host)
        if not self.answers[0]:
            self.answers.pop(0)
            raise OSError(None, "no such name")
        return [
            ResolveResult(hostname=host, host=address, port=port, family=socket.AF_INET, proto=6, flags=0)
            for address in self.answers.pop(0)
        ]

    async def close(self) -> None:
        """Nothing to close."""


@pytest.mark.parametrize(
    "addresses",
    [
        pytest.param(["127.0.0.1"], id="a name for this machine"),
        pytest.param(["10.0.0.1", "192.168.0.1", "169.254.169.254"], id="a name for several private addresses"),
    ],
)
def test_a_name_that_leads_inside_is_refused(state: State, clock: Clock, addresses: list[str]) -> None:
    names = Names(addresses)
    add_channel(state, f"https://hooks.example.com/{SECRET}")
    enqueue(state, [finding()], clock())
    run(_once(deliverer(state, clock, allow_private=[], resolver=names)))

    assert ["hooks.example.com"] == names.asked
    assert (0, 1) == (fares(state)["pending"], fares(state)["dead"])
    assert fares(state)["last_error"].startswith("hooks.example.com leads to an address that is not public")


def test_a_name_that_is_rebound_after_a_first_look_gains_nothing(state: State, clock: Clock) -> None:
    """The receiver on this machine is never reached, whatever was resolved before."""

    async def story() -> None:
        async with hook(200) as receiver:
            add_channel(state, f"https://hooks.example.com:{receiver.port}/{SECRET}")
            sender = deliverer(state, clock, allow_private=[], resolver=Names([], ["127.0.0.1"]))
            enqueue(state, [finding()], clock())
            await sender.deliver_due()
            clock.forward(10)
            await sender.deliver_due()
            assert [] == receiver.paths

    run(story())
    assert 1 == fares(state)["dead"]


@pytest.mark.parametrize(
    "allow", [pytest.param([], id="nothing allowed"), pytest.param(["10.0.0.0/8"], id="others allowed")]
)
def test_a_channel_that_was_allowed_once_is_refused_when_it_is_no_more(
    state: State, clock: Clock, allow: list[str]
) -> None:
    add_channel(state, f"http://127.0.0.1:9/{SECRET}")
    outcome = asyncio.run(deliverer(state, clock, allow_private=allow).send_test("ops"))

    assert (False, True) == (outcome.sent, outcome.permanent)
    assert SECRET not in (outcome.error or "")


def test_a_name_that_the_operator_allows_may_lead_inside(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(200) as receiver:
            add_channel(state, receiver.url)
            with state.transaction(write=True) as connection:
                url = f"http://relay.corp:{receiver.port}/{SECRET}"
                connection.execute(sa.text("update channel set secret = :url"), {"url": url})
            sender = deliverer(state, clock, allow_private=["relay.corp"], resolver=Names(["127.0.0.1"]))
            assert (await sender.send_test("ops")).sent

    run(story())


def test_a_name_that_does_not_resolve_is_tried_again(state: State, clock: Clock) -> None:
    add_channel(state)
    enqueue(state, [finding()], clock())
    run(_once(deliverer(state, clock, resolver=Names([]))))

    assert (1, 0) == (fares(state)["pending"], fares(state)["dead"])
    assert fares(state)["last_error"].startswith("the name hooks.slack.com cannot be resolved")


@pytest.mark.parametrize("kind", ["slack", "webhook"])
def test_the_test_button_sends_now_and_keeps_nothing(state: State, clock: Clock, kind: str) -> None:
    async def story() -> None:
        async with hook(200, "gone") as receiver:
            add_channel(state, receiver.url, kind=kind, enabled=False, digest="daily")
            sender = deliverer(state, clock)
            assert (True, None) == ((first := await sender.send_test("ops")).sent, first.error)
            second = await sender.send_test("ops")
            assert (False, True) == (second.sent, second.permanent)
            assert 2 == len(set(receiver.keys))
            with pytest.raises(UsageError, match="channel none: unknown; known: ops"):
                await sender.send_test("none")

    run(story())
    assert {} == Outbox(state).status()


def test_the_loop_outlives_what_goes_wrong(state: State, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy database, then a defect: told without a secret, and the loop goes on until it is stopped."""
    monkeypatch.setattr("gpuwatch.alerts.outbox.deliver.POLL_S", 0.001)
    faults: list[Exception] = [StoreError("state: locked"), RuntimeError(SLACK_URL)]
    listed: list[str] = []

    async def story() -> None:
        stop = asyncio.Event()
        async with hook(200) as receiver:
            add_channel(state, receiver.url)
            enqueue(state, [finding()], clock())
            sender = deliverer(state, clock)
            receiver.on_request = stop.set
            whole = sender.deliver_due

            async def failing() -> int:
                if faults:
                    raise faults.pop(0)
                return await whole()

            monkeypatch.setattr(sender, "deliver_due", failing)
            await sender.run(stop, listed.append)
            assert 1 == len(receiver.bodies)

    run(story())
    assert ["alerts: state: locked", "alerts: RuntimeError while delivering; trying again"] == listed
    assert 0 == fares(state)["pending"]


def test_a_defect_in_sending_is_a_failed_try(state: State, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """It neither stops the channel for ever nor is it tried without end."""

    async def broken(*_: object) -> None:
        raise RuntimeError(SLACK_URL)

    monkeypatch.setattr("gpuwatch.alerts.outbox.deliver.post", broken)
    add_channel(state)
    enqueue(state, [finding()], clock())
    run(_once(deliverer(state, clock)))

    assert (1, "sending broke down (RuntimeError)") == (fares(state)["pending"], fares(state)["last_error"])


async def _once(sender: Deliverer) -> None:
    await sender.deliver_due()


def test_a_channel_whose_receiver_is_slow_leaves_the_rest_to_the_next_pass(
    state: State, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait for its end, and what fires at an Alertmanager must be pushed again in time."""

    async def story() -> None:
        async with hook(200) as receiver:
            add_channel(state, receiver.url)
            enqueue(state, several(3), clock())
            monkeypatch.setattr(deliver, "DRAIN_S", 0.0)

            assert [1, 1, 1, 0] == [await deliverer(state, clock).deliver_due() for _ in range(4)]

    run(story())


def test_a_key_cannot_end_a_header(state: State, clock: Clock) -> None:
    """A budget's key has the name of a team, which anybody may have chosen."""

    async def story() -> None:
        async with hook(200) as receiver:
            add_channel(state, receiver.url)
            enqueue(state, [finding("budget:a\r\nX-Evil: 1:2026-11:80")], clock())

            assert 1 == await deliverer(state, clock).deliver_due()
            assert "x-evil" not in receiver.requests[0].headers

    run(story())
