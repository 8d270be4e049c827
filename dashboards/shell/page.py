"""Registers pages. Each is one file: a function that loads data from the API and one that lays it out."""

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
    """A page."""

    path: str
    """`/findings`; a path that ends in `/*` matches everything below."""
    title: str
    load: Load
    layout: Layout
    icon: str = ""
    """Name of a file in assets/icons; pages without one are not in the navigation."""
    order: int = 0
    filters: tuple[str, ...] = FILTERS
    """The filters this page uses."""
    under: str = ""
    """Path of the parent page in the navigation."""
    load_once: bool = False
    """Never refreshed automatically, because its data is expensive and does not change."""
    whole_fleet: bool = False
    """Covers the whole fleet, so that people who see some teams only are refused; they find it in no list of pages."""


_pages: dict[str, Page] = {}


def page(
    path: str,
    title: str,
    load: Load,
    icon: str = "",
    order: int = 0,
    filters: tuple[str, ...] = FILTERS,
    under: str = "",
    load_once: bool = False,
    whole_fleet: bool = False,
) -> Callable[[Layout], Layout]:
    """Registers a layout function as a page."""

    def register(layout: Layout) -> Layout:
        if path in _pages:
            raise ValueError(f"page {path!r} is registered twice: {_pages[path].layout} and {layout}")
        _pages[path] = Page(path, title, load, layout, icon, order, filters, under, load_once, whole_fleet)
        return layout

    return register


def pages() -> list[Page]:
    """All pages in the order of the navigation."""
    _import_all()
    return sorted(_pages.values(), key=lambda page: (page.order, page.path))


@cache
def _import_all() -> None:
    """Imports all page modules, those in folders too, once per process."""
    root = importlib.import_module("gpuwatch.dashboards.pages")
    for module in pkgutil.walk_packages(root.__path__, prefix="gpuwatch.dashboards.pages."):
        importlib.import_module(module.name)


def find(path: str) -> Page | None:
    """The page for a path."""
    known = {page.path: page for page in pages()}
    return known.get(path) or next(
        (page for pattern, page in known.items() if pattern.endswith("/*") and path.startswith(pattern[:-1])), None
    )
