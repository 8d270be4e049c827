"""Draws pages: from the API's answers to what a browser is sent, once for the same answers."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, ApiFailure, Caller, Client
from gpuwatch.dashboards.components import formats
from gpuwatch.dashboards.shell import filters, states
from gpuwatch.dashboards.shell import frame as shell_frame
from gpuwatch.dashboards.shell.data_end import anchored
from gpuwatch.dashboards.shell.markup import Markup, markup
from gpuwatch.dashboards.shell.page import Page, find
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import Scheme

BYTES_MAX = 64 << 20
"""Bytes of all drawn pages that are kept."""
COMPONENT_BYTES = 10
"""Bytes that the components of a page hold for each byte of its JSON, about."""
_log = logging.getLogger("gpuwatch.dashboards")


@dataclass(frozen=True)
class View:
    """A drawn page."""

    content: Component
    failed: bool = False
    """It is a notice that the page could not be shown."""

    @cached_property
    def json(self) -> str:
        """The components as the browser takes them."""
        text = json.dumps(self.content, default=Component.to_plotly_json, separators=(",", ":"))
        if "NaN" not in text and "Infinity" not in text:
            return text
        return json.dumps(json.loads(text, parse_constant=lambda _: None), separators=(",", ":"))

    @cached_property
    def digest(self) -> str:
        """A fingerprint, so that a refresh without changes sends nothing."""
        return hashlib.sha256(self.json.encode()).hexdigest()

    @cached_property
    def markup(self) -> Markup:
        """The page as HTML."""
        return markup(self.content)

    @property
    def size(self) -> int:
        """Bytes of memory that it holds, about."""
        return COMPONENT_BYTES * len(self.json)


class Views:
    """The pages of one API. What was drawn is kept, by the address, the time zone and every answer of the API that it was drawn from.

    A page depends on nothing else, so whoever gets the same answers is shown the same page.
    """

    def __init__(self, client: Client, bytes_max: int = BYTES_MAX) -> None:
        self._client, self._bytes_max = client, bytes_max
        self._kept: OrderedDict[Hashable, View] = OrderedDict()
        self._lock = Lock()
        self.bytes = 0
        """Bytes of what is kept."""

    def of(self, caller: Caller) -> Api:
        """The API for a caller."""
        return self._client.of(caller)

    async def draw(self, caller: Caller, query: Query, scheme: Scheme) -> View:
        """A page, or a notice in its place. Never raises: a page that cannot be drawn shows an error."""
        api = self.of(caller)
        page = find(query.path)
        formats.use_zone(caller.zone)
        try:
            if page is None:
                raise ApiFailure(404, "not_found", f"No page has the address {query.path[:100]}.")
            await api.me()  # one failed request instead of ten: failed sign-ins are rate-limited
            query = await anchored(api, query)
            data = await page.load(api, query)
            key = (query.path, tuple(sorted(query.values.items())), scheme, caller.zone, frozenset(api.answers))
            return self._found(key) or self._keep(key, View(_content(page, data, query, scheme)))
        except ApiFailure as error:
            return View(states.failed(error, query), failed=True)
        except Exception:  # noqa: BLE001 - last resort: the traceback goes to the log, the reader sees an error notice
            _log.exception("page %s failed", query.path)
            words = "The page could not be drawn from the API's response. The server log has the details."
            return View(states.failed(ApiFailure(500, "internal", words), query), failed=True)

    async def first(self, caller: Caller, query: Query) -> str:
        """The whole page with its frame as HTML, for the time before the scripts have run; empty if it cannot be shown."""
        view = await self.draw(caller, query, "light")
        if view.failed:
            return ""
        query = await anchored(self.of(caller), query)
        page, choices = find(query.path), await filters.load(self.of(caller), query)
        return markup(shell_frame.first(page, query, choices, view.markup))

    def outline(self, query: Query) -> str:
        """The frame without a page, as HTML."""
        return markup(shell_frame.first(find(query.path), query, filters.Choices(), markup(states.skeleton())))

    def _found(self, key: Hashable) -> View | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def _keep(self, key: Hashable, view: View) -> View:
        size = view.size
        if size <= self._bytes_max // 4:
            with self._lock:
                if key not in self._kept:
                    self._kept[key] = view
                    self.bytes += size
                while self.bytes > self._bytes_max:
                    self.bytes -= self._kept.popitem(last=False)[1].size
        return view


def _content(page: Page, data: object, query: Query, scheme: Scheme) -> Component:
    content = page.layout(data, query, scheme)
    above = shell_frame.crumbs(page, query)
    return content if above is None else html.Div([above, content])
