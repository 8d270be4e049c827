"""Sessions of the pages: what their sign-in and sign-out call."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpuwatch.api.auth import COOKIE, Anyone, guard_of
from gpuwatch.api.common import PREFIX, Svc, answer
from gpuwatch.api.errors import ApiError
from gpuwatch.core.clock import rfc3339

router = APIRouter(prefix=PREFIX)


@router.post("/session", include_in_schema=False)
async def start(request: Request, access: Anyone, service: Svc) -> Response:
    """Starts a session for the token of the Authorization header. The id is returned once; only a digest is stored."""
    if access.token is None or request.headers.get("authorization") is None:
        raise ApiError(400, "a session is started with a token", "send Authorization: Bearer TOKEN")
    guard = guard_of(request)
    text, expires_us = await guard.run(guard.sessions.start, access.token, service.now_us())
    seconds = max(0, (expires_us - service.now_us()) // 1_000_000)
    return answer({"session": text, "expires_at": rfc3339(expires_us), "expires_in_s": seconds}, 201)


@router.delete("/session", include_in_schema=False)
async def end(request: Request, access: Anyone) -> Response:
    """Ends the session of the cookie."""
    guard = guard_of(request)
    if text := request.cookies.get(COOKIE):
        await guard.run(guard.sessions.end, text)
    return Response(status_code=204)
