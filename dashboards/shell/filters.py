"""The row of filters: window, cluster, pool, team. Their values live in the URL."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import Any

import dash_mantine_components as dmc  # type: ignore[import-untyped]
from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api
from gpuwatch.dashboards.components import formats, ledger_math, parts
from gpuwatch.dashboards.shell.query import DEFAULT_WINDOW, WINDOWS, Query

MAX_OPTIONS = 1000
DAY = timedelta(days=1)
FIRST, LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)
"""Between these a window may lie."""
LABELS = {"window": "Window", "cluster": "Cluster", "pool": "Pool", "team": "Team", "detector": "Rule"}
PLATFORM = "__platform__"
"""Owns what nobody holds. Tokens limited to teams do not see it."""
SEARCH_MS = 400
"""A search starts after this pause in typing."""


@dataclass(frozen=True)
class Choices:
    """The options of the filters."""

    clusters: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    me: dict[str, Any] = field(default_factory=dict)
    open_findings: int | None = None
    """For the badge in the navigation; None: unknown."""

    @property
    def bound(self) -> bool:
        """Whether the caller sees some teams only."""
        return self.me.get("teams") is not None


async def load(api: Api, query: Query) -> Choices:
    """The names in use. A filter stays empty if its names cannot be loaded; the page shows the error."""
    me = await ledger_math.optional(api.me())
    if me is None:
        return Choices()
    fleet, held, inbox = await asyncio.gather(
        ledger_math.optional(api.fleet()),
        ledger_math.optional(api.get("holders", window=query.window)),
        ledger_math.optional(api.inbox(pool=query.get("pool"), **query.scope)),
    )
    rows = (fleet or {}).get("items") or []
    return Choices(
        names(row.get("cluster") for row in rows),
        names(row.get("pool") for row in rows if query.get("cluster") in ("", row.get("cluster"))),
        names([row.get("team") for row in (held or {}).get("items") or []] + ([] if me.get("teams") else [PLATFORM])),
        me,
        ((inbox or {}).get("states") or {}).get("open"),
    )


def names(found: Any) -> tuple[str, ...]:
    """Distinct names, sorted, at most MAX_OPTIONS."""
    return tuple(sorted({str(name) for name in found if name not in (None, "")}))[:MAX_OPTIONS]


def layout(choices: Choices, query: Query, used: tuple[str, ...]) -> list[Component]:
    """A control for each filter the page uses; the others stay in the URL."""
    offered = {"cluster": choices.clusters, "pool": choices.pools, "team": choices.teams}
    controls = {
        name: select(name, [(entry, formats.owner(entry)) for entry in offered[name]], query) for name in offered
    }
    controls |= {"window": window(query), "q": search(query)}
    return [controls[name] for name in used if name in controls]


def outline(query: Query, used: tuple[str, ...]) -> list[Component]:
    """The places of the controls with what is chosen, as long as the controls themselves are not there."""
    chosen = {name: formats.owner(query.get(name)) if query.get(name) else f"All {name}s" for name in LABELS}
    named = query.window_label(query.window_name) if query.window_name in WINDOWS else custom(query.window)
    chosen |= {"window": named, "q": query.get("q") or "Search"}
    boxes = {
        name: html.Div(html.Div(formats.clip(word, 60), className="chosen-filter"), className="filter")
        for name, word in chosen.items()
    }
    dates = html.Div(html.Div("Dates", className="chosen-filter"), className="days")
    boxes["window"] = html.Div([boxes["window"], dates], className="filter window")
    return [boxes[name] for name in used if name in boxes]


def window(query: Query) -> Component:
    """The named windows, plus a custom one from the URL."""
    options = [(name, query.window_label(name)) for name in WINDOWS]
    if query.window_name not in WINDOWS:
        options.append((query.window_name, custom(query.window_name)))
    return html.Div([select("window", options, query, clearable=False), calendar(query)], className="filter window")


def calendar(query: Query) -> Component:
    """The first and the last day of a window. Days are those of UTC, as in the ledger."""
    chosen: Sequence[str | None] = days_of(query.window_name) or (None, None)
    return html.Div(
        dmc.DatePickerInput(
            id={"filter": "days"},
            type="range",
            value=list(chosen),
            valueFormat="D MMM",
            placeholder="Dates",
            size="xs",
            numberOfColumns=1,
            allowSingleDateInRange=True,
            popoverProps={"transitionProps": {"duration": 0}},
            leftSection=html.Span(className="icon i-calendar"),
            leftSectionPointerEvents="none",
            **parts.aria("First and last day (UTC)"),
        ),
        className="days",
        title="First and last day (UTC)",
    )


def days_of(window: str) -> list[str] | None:
    """First and last day of a window of whole UTC days; None for any other."""
    start, _, end = window.partition(",")
    first, last = _midnight(start), _midnight(end)
    return None if first is None or last is None else [f"{first:%Y-%m-%d}", f"{last - DAY:%Y-%m-%d}"]


def window_of_days(days: Sequence[str | None]) -> str | None:
    """The window from the first day to the end of the last; None while one of them is missing."""
    found = [at for day in days if day and (at := _midnight(day[:10])) is not None]
    if len(found) != 2:
        return None
    return f"{min(found):%Y-%m-%d},{max(found) + DAY:%Y-%m-%d}"


def _midnight(text: str) -> datetime | None:
    """The midnight of UTC that a text names: a date, or a time at midnight."""
    at = formats.moment(text)
    found = None if at is None else at.astimezone(UTC)
    return found if found is not None and found.time() == time() and FIRST < found < LAST else None


def search(query: Query) -> Component:
    """The search field."""
    return html.Div(
        dmc.TextInput(
            id={"filter": "q"},
            value=query.get("q"),
            placeholder="Search",
            debounce=SEARCH_MS,
            size="xs",
            **parts.aria("Search"),
        ),
        className="filter",
    )


def custom(text: str) -> str:
    """A custom window in words."""
    start, _, end = text.partition(",")
    return formats.span(start, end) if formats.moment(start) and formats.moment(end) else formats.clip(text, 40)


def select(name: str, options: list[tuple[str, str]], query: Query, clearable: bool = True) -> Component:
    """A searchable select; the URL's value is always one of its options."""
    value = query.window_name if name == "window" else query.get(name)
    if value and value not in {entry for entry, _ in options}:
        options = [*options, (value, value)]
    return html.Div(
        dmc.Select(
            id={"filter": name},
            data=[{"value": entry, "label": formats.clip(word, 60)} for entry, word in options],
            value=value or None,
            placeholder=f"All {LABELS[name].lower()}s",
            searchable=clearable,
            clearable=clearable,
            allowDeselect=clearable,
            size="xs",
            nothingFoundMessage="No match",
            comboboxProps={"transitionProps": {"duration": 0}},
            **parts.aria(LABELS[name]),
        ),
        className="filter",
    )


def changed(query: Query, values: dict[str, str | list[str | None] | None]) -> str | None:
    """The URL's new query string for these values; None if nothing changed."""
    days = values.pop("days", None)
    wanted = {name: value or None for name, value in values.items() if isinstance(value, str | None)}
    if isinstance(days, list) and days != days_of(query.window_name) and (dates := window_of_days(days)) is not None:
        wanted["window"] = dates
    if wanted.get("window") == DEFAULT_WINDOW and not query.get("window"):
        wanted["window"] = None
    if all((query.get(name) or None) == value for name, value in wanted.items()):
        return None
    href = query.link(**{**wanted, "cursor": None, "page": None})
    _, mark, search = href.partition("?")
    return f"{mark}{search}"
