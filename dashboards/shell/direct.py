"""What a browser that opens a page is sent: the document that already shows it, and the answer of the callback that shows it."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from starlette.requests import Request
from starlette.types import Scope

from gpuwatch.dashboards.browser_headers import zone_of
from gpuwatch.dashboards.client import COOKIE, Caller, passed_on
from gpuwatch.dashboards.shell.page import find
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.views import Views

SHOW = "..page.children...digest.data...message.children...title.data.."
"""The outputs of the callback that shows a page. Its answers are written here, because Dash takes longer than all the rest."""
PLACE = b"<!--first-->"
"""Where the document shows the page before its scripts have run."""
FIRST_S = 2.0
"""Seconds that the document waits for its page at most."""
OWN_SITE = ("same-origin", "none")
_drawing: set[asyncio.Task[str]] = set()
"""Pages that are being drawn: the event loop itself does not hold them."""
_SCRIPT = re.compile(rb'<script src="([^"]+)"')


def preloads(document: bytes) -> str:
    """A Link header with the scripts of the document: the browser loads them while the page is drawn."""
    found = [source.decode() for source in _SCRIPT.findall(document)]
    return ", ".join(f"<{source}>; rel=preload; as=script" for source in found)


async def first_view(views: Views, scope: Scope) -> bytes:
    """The page as HTML, or its outline if it takes too long; empty if the browser may not see it, or comes from another site."""
    request = Request(scope)
    if request.headers.get("sec-fetch-site", "none") not in OWN_SITE:
        return b""  # another site must not start queries, and the browser sends it no cookie anyhow
    query = Query.parse(request.url.path, f"?{request.url.query}")
    drawing = asyncio.create_task(views.first(caller_of(request), query))
    _drawing.add(drawing)
    drawing.add_done_callback(_drawing.discard)
    # Not cancelled: the callback that shows the page waits for the same answers.
    done, _ = await asyncio.wait({drawing}, timeout=FIRST_S)
    shown = drawing.result() if done else views.outline(query)
    return f'<div id="first">{shown}</div>'.encode("utf-8", "replace") if shown else b""


async def shown(views: Views, scope: Scope, asked: dict[str, Any]) -> bytes:
    """The answer to the callback that shows a page."""
    given = {f"{one['id']}.{one['property']}": one.get("value") for one in asked["inputs"]}
    query = Query.parse(given.get("url.pathname"), given.get("url.search"))
    page = find(query.path)
    view = await views.draw(caller_of(Request(scope)), query, "dark" if given.get("ground.data") == "dark" else "light")
    title = json.dumps(title_of(page.title if page else None))
    return (
        f'{{"multi":true,"response":{{"page":{{"children":{view.json}}},"digest":{{"data":"{view.digest}"}},'
        f'"message":{{"children":""}},"title":{{"data":{title}}}}}}}'
    ).encode("utf-8", "replace")


def shows(asked: object) -> bool:
    """Whether a callback request is the one that shows a page."""
    if not isinstance(asked, dict) or asked.get("output") != SHOW:
        return False
    inputs = asked.get("inputs")
    return isinstance(inputs, list) and all(
        isinstance(one, dict) and {"id", "property"} <= one.keys() for one in inputs
    )


def title_of(page: str | None) -> str:
    """The title of the browser's tab."""
    return f"{page} · gpuwatch" if page else "gpuwatch"


def caller_of(request: Request) -> Caller:
    """The browser that sent a request."""
    address = (request.client.host, request.client.port) if request.client else ("", 0)
    return Caller(None, request.cookies.get(COOKIE), address, passed_on(request.headers), zone_of(request.cookies))
