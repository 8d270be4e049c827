"""The agent's pages over HTTP, their age, and who may wait."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest

from gpuwatch.collectors.nvml import agent as nvml_agent
from gpuwatch.collectors.nvml.agent import STALE_LEAST_S, Agent
from gpuwatch.collectors.nvml.http import MAX_CONNECTIONS, is_loopback, server
from gpuwatch.collectors.nvml.node import NodeReader
from gpuwatch.core.errors import SourceUnreachable
from tests.collectors.nvml.fake_library import Gpu, Nvml
from tests.worlds.patience import PATIENCE_S


@contextmanager
def serving(body: bytes, lack: str = "") -> Iterator[str]:
    running = server(lambda: (body, lack), "127.0.0.1", 0)
    running.start()
    try:
        yield running.url.removeprefix("http://")
    finally:
        running.stop()


def asked(at: str, path: str, method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(at, timeout=PATIENCE_S)
    connection.request(method, path)
    answer = connection.getresponse()
    try:
        return answer.status, answer.read()
    finally:
        connection.close()


def test_pages() -> None:
    with serving(b"x 1\n") as at:
        assert (200, b"x 1\n") == asked(at, "/metrics")
        assert (200, b"x 1\n") == asked(at, "/metrics?name=x")
        assert (200, b"ok\n") == asked(at, "/health")
        assert (200, b"") == asked(at, "/metrics", "HEAD")
        assert 404 == asked(at, "/etc/passwd")[0]
        assert 501 == asked(at, "/metrics", "POST")[0]


def test_without_a_fresh_reading_both_pages_say_so() -> None:
    with serving(b"", "the last reading is 99 s old") as at:
        assert (503, b"the last reading is 99 s old\n") == asked(at, "/metrics") == asked(at, "/health")


def test_more_connections_than_there_is_room_for_are_closed() -> None:
    with serving(b"x 1\n") as at:
        host, _, port = at.partition(":")
        waiting = [socket.create_connection((host, int(port)), 5) for _ in range(MAX_CONNECTIONS)]
        try:
            refused = socket.create_connection((host, int(port)), 5)
            with suppress(ConnectionError):
                assert b"" == refused.recv(1)
            refused.close()
        finally:
            for one in waiting:
                one.close()


def test_a_port_in_use_is_named() -> None:
    with serving(b"") as at, pytest.raises(SourceUnreachable, match=at.partition(":")[2]):
        server(lambda: (b"", ""), "127.0.0.1", int(at.partition(":")[2]))


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("node7", False)],
)
def test_who_can_reach_it(host: str, expected: bool) -> None:
    assert expected == is_loopback(host)


def agent(nvml: Nvml, log: list[str], clock: list[float]) -> Agent:
    return Agent(NodeReader(nvml, "n1"), 5.0, log.append, lambda: clock[0])


def test_a_page_is_given_until_it_is_old() -> None:
    clock = [1_000.0]
    readings = agent(Nvml(Gpu(0)), [], clock)
    assert (b"", "no reading yet") == readings.page()

    readings.read()
    clock[0] += STALE_LEAST_S
    assert b"DCGM_FI_DEV_SM_CLOCK" in readings.page()[0]
    clock[0] += 1
    assert (b"", "the last reading is 31 s old: the driver does not respond") == readings.page()


def test_a_wall_clock_that_is_set_back_leaves_no_page_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, wall = [1_000.0], [1_790_000_000.0]
    monkeypatch.setattr(nvml_agent, "time", SimpleNamespace(time=lambda: wall[0]))
    readings = agent(Nvml(Gpu(0)), [], clock)
    readings.read()
    assert b"gpuwatch_agent_read_timestamp_seconds" in readings.page()[0]
    wall[0] -= 3_600
    clock[0] += STALE_LEAST_S + 1

    assert b"" == readings.page()[0]


def test_a_round_that_fails_is_shown_once_and_the_next_is_tried() -> None:
    nvml, result, clock = Nvml(Gpu(0)), list[str](), [1_000.0]
    readings = agent(nvml, result, clock)
    readings.read()
    gpus, nvml.gpus = nvml.gpus, None  # type: ignore[assignment]
    readings.read()
    readings.read()
    assert 1 == len(result)
    assert b"DCGM_FI_DEV_SM_CLOCK" in readings.page()[0], "the last page is fresh still"

    nvml.gpus = gpus
    readings.read()
    assert "" == readings.page()[1]


def test_one_page_has_the_averages() -> None:
    assert b"DCGM_FI_PROF_SM_ACTIVE" in agent(Nvml(Gpu(0)), [], [1_000.0]).once()
