"""Copies of the data directory that is served: what `gpuwatch backup` and `gpuwatch samples` ask for."""

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
from gpuwatch.store.sample_files import SampleFile, export_next

router = APIRouter(prefix=PREFIX)


class Target(BaseModel):
    """Where to."""

    directory: str = Field(min_length=1, max_length=4096)


class SampleTarget(Target):
    """Where to, how, and after which cluster and day to go on."""

    doubles: bool = False
    after: tuple[str, str] | None = None


def _path(target: Target) -> Path:
    path = Path(target.directory)
    if not path.is_absolute():
        raise ApiError(400, "directory: not an absolute path", None, "directory")
    return path


@router.post("/backup", include_in_schema=False)
async def backup(request: Request, access: Admin, service: Svc) -> Response:
    """Writes a copy to a directory of this machine. A token is not enough: it may come from another machine."""
    if not access.owner:
        raise ApiError(403, "a back-up is made by who owns the data directory", "run gpuwatch backup on the server")
    body = await json_body(request, Target)
    done = await to_thread.run_sync(service.backup, _path(body))
    return answer({"telemetry_bytes": done.telemetry_bytes, "state_bytes": done.state_bytes})


@router.post("/samples", include_in_schema=False)
async def samples(request: Request, access: Admin, service: Svc) -> Response:
    """Writes raw samples to a directory of this machine, at most one day, so that no request takes long."""
    if not access.owner:
        raise ApiError(403, "samples are written by who owns the data directory", "run gpuwatch samples on the server")
    body = await json_body(request, SampleTarget)
    target = _path(body)

    def written() -> tuple[list[SampleFile], bool]:
        with service.reader(unhurried=True) as store:
            return export_next(store, target, body.doubles, body.after)

    files, more = await to_thread.run_sync(written)
    return answer({"files": [file.facts() for file in files], "more": more})
