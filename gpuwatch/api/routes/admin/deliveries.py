"""Messages to channels: whether each arrived, why not, and trying one again."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from gpuwatch.api.auth import Admin, FleetReader
from gpuwatch.api.common import PREFIX, Name, Svc, answer, errors, split
from gpuwatch.api.errors import ApiError
from gpuwatch.api.paging import Cursor, CursorText, Limit, decode, encode, question
from gpuwatch.api.schema.admin.deliveries import Deliveries, Delivery, DeliveryState
from gpuwatch.core.errors import UsageError

ID_MAX = 2**53
STATES = get_args(DeliveryState)

router = APIRouter(prefix=PREFIX, tags=["alerts"])


@router.get("/deliveries", response_model=Deliveries, responses=errors(), summary="Messages to channels")
def deliveries(
    access: FleetReader,
    service: Svc,
    channel: Name = None,
    state: Annotated[list[str] | None, Query(max_length=20, description=f"Any of {', '.join(STATES)}.")] = None,
    limit: Limit = 100,
    cursor: CursorText = None,
) -> Response:
    """The newest first; those that were sent, given up or withdrawn are kept for 30 days. `next_at`: when a waiting message is
    tried next, unless an earlier one of its channel still waits. Alertmanager is not among them: it gets what fires, over and
    over.
    """
    from gpuwatch.alerts.messages.repository import deliveries as look

    states = split(state) or []
    if wrong := [one for one in states if one not in STATES]:
        raise ApiError(400, f"state {wrong[0][:50]!r}: not one of {', '.join(STATES)}", field="state")
    asked = question({"channel": channel, "state": states})
    place = decode(cursor, asked)
    below = None if place is None else place.position
    found = look(service.state, channel=channel, states=states, below=below, limit=limit + 1)
    items = found[:limit]
    following = encode(Cursor("", items[-1]["id"], None), asked) if len(found) > limit else None
    return answer({"items": items, "next": following})


@router.post(
    "/deliveries/{id}/retry", response_model=Delivery, responses=errors(404, 409), summary="Tries a message again"
)
def retry(access: Admin, service: Svc, id: Annotated[int, Path(ge=1, le=ID_MAX)]) -> Response:
    """A message that was given up is queued again; one that waits is due at once. It is sent within seconds, after those of its
    channel that were queued before it. 409: it was sent or withdrawn, or its channel is gone.
    """
    return answer(_retry(service, id, access.name))


def _retry(service: Any, ident: int, actor: str) -> dict[str, Any]:
    from gpuwatch.alerts.messages.repository import retry as again
    from gpuwatch.alerts.repository import Channels

    known = [channel.name for channel in Channels(service.state).list()]
    try:
        found = again(service.state, ident, known, actor, service.now_us())
    except UsageError as error:
        raise ApiError(409, str(error), "GET /api/v1/deliveries shows its state") from error
    if found is None:
        raise ApiError(404, f"message {ident}: there is none of this id", "GET /api/v1/deliveries lists them", "id")
    return found
