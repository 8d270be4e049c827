"""An ETag for every answer to a GET of the API, and 304 for who has it already; If-Match for lists that are replaced whole."""

from __future__ import annotations

from hashlib import blake2b
from typing import IO, Annotated

from fastapi import Depends, Header, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpuwatch.api.errors import OPENCOST

ROOTS = ("/api/", *OPENCOST)
"""How the paths begin whose answers have a tag."""
PIECE_BYTES = 1 << 20
_DROPPED = (b"content-length", b"content-type")


IF_MATCH_HELP = "The ETag of the list as it was read, or its `version`: 412 if it was changed since."


def versioned(body: bytes, version: object) -> str:
    """The tag of an answer that has a version of a list: the version comes first, for If-Match."""
    return f'"{version}-{_digest(body)}"'


async def _expected(
    if_match: Annotated[str | None, Header(max_length=1000, description=IF_MATCH_HELP)] = None,
) -> frozenset[str] | None:
    """The versions that a request may replace; None for any."""
    if if_match is None or if_match.strip() == "*":
        return None
    tags = (part.strip().removeprefix("W/").strip('"') for part in if_match.split(","))
    return frozenset(tag.partition("-")[0] for tag in tags)


Expected = Annotated[frozenset[str] | None, Depends(_expected)]


class Tagged:
    """ASGI. The tag is a digest of the body. An answer in several parts has one only where its route gives it: see `of_file`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith(ROOTS):
            await self._app(scope, receive, send)
            return
        known = Headers(scope=scope).get("if-none-match", "")
        begun: Message | None = None

        async def tagged(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start" and message["status"] == 200:
                begun = message
                return
            if begun is not None and message["type"] == "http.response.body":
                start, begun = begun, None
                if not message.get("more_body", False):
                    start, message = _answered(start, message, known)
                await send(start)
            await send(message)

        await self._app(scope, receive, tagged)


def _answered(start: Message, body: Message, known: str) -> tuple[Message, Message]:
    """The answer with its tag, or 304 without a body if the client has it."""
    own = next((value.decode() for name, value in start["headers"] if name.lower() == b"etag"), None)
    tag = own or f'"{_digest(body.get("body", b""))}"'
    headers = [*start["headers"]] if own else [*start["headers"], (b"etag", tag.encode())]
    if not _matches(known, tag):
        return {**start, "headers": headers}, body
    left = [pair for pair in headers if pair[0].lower() not in _DROPPED]
    return {**start, "status": 304, "headers": left}, {**body, "body": b""}


def of_file(file: IO[bytes]) -> str:
    """The tag of a file's content; the file is at its beginning before and afterwards."""
    digest = blake2b(digest_size=16)
    while piece := file.read(PIECE_BYTES):
        digest.update(piece)
    file.seek(0)
    return f'"{digest.hexdigest()}"'


def has(request: Request, tag: str) -> bool:
    """Whether the client has the answer with this tag."""
    return _matches(request.headers.get("if-none-match", ""), tag)


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=16).hexdigest()


def _matches(known: str, tag: str) -> bool:
    """Whether an If-None-Match header has the tag; tags are compared weakly, as GET may."""
    return known.strip() == "*" or tag in (part.strip().removeprefix("W/") for part in known.split(","))
