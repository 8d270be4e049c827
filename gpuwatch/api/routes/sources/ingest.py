"""Data that others push: Prometheus remote-write, scheduler events."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from gpuwatch.api.auth import Access, Ingester
from gpuwatch.api.bodies import decompressed, decompressed_max, expect, media_type
from gpuwatch.api.common import PREFIX, Svc, errors
from gpuwatch.api.errors import BUSY_RETRY_S, ApiError
from gpuwatch.api.forward import CLUSTER_DEFAULT, CLUSTER_HEADER, passed_on
from gpuwatch.api.shares import WEIGHT_MIN
from gpuwatch.api.turns import Turns

if TYPE_CHECKING:
    from gpuwatch.service.pushed import Received

ACK_SECONDS_MAX = 60.0
"""How long a sender waits for the disk before it is asked to retry."""
PROTOCOLS = {
    "": "application/x-protobuf",
    "prometheus.WriteRequest": "application/x-protobuf",
    "io.prometheus.write.v2.Request": "application/x-protobuf;proto=io.prometheus.write.v2.Request",
}
"""Content type for the decoder by `proto` of the request's: version 1.0, 1.0 and 2.0."""
WRITTEN = "X-Prometheus-Remote-Write-{}-Written"
"""Headers that a 2.0 sender requires; without them it assumes a 1.0 receiver that stored nothing."""
EVENT_TYPES = ("application/x-ndjson", "application/json", "application/jsonl")
CLUSTER = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"
MAX_CLUSTER = 128

Cluster = Annotated[
    str | None, Query(max_length=MAX_CLUSTER, pattern=CLUSTER, description="The cluster that the data comes from.")
]
ClusterHeader = Annotated[
    str | None, Header(alias=CLUSTER_HEADER, max_length=MAX_CLUSTER, pattern=CLUSTER, description="The same.")
]
_ACCEPTED: dict[int | str, dict[str, Any]] = {
    204: {
        "description": "Stored on disk. Sending it again changes nothing.",
        "headers": {
            "X-Gpuwatch-Rejected": {
                "description": "The number of refused samples or events; /api/v1/quality has the reasons. "
                "Objects and metrics that gpuwatch does not use, such as a ConfigMap, do not count.",
                "schema": {"type": "string", "pattern": "^[0-9]+$"},
            },
            **{
                WRITTEN.format(kind): {"description": about, "schema": {"type": "string", "pattern": "^[0-9]+$"}}
                for kind, about in (
                    ("Samples", "How many samples of a request of version 2.0 are on disk."),
                    ("Histograms", "0: histograms are not stored."),
                    ("Exemplars", "0: exemplars are not stored."),
                )
            },
        },
    }
}
_BYTES = {"schema": {"type": "string", "format": "binary"}}

router = APIRouter(prefix=PREFIX, tags=["ingest"])


@router.post(
    "/write",
    status_code=204,
    response_class=Response,
    responses={**errors(415), **_ACCEPTED},
    openapi_extra={"requestBody": {"required": True, "content": {"application/x-protobuf": _BYTES}}},
    summary="Prometheus remote-write 1.0 and 2.0: snappy protobuf",
)
async def write(
    request: Request, access: Ingester, service: Svc, cluster: Cluster = None, named: ClusterHeader = None
) -> Response:
    """Responds once the samples are on disk. 4xx: do not send this again; 429 and 503: send it again later."""
    expect(request, ("application/x-protobuf",))
    proto = media_type(request)[1].get("proto", "")
    if proto not in PROTOCOLS:
        known = ", ".join(name for name in PROTOCOLS if name)
        raise ApiError(415, f"proto {proto[:100]!r}: remote-write is one of {known}")
    encoding = request.headers.get("content-encoding", "snappy").strip().lower()
    if encoding != "snappy":
        raise ApiError(415, f"content encoding {encoding[:50]!r}: remote-write is snappy")
    if (answer := await passed_on(request, access)) is not None:
        return answer
    done = await receive(request, access, service, "remote-write", PROTOCOLS[proto], encoding, cluster or named)
    written = {"Samples": done.rows, "Histograms": 0, "Exemplars": 0} if ".v2." in proto else {}
    return _stored(done, {WRITTEN.format(kind): str(count) for kind, count in written.items()})


@router.post(
    "/events",
    status_code=204,
    response_class=Response,
    responses={**errors(415), **_ACCEPTED},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/x-ndjson": {"schema": {"type": "string"}},
                "application/json": {"schema": {"type": "array", "items": {"type": "object"}}},
            },
        }
    },
    summary="Scheduler events: NDJSON or a JSON list, plain or gzip",
)
async def events(
    request: Request, access: Ingester, service: Svc, cluster: Cluster = None, named: ClusterHeader = None
) -> Response:
    """Idempotent by event id. Responds once the events are on disk."""
    kind = expect(request, EVENT_TYPES)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise ApiError(415, f"content encoding {encoding[:50]!r}: send events plain or gzip")
    if (answer := await passed_on(request, access)) is not None:
        return answer
    return _stored(await receive(request, access, service, "events", kind, encoding, cluster or named), {})


async def receive(
    request: Request, access: Access, service: Any, name: str, kind: str, encoding: str, cluster: str | None
) -> Received:
    """Decodes and stores the body of a request by the receiver `name`; returns once it is on disk."""
    place = cluster or CLUSTER_DEFAULT
    turns: Turns = request.app.state.decoding
    body = await request.body()
    weight = max(WEIGHT_MIN, decompressed_max(body, encoding))
    # Decompressed only now, so that what waits for its turn takes no more memory than it was sent with.
    await turns.take(access.key, weight)
    loop = asyncio.get_running_loop()

    def decoded() -> None:
        loop.call_soon_threadsafe(turns.give, access.key, weight)

    try:
        body = await decompressed(body, encoding)
        taken = service.receive(name, body, kind, place, f"{name} {place} ({access.name})", decoded=decoded)
    except BaseException:
        turns.give(access.key, weight)
        raise
    done = asyncio.wrap_future(taken)
    del body
    try:
        # Shielded: when the sender gives up, what it sent is still committed once, not half.
        return await asyncio.wait_for(asyncio.shield(done), ACK_SECONDS_MAX)
    except TimeoutError:
        raise ApiError(
            503,
            f"the disk did not take the data within {ACK_SECONDS_MAX:g} s",
            headers={"Retry-After": str(BUSY_RETRY_S)},
            code="busy",
        ) from None


def _stored(done: Received, headers: dict[str, str]) -> Response:
    count = sum(done.rejects.faults.values())
    return Response(status_code=204, headers=headers | ({"X-Gpuwatch-Rejected": str(count)} if count else {}))
