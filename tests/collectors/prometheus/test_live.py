"""The live source `prometheus`: options, beats, and what it does when its server is away."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from gpuwatch.collectors.prometheus import source as prometheus_source
from gpuwatch.collectors.prometheus.source import PrometheusSource, configure, in_thread
from gpuwatch.core.model import Points, Records, Rejects
from tests.collectors.prometheus.test_prometheus import T0, S, answer, gpu, names_and, serving
from tests.worlds.patience import PATIENCE_S


class Sink:
    """Notes what it is told; ends the run after some rounds."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.values: list[float] = []
        self.good: list[int] = []
        self.bad: list[str] = []
        self.clocks: list[tuple[str, str, int]] = []
        self.done = asyncio.Event()

    async def commit(self, source: str, batches: Sequence[Records | Points], rejects: Rejects | None = None) -> None:
        for batch in batches:
            if isinstance(batch, Points):
                self.values += batch.rows["value"].to_pylist()

    def succeeded(self, source: str, at_us: int, samples: int) -> None:
        self.good.append(samples)
        self._count()

    def failed(self, source: str, at_us: int, error: str) -> None:
        self.bad.append(error)
        self._count()

    def clock(self, cluster: str, name: str, offset_us: int, at_us: int) -> None:
        self.clocks.append((cluster, name, offset_us))

    def _count(self) -> None:
        if len(self.good) + len(self.bad) >= self.rounds:
            self.done.set()

    async def open_claims(self, cluster: str, scheduler: str) -> list[dict[str, Any]]:
        return []


def run(table: dict[str, Any], rounds: int, clock: Callable[[], int]) -> Sink:
    """What a sink was told in some rounds of a source."""

    async def main() -> Sink:
        problems: list[str] = []
        [source] = configure([table], problems)
        assert [] == problems
        sink = Sink(rounds)
        task = asyncio.create_task(source.run(sink, clock))
        await asyncio.wait_for(sink.done.wait(), PATIENCE_S)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return sink

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        pytest.param(
            {}, "[[prometheus]] 1 url: is not an address; write http(s)://host[:port][/path]", id="no address"
        ),
        pytest.param(
            {"url": "http://u:pw@p"},
            "[[prometheus]] 1 url: contains a user name or password",
            id="secret in the address",
        ),
        pytest.param(
            {"url": "http://p", "intervall_s": 5}, "[[prometheus]] 1 intervall_s: is not an option", id="misspelt"
        ),
        pytest.param(
            {"url": "http://p", "match": "up"}, "[[prometheus]] 1 match: 'up' is not a label selector", id="no selector"
        ),
        pytest.param(
            {"url": "http://p", "username": "u"},
            "[[prometheus]] 1 username: belongs together with password",
            id="no password",
        ),
        pytest.param(
            {"url": "http://p", "interval_s": 0}, "[[prometheus]] 1 interval_s: must be a number", id="no pause"
        ),
    ],
)
def test_wrong_options_are_reported(table: dict[str, Any], problem: str) -> None:
    problems: list[str] = []
    configure([table], problems)

    assert [True] == [text.startswith(problem) for text in problems], problems
    assert "pw" not in "".join(problems)


def test_two_tables_of_one_server_differ_in_cluster() -> None:
    problems: list[str] = []
    sources = configure([{"url": "http://p", "cluster": c} for c in ("a", "b", "b")], problems)

    assert ["prometheus http://p a", "prometheus http://p b"] == [source.name for source in sources]
    assert 1 == len(problems)


def test_every_round_brings_what_is_new() -> None:
    now = [(T0 + 600) * S]

    def reply(query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if "[" not in query["query"] or "avg(" in query["query"]:
            body = {"status": "success", "data": {"resultType": "vector", "result": []}}
            return 200, {}, json.dumps(body).encode()
        at = int(query["time"])
        return 200, {}, answer((gpu(), [(t, str(t - T0)) for t in range(at // 30 * 30 - 90, at + 1, 30)]))

    def clock() -> int:
        now[0] += S
        return now[0]

    with serving(names_and(reply)) as server:
        table = {"url": server.url, "interval_s": 1, "kube_state_metrics": False, "catch_up_s": 60}
        sink = run(table, 2, clock)

    assert [] == sink.bad
    assert sorted(set(sink.values)) == sorted(sink.values)


def test_a_clock_that_was_set_back_does_not_stop_the_reading() -> None:
    times = iter([(T0 + 7200) * S, (T0 + 7200) * S, (T0 + 7200) * S])
    late = [(T0 + 600) * S]

    def reply(query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if "[" not in query["query"] or "avg(" in query["query"]:
            body = {"status": "success", "data": {"resultType": "vector", "result": []}}
            return 200, {}, json.dumps(body).encode()
        return 200, {}, answer((gpu(), [(int(query["time"]) - 1, "0.25")]))

    def clock() -> int:
        late[0] += S
        return next(times, late[0])

    with serving(names_and(reply)) as server:
        table = {"url": server.url, "interval_s": 1, "kube_state_metrics": False, "catch_up_s": 60}
        sink = run(table, 3, clock)

    assert [] == sink.bad
    assert [1, 1, 1] == sink.good


def test_a_server_that_is_away_is_reported_and_asked_again() -> None:
    sink = run({"url": "http://127.0.0.1:1", "interval_s": 1}, 1, lambda: T0 * S)

    assert [] == sink.good
    assert "connection refused" in sink.bad[0]


def test_a_server_that_was_away_for_long_is_queried_within_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr(prometheus_source.asyncio, "sleep", note)
    run({"url": "http://127.0.0.1:1", "interval_s": 1, "kube_state_metrics": False}, 12, lambda: T0 * S)

    assert 15 <= max(waits) <= 30


def test_work_in_a_thread_leaves_the_loop_alone() -> None:
    release = threading.Event()

    async def main() -> str:
        hung = asyncio.create_task(in_thread(release.wait))
        done = await in_thread(lambda: "on time")
        hung.cancel()
        release.set()
        return done

    assert "on time" == asyncio.run(main())


def test_an_error_in_a_thread_is_raised_where_it_is_waited_for() -> None:
    def work() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        asyncio.run(in_thread(work))


def test_a_source_is_named_without_secrets() -> None:
    problems: list[str] = []
    [source] = configure([{"url": "http://p/x/", "cluster": "c", "bearer_token": "hush"}], problems)

    assert isinstance(source, PrometheusSource)
    assert ("prometheus http://p/x c", "prometheus", "c", 30) == (
        source.name,
        source.kind,
        source.cluster,
        source.interval_s,
    )


def test_the_date_of_its_answers_shows_the_clock_of_the_server() -> None:
    """Our clock is two minutes behind the server's: read once, as the next check is due a minute later."""

    def reply(query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        return 200, {}, answer((gpu(), [(int(query["time"]) - 1, "0.25")]))

    with serving(names_and(reply)) as server:
        table = {"url": server.url, "interval_s": 1, "kube_state_metrics": False, "catch_up_s": 60}
        sink = run(table, 2, lambda: time.time_ns() // 1000 - 120 * S)

    assert [("default", f"prometheus {server.url} default")] == [clock[:2] for clock in sink.clocks]
    assert 118 * S < sink.clocks[0][2] < 123 * S
