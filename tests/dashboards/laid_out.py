"""Pages laid out without a browser, and what tests read of a layout."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

from dash.development.base_component import Component
from fastapi import FastAPI, HTTPException

from gpuwatch.dashboards.client import Api, Caller, Client, Row
from gpuwatch.dashboards.shell import page as registry
from gpuwatch.dashboards.shell.query import Query
from tests.dashboards import fake_api

MAX_SENT = 1_000_000
OWN_LINKS = ("/ui", "/api/v1/")


def api(mode: str = "ok") -> Api:
    """The fake API as a local caller sees it. `mode`: ok, empty, 403 or 500."""
    return Client(fake_api.create(mode)).of(Caller())


def answering(answers: Mapping[str, Row]) -> Api:
    """An API with these answers only, by path below /api/v1/; any other path is 404. For routes that the fake API lacks."""
    app = FastAPI(openapi_url=None)

    @app.get("/api/v1/{path:path}")
    def get(path: str) -> Row:
        if path not in answers:
            raise HTTPException(404)
        return answers[path]

    return Client(app).of(Caller())


def shown(path: str, mode: str = "ok", *, source: Api | None = None) -> Component:
    """The layout of a page by its address below /ui, with data of the fake API or of `source`."""
    query = asked(path)
    page = registry.find(query.path)
    assert page is not None
    return page.layout(asyncio.run(page.load(source or api(mode), query)), query, "light")


def asked(path: str) -> Query:
    """The query of an address below /ui."""
    before, mark, search = path.partition("?")
    return Query.parse(f"/ui{before}", mark + search)


def text(node: Any) -> str:
    """All text of a layout, in reading order."""
    return " ".join(_texts(node))


def _texts(node: Any) -> Iterator[str]:
    """Text of a node and of its children."""
    if isinstance(node, Component):
        yield from _texts(getattr(node, "children", None))
    elif isinstance(node, list | tuple):
        for child in node:
            yield from _texts(child)
    elif node is not None:
        yield str(node)


def links(node: Any) -> list[str]:
    """All addresses a layout leads to."""
    found = [node.href] if hasattr(node, "href") else []
    children = getattr(node, "children", None) if isinstance(node, Component) else node
    for child in children if isinstance(children, list | tuple) else [children]:
        if isinstance(child, Component | list | tuple):
            found += links(child)
    return found


def check_layout(layout: Component) -> None:
    """What every page keeps: it can be sent, has no None as a word, no markup from data, and leads to our own pages only."""
    sent = json.dumps(layout, default=Component.to_plotly_json)

    assert len(sent) < MAX_SENT
    assert "None" not in text(layout).replace("None of", "")
    assert [] == [word for word in ("Markdown", "dangerously") if word in sent]
    assert [] == [href for href in links(layout) if not href.startswith(OWN_LINKS)]
