"""What a client may send: size, compression, time, rate, all of it bounded."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from gpuwatch.api.bodies import gunzip, snappy
from gpuwatch.api.errors import ApiError, install
from gpuwatch.api.limits import BODY_MAX_BY_PATH, DECOMPRESSED_MAX, MIB, Bounds, Buckets, InFlight, body_max
from tests.worlds.api import Api, Clock


def echo(in_flight: InFlight, seconds: float = 5.0) -> FastAPI:
    """An application that says how long the body was, within the bounds."""
    app = FastAPI()

    async def length(request: Request) -> Response:
        return Response(str(len(await request.body())))

    app.add_route("/api/v1/rates", length, methods=["POST"])
    app.state.methods = []
    install(app)
    app.add_middleware(Bounds, in_flight=in_flight, body_seconds=seconds)
    return app


def send(app: FastAPI, content: object, headers: Any = None) -> httpx.Response:
    """A POST whose body may be a stream."""

    async def go() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return await client.post("/api/v1/rates", content=content, headers=headers)  # type: ignore[arg-type]

    return asyncio.run(go())


def scope_of(encoding: bytes) -> dict[str, object]:
    """A POST that begins, as a server says it."""
    return {
        "type": "http", "method": "POST", "path": "/api/v1/rates", "raw_path": b"/api/v1/rates", "query_string": b"",
        "headers": [(b"transfer-encoding", encoding)], "scheme": "http", "http_version": "1.1", "root_path": "",
        "client": ("127.0.0.1", 1), "server": ("localhost", 80),
    }  # fmt: skip


async def pieces(count: int, size: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b"x" * size


def test_a_body_as_large_as_allowed_passes() -> None:
    """And what it held is given back."""
    in_flight = InFlight()

    assert str(MIB) == send(echo(in_flight), b"x" * MIB).text
    assert 0 == in_flight.held


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"x" * (MIB + 1), id="announced by its length"),
        pytest.param(pieces(5, MIB // 4), id="a stream that goes on"),
    ],
)
def test_a_larger_body_is_refused(content: object) -> None:
    """Without holding it."""
    in_flight = InFlight()
    answer = send(echo(in_flight), content)

    assert (413, "close", 0) == (answer.status_code, answer.headers["connection"], in_flight.held)


def test_a_body_that_lies_about_its_length_is_refused() -> None:
    """A number that is none."""
    assert 400 == send(echo(InFlight()), b"x", {"Content-Length": "-1"}).status_code


def test_bodies_together_are_bounded() -> None:
    """More at once is asked to come back."""
    answer = send(echo(InFlight(most=100)), b"x" * 101)

    assert (503, "busy", "2") == (
        answer.status_code, answer.json()["error"]["code"], answer.headers["retry-after"]
    )  # fmt: skip


def test_the_largest_body_of_a_token_fits_beside_its_small_ones() -> None:
    """Else whether it is taken, or refused as too large, would depend on what else is being received."""
    in_flight = InFlight()
    in_flight.add(300, "token")
    in_flight.add(BODY_MAX_BY_PATH["/api/v1/write"], "token")

    with pytest.raises(ApiError, match="of one token"):
        in_flight.add(8 * MIB, "token")


def test_a_body_that_drips_is_given_up() -> None:
    """The time is for the whole body, not for each piece."""

    async def drips() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    async def main() -> int:
        sent: list[int] = []
        stream = drips()

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": await anext(stream), "more_body": True}

        async def answer(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                sent.append(int(str(message["status"])))

        await echo(InFlight(), seconds=0.01)(scope_of(b"chunked"), receive, answer)  # type: ignore[arg-type]
        return sent[0]

    assert 408 == asyncio.run(main())


def test_a_refused_sender_may_finish_before_the_connection_is_closed() -> None:
    """Closed earlier it is reset, and the sender never sees why."""
    order: list[str] = []

    async def main() -> None:
        left = [b"x" * MIB] * 4

        async def receive() -> dict[str, object]:
            order.append("read")
            left.pop()
            return {"type": "http.request", "body": b"x" * MIB, "more_body": bool(left)}

        async def answer(message: dict[str, object]) -> None:
            order.append(str(message.get("status", message.get("more_body", False))))

        await echo(InFlight())(scope_of(b"chunked"), receive, answer)  # type: ignore[arg-type]

    asyncio.run(main())

    assert ["read", "read", "413", "True", "read", "read", "False"] == order


@pytest.mark.parametrize(
    ("path", "most"),
    [
        pytest.param("/api/v1/write", 32 * MIB, id="samples"),
        pytest.param("/api/v1/otlp/v1/metrics", 32 * MIB, id="data points"),
        pytest.param("/api/v1/bills", 1024 * MIB, id="bills"),
        pytest.param("/api/v1/rates", MIB, id="what people send"),
        pytest.param("/ui/_dash-update-component", 8 * MIB, id="what pages send"),
    ],
)
def test_the_bound_is_that_of_the_path(path: str, most: int) -> None:
    """Ingest may be large."""
    assert most == body_max(path)


def test_headers_and_queries_are_bounded(bare: Api) -> None:
    """Each with its status."""
    assert (431, 414) == (
        bare.get("/healthz", headers={"X-Long": "x" * 40_000}).status_code,
        bare.get("/api/v1/jobs?q=" + "x" * 9000).status_code,
    )


def test_two_hosts_are_refused() -> None:
    """Which of them a check looks at must not be a guess."""
    assert 400 == send(echo(InFlight()), b"x", [("Host", "localhost"), ("Host", "evil.example")]).status_code


def test_snappy_and_gzip_give_back_what_went_in() -> None:
    """Also nothing, and gzip of two members."""
    codec = pa.Codec("snappy")

    assert [b"abc" * 99, b""] == [snappy(codec.compress(part, asbytes=True)) for part in (b"abc" * 99, b"")]
    assert b"one two" == gunzip(gzip.compress(b"one ") + gzip.compress(b"two"))


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b"", 400, id="nothing at all"),
        pytest.param(b"\xff" * 9, 400, id="a length without an end"),
        pytest.param(varint(5) + b"\xf0", 400, id="torn"),
        pytest.param(varint(1_000_000) + b"x" * 10, 400, id="a promise that ten bytes cannot keep"),
        pytest.param(varint(DECOMPRESSED_MAX + 1) + b"x" * 10, 413, id="a bomb that says so"),
        pytest.param(varint(2**32 - 1) + b"x", 413, id="the largest bomb there is"),
    ],
)
def test_bad_snappy_is_refused_before_it_is_unpacked(body: bytes, status: int) -> None:
    """By what its first bytes announce."""
    with pytest.raises(ApiError) as refused:
        snappy(body)

    assert status == refused.value.status_code


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b"plain text", 400, id="not gzip"),
        pytest.param(gzip.compress(b"abc" * 1000)[:-5], 400, id="torn"),
        pytest.param(gzip.compress(bytes(DECOMPRESSED_MAX + 1), 1), 413, id="a bomb"),
        pytest.param(gzip.compress(b"ok") + b"rest", 400, id="something behind the end"),
        pytest.param(gzip.compress(b"") * 101, 400, id="more members than are unpacked"),
    ],
)
def test_bad_gzip_is_refused(body: bytes, status: int) -> None:
    """At most a byte beyond the bound is unpacked."""
    with pytest.raises(ApiError) as refused:
        gunzip(body)

    assert status == refused.value.status_code


def test_a_bucket_fills_again() -> None:
    """At its rate, up to its burst."""
    clock = Clock()
    buckets = Buckets(rate_per_s=2, burst=2, clock=clock)

    assert [0.0, 0.0, 0.5] == [buckets.take("a") for _ in range(3)]
    assert 0.0 == buckets.take("b")
    clock.now += 0.5
    assert [0.0, 0.5] == [buckets.take("a") for _ in range(2)]
    clock.now += 1000
    assert [0.0, 0.0, 0.5] == [buckets.take("a") for _ in range(3)]


def test_buckets_forget_the_least_used() -> None:
    """A flood of addresses takes no memory."""
    buckets = Buckets(rate_per_s=1, burst=1, clock=Clock(), keys_max=2)
    for key in "abc":
        buckets.take(key)

    assert 2 == len(buckets._levels)
    assert (0.0, 1.0) == (buckets.take("a"), buckets.take("c"))


def test_a_token_that_asks_without_end_is_slowed_down(api: Api) -> None:
    """429 with the time to wait."""
    text = api.token("read")
    api.app.state.guard._requests = Buckets(1, 2, api.clock)

    assert [200, 200, 429] == [api.get("/api/v1/me", token=text).status_code for _ in range(3)]
