"""Who the caller is."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpuwatch.api.auth import Anyone, guard_of
from gpuwatch.api.common import PREFIX, Svc, answer, errors
from gpuwatch.api.schema.admin.me import Me

router = APIRouter(prefix=PREFIX, tags=["access"])


@router.get("/me", response_model=Me, responses=errors(), summary="What this token may do")
async def me(request: Request, access: Anyone, service: Svc) -> Response:
    """Scope, teams (null: all) and name of the caller; whether tokens are enabled; the version."""
    return answer(
        {
            "scope": access.scope,
            "teams": None if access.teams is None else list(access.teams),
            "name": access.name,
            "tokens": await guard_of(request).tokens_exist(),
            "version": service.version,
        }
    )
