"""The client stands for the browser: its token, its address, its proxies; and says what went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from gpuwatch.dashboards.client import Api, ApiFailure, Caller, Client, passed_on
from gpuwatch.dashboards.shell.frame import as_of


def api(app: FastAPI, **caller: Any) -> Api:
    """The API of an application for a caller."""
    return Client(app).of(Caller(**caller))


def failure(call: Coroutine[Any, Any, Any]) -> ApiFailure:
    """What a call fails with."""
    with pytest.raises(ApiFailure) as raised:
        asyncio.run(call)
    return raised.value


def echo() -> FastAPI:
    """Answers /me with what it was told of the caller."""
    app = FastAPI()

    @app.get("/api/v1/me")
    def me(request: Request) -> dict[str, Any]:
        wanted = ("authorization", "host", "x-forwarded-for", "cookie")
        peer = request.client.host if request.client else None
        return {"peer": peer, **{name: request.headers.get(name) for name in wanted}}

    return app


def test_a_browser_elsewhere_does_not_become_loopback() -> None:
    """The API takes loopback for an administrator while there are no tokens."""
    found = asyncio.run(api(echo(), address=("203.0.113.9", 5)).me())

    assert ("203.0.113.9", None) == (found["peer"], found["authorization"])


def test_the_token_and_a_proxy_are_passed_on() -> None:
    headers = (("host", "gpu.example"), ("x-forwarded-for", "198.51.100.7"))
    found = asyncio.run(api(echo(), token="gw_x", headers=headers).me())

    assert "Bearer gw_x" == found["authorization"]
    assert ("gpu.example", "198.51.100.7", None) == (found["host"], found["x-forwarded-for"], found["cookie"])


def test_every_header_of_a_proxy_is_passed_on() -> None:
    """The API decides which of them mean a proxy; the pages keep only what belongs to their own exchange."""
    sent = {"CF-Connecting-IP": "1", "Via": "", "X-New-Proxy": "2", "Cookie": "c", "Content-Length": "3", "Host": "h"}

    assert (("cf-connecting-ip", "1"), ("via", ""), ("x-new-proxy", "2"), ("host", "h")) == passed_on(sent)


@pytest.mark.parametrize(
    ("cookie", "expected"),
    [
        pytest.param("gw_a.b-c", "gpuwatch_session=gw_a.b-c", id="as the cookie it came in"),
        pytest.param("x; other=1", None, id="no second cookie"),
        pytest.param("x" * 600, None, id="no token is that long"),
    ],
)
def test_a_browsers_cookie_stays_a_cookie(cookie: str, expected: str | None) -> None:
    found = asyncio.run(api(echo(), cookie=cookie).me())

    assert (None, expected) == (found["authorization"], found["cookie"])


@pytest.mark.parametrize(
    ("instant", "expected"),
    [
        pytest.param(None, "", id="a process with data of its own"),
        pytest.param("2026-11-21T06:40:09Z", "Data as of 21 Nov 06:40 UTC, copied from the lake", id="a replica"),
    ],
)
def test_the_footer_shows_as_of_when_a_replicas_data_are(instant: str | None, expected: str) -> None:
    app = FastAPI()

    @app.get("/api/v1/coverage")
    def coverage() -> Response:
        return JSONResponse({"end": None}, headers={} if instant is None else {"Gpuwatch-As-Of": instant})

    assert expected == asyncio.run(as_of(api(app)))


@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        pytest.param(
            PlainTextResponse("no", 502), 502, "The API responded with status 502.", id="an error of another shape"
        ),
        pytest.param(
            JSONResponse({"error": "no"}, 500), 500, "The API responded with status 500.", id="an error that is a word"
        ),
        pytest.param(
            JSONResponse({"error": {"code": "x", "message": "m", "hint": None}}, 403), 403, "m", id="our own shape"
        ),
        pytest.param(PlainTextResponse("hello"), 502, "/api/v1/me did not return JSON.", id="no JSON"),
        pytest.param(JSONResponse([1]), 502, "/api/v1/me did not return a JSON object.", id="no object"),
    ],
)
def test_failures_say_what_happened(answer: Response, status: int, message: str) -> None:
    app = FastAPI()

    @app.get("/api/v1/me")
    def me() -> Response:
        return answer

    found = failure(api(app).me())

    assert (status, message) == (found.status, found.message)


def test_an_application_that_breaks_is_a_failure_not_a_traceback() -> None:
    app = FastAPI()

    @app.get("/api/v1/me")
    def me() -> None:
        raise RuntimeError("secret")

    found = failure(api(app).me())

    assert (500, True) == (found.status, "secret" not in found.message + found.hint)


def test_a_server_that_is_not_there_is_a_failure() -> None:
    found = failure(Client(None, "http://127.0.0.1:1").of(Caller()).me())

    assert (0, "The API cannot be reached.") == (found.status, found.message)


def test_ids_are_quoted_and_nothing_is_sent_for_what_is_not_asked() -> None:
    app = FastAPI()
    asked: list[str] = []

    @app.get("/{path:path}")
    def any_(request: Request) -> dict[str, Any]:
        asked.append(str(request.scope["raw_path"], "ascii") + "?" + str(request.scope["query_string"], "ascii"))
        return {}

    asyncio.run(api(app).job("lab/a?b#c", None))
    asyncio.run(api(app).finding("../me"))
    asyncio.run(api(app).chargeback("7d", "team", cluster=""))

    assert "/api/v1/jobs/lab/a%3Fb%23c?" == asked[0]
    assert "/api/v1/findings/..%2Fme?" == asked[1]
    assert "/api/v1/chargeback?window=7d&by=team&limit=1000" == asked[2]
