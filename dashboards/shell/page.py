"""Pages: a decorator and a file. Each loads through the API and lays out what it got, without a browser."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import Scheme

Load = Callable[[Api, Query], Awaitable[Any]]
Layout = Callable[[Any, Query, Scheme], Component]

FILTERS = ("window", "cluster", "pool", "team")


@dataclass(frozen=True)
class Page:
    """A page of the navigation, or one below it."""

    path: str
    """`/findings`; one that ends in `/*` takes everything below."""
    title: str
    load: Load
    layout: Layout
    icon: str = ""
    """Name of a file in assets/icons; empty for pages that are not in the navigation."""
    order: int = 0
    filters: tuple[str, ...] = FILTERS
    """Which filters this page obeys."""
    under: str = ""
    """Path of the page whose entry of the navigation this one belongs to."""
    asked_once: bool = False
    """Its answer is dear and about the past: it is not loaded again by itself."""


_pages: dict[str, Page] = {}


def page(
    path: str,
    title: str,
    load: Load,
    icon: str = "",
    order: int = 0,
    filters: tuple[str, ...] = FILTERS,
    under: str = "",
    asked_once: bool = False,
) -> Callable[[Layout], Layout]:
    """Registers a layout function as a page."""

    def register(layout: Layout) -> Layout:
        if path in _pages:
            raise ValueError(f"page {path!r} is registered twice: {_pages[path].layout} and {layout}")
        _pages[path] = Page(path, title, load, layout, icon, order, filters, under, asked_once)
        return layout

    return register


def pages() -> list[Page]:
    """All pages in the order of the navigation."""
    _import_all()
    return sorted(_pages.values(), key=lambda page: (page.order, page.path))


@cache
def _import_all() -> None:
    """The modules are looked for once, not with every answer."""
    root = importlib.import_module("gpuwatch.dashboards.pages")
    for module in pkgutil.iter_modules(root.__path__, prefix="gpuwatch.dashboards.pages."):
        importlib.import_module(module.name)


def find(path: str) -> Page | None:
    """The page that answers to a path."""
    known = {page.path: page for page in pages()}
    return known.get(path) or next(
        (page for pattern, page in known.items() if pattern.endswith("/*") and path.startswith(pattern[:-1])), None
    )
