"""Sessions of the pages: what their sign-in and sign-out call."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, StringConstraints
from starlette.responses import Response

from gpuwatch.api.auth import COOKIE, Anyone, guard_of
from gpuwatch.api.common import PREFIX, Svc, answer
from gpuwatch.api.errors import ApiError
from gpuwatch.api.seal import MAX_SEALED
from gpuwatch.api.sign_on import Provider, SignInFailed
from gpuwatch.core.clock import rfc3339

router = APIRouter(prefix=PREFIX)

BACK = "/ui/login/back"
"""Where the provider sends the browser; registered there as the redirect URI, below public_url."""
HOUR_US = 3600 * 1_000_000


class Leave(BaseModel):
    """Where the person wants to go after signing in."""

    model_config = ConfigDict(extra="forbid")
    target: Annotated[str, StringConstraints(max_length=1000)] = ""


class Arrive(BaseModel):
    """What the provider sent along with the browser, and what the browser kept meanwhile."""

    model_config = ConfigDict(extra="forbid")
    sealed: Annotated[str, StringConstraints(min_length=1, max_length=MAX_SEALED)]
    state: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    code: Annotated[str, StringConstraints(min_length=1, max_length=4000)]


def provider_of(request: Request, service: Svc) -> Provider:
    """The configured provider; 404 without one."""
    sso = service.plan.sso
    if sso is None:
        raise ApiError(404, "signing in through a provider is not configured", "sign in with a token")
    known: Provider | None = getattr(request.app.state, "provider", None)
    if known is None or known.config != sso:
        known = request.app.state.provider = Provider(sso, f"{service.settings.public_url}{BACK}", service.now_us)
    return known


@router.get("/session", include_in_schema=False)
async def ways(service: Svc) -> Response:
    """How people may sign in, besides with a token. Needs no token."""
    sso = service.plan.sso
    return answer({"sso": None if sso is None else {"name": sso.name}})


@router.post("/session/sso", include_in_schema=False)
async def leave(request: Request, service: Svc, body: Leave) -> Response:
    """Begins to sign in through the provider: its address, and what the browser keeps until it is back. Needs no token."""
    try:
        leaving = await provider_of(request, service).leave(body.target)
    except SignInFailed as error:
        raise ApiError(error.status, str(error)) from error
    return answer({"location": leaving.location, "sealed": leaving.sealed, "expires_in_s": leaving.seconds})


@router.post("/session/sso/back", include_in_schema=False)
async def arrive(request: Request, service: Svc, body: Arrive) -> Response:
    """Starts the session of a person whom the provider identified. Needs no token."""
    provider, guard = provider_of(request, service), guard_of(request)
    try:
        person, target = await provider.arrive(body.sealed, body.state, body.code)
    except SignInFailed as error:
        raise guard.too_many(request) or ApiError(error.status, str(error)) from error
    duration_us = provider.config.hours * HOUR_US
    text, _ = await guard.run(guard.sessions.start_for, person, duration_us, service.now_us())
    return answer({"session": text, "expires_in_s": duration_us // 1_000_000, "target": target}, 201)


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
