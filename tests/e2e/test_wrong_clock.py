"""A server under libfaketime: its clock is weeks ahead, its machine and its senders are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.core.clock import parse_rfc3339
from tests.e2e.process import Answer, Server, command, gpu_labels, now_ms
from tests.worlds.patience import wait_until

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
AHEAD = ("env", f"LD_PRELOAD={LIBRARY}", "FAKETIME=+25d", "FAKETIME_DONT_FAKE_MONOTONIC=1")
"""Sets the wall clock only: waits of a process are by the other one. `env` becomes the server, so its pid is the server's."""
pytestmark = pytest.mark.skipif(LIBRARY is None, reason="faketime is not installed: apt-get install faketime")


def push(server: Server, at_ms: int) -> Answer:
    return server.write([(gpu_labels("GPU-a"), [(0.5, at_ms)])])


def ready(server: Server) -> tuple[int, str]:
    answer = server.ask("GET", "/readyz")
    return answer.status, answer.json["status"]


def test_a_server_that_was_never_right_asks_its_senders_to_wait(tmp_path: Path) -> None:
    at_ms = now_ms()
    with Server(tmp_path / "data", under=AHEAD) as wrong:
        refused = push(wrong, at_ms)

    assert (503, True) == (refused.status, int(refused.headers["retry-after"]) > 0)
    assert "no source confirms that" in refused.json["error"]["message"]

    with Server(tmp_path / "data") as right:
        assert 204 == push(right, at_ms).status
        assert (200, "ready") == ready(right)


def test_a_server_whose_clock_jumped_goes_on_with_the_right_time(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as right:
        assert 204 == push(right, now_ms()).status
        wait_until(lambda: b'analyses_total{outcome="ok"}' in right.ask("GET", "/metrics").body, "the first analysis")
    with Server(tmp_path / "data", under=AHEAD) as wrong:
        assert (200, "degraded") == ready(wrong)
        stored = push(wrong, now_ms())
        at = wrong.ask("GET", "/api/v1/fleet").json["at"]
        beside = command("repair", data=tmp_path / "data")

    assert (204, None) == (stored.status, stored.headers.get("x-gpuwatch-rejected"))
    assert 60_000 > abs(now_ms() - parse_rfc3339(at) // 1000)
    assert (3, True) == (beside.code, "stop it first" in beside.err)
