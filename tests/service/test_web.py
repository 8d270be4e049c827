"""The web server's own bounds, on the wire: slow heads, long heads, pipelines, trailers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from gpuwatch.service import web
from tests.worlds.patience import PATIENCE_S


async def app(scope: dict[str, object], receive: object, send: object) -> None:
    """Reads the body, then answers with its length."""
    size = 0
    while True:
        message = await receive()  # type: ignore[operator]
        size += len(message.get("body", b""))
        if not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
    await send({"type": "http.response.body", "body": str(size).encode()})  # type: ignore[operator]


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A server on a free port, which gives a head a fifth of a second."""
    import socket

    monkeypatch.setattr(web, "HEADERS_S", 0.2)
    listening = socket.create_server(("127.0.0.1", 0))
    server = web.server(app, "127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join(PATIENCE_S)
    listening.close()


def exchange(port: int, *pieces: bytes) -> bytes:
    """What comes back until the server closes; what it refuses to read is not an error here."""

    async def talk() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answer = asyncio.ensure_future(_read(reader))
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        return await asyncio.wait_for(answer, PATIENCE_S)

    return asyncio.run(talk())


async def _read(reader: asyncio.StreamReader) -> bytes:
    got = b""
    try:
        while piece := await reader.read(65536):
            got += piece
    except ConnectionError:
        pass
    return got


CLOSE = b"Connection: close\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" + CLOSE + b"\r\n"


def test_a_request_is_answered(port: int) -> None:
    assert exchange(port, b"GET / HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n").count(b"\r\n0\r\n0\r\n")


def test_a_large_body_in_the_smallest_chunks_is_read(port: int) -> None:
    body = b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n"

    assert exchange(port, CHUNKED, body).count(b"\r\n50000\r\n")


def test_a_head_that_never_ends_is_closed_without_an_answer(port: int) -> None:
    assert b"" == exchange(port, b"GET / HTTP/1.1\r\nHost: x\r\n")
    assert b"" == exchange(port)


def test_a_head_beyond_its_size_is_closed(port: int) -> None:
    long = b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 1000) for n in range(200)) + b"\r\n"

    assert b" 200 " not in exchange(port, long)


def test_trailers_beyond_their_size_are_closed(port: int) -> None:
    assert b" 200 " not in exchange(port, CHUNKED, b"1\r\nx\r\n0\r\n", *[b"X: a\r\n" * 2000] * 20, b"\r\n")


def test_a_pipeline_is_bounded(port: int) -> None:
    one = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    answers = exchange(port, one * 1000).count(b" 200 ")

    assert answers <= web.PIPELINED_MAX + 1
