"""API tokens: listed, created and revoked. Their text is in one answer only."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from gpuwatch.api.auth import Admin
from gpuwatch.api.bodies import json_body, request_body
from gpuwatch.api.common import PREFIX, Svc, answer, errors
from gpuwatch.api.errors import ApiError
from gpuwatch.api.paging import CursorText, Limit, decode, page, question
from gpuwatch.api.schema.admin.tokens import TokenBody, TokenItems, TokenMade
from gpuwatch.core.clock import parse_rfc3339, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.state.tokens import Token, Tokens

ID = r"^[0-9a-f]{1,16}$"

router = APIRouter(prefix=PREFIX, tags=["access"])


@router.get("/tokens", response_model=TokenItems, responses=errors(), summary="API tokens")
def tokens(access: Admin, service: Svc, limit: Limit = 1000, cursor: CursorText = None) -> Response:
    """The oldest first, revoked and expired ones too. Never their text."""
    items = [_shown(token) for token in Tokens(service.state).list()]
    asked = question({"route": "tokens"})
    places = list(enumerate(items))
    chosen, following = page(places, limit, decode(cursor, asked), asked, lambda item: str(item[0]))
    return answer({"items": [item for _, item in chosen], "next": following})


@router.post(
    "/tokens",
    status_code=201,
    response_model=TokenMade,
    responses=errors(415),
    openapi_extra=request_body(TokenBody),
    summary="Creates an API token",
)
async def create(request: Request, access: Admin, service: Svc) -> Response:
    """`token` is its text, which nobody can read again. Once a token exists, every request needs one."""
    body = await json_body(request, TokenBody)
    try:
        expires_us = None if body.expires_at is None else parse_rfc3339(body.expires_at)
    except (ValueError, OverflowError) as error:
        raise ApiError(400, f"expires_at {body.expires_at!r}: not an RFC 3339 time", field="expires_at") from error
    return await to_thread.run_sync(_create, service, body, expires_us, access.name)


@router.delete("/tokens/{id}", response_model=TokenItems, responses=errors(404), summary="Revokes an API token")
def revoke(access: Admin, service: Svc, id: Annotated[str, Path(pattern=ID)]) -> Response:
    """It opens nothing from now on, and neither do its sessions. It stays listed."""
    try:
        Tokens(service.state).revoke(id, access.name, service.now_us())
    except UsageError as error:
        raise ApiError(404, f"token {id}: there is none of this id", "GET /api/v1/tokens lists them") from error
    items = [_shown(token) for token in Tokens(service.state).list() if token.id == id]
    return answer({"items": items, "next": None})


def _create(service: Any, body: TokenBody, expires_us: int | None, actor: str) -> Response:
    try:
        token, text = Tokens(service.state).create(
            body.name, body.scope, body.teams, expires_us, actor, service.now_us()
        )
    except UsageError as error:
        name = "expires_at" if "expiry" in str(error) else "teams" if "team" in str(error) else "name"
        raise ApiError(400, str(error), field=name) from error
    return answer(_shown(token) | {"token": text}, 201)


def _shown(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "scope": token.scope,
        "teams": None if token.teams is None else list(token.teams),
        "created_at": rfc3339(token.created_us),
        "created_by": token.created_by,
        "expires_at": None if token.expires_us is None else rfc3339(token.expires_us),
        "revoked_at": None if token.revoked_us is None else rfc3339(token.revoked_us),
    }
