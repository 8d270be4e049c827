"""Back-up of the data directory that is served: what `gpuwatch backup` asks for."""

from __future__ import annotations

from pathlib import Path

from anyio import to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from gpuwatch.api.auth import Admin
from gpuwatch.api.bodies import json_body
from gpuwatch.api.common import PREFIX, Svc, answer
from gpuwatch.api.errors import ApiError

router = APIRouter(prefix=PREFIX)


class Target(BaseModel):
    """Where to."""

    directory: str = Field(min_length=1, max_length=4096)


@router.post("/backup", include_in_schema=False)
async def backup(request: Request, access: Admin, service: Svc) -> Response:
    """Writes a copy to a directory of this machine. A token is not enough: it may come from another machine."""
    if not access.owner:
        raise ApiError(403, "a back-up is made by who owns the data directory", "run gpuwatch backup on the server")
    body = await json_body(request, Target)
    target = Path(body.directory)
    if not target.is_absolute():
        raise ApiError(400, "directory: not an absolute path", None, "directory")
    done = await to_thread.run_sync(service.backup, target)
    return answer({"telemetry_bytes": done.telemetry_bytes, "state_bytes": done.state_bytes})
