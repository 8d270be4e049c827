"""Handles every response under /ui/: origin check, one document for all pages, security headers, compression."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from typing import Any
from urllib.parse import urlsplit

from dash import Dash
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpuwatch.dashboards.shell.callback_types import fault
from gpuwatch.dashboards.shell.direct import PLACE, first_view, preloads, shown, shows
from gpuwatch.dashboards.shell.query import ROOT
from gpuwatch.dashboards.shell.views import Views

SUITES = f"{ROOT}/_dash-component-suites/"
ASSETS = f"{ROOT}/assets/"
CHARTS = f"{ASSETS}plotly/"
"""The library of the charts."""
UPDATE = f"{ROOT}/_dash-update-component"
STATIC = (f"{ROOT}/_dash-layout", f"{ROOT}/_dash-dependencies")
"""The frame and the list of callbacks: as long as the process runs, they are the same."""
OWN = (f"{ROOT}/_", ASSETS, f"{ROOT}/login", f"{ROOT}/logout")
"""Paths that are not pages."""

METHODS = ("GET", "HEAD", "POST")
MAX_BODY = 1 << 20
"""Largest callback request, in bytes."""

MAX_CACHED = 64
"""Compressed script bundles kept in memory; there are about thirty."""

SMALL = 1024
COMPRESSED = ("javascript", "text/", "json", "svg")
YEAR = "public, max-age=31536000, immutable"

_log = logging.getLogger("gpuwatch.dashboards")


def policy(dash: Dash) -> str:
    """The content security policy: this site only, scripts by hash, inline styles because Mantine needs them."""
    scripts = " ".join(["'self'", *dash.csp_hashes()])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'; "
        "form-action 'self'"
    )


class Guarded:
    """ASGI wrapper of the pages. Responses are small, so each is buffered; compressed bundles are cached."""

    def __init__(self, app: ASGIApp, csp: str, views: Views) -> None:
        self._app, self._csp, self._views = app, csp, views
        self._bundles: dict[str, tuple[list[tuple[bytes, bytes]], bytes]] = {}
        self._document: tuple[Message, bytes] | None = None
        """The document of all pages, without a page."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        refused = refusal(method, headers)
        if refused:
            await refused(scope, receive, send)
            return
        if method != "POST" and not path.startswith(OWN):
            await self._page(scope, receive, send, "gzip" in headers.get("accept-encoding", ""))
            return
        if method == "POST" and path == UPDATE:
            body = await read_body(receive)
            if (wrong := fault(body)) is not None:
                _log.warning("%s: %s", path, wrong)
                await PlainTextResponse(wrong, 400)(scope, receive, send)
                return
            if shows(asked := json.loads(body)):
                await self._show(scope, send, asked, "gzip" in headers.get("accept-encoding", ""))
                return
            receive = replayed(body)
        inner = {**scope, "method": method if method == "POST" else "GET"}
        start, body = await self._answer(path, inner, receive, "gzip" in headers.get("accept-encoding", ""))
        out = MutableHeaders(raw=list(start["headers"]))
        self._set_headers(out, path, scope.get("query_string", b""))
        if start["status"] == 200 and "etag" in out and headers.get("if-none-match") == out["etag"]:
            start, body = {**start, "status": 304}, b""
            del out["content-length"]  # a 304 has no body
        else:
            out["content-length"] = str(len(body))
        await send({**start, "headers": out.raw})
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})

    async def _page(self, scope: Scope, receive: Receive, send: Send, compress: bool) -> None:
        """The document, in which the page is already drawn. The scripts are named before, so that nothing waits for another."""
        if self._document is None:
            # Every page is served by the same document; its script reads the URL.
            inner = {**scope, "method": "GET", "path": f"{ROOT}/", "raw_path": f"{ROOT}/".encode()}
            start, body = await buffered(self._app, inner, receive)
            if start["status"] == 200:
                self._document = start, body
        else:
            start, body = self._document
        out = MutableHeaders(raw=list(start["headers"]))
        del out["content-length"]
        self._set_headers(out, scope["path"], b"")
        out["link"] = preloads(body)
        if compress:
            out["content-encoding"], out["vary"] = "gzip", "Accept-Encoding"
        await send({**start, "headers": out.raw})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        body = body.replace(PLACE, await first_view(self._views, scope), 1)
        if compress:
            body = await asyncio.to_thread(gzip.compress, body, 2)
        await send({"type": "http.response.body", "body": body})

    async def _show(self, scope: Scope, send: Send, asked: dict[str, Any], compress: bool) -> None:
        body = await shown(self._views, scope, asked)
        start: Message = {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", b"application/json")],
        }
        if compress:
            body = await self._compressed(UPDATE, start, body)
        out = MutableHeaders(raw=list(start["headers"]))
        self._set_headers(out, UPDATE, b"")
        out["content-length"] = str(len(body))
        await send({**start, "headers": out.raw})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, path: str, scope: Scope, receive: Receive, compress: bool) -> tuple[Message, bytes]:
        """The buffered response; compressed bundles come from the cache."""
        if compress and path in self._bundles:
            raw, body = self._bundles[path]
            return {"type": "http.response.start", "status": 200, "headers": raw}, body
        start, body = await buffered(self._app, scope, receive)
        if start["status"] >= 500 and (path == UPDATE or path.startswith(SUITES)):
            # Dash raises for an unknown bundle and for a malformed callback request. Errors inside a callback
            # are handled by the callback.
            start, body = {**start, "status": 400 if path == UPDATE else 404, "headers": []}, b"not found"
        if compress:
            body = await self._compressed(path, start, body)
        return start, body

    async def _compressed(self, path: str, start: Message, body: bytes) -> bytes:
        """Compresses the body if worthwhile; bundles are cached."""
        out = MutableHeaders(raw=list(start["headers"]))
        kind = out.get("content-type", "")
        if start["status"] != 200 or len(body) < SMALL or not any(part in kind for part in COMPRESSED):
            return body
        bundle = path.startswith((SUITES, CHARTS, *STATIC))
        body = await asyncio.to_thread(gzip.compress, body, 6 if bundle else 2)
        out["content-encoding"] = "gzip"
        out["vary"] = "Accept-Encoding"
        start["headers"] = out.raw
        if bundle and len(self._bundles) < MAX_CACHED:
            self._bundles[path] = (out.raw, body)
        return body

    def _set_headers(self, out: MutableHeaders, path: str, query: bytes) -> None:
        """Sets the security and cache headers."""
        out["content-security-policy"] = self._csp
        out["x-content-type-options"] = "nosniff"
        out["x-frame-options"] = "DENY"
        out["referrer-policy"] = "same-origin"
        out["cross-origin-opener-policy"] = "same-origin"
        if path.startswith(ASSETS) and query.startswith(b"m="):
            out["cache-control"] = YEAR
        elif path.startswith(SUITES):
            # Dash lets browsers cache a bundle with a version in its name for a year; others are revalidated.
            if "etag" in out and not out["etag"].startswith('"'):
                out["etag"] = f'"{out["etag"]}"'
            out.setdefault("cache-control", "no-cache")
        else:
            out["cache-control"] = "no-cache" if path.startswith(ASSETS) else "no-store"


