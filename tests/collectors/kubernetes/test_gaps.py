"""Watches with gaps: expired versions, replayed deletions, silence, and what the source reports meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from gpuwatch.collectors.kubernetes import client as kubernetes_client
from gpuwatch.collectors.kubernetes import source as kubernetes_source
from gpuwatch.collectors.kubernetes import watch as kubernetes_watch
from gpuwatch.collectors.kubernetes.client import Gone, Refused
from gpuwatch.collectors.kubernetes.source import configure
from gpuwatch.collectors.kubernetes.watch import Pauses
from gpuwatch.core.clock import SECOND_US, rfc3339
from tests.real import test_kubernetes as script
from tests.real.test_kubernetes import Api, Clock, FakeSink, bookmark, event, items, lines, pod, status
from tests.worlds.kubernetes_api import EVENTS, NODES, PODS, Server, run
from tests.worlds.patience import PATIENCE_S

T0_US = script.T0_US
JOBS = "/apis/batch/v1/jobs"
Json = dict[str, Any]
FAR_S = 10 * PATIENCE_S


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_source, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(kubernetes_source, "BEAT_S", 0.01)


def at(seconds: float) -> str:
    return rfc3339(T0_US + round(seconds * SECOND_US))


def base() -> Server:
    return Server(PODS, NODES, EVENTS)


# Expired versions


@pytest.mark.parametrize("form", ["answer", "event"])
def test_the_first_expired_version_is_listed_again_at_once(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_source, "FIRST_WAIT_S", FAR_S)
    monkeypatch.setattr(kubernetes_source, "MAX_WAIT_S", FAR_S)

    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        api.on("list", "pods", items(pod("a")), items(pod("a"), pod("b")))
        api.on("watch", "pods", status(410) if form == "answer" else lines(api, script.GONE))
        await sink.until(lambda: len(sink.table("claim")) >= 2)

    assert [] == script.run(scenario).errors


def test_an_expired_version_after_an_outage_does_not_wait_for_the_outage() -> None:
    pauses = Pauses()
    for _ in range(10):
        pauses.after(Refused("503", status=503), 0.0, 1.0, 60.0)

    assert 0.0 == pauses.after(Gone("410"), 0.0, 1.0, 60.0)


def test_versions_that_expire_again_and_again_are_listed_ever_more_rarely() -> None:
    pauses = Pauses()
    waits = [pauses.after(Gone("410"), 2.0, 1.0, 15.0) for _ in range(8)]

    assert 0.0 == waits[0]
    assert [low / 2 <= wait <= low for wait, low in zip(waits[1:], (1, 2, 4, 8, 15, 15, 15), strict=True)] == [True] * 7


def test_a_watch_that_was_healthy_in_between_is_listed_at_once_again() -> None:
    pauses = Pauses()
    for _ in range(5):
        pauses.after(Gone("410"), 0.0, 1.0, 15.0)

    assert 0.0 == pauses.after(Gone("410"), 31.0, 1.0, 15.0)


# Replayed deletions


def stop(name: str, seconds: float, reason: str = "Killing", message: str = "Stopping container main") -> Json:
    about = {"kind": "Pod", "namespace": "lab", "name": name, "uid": f"uid-{name}"}
    metadata = {"namespace": "lab", "name": f"{name}.{seconds}", "uid": f"e-{name}-{seconds}"}
    return {
        "metadata": metadata,
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "lastTimestamp": at(seconds),
    }


def labels_of_end(sink: FakeSink) -> Json:
    row = [row for row in sink.table("claim") if row["end_us"] is not None][-1]
    found: Json = json.loads(row["labels"] or "{}")
    return found


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param({"deletionTimestamp": at(150)}, 150.0, id="at its deletion"),
        pytest.param({}, 130.0, id="without one at the time up to which all changes are known"),
    ],
)
def test_a_deletion_that_is_replayed_late_ends_the_pod_when_it_went(metadata: Json, expected: float) -> None:
    """The watch breaks at 60 s. At 500 s another one replays the change of a neighbour at 130 s, then the deletion."""
    written = {"managedFields": [{"manager": "kubelet", "time": at(130)}]}

    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        async def replay(request: web.Request) -> web.StreamResponse:
            clock.at(500)
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(json.dumps(event("MODIFIED", pod("b", **written))).encode() + b"\n")
            await asyncio.sleep(0.05)
            await response.write(json.dumps(event("DELETED", pod("a", **metadata))).encode() + b"\n")
            await api.closing.wait()
            return response

        api.on("list", "pods", items(pod("a"), pod("b")))
        api.on("watch", "pods", lines(api, bookmark("20"), end=True, clock=lambda: clock.at(60)), replay)
        await sink.until(lambda: bool(sink.ends()))

    sink = script.run(scenario)

    assert {"a": expected} == sink.ends()
    assert (at(500) if not metadata else None) == labels_of_end(sink).get("gpuwatch.io/ended-by")


def test_a_deletion_that_comes_as_it_happens_ends_the_pod_now() -> None:
    """The bookmark shows that nothing is replayed any more."""

    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        changes = (bookmark("20"), event("DELETED", pod("a", deletionTimestamp=at(30))))
        api.on("list", "pods", items(pod("a")))
        api.on("watch", "pods", lines(api, *changes, clock=lambda: clock.at(60)))
        await sink.until(lambda: bool(sink.ends()))

    sink = script.run(scenario)

    assert {"a": 60.0} == sink.ends()
    assert "gpuwatch.io/ended-by" not in labels_of_end(sink)


def test_deletions_that_a_silent_connection_brings_late_end_the_pods_when_they_went() -> None:
    """The watch is current, then nothing passes for 50 s. A pod that was deleted without a grace period ended at its deletion; one that
    had a grace period ends when it is gone: the last request to delete it dates its deletion back to the first."""
    at_once = {"deletionTimestamp": at(70), "deletionGracePeriodSeconds": 0}
    asked = {"deletionTimestamp": at(65), "deletionGracePeriodSeconds": 5}
    gone = {"deletionTimestamp": at(60), "deletionGracePeriodSeconds": 0}

    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        async def stalls(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            clock.at(60)
            for change in (bookmark("20"), event("MODIFIED", pod("b", **asked))):
                await response.write(json.dumps(change).encode() + b"\n")
            await asyncio.sleep(0.05)
            clock.at(110)
            for name, metadata in (("a", at_once), ("b", gone)):
                for kind in ("MODIFIED", "DELETED"):
                    await response.write(json.dumps(event(kind, pod(name, **metadata))).encode() + b"\n")
            await api.closing.wait()
            return response

        api.on("list", "pods", items(pod("a"), pod("b")))
        api.on("watch", "pods", stalls)
        await sink.until(lambda: len(sink.ends()) == 2)

    sink = script.run(scenario)

    assert {"a": 70.0, "b": 110.0} == sink.ends()
    assert "gpuwatch.io/ended-by" not in labels_of_end(sink)


def test_a_watch_that_is_open_for_long_replays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_watch, "REPLAY_S", 0.0)

    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        api.on("list", "pods", items(pod("a")))
        api.on("watch", "pods", lines(api, event("DELETED", pod("a")), clock=lambda: clock.at(60)))
        await sink.until(lambda: bool(sink.ends()))

    assert {"a": 60.0} == script.run(scenario).ends()


STOPPED = [
    pytest.param([stop("a", 90)], 90.0, id="killed"),
    pytest.param([stop("a", 95, "Evicted", "")], 95.0, id="evicted"),
    pytest.param([stop("a", 700)], 500.0, id="gone before the time of its event"),
    pytest.param([stop("a", 10)], 60.0, id="alive past its event"),
    pytest.param([stop("a", 90, message="failed liveness probe, will be restarted")], 60.0, id="restarted"),
    pytest.param([stop("a", 90, "Pulled")], 60.0, id="another reason"),
    pytest.param([stop("b", 90)], 60.0, id="another pod"),
]


@pytest.mark.parametrize("first", ["pods", "events"])
@pytest.mark.parametrize(("stop_events", "expected"), STOPPED)
def test_a_pod_that_vanished_in_a_gap_ends_with_its_stop_event(
    stop_events: list[Json], expected: float, first: str
) -> None:
    """Last known alive at 60 s, missing from the list of 500 s; its event comes before or after that list."""

    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        listed, noted = asyncio.Event(), asyncio.Event()

        async def events(request: web.Request) -> web.StreamResponse:
            if first == "pods":
                await listed.wait()
            return await lines(api, *(event("ADDED", one) for one in stop_events), end=True, clock=noted.set)(request)

        async def gap(request: web.Request) -> web.StreamResponse:
            if first == "events":
                await noted.wait()
                await asyncio.sleep(0.05)
            return await lines(api, script.GONE, clock=lambda: clock.at(500))(request)

        api.on("list", "pods", items(pod("a"), pod("b")), items(pod("b")))
        api.on("watch", "pods", lines(api, bookmark("20"), end=True, clock=lambda: clock.at(60)), gap)
        api.on("watch", "events", events)
        await sink.until(lambda: "a" in sink.ends())
        listed.set()
        await sink.until(lambda: sink.ends()["a"] == expected)
        while len(api.queries("watch events")) < 2:
            await asyncio.sleep(0.01)

    sink = script.run(scenario, events=True)

    assert {"a": expected} == sink.ends()
    assert ("gpuwatch.io/ended-by" in labels_of_end(sink)) == (
        expected == 60.0 and stop_events[0]["lastTimestamp"] != at(10)
    )


def test_a_pod_that_was_being_deleted_when_the_watch_broke_ends_at_its_deletion() -> None:
    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        going = event("MODIFIED", pod("a", deletionTimestamp=at(75)))
        api.on("list", "pods", items(pod("a")), items())
        api.on(
            "watch",
            "pods",
            lines(api, going, bookmark("20"), end=True, clock=lambda: clock.at(60)),
            lines(api, script.GONE, clock=lambda: clock.at(500)),
        )
        await sink.until(lambda: bool(sink.ends()))

    assert {"a": 75.0} == script.run(scenario).ends()


def test_a_pod_deleted_while_the_service_was_down_ends_with_its_stop_event() -> None:
    stored = {
        "cluster": "c1", "scheduler": "kubernetes", "kind": "k8s-json", "node": "n1", "device_count": 1,
        "start_us": T0_US, "end_us": None, "evidence_us": T0_US + 300 * SECOND_US, "profile": None, "job_id": "lab/a",
        "run_key": "a", "pod_uid": "uid-a", "pod": "a", "namespace": "lab", "state": "Running", "labels": None,
    }  # fmt: skip

    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        clock.at(5000)
        api.on("list", "events", items(stop("a", 900)))
        await sink.until(lambda: sink.ends().get("a") == 900.0)

    assert {"a": 900.0} == script.run(scenario, [stored], events=True).ends()


# Silence


def test_a_silent_watch_is_noticed_within_a_minute() -> None:
    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        while not all(api.requests("watch", path) for path in (PODS, NODES, EVENTS)):
            await asyncio.sleep(0.01)
        asked = [
            int(query["timeoutSeconds"]) for path in (PODS, NODES, EVENTS) for query in api.requests("watch", path)
        ]
        assert max(asked) + kubernetes_client.SILENCE_S <= 60

    run(base, scenario)


def test_a_watch_that_does_not_end_when_it_should_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server accepts the watch and is never heard again, as behind a load balancer whose backend died."""
    monkeypatch.setattr(kubernetes_source, "WATCH_S", 0.0)
    monkeypatch.setattr(kubernetes_client, "SILENCE_S", 0.05)

    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        while len(api.requests("watch", PODS)) < 3:
            await asyncio.sleep(0.01)
        await sink.until(lambda: bool(sink.errors))

    sink = run(base, scenario)

    assert "no answer in time" in sink.errors[0]


