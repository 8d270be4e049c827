"""Imports: which there are, and taking one back."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path
from starlette.responses import Response

from gpuwatch.api.auth import Admin, FleetReader
from gpuwatch.api.common import PREFIX, Svc, answer, errors
from gpuwatch.api.errors import ApiError, TeamScope
from gpuwatch.api.paging import Cursor, CursorText, Limit, decode, encode, question
from gpuwatch.api.schema.sources.imports import Forgotten, Imports
from gpuwatch.imports.forget import NoSuchImport, imports

ID_MAX = 2**53
PAGE = 1000

router = APIRouter(prefix=PREFIX, tags=["service"])


@router.get("/imports", response_model=Imports, responses=errors(), summary="Imports from files and backfills")
def listed(access: FleetReader, service: Svc, limit: Limit = PAGE, cursor: CursorText = None) -> Response:
    """The newest first, without those that were taken back. Not for team-scoped tokens: an import has rows of every
    team.
    """
    asked = question({})
    place = decode(cursor, asked)
    start = 0 if place is None else place.position
    with service.reader() as store:
        found = imports(store)
    more = start + limit < len(found)
    following = encode(Cursor("", start + limit, None), asked) if more else None
    return answer({"items": found[start : start + limit], "next": following})


@router.delete("/imports/{id}", response_model=Forgotten, responses=errors(404), summary="Undoes an import")
async def forgotten(
    access: Admin, service: Svc, id: Annotated[int, Path(ge=1, le=ID_MAX, description="From the list of imports.")]
) -> Response:
    """Removes the records that only this import gave. The next analysis computes the touched hours again; closed periods get
    corrections.
    """
    if access.teams is not None:
        raise TeamScope("an import has rows of every team, and the token is bound to teams")
    try:
        return answer(await to_thread.run_sync(service.imports.forget, id, access.name))
    except NoSuchImport as error:
        raise ApiError(404, str(error), "GET /api/v1/imports lists them") from error
