"""What every answer gets: security headers, a body-less HEAD, and an error in our shape when something breaks."""

from __future__ import annotations

import logging
from collections.abc import Callable

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpuwatch.api.errors import encoded
from gpuwatch.core.clock import rfc3339
from gpuwatch.service.answering import ANSWER, Answered

AS_OF = b"gpuwatch-as-of"
"""Of an answer from a copy of a lake: everything that was published until then is in it."""
ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
API_POLICY = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'"
PAGE_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    b"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
PAGES, ELSEWHERE = "/ui", "other"
"""Routes of the metrics for what the API's own routes do not serve."""

Served = Callable[[str, str, int], None]
"""Called with the route, the method and the status of each response."""

_log = logging.getLogger("gpuwatch.api")


class Envelope:
    """ASGI, outermost. What an inner application has set itself is left as it is."""

    def __init__(self, app: ASGIApp, served: Served) -> None:
        self._app, self._served = app, served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        head = scope["method"] == "HEAD"
        answer = Answered()
        ANSWER.set(answer)
        started = False
        method, status = scope["method"], 0
        if head and not path.startswith("/ui/"):
            scope = {**scope, "method": "GET"}

        async def dressed(message: Message) -> None:
            nonlocal started, status
            if message["type"] == "http.response.start":
                started, status = True, message["status"]
                present = {name.lower() for name, _ in message["headers"]}
                added = [pair for pair in _added(path) if pair[0] not in present]
                if answer.as_of_us is not None:
                    added.append((AS_OF, rfc3339(answer.as_of_us).encode()))
                message = {**message, "headers": [*message["headers"], *added]}
            elif head and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        try:
            await self._app(scope, receive, dressed)
        except ClientDisconnect:
            return
        except Exception:  # noqa: BLE001 - the last place: the log gets the traceback, the client a sentence
            _log.exception("%s %s failed", scope["method"], path)
            if not started:
                body, headers = encoded(500, "the request could not be answered")
                await dressed({"type": "http.response.start", "status": 500, "headers": headers})
                await dressed({"type": "http.response.body", "body": body})
        finally:
            if status:
                self._served(_route(scope), method, status)


def _route(scope: Scope) -> str:
    """The template of the route that answered: labels are as many as there are routes, whatever is asked."""
    if scope["path"].startswith(f"{PAGES}/"):
        return PAGES
    found = getattr(scope.get("route"), "path", None)
    return found if isinstance(found, str) else ELSEWHERE


def _added(path: str) -> list[tuple[bytes, bytes]]:
    if path.startswith("/ui/"):  # its pages and scripts set a policy themselves
        return [*ALWAYS, (b"content-security-policy", API_POLICY)]
    policy = PAGE_POLICY if path.startswith("/docs") else API_POLICY
    return [*ALWAYS, (b"content-security-policy", policy), (b"cache-control", b"no-store")]
