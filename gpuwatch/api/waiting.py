"""What a process answers while it waits for a lease: that it lives, and where the holder is. Data are passed on to the holder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gpuwatch.api.errors import ApiError, response, translated
from gpuwatch.api.forward import DATA_PATHS, Forwarder, cluster_of
from gpuwatch.api.limits import Bounds, InFlight
from gpuwatch.core.errors import GpuwatchError

if TYPE_CHECKING:
    from gpuwatch.service.routing import Routing

ASKED_AT_ONCE = 4
"""Requests that ask the state's server at a time where their data go."""


def waiting(refusal: Callable[[], GpuwatchError], routing: Routing | None = None) -> ASGIApp:
    """An application without a service. `refusal` says why, and names the holder; without `routing` it answers all with that."""
    forwarder = None if routing is None else Forwarder(routing)
    limiter = CapacityLimiter(ASKED_AT_ONCE)

    async def answered(request: Request) -> Response:
        if forwarder is not None and request.method == "POST" and request.url.path in DATA_PATHS:
            address = await to_thread.run_sync(forwarder.routing.elsewhere, cluster_of(request), limiter=limiter)
            if address is not None:
                return await forwarder.send(request, address)
        return _answer(request.url.path, refusal())

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            answer = await answered(Request(scope, receive))
        except ClientDisconnect:
            return
        except ApiError as error:
            answer = response(error, scope["path"])
        except GpuwatchError as error:
            answer = response(translated(error), scope["path"])
        await answer(scope, receive, send)

    return Bounds(app, InFlight())


def _answer(path: str, refusal: GpuwatchError) -> Response:
    if path == "/healthz":
        return JSONResponse({"status": "ok"})
    error = translated(refusal)
    if path == "/readyz":
        body: dict[str, Any] = {"status": "unready", "reasons": [str(refusal)]}
        return JSONResponse(body, 503, error.headers)
    return response(error, path)