def refusal(method: str, headers: Headers) -> PlainTextResponse | None:
    """The error for an unsupported method or a form of another site; None if the request is fine."""
    if method not in METHODS:
        return PlainTextResponse("method not allowed", 405)
    if method == "POST" and not same_origin(headers):
        return PlainTextResponse("the request comes from another site", 403)
    return None


async def read_body(receive: Receive) -> bytes:
    """The body of a request, cut off above MAX_BODY: it is no JSON then."""
    body = bytearray()
    while len(body) <= MAX_BODY:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            break
    return bytes(body[:MAX_BODY])


def replayed(body: bytes) -> Receive:
    """A `receive` that gives a body that was read before."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def buffered(app: ASGIApp, scope: Scope, receive: Receive) -> tuple[Message, bytes]:
    """The buffered response of an app. A request body above MAX_BODY is cut off, so that reading it fails."""
    start: Message = {"type": "http.response.start", "status": 500, "headers": []}
    body, received = bytearray(), 0

    async def bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        return message if received <= MAX_BODY else {"type": "http.disconnect"}

    async def keep(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        elif message["type"] == "http.response.body":
            body.extend(message.get("body", b""))

    await app(scope, bounded, keep)
    return start, bytes(body)


def same_origin(headers: Headers) -> bool:
    """Whether the browser's origin headers, if sent, name our own host."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
