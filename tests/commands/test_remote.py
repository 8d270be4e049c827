"""Commands that ask the server: one that is busy is asked again when it says, for a bounded time; an error is told at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.commands import remote
from gpuwatch.core.errors import SourceUnreachable, UnreadableInput, UsageError
from gpuwatch.store.lockfile import Note

ERROR = b'{"error": {"code": "busy", "message": "an analysis holds the books", "hint": "try again"}}'


@contextmanager
def answers(*responses: tuple[int, dict[str, str], bytes]) -> Iterator[tuple[Note, list[bytes]]]:
    """A server that gives these answers, one a request, and the bodies that it was sent."""
    left, bodies = list(responses), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            status, headers, body = left.pop(0)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield Note(1, f"http://127.0.0.1:{server.server_port}", "secret"), bodies
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_server_that_is_busy_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same body, after as long as it says."""
    waited: list[float] = []
    monkeypatch.setattr(remote.time, "sleep", waited.append)
    busy = (503, {"Retry-After": "2"}, ERROR)
    with answers(busy, busy, (200, {}, b'{"done": 1}')) as (note, bodies):
        assert {"done": 1} == remote.post(note, "/x", {"a": 1})

    assert ([2, 2], [b'{"a": 1}'] * 3) == (waited, bodies)


def test_a_file_that_is_sent_again_is_sent_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(remote.time, "sleep", lambda seconds: None)
    file = tmp_path / "bill.csv"
    file.write_bytes(b"a,b\n" * 50_000)
    with answers((503, {"Retry-After": "1"}, ERROR), (200, {}, b'{"records": 2}')) as (note, bodies):
        assert {"records": 2} == remote.send_file(note, "/x", file, {"kind": "k", "beside": ["a", "b"]})

    assert [file.read_bytes()] * 2 == bodies
    with pytest.raises(UnreadableInput, match="none.csv: No such file"):
        remote.send_file(note, "/x", tmp_path / "none.csv", {})


@pytest.mark.parametrize(
    ("status", "headers", "error"),
    [
        pytest.param(409, {"Retry-After": "1"}, UsageError, id="what is refused is refused"),
        pytest.param(503, {}, SourceUnreachable, id="a server that does not say when"),
        pytest.param(503, {"Retry-After": "soon"}, SourceUnreachable, id="a server that says no number"),
        pytest.param(503, {"Retry-After": "3600"}, SourceUnreachable, id="longer than anybody waits"),
        pytest.param(500, {"Retry-After": "1"}, SourceUnreachable, id="a fault"),
    ],
)
def test_nothing_else_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, status: int, headers: dict[str, str], error: type[Exception]
) -> None:
    monkeypatch.setattr(remote.time, "sleep", None)
    with answers((status, headers, ERROR)) as (note, bodies), pytest.raises(error, match="an analysis holds the books"):
        remote.post(note, "/x", {})

    assert 1 == len(bodies)


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        pytest.param("correct these rows and send all", "no; correct these rows and send all", id="a hint of its own"),
        pytest.param("correct the request; /docs lists every parameter", "no", id="a hint about requests"),
        pytest.param("GET /api/v1/periods lists those that were", "no", id="a route that has the answer"),
        pytest.param("check the path; /docs lists every route", "no", id="a hint about routes"),
    ],
)
def test_hints_for_who_writes_requests_are_left_out(hint: str, expected: str) -> None:
    body = json.dumps({"error": {"code": "bad_request", "message": "no", "hint": hint}}).encode()
    with answers((400, {}, body)) as (note, _), pytest.raises(UsageError) as captured:
        remote.post(note, "/x", {})
    assert expected == str(captured.value)
