"""What a process answers while it waits for a lease: that it lives, and where the holder is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gpuwatch.api.errors import response, translated
from gpuwatch.core.errors import GpuwatchError


def waiting(refusal: Callable[[], GpuwatchError]) -> ASGIApp:
    """An application without a service. `refusal` says why, and names the holder."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _answer(scope["path"], refusal())(scope, receive, send)

    return app


def _answer(path: str, refusal: GpuwatchError) -> Response:
    if path == "/healthz":
        return JSONResponse({"status": "ok"})
    error = translated(refusal)
    if path == "/readyz":
        body: dict[str, Any] = {"status": "unready", "reasons": [str(refusal)]}
        return JSONResponse(body, 503, error.headers)
    return response(error, path)
