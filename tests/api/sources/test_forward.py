"""Data that are passed on to another process: what goes along, what comes back, and what a holder that fails makes of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

import httpx
import pytest

from gpuwatch.api import forward
from gpuwatch.api.forward import ANSWER_BYTES_MAX, Forwarder
from gpuwatch.service.routing import Routing
from tests.worlds.api import Api
from tests.worlds.ports import free_port

EVENTS = "/api/v1/events?cluster=c1"
JSON = {"Content-Type": "application/json"}


class Holder(ThreadingHTTPServer):
    """Answers as a test says, and keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.headers, self.content = 204, {}, b""
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.waits = threading.Event()
        self.waits.set()

    headers: dict[str, str]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Holder

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        self.server.waits.wait()
        self.send_response(self.server.status)
        for name, value in {"Content-Length": str(len(self.server.content)), **self.server.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.server.content)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Elsewhere:
    """All clusters but `mine` are at one address."""

    def __init__(self, address: str) -> None:
        self.address, self.forgotten = address, 0

    def is_here(self, cluster: str) -> bool:
        return cluster == "mine"

    def elsewhere(self, cluster: str) -> str | None:
        return None if cluster == "first" else self.address

    def forget(self) -> None:
        self.forgotten += 1


@pytest.fixture
def holder() -> Iterator[Holder]:
    server = Holder()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.waits.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def routing(bare: Api, holder: Holder) -> Elsewhere:
    found = Elsewhere(holder.address)
    bare.app.state.forwarder = Forwarder(cast(Routing, found))
    return found


def send(api: Api, path: str = EVENTS, content: bytes = b"[]", **headers: str) -> httpx.Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return api.request("POST", path, token=api.token("ingest"), content=content, headers=JSON | given)


def refused(answer: httpx.Response, holder: Holder) -> bool:
    """Whether it is the answer after which a sender keeps its data."""
    found = answer.status_code, answer.json()["error"]["code"], answer.headers.get("gpuwatch-holder")
    return found == (503, "not_holder", holder.address)


def test_a_caller_on_this_machine_needs_no_token_here_and_is_not_passed_on(
    bare: Api, routing: Elsewhere, holder: Holder
) -> None:
    """The first test of this file: the others make tokens, and then nobody is let in without."""
    assert refused(bare.request("POST", EVENTS, content=b"[]", headers=JSON), holder)
    assert [] == holder.asked


def test_nothing_is_passed_on_that_this_process_takes(bare: Api, routing: Elsewhere, holder: Holder) -> None:
    for cluster in ("mine", "first"):
        answer = send(bare, f"/api/v1/events?cluster={cluster}")
        assert (204, False) == (answer.status_code, "gpuwatch-holder" in answer.headers)

    assert [] == holder.asked


def test_nothing_is_passed_on_twice_or_for_who_may_not_send(bare: Api, routing: Elsewhere, holder: Holder) -> None:
    assert refused(send(bare, Gpuwatch_Forwarded="1"), holder)
    wrong = bare.request("POST", EVENTS, token="wrong", content=b"[]", headers=JSON)
    read = bare.request("POST", EVENTS, token=bare.token("read"), content=b"[]", headers=JSON)

    assert (401, 403) == (wrong.status_code, read.status_code)
    assert [] == holder.asked


def test_a_body_that_is_too_large_is_not_passed_on(
    bare: Api, routing: Elsewhere, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.api.limits.BODY_MAX_BY_PATH", {"/api/v1/events": 10})

    assert 413 == send(bare, content=b"[" + b" " * 20 + b"]").status_code
    assert [] == holder.asked


def test_what_goes_along_and_what_comes_back(bare: Api, routing: Elsewhere, holder: Holder) -> None:
    holder.headers = {"X-Gpuwatch-Rejected": "3", "Set-Cookie": "a=b", "Server": "other"}
    token = bare.token("ingest")
    given = {**JSON, "Cookie": "gpuwatch_session=x", "X-Forwarded-For": "10.0.0.9", "X-Gpuwatch-Cluster": "c7"}

    answer = bare.request("POST", "/api/v1/events", token=token, content=b'[{"a": 1}]', headers=given)

    ((path, headers, body),) = holder.asked
    assert ("/api/v1/events", b'[{"a": 1}]') == (path, body)
    assert (f"Bearer {token}", "application/json", "c7") == (
        headers["authorization"],
        headers["content-type"],
        headers["x-gpuwatch-cluster"],
    )
    assert {"via": "1.1 gpuwatch", "gpuwatch-forwarded": "1"}.items() <= headers.items(), (
        "the holder lets none in as local"
    )
    assert set() == {"cookie", "x-forwarded-for"} & headers.keys()
    assert (204, "3", holder.address) == (
        answer.status_code,
        answer.headers["x-gpuwatch-rejected"],
        answer.headers["gpuwatch-holder"],
    )
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        pytest.param(400, {}, id="never send it again"),
        pytest.param(429, {"Retry-After": "7"}, id="too many"),
        pytest.param(503, {"Retry-After": "2"}, id="busy"),
    ],
)
def test_a_refusal_of_the_holder_is_the_answer(
    bare: Api, routing: Elsewhere, holder: Holder, status: int, headers: dict[str, str]
) -> None:
    holder.status, holder.headers, holder.content = status, {"Content-Type": "application/json", **headers}, b'{"x": 1}'

    answer = send(bare)

    assert (status, {"x": 1}) == (answer.status_code, answer.json())
    assert headers.get("Retry-After") == answer.headers.get("retry-after")
    assert (1 if status == 503 else 0) == routing.forgotten, "it may hold the cell no more"


def test_a_holder_that_sends_elsewhere_or_says_too_much(bare: Api, routing: Elsewhere, holder: Holder) -> None:
    holder.status, holder.headers = 307, {"Location": "http://127.0.0.1:1/"}
    moved = send(bare)
    holder.status, holder.headers, holder.content = 200, {}, b"x" * (ANSWER_BYTES_MAX + 1)
    long = send(bare)

    for answer, words in (
        (moved, "answered 307; correct [lake] address"),
        (long, "answered with more than 65536 bytes"),
    ):
        assert (503, "not_holder", "2") == (
            answer.status_code,
            answer.json()["error"]["code"],
            answer.headers["retry-after"],
        )
        assert words in answer.json()["error"]["message"]


def test_a_holder_that_is_gone_or_hangs(
    bare: Api, routing: Elsewhere, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sender is asked to come again; where the holder is, is read again first."""
    monkeypatch.setattr(forward, "ANSWER_S", 0.3)
    monkeypatch.setattr(forward, "SEND_S", 0.2)
    holder.waits.clear()
    hangs = send(bare)
    routing.address = f"http://127.0.0.1:{free_port()}"
    gone = send(bare)

    assert 2 == routing.forgotten
    for answer in (hangs, gone):
        assert (503, "not_holder") == (answer.status_code, answer.json()["error"]["code"])
        assert "which has the cluster, did not answer" in answer.json()["error"]["message"]
