"""OTLP/HTTP metrics of OpenTelemetry collectors, answered as the protocol asks: https://opentelemetry.io/docs/specs/otlp."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpuwatch.api.auth import Ingester
from gpuwatch.api.bodies import expect
from gpuwatch.api.common import PREFIX, Svc, errors
from gpuwatch.api.errors import ApiError, body_of, translated
from gpuwatch.api.forward import passed_on
from gpuwatch.api.routes.sources.ingest import Cluster, ClusterHeader, receive
from gpuwatch.core.errors import GpuwatchError
from gpuwatch.core.model import Rejects

PROTOBUF, JSON = "application/x-protobuf", "application/json"
REASONS_SHOWN = 5
STATUS_CODES = {400: 3, 401: 16, 403: 7, 408: 4, 413: 3, 415: 3, 429: 8, 503: 14}
"""google.rpc.Code by HTTP status: INVALID_ARGUMENT, UNAUTHENTICATED, ..., UNAVAILABLE."""
INTERNAL = 13

_BINARY = {"schema": {"type": "string", "format": "binary"}}
_FULL = {"type": "object", "properties": {"partialSuccess": {"type": "object"}}}
_STATUS = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "code": {"type": "integer"},
        "message": {"type": "string"},
        "error": {"$ref": "#/components/schemas/ErrorBody"},
    },
}
"""google.rpc.Status, with our own error fields; callers without a token get only ours."""

router = APIRouter(prefix=PREFIX, tags=["ingest"])


@router.post(
    "/otlp/v1/metrics",
    response_class=Response,
    responses={
        **errors(415),
        200: {
            "description": "Stored on disk: ExportMetricsServiceResponse, with the number of refused data points.",
            "content": {PROTOBUF: _BINARY, JSON: {"schema": _FULL}},
        },
        **{
            status: {"description": "google.rpc.Status", "content": {PROTOBUF: _BINARY, JSON: {"schema": _STATUS}}}
            for status in errors(415)
            if status not in (408, 414, 431)
        },
    },
    openapi_extra={"requestBody": {"required": True, "content": {PROTOBUF: _BINARY, JSON: {"schema": {}}}}},
    summary="OTLP/HTTP metrics: protobuf or JSON, plain or gzip",
)
async def metrics(
    request: Request, access: Ingester, service: Svc, cluster: Cluster = None, named: ClusterHeader = None
) -> Response:
    """Responds once the data points are on disk. 400: do not send this again; 429 and 503: retry after Retry-After."""
    kind = PROTOBUF
    try:
        kind = expect(request, (PROTOBUF, JSON))
        encoding = request.headers.get("content-encoding", "identity").strip().lower() or "identity"
        if encoding not in ("identity", "gzip"):
            raise ApiError(415, f"content encoding {encoding[:50]!r}: send OTLP plain or gzip")
        if (answer := await passed_on(request, access)) is not None:
            return answer
        done = await receive(request, access, service, "otlp", kind, encoding, cluster or named)
    except ApiError as error:
        return _failed(error, kind)
    except GpuwatchError as error:
        return _failed(translated(error), kind)
    return Response(success(done.rejects, kind), media_type=kind)


def success(rejects: Rejects, kind: str) -> bytes:
    """ExportMetricsServiceResponse of content type `kind`; partial where data points were refused."""
    refused = rejects.faults
    count = sum(refused.values())
    most = sorted(refused, key=lambda reason: -refused[reason])[:REASONS_SHOWN]
    message = "; ".join(f"{refused[reason]} x {reason}" for reason in most)
    if kind == JSON:
        partial = {"partialSuccess": {"rejectedDataPoints": str(count), "errorMessage": message}}
        return json.dumps(partial if count else {}).encode()
    return _bytes(1, b"\x08" + _varint(count) + _bytes(2, message.encode())) if count else b""


def status(error: ApiError, kind: str) -> bytes:
    """google.rpc.Status of content type `kind`; in JSON with our own error fields."""
    code, message = STATUS_CODES.get(error.status_code, INTERNAL), str(error.detail)
    if kind == JSON:
        ours = body_of(error.status_code, message, error.hint, error.field, error.code)
        return json.dumps({"code": code, "message": message, **ours}).encode()
    return b"\x08" + _varint(code) + _bytes(2, message.encode())


def _failed(error: ApiError, kind: str) -> Response:
    headers: dict[str, Any] = dict(error.headers or {})
    return Response(status(error, kind), error.status_code, headers, media_type=kind)


def _bytes(field: int, content: bytes) -> bytes:
    return bytes((field << 3 | 2,)) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    return bytes((number,)) if number < 0x80 else bytes((number & 0x7F | 0x80,)) + _varint(number >> 7)
