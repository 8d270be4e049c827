"""Addresses without /ui: a browser that opens /findings is sent to /ui/findings. Programs get the API's 404."""

from __future__ import annotations

from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import Scope

from gpuwatch.dashboards.shell.page import find
from gpuwatch.dashboards.shell.query import ROOT


class ShortAddresses(Route):
    """Matches a browser's request for the address of a page; the last of the routes, so that it hides no other one."""

    def __init__(self) -> None:
        super().__init__("/{path:path}", _sent_on, include_in_schema=False)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Only a GET or HEAD that accepts HTML, of a page that exists."""
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            return Match.NONE, {}
        if "text/html" not in Headers(scope=scope).get("accept", ""):
            return Match.NONE, {}
        path = scope["path"].rstrip("/")
        return super().matches(scope) if path and find(path) is not None else (Match.NONE, {})


async def _sent_on(request: Request) -> Response:
    query = request.url.query
    target = ROOT + quote(request.url.path, safe="/%")
    return RedirectResponse(f"{target}?{query}" if query else target, 307)
