"""An ETag for every JSON answer of the API, and 304 for who has it already."""

from __future__ import annotations

from hashlib import blake2b

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

JSON = b"application/json"
_DROPPED = (b"content-length", b"content-type")


class Tagged:
    """ASGI. The tag is a digest of the body; answers that are sent in several parts, such as files, get none."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"].startswith("/ui/"):
            await self._app(scope, receive, send)
            return
        known = Headers(scope=scope).get("if-none-match", "")
        begun: Message | None = None

        async def tagged(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start" and _taggable(message):
                begun = message
                return
            if begun is not None and message["type"] == "http.response.body":
                start, begun = begun, None
                if not message.get("more_body", False):
                    start, message = _answered(start, message, known)
                await send(start)
            await send(message)

        await self._app(scope, receive, tagged)


def _taggable(start: Message) -> bool:
    names = {name.lower(): value for name, value in start["headers"]}
    return start["status"] == 200 and b"etag" not in names and names.get(b"content-type", b"").startswith(JSON)


def _answered(start: Message, body: Message, known: str) -> tuple[Message, Message]:
    """The answer with its tag, or 304 without a body if the client has it."""
    tag = f'"{blake2b(body.get("body", b""), digest_size=16).hexdigest()}"'
    headers = [*start["headers"], (b"etag", tag.encode())]
    if not _matches(known, tag):
        return {**start, "headers": headers}, body
    left = [pair for pair in headers if pair[0].lower() not in _DROPPED]
    return {**start, "status": 304, "headers": left}, {**body, "body": b""}


def _matches(known: str, tag: str) -> bool:
    """Whether an If-None-Match header has the tag; tags are compared weakly, as GET may."""
    return known.strip() == "*" or tag in (part.strip().removeprefix("W/") for part in known.split(","))
