"""Saved views: pages with their filters, under names that the caller chose."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from gpuwatch.api.auth import Access, Reader
from gpuwatch.api.bodies import json_body, request_body
from gpuwatch.api.common import PREFIX, Svc, answer, errors
from gpuwatch.api.errors import ApiError
from gpuwatch.api.schema.admin.views import SavedView, SavedViews, ViewBody
from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.state.views import NAME_MAX, View, Views

router = APIRouter(prefix=PREFIX, tags=["access"])
ViewName = Annotated[
    str, Path(min_length=1, max_length=NAME_MAX, pattern=r"^[^\x00-\x1f\x7f/]+$", examples=["my week"])
]
LOCAL = "local"
"""The owner of views that are saved on this machine without a token."""


@router.get("/views", response_model=SavedViews, responses=errors(), summary="Saved views of the caller")
async def views(access: Reader, service: Svc) -> Response:
    """The caller's own views, by name. A view is the address of a page with its filters, which anybody may open."""
    found = await to_thread.run_sync(Views(service.state).of, owner_of(access))
    return answer({"items": [_row(view) for view in found]})


@router.put(
    "/views/{name}",
    response_model=SavedView,
    responses={201: {"model": SavedView, "description": "Saved under a new name."}, **errors(415)},
    openapi_extra=request_body(ViewBody),
    summary="Saves a view",
)
async def save_view(request: Request, access: Reader, service: Svc, name: ViewName) -> Response:
    """In place of the caller's view with this name. 400: the address is not one below /ui/, or 100 views are saved already."""
    body = await json_body(request, ViewBody)
    view = View(name.strip(), body.address, service.now_us())
    if not view.name:
        raise ApiError(400, "name: only spaces", "give the view a name", "name")
    try:
        new = await to_thread.run_sync(Views(service.state).save, owner_of(access), view)
    except UsageError as error:
        raise ApiError(400, str(error), field="name") from error
    return answer(_row(view), 201 if new else 200)


@router.delete("/views/{name}", status_code=204, responses=errors(404), summary="Deletes a view")
async def delete_view(access: Reader, service: Svc, name: ViewName) -> Response:
    """404: the caller has no view with this name."""
    if not await to_thread.run_sync(Views(service.state).delete, owner_of(access), name):
        raise ApiError(404, f"view {name[:NAME_MAX]}: there is none", "GET /api/v1/views lists them", "name")
    return Response(status_code=204)


def owner_of(access: Access) -> str:
    """Whose views these are: a token's, or a person's who signed in."""
    return LOCAL if access.token is None else access.token.id


def _row(view: View) -> dict[str, Any]:
    return {"name": view.name, "address": view.address, "saved_at": rfc3339(view.saved_us)}
