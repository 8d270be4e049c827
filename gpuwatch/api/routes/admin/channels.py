"""Notification channels."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from gpuwatch.api.auth import Admin, FleetReader
from gpuwatch.api.bodies import json_body, request_body
from gpuwatch.api.common import PREFIX, Svc, answer, errors
from gpuwatch.api.errors import ApiError
from gpuwatch.api.etags import Expected
from gpuwatch.api.paging import CursorText, Limit, decode, page, question
from gpuwatch.api.schema.admin.channels import ChannelItems, ChannelsBody, Sent
from gpuwatch.core.errors import SourceUnreachable

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"

router = APIRouter(prefix=PREFIX, tags=["alerts"])


@router.get("/channels", response_model=ChannelItems, responses=errors(), summary="Alert channels")
def channels(access: FleetReader, service: Svc, limit: Limit = 100, cursor: CursorText = None) -> Response:
    """The channels without their addresses, which are secret; `url_hint` distinguishes them."""
    return _listed(service, limit, cursor)


@router.put(
    "/channels",
    response_model=ChannelItems,
    responses=errors(412, 415),
    openapi_extra=request_body(ChannelsBody),
    summary="Replaces the alert channels",
)
async def put_channels(request: Request, access: Admin, service: Svc, expected: Expected) -> Response:
    """All or nothing. A channel without `url` keeps its address; channels of gpuwatch.toml stay."""
    body = await json_body(request, ChannelsBody)
    items = [item.model_dump() for item in body.items]
    return await to_thread.run_sync(_replace, service, items, access.name, expected)


@router.post(
    "/channels/{name}/test",
    response_model=Sent,
    responses=errors(404),
    summary="Sends a test message through a channel",
)
def test_channel(access: Admin, service: Svc, name: Annotated[str, Path(pattern=NAME)]) -> Response:
    """Status 200 with `ok` true if it was delivered, or `ok` false and the reason."""
    from gpuwatch.alerts.repository import Channels

    if name not in {channel.name for channel in Channels(service.state).list()}:
        raise ApiError(404, f"channel {name}: there is none of this name", "GET /api/v1/channels lists them", "name")
    try:
        service.send_test(name)
    except SourceUnreachable as error:
        return answer({"ok": False, "error": " ".join(str(error).split())})
    return answer({"ok": True, "error": None})


def _replace(service: Any, items: list[dict[str, Any]], actor: str, expected: frozenset[str] | None) -> Response:
    from gpuwatch.alerts.repository import Channels

    Channels(service.state, service.channel_guard).replace(items, actor, service.now_us(), expected)
    return _listed(service, 100, None)


def _listed(service: Any, limit: int, cursor: str | None) -> Response:
    from gpuwatch.alerts.outbox.deliver import listing
    from gpuwatch.alerts.repository import Channels

    version = Channels(service.state).version()  # first: who replaces this version must have seen at least its channels
    items = listing(service.state)
    asked = question({"route": "channels"})
    chosen, following = page(items, limit, decode(cursor, asked), asked, lambda item: str(item["name"]))
    return answer({"items": chosen, "version": version, "next": following}, version=version)
