"""Pushes to Alertmanagers: what fires stays pushed, what ended ends, and no answer stops either."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.alerts.changes import enqueue
from gpuwatch.alerts.channels import alertmanager
from gpuwatch.alerts.delivery.http_post import BACKOFF_S_MAX
from gpuwatch.alerts.firing.push import CHUNK
from gpuwatch.alerts.firing.repository import ENDED_US, MAX_FIRING, Firing
from gpuwatch.alerts.outbox.deliver import Deliverer, listing
from gpuwatch.alerts.repository import Channels
from gpuwatch.alerts.templates import BUILT_IN, Template
from gpuwatch.core.clock import DAY_US, parse_rfc3339, rfc3339
from gpuwatch.findings.read import Finding
from gpuwatch.state import State
from tests.worlds.alerts import T0_US, Clock, Hook, add_channel, deliverer, finding, hook, several
from tests.worlds.patience import HANG_S, PATIENCE_S

pytestmark = pytest.mark.both_engines


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State.open(tmp_path) as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    return Clock()


def run(story: Coroutine[Any, Any, None]) -> None:
    """A story from its beginning to its end, which comes within seconds."""
    asyncio.run(asyncio.wait_for(story, 20))


def add(state: State, receiver: Hook, **item: Any) -> None:
    """The channel `am` of an Alertmanager on this machine."""
    add_channel(state, receiver.url, **{"name": "am", "kind": "alertmanager", **item})


def lasts(receiver: Hook, place: int = -1) -> list[tuple[str, str, int]]:
    """Finding, severity and end (seconds since T0) of each alert of a request."""
    return [
        (one["labels"]["finding"], one["labels"]["severity"], (parse_rfc3339(one["endsAt"]) - T0_US) // 1_000_000)
        for one in receiver.bodies[place]
    ]


def fares(state: State) -> dict[str, Any]:
    """Status of the channel, as the API shows it."""
    status: dict[str, Any] = next(item["status"] for item in listing(state) if item["name"] == "am")
    return status


async def later(sender: Deliverer, clock: Clock, seconds: float) -> int:
    """One pass after a while."""
    clock.forward(seconds)
    return await sender.deliver_due()


def test_an_alert_says_all_of_it() -> None:
    found = finding(subject={"kind": "gpu", "id": "GPU-1f", "name": None}, user=None).as_dict()

    assert {
        "labels": {
            "env": "prod",
            "alertname": "GpuwatchIdleHoarding",
            "rule": "idle-hoarding",
            "severity": "high",
            "team": "red",
            "cluster": "c1",
            "subject_kind": "gpu",
            "subject": "GPU-1f",
            "finding": "f1",
        },
        "annotations": {
            "summary": "High · GPUs held and idle: GPU on n1 · team red · $480/day",
            "description": "8 of 8 devices idle: 192 device-hours in 1 idle run.",
            "remedy": "Release the devices.",
            "owner": "team red",
            "cost": "$480 (192.0 GPU-h)",
            "rate": "$480/day",
        },
        "startsAt": "2026-11-02T00:00:00Z",
        "endsAt": "2026-11-02T00:05:00Z",
        "generatorURL": "https://g.example/ui/findings/f1",
    } == alertmanager.alert(found, "high", T0_US + 300_000_000, "https://g.example", {"env": "prod"}, BUILT_IN)


def test_templates_are_its_annotations_and_what_is_empty_is_left_out() -> None:
    words = Template("$rule in $cluster", "$summary $user")
    found = alertmanager.alert(finding(cluster="", remedy="").as_dict(), "high", T0_US, None, {}, words)

    assert ("idle-hoarding in", "8 of 8 devices idle: 192 device-hours in 1 idle run. alice") == (
        found["annotations"]["summary"],
        found["annotations"]["description"],
    )
    assert (False, False, False) == (
        "cluster" in found["labels"],
        "remedy" in found["annotations"],
        "generatorURL" in found,
    )


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        pytest.param("http://am:9093", "http://am:9093/api/v2/alerts", id="the bare address"),
        pytest.param("https://x.example/am/", "https://x.example/am/api/v2/alerts", id="behind a prefix"),
        pytest.param("http://am:9093/api/v2/alerts", "http://am:9093/api/v2/alerts", id="already whole"),
    ],
)
def test_alerts_are_posted_to_the_api(url: str, expected: str) -> None:
    assert expected == alertmanager.endpoint(url)


@pytest.mark.parametrize(
    "quiet",
    [
        pytest.param(finding(severity="low"), id="below its severity"),
        pytest.param(finding(state="resolved"), id="over when first seen"),
        pytest.param(finding(state="acked"), id="acknowledged"),
        pytest.param(finding(state="snoozed"), id="snoozed"),
        pytest.param(finding(team="blue"), id="another team's"),
    ],
)
def test_nothing_is_pushed_of_what_is(state: State, clock: Clock, quiet: Finding) -> None:
    async def story() -> None:
        async with hook(200) as receiver:
            add(state, receiver, teams=["red"])
            enqueue(state, [quiet], clock())
            assert (0, []) == (await deliverer(state, clock).deliver_due(), receiver.bodies)

    run(story())


def test_what_fires_is_pushed_again_before_it_would_end(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(200) as receiver:
            add(state, receiver)
            enqueue(state, [finding()], clock())
            sender = deliverer(state, clock)
            assert [1, 0, 0, 1] == [await later(sender, clock, seconds) for seconds in (0, 5, 50, 5)]
            assert [("f1", "high", 90_300)] == lasts(receiver, 0)
            assert [("f1", "high", 90_360)] == lasts(receiver, 1)
            assert {"/services/SecretSecretAbCd/api/v2/alerts"} == set(receiver.paths)

    run(story())
    assert ("2026-11-03T01:01:00Z", None, 0) == (
        fares(state)["last_sent_at"],
        fares(state)["last_error"],
        fares(state)["pending"],
    )


def test_its_end_is_pushed_at_once_and_for_a_while(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(200) as receiver:
            add(state, receiver)
            enqueue(state, [finding()], clock())
            sender = deliverer(state, clock)
            await sender.deliver_due()
            clock.forward(1)
            enqueue(state, [finding(state="resolved")], clock())
            assert 1 == await later(sender, clock, 1)
            assert [("f1", "high", 90_001)] == lasts(receiver)
            assert 1 == await later(sender, clock, 60)
            assert [("f1", "high", 90_001)] == lasts(receiver)
            assert 1 == await later(sender, clock, ENDED_US // 1_000_000)
            assert 0 == await later(sender, clock, 3600)

    run(story())
    assert () == Firing(state).list("am")


def test_an_owner_who_answers_ends_it_and_the_end_of_a_snooze_begins_it_again(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(200) as receiver:
            add(state, receiver)
            sender = deliverer(state, clock)
            for place, now in enumerate((finding(), finding(state="snoozed"), finding())):
                enqueue(state, [now], clock())
                await later(sender, clock, 10)
                ends = [90_310, 90_010, 90_330][place]
                assert [("f1", "high", ends)] == lasts(receiver)

    run(story())


def test_another_severity_is_another_alert(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(200) as receiver:
            add(state, receiver)
            enqueue(state, [finding()], clock())
            sender = deliverer(state, clock)
            await sender.deliver_due()
            clock.forward(10)
            enqueue(state, [finding(severity="critical")], clock())
            await sender.deliver_due()
            assert [("f1", "critical", 90_310), ("f1", "high", 90_010)] == lasts(receiver)

    run(story())


def test_what_was_over_before_it_was_pushed_is_not_pushed(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(500, 200) as receiver:
            add(state, receiver)
            enqueue(state, [finding()], clock())
            sender = deliverer(state, clock)
            await sender.deliver_due()
            enqueue(state, [finding(state="resolved")], clock())
            assert 0 == await later(sender, clock, BACKOFF_S_MAX)
            assert 1 == len(receiver.bodies)

    run(story())


def test_numbers_that_move_are_pushed_with_the_next_push(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(200) as receiver:
            add(state, receiver)
            enqueue(state, [finding()], clock())
            sender = deliverer(state, clock)
            await sender.deliver_due()
            enqueue(state, [finding(wasted_cost="960.00")], clock())
            assert [0, 1] == [await later(sender, clock, seconds) for seconds in (10, 50)]
            assert "$960 (192.0 GPU-h)" == receiver.bodies[-1][0]["annotations"]["cost"]

    run(story())


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(500, "it answers 500", id="a failing one"),
        pytest.param(429, "it answers 429", id="one that is asked too often"),
        pytest.param("hang", f"127.0.0.1 gave no answer within {HANG_S:g} s", id="one that hangs"),
        pytest.param("close", "127.0.0.1 closed or broke the exchange (ServerDisconnectedError)", id="one that closes"),
        pytest.param("torn", "it answers 500", id="one that breaks off"),
        pytest.param(
            "redirect", "it answers 302, a redirect; these are not followed: enter the final address", id="302"
        ),
        pytest.param(
            "gone",
            "it answers 404 no_service; check url and authorization",
            id="one that is not there",
        ),
    ],
)
def test_whatever_it_answers_it_is_tried_again_later(
    state: State, clock: Clock, answer: int | str, expected: str
) -> None:
    async def story() -> None:
        async with hook(answer, 200) as receiver:
            add(state, receiver)
            enqueue(state, [finding()], clock())
            sender = deliverer(state, clock, timeout_s=HANG_S if answer == "hang" else PATIENCE_S)
            assert [0, 0] == [await sender.deliver_due(), await sender.deliver_due()]
            assert 1 == len(receiver.bodies)
            status = fares(state)
            assert (expected, "2026-11-03T01:00:00Z", 1, 0) == (
                status["last_error"],
                status["last_error_at"],
                status["pending"],
                status["dead"],
            )
            assert 1 == await later(sender, clock, BACKOFF_S_MAX)
            assert (None, 0) == (fares(state)["last_error"], fares(state)["pending"])

    run(story())


def test_retry_after_is_obeyed(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(429, 200, Retry_After="120") as receiver:
            add(state, receiver)
            enqueue(state, [finding()], clock())
            sender = deliverer(state, clock)
            assert [0, 0, 1] == [await later(sender, clock, seconds) for seconds in (0, 119, 2)]
            assert 2 == len(receiver.bodies)

    run(story())


def test_many_alerts_are_several_requests(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(200, 500, 200) as receiver:
            add(state, receiver)
            enqueue(state, several(CHUNK + 1), clock())
            sender = deliverer(state, clock)
            await sender.deliver_due()
            assert [CHUNK, 1] == [len(body) for body in receiver.bodies]
            assert 1 == fares(state)["pending"]
            await later(sender, clock, 55)
            assert [CHUNK, 1, 1] == [len(body) for body in receiver.bodies]

    run(story())


def test_no_channel_fires_without_end(state: State) -> None:
    """The dearest are told, and what could not be told that it ended is forgotten after a day."""
    firing = Firing(state)
    found = [{"key": f"f{i}", "severity": "high"} for i in range(MAX_FIRING + 1)]
    assert MAX_FIRING == firing.update("am", found, T0_US)
    firing.pushed("am", firing.list("am"), T0_US)
    firing.update("am", [], T0_US + 1)
    assert MAX_FIRING == len(firing.list("am"))
    firing.update("am", [], T0_US + 1 + DAY_US)

    assert () == firing.list("am")


def test_a_channel_that_goes_leaves_nothing(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(200) as receiver:
            add(state, receiver)
            enqueue(state, [finding()], clock())
            await deliverer(state, clock).deliver_due()

    run(story())
    Channels(state).replace([], "ann", T0_US)

    assert ((), {}) == (Firing(state).list("am"), Firing(state).status())


def test_a_new_address_hears_of_all_that_fires(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(200) as first, hook(200) as second:
            add(state, first)
            enqueue(state, [finding()], clock())
            sender = deliverer(state, clock)
            await sender.deliver_due()
            add(state, second)
            await sender.deliver_due()
            assert [1, 1] == [len(first.bodies), len(second.bodies)]

    run(story())


def test_the_test_button_pushes_an_alert_that_ends_by_itself(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(200) as receiver:
            add(state, receiver)
            assert (await deliverer(state, clock).send_test("am")).sent
            (entry,) = receiver.bodies[0]
            assert ("GpuwatchTest", rfc3339(clock() + 60_000_000)) == (entry["labels"]["alertname"], entry["endsAt"])

    run(story())


def test_one_request_that_is_refused_does_not_hold_up_the_next(state: State, clock: Clock) -> None:
    async def story() -> None:
        async with hook(400, 200) as receiver:
            add(state, receiver)
            enqueue(state, several(CHUNK + 1), clock())
            await deliverer(state, clock).deliver_due()
            assert [CHUNK, 1] == [len(body) for body in receiver.bodies]
            assert CHUNK == fares(state)["pending"]
            assert "it answers 400; check url and authorization" == fares(state)["last_error"]

    run(story())


def test_no_alert_ends_before_it_starts() -> None:
    """An Alertmanager refuses it: a clock that is ahead must not take the other alerts along."""
    sent = alertmanager.alert(finding().as_dict(), "high", T0_US - 1_000_000, None, {}, BUILT_IN)

    assert ("2026-11-01T23:59:59Z", "2026-11-01T23:59:59Z") == (sent["startsAt"], sent["endsAt"])
