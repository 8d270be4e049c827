"""Bodies of requests: content type, decompression within bounds, JSON into a model."""

from __future__ import annotations

import zlib
from collections.abc import Collection
from typing import Any, TypeVar

import pyarrow as pa
from anyio import CapacityLimiter, to_thread
from fastapi import Request
from pydantic import BaseModel, ValidationError

from gpuwatch.api.errors import ApiError, invalid
from gpuwatch.api.limits import DECOMPRESSED_MAX

INLINE_MAX = 256 * 1024
"""A smaller body is decompressed at once; a larger one in a thread, so that others are answered meanwhile."""
_THREADS = CapacityLimiter(4)
"""Apart from the threads that answer queries: those may all wait for the store."""
_VARINT_BYTES_MAX = 5
MEMBERS_MAX = 100
"""Members of a gzip body: each costs a copy of all that follows it."""
_RATIO_MAX = 64
"""What a byte of snappy becomes at most (three bytes copy 64)."""
_GZIP_RATIO_MAX = 1032
"""The same of gzip."""

POLICY_KINDS = ("application/json", "application/toml")
M = TypeVar("M", bound=BaseModel)
_models: dict[str, type[BaseModel]] = {}


def request_body(model: type[BaseModel], *text_types: str) -> dict[str, Any]:
    """`openapi_extra` of a route that reads its body itself: JSON of `model`, or text of another media type.

    Such a route checks the caller's rights before it looks at the body.
    """
    known = _models.setdefault(model.__name__, model)
    if known is not model:
        raise ValueError(f"two request bodies are called {model.__name__}: {known.__module__} and {model.__module__}")
    content: dict[str, Any] = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
    content |= {text_type: {"schema": {"type": "string"}} for text_type in text_types}
    return {"requestBody": {"required": True, "content": content}}


def body_models() -> list[type[BaseModel]]:
    """The models that routes named to `request_body`."""
    return list(_models.values())


def media_type(request: Request) -> tuple[str, dict[str, str]]:
    """Type and parameters of the Content-Type header, in lower case; "" where there is none."""
    kind, *rest = request.headers.get("content-type", "").split(";")
    parameters = (part.partition("=") for part in rest)
    return kind.strip().lower(), {name.strip().lower(): value.strip().strip('"') for name, _, value in parameters}


def expect(request: Request, kinds: Collection[str]) -> str:
    """The content type if it is one of `kinds`, else ApiError 415."""
    kind, _ = media_type(request)
    if kind not in kinds:
        given = f"content type {kind[:100]!r}" if kind else "no content type"
        raise ApiError(415, f"{given}: this route takes {', '.join(kinds)}")
    return kind


async def plain(request: Request) -> bytes:
    """A body that must not be compressed."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise ApiError(415, f"content encoding {encoding[:50]!r}: this route takes none")
    return await request.body()


async def json_body(request: Request, model: type[M]) -> M:
    """A JSON body as `model`; ApiError 415 for another content type, 400 naming the first wrong field."""
    expect(request, ("application/json",))
    content = await plain(request)
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        raise invalid(list(error.errors(include_url=False, include_input=False)), body=True) from None


async def decompressed(body: bytes, encoding: str) -> bytes:
    """The body in the clear. ApiError: 413 beyond DECOMPRESSED_MAX, 415 unknown encoding, 400 not what it says."""
    function = {"snappy": snappy, "gzip": gunzip, "identity": _same}.get(encoding)
    if function is None:
        raise ApiError(415, f"content encoding {encoding[:50]!r}: use snappy, gzip or none")
    return function(body) if len(body) <= INLINE_MAX else await to_thread.run_sync(function, body, limiter=_THREADS)


def decompressed_max(body: bytes, encoding: str) -> int:
    """How many bytes a body may have in the clear, without decompressing it; ApiError like `decompressed`."""
    if encoding == "snappy":
        return _preamble(body)
    return min(DECOMPRESSED_MAX, len(body) * (_GZIP_RATIO_MAX if encoding == "gzip" else 1))


def snappy(body: bytes) -> bytes:
    """Raw snappy. Its first bytes say how long the result is, so that is checked before anything is allocated."""
    size = _preamble(body)
    try:
        return bytes(pa.Codec("snappy").decompress(body, decompressed_size=size, asbytes=True)) if size else b""
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ApiError(400, "the body is not snappy (block format)") from error


def gunzip(body: bytes) -> bytes:
    """Gzip of one or more members."""
    parts: list[bytes] = []
    left = DECOMPRESSED_MAX
    for _ in range(MEMBERS_MAX):
        if not body:
            break
        reader = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            # One byte more than fits: a body of exactly the limit passes, a larger one does not.
            part = reader.decompress(body, left + 1)
        except zlib.error as error:
            raise ApiError(400, f"the body is not gzip: {error}") from error
        if len(part) > left:
            raise _too_large()
        if not reader.eof:
            raise ApiError(400, "the body is gzip that ends too early")
        parts.append(part)
        left -= len(part)
        body = reader.unused_data.lstrip(b"\0")
    if body:
        raise ApiError(400, f"the body is gzip of more than {MEMBERS_MAX} members; send one")
    return b"".join(parts)


def _same(body: bytes) -> bytes:
    return body


def _preamble(body: bytes) -> int:
    """The length that a snappy block announces: a little-endian varint of 32 bits."""
    size = 0
    for place, byte in enumerate(body[:_VARINT_BYTES_MAX]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if size > DECOMPRESSED_MAX:
                raise _too_large()
            if size > len(body) * _RATIO_MAX:
                raise ApiError(400, "the body is not snappy (block format): it is too short for what it announces")
            return size
    raise ApiError(400, "the body is not snappy (block format)")


def _too_large() -> ApiError:
    return ApiError(413, f"the body has more than {DECOMPRESSED_MAX} bytes when decompressed")