# What the source reports


def test_watches_without_traffic_are_healthy_again_as_soon_as_they_are_established() -> None:
    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        while not all(api.requests("watch", path) for path in (PODS, NODES, EVENTS, JOBS)):
            await asyncio.sleep(0.01)
        api.disconnect()
        await sink.until(lambda: len(sink.errors) >= 4)
        before = sink.successes
        await sink.until(lambda: sink.successes > before)

    assert 0 == run(lambda: Server(PODS, NODES, EVENTS, JOBS), scenario).read


def test_a_kind_that_is_unavailable_for_a_while_is_no_failure_afterwards() -> None:
    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        api.unavailable.add(JOBS)
        await sink.until(lambda: bool(sink.errors))
        api.unavailable.clear()
        before = sink.successes
        await sink.until(lambda: sink.successes > before)

    assert f"{JOBS}: 503" in run(lambda: Server(PODS, NODES, EVENTS, JOBS), scenario).errors[0]


def test_a_kind_that_is_removed_while_it_fails_does_not_keep_the_source_failing() -> None:
    """An API group is often unavailable for a moment before its definitions go."""

    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        api.unavailable.add(JOBS)
        await sink.until(lambda: bool(sink.errors))
        api.collections.discard(JOBS)
        api.unavailable.clear()
        before = sink.successes
        await sink.until(lambda: sink.successes > before)

    assert f"{JOBS}: 503" in run(lambda: Server(PODS, NODES, EVENTS, JOBS), scenario).errors[0]


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def cut_within(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b"{")
    assert request.transport is not None
    request.transport.abort()
    return response


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(cut_within, "the connection broke off within an answer; the query is repeated", id="cut"),
        pytest.param(
            status(401, "Unauthorized"), "401 Unauthorized; the token or client certificate is not accepted", id="401"
        ),
        pytest.param(
            status(403, 'User "u" cannot list resource "pods"'),
            '403 User "u" cannot list resource "pods"; bind a ClusterRole with the rule apiGroups: [""], '
            'resources: ["pods"], verbs: ["list", "watch"] to this account',
            id="403",
        ),
    ],
)
def test_a_failure_names_its_cause_and_fix(answer: Answer, words: str) -> None:
    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        api.on("list", "pods", answer)
        await sink.until(lambda: bool(sink.errors))

    assert words in script.run(scenario).errors[0]


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (
            "http://127.0.0.1:9",
            "/apis: connection refused; check that the API server runs and can be reached from here",
        ),
        (
            "http://no-such-host.invalid:6443",
            "/apis: the host name is not known; check server in [[kubernetes]] and DNS",
        ),
    ],
)
def test_a_server_that_cannot_be_reached_is_reported_with_the_cause(server: str, words: str) -> None:
    async def play() -> str:
        sink = FakeSink()
        reader = asyncio.ensure_future(configure([{"cluster": "c1", "server": server}], [])[0].run(sink, Clock()))
        await sink.until(lambda: bool(sink.errors))
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        return sink.errors[0]

    assert f"{server}{words}" == asyncio.run(play())


def test_a_server_that_closes_the_connection_is_reported_with_the_cause() -> None:
    async def play() -> str:
        listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        server = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        sink = FakeSink()
        reader = asyncio.ensure_future(configure([{"cluster": "c1", "server": server}], [])[0].run(sink, Clock()))
        await sink.until(lambda: bool(sink.errors))
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        listener.close()
        return sink.errors[0]

    assert "/apis: the connection was closed without an answer; the query is repeated" in asyncio.run(play())
