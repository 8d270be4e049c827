"""A server under libfaketime: its clock is weeks ahead, its machine and its senders are right."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from gpuwatch.core.clock import parse_rfc3339
from gpuwatch.imports.files import seal_all
from gpuwatch.store.database import Store
from tests.e2e.process import Answer, Server, command, gpu_labels, now_ms
from tests.worlds.patience import wait_until

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
AHEAD = ("env", f"LD_PRELOAD={LIBRARY}", "FAKETIME=+25d", "FAKETIME_DONT_FAKE_MONOTONIC=1")
"""Sets the wall clock only: waits of a process are by the other one. `env` becomes the server, so its pid is the server's."""
JSON = {"Content-Type": "application/json"}
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


def under_a_clock(file: Path) -> tuple[str, ...]:
    """Runs a command whose wall clock is off by what a file says, such as `+5m`, at each look."""
    return ("env", f"LD_PRELOAD={LIBRARY}", f"FAKETIME_TIMESTAMP_FILE={file}", "FAKETIME_NO_CACHE=1", *AHEAD[3:])


def set_clock(file: Path, offset: str) -> None:
    file.with_suffix(".new").write_text(offset + "\n")
    file.with_suffix(".new").rename(file)


def test_a_clock_that_is_set_while_the_server_runs_loses_no_sample_and_closes_no_period(tmp_path: Path) -> None:
    """Minutes, the hour of daylight saving, hours, days and weeks, forward and back, and right again after each."""
    clock, kept, sent = tmp_path / "clock", [], []
    set_clock(clock, "+0")
    this_week = time.strftime("%G-W%V", time.gmtime())

    def push_now() -> None:
        sent.append(now_ms())
        if push(server, sent[-1]).status != 204:
            kept.append(sent[-1])

    with Server(tmp_path / "data", under=under_a_clock(clock)) as server:
        push_now()
        for offset in ("+5m", "-5m", "+1h", "-1h", "+7h", "-7h", "+3d", "-3d", "+25d", "-25d"):
            set_clock(clock, offset)
            push_now()
            closed = server.ask(
                "POST", "/api/v1/periods", json.dumps({"period": this_week, "force": True}).encode(), JSON
            )
            assert (409, True) == (closed.status, b"is not over" in closed.body), (offset, closed.body)
            set_clock(clock, "+0")
            push_now()
        for at_ms in kept:
            wait_until(lambda at_ms=at_ms: 204 == push(server, at_ms).status, "a sample that was to wait is taken")
        wait_until(lambda: (200, "ready") == ready(server), "the clock is trusted again")
        assert 60_000 > abs(now_ms() - parse_rfc3339(server.ask("GET", "/api/v1/fleet").json["at"]) // 1000)

    with Store.open(tmp_path / "data", create=False) as store:
        seal_all(store)
        stored = [at_us // 1000 for (at_us,) in store.sql("select observed_us from sample order by 1")]
    assert sorted(sent) == stored
