"""The row of filters that stays: window, cluster, pool, team. Their values live in the URL."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import dash_mantine_components as dmc  # type: ignore[import-untyped]
from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api
from gpuwatch.dashboards.components import ledger_math, parts
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.shell.query import DEFAULT_WINDOW, WINDOWS, Query

MAX_OPTIONS = 1000
LABELS = {"window": "Window", "cluster": "Cluster", "pool": "Pool", "team": "Team", "detector": "Rule"}
SEARCH_MS = 400
"""A search starts when nobody has typed for that long."""


@dataclass(frozen=True)
class Choices:
    """What the filters offer."""

    clusters: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    me: dict[str, Any] = field(default_factory=dict)


async def load(api: Api, query: Query) -> Choices:
    """Names in use. A filter whose names cannot be had stays empty: the page says what is wrong."""
    me = await ledger_math.optional(api.me())
    if me is None:
        return Choices()
    # The ledger knows who held GPUs without working out what policies make of it.
    fleet, held = await asyncio.gather(
        ledger_math.optional(api.fleet()), ledger_math.optional(api.ledger(query.window, "team"))
    )
    rows = (fleet or {}).get("items") or []
    return Choices(
        names(row.get("cluster") for row in rows),
        names(row.get("pool") for row in rows if query.get("cluster") in ("", row.get("cluster"))),
        names(row.get("team") for row in (held or {}).get("items") or []),
        me,
    )


def names(found: Any) -> tuple[str, ...]:
    """Distinct names in order, bounded."""
    return tuple(sorted({str(name) for name in found if name not in (None, "")}))[:MAX_OPTIONS]


def layout(choices: Choices, query: Query, obeyed: tuple[str, ...]) -> list[Component]:
    """A control for each filter that the page obeys; the others stay in the address."""
    offered = {"cluster": choices.clusters, "pool": choices.pools, "team": choices.teams}
    made = {
        name: select(name, [(entry, components_text.owner(entry)) for entry in offered[name]], query)
        for name in offered
    }
    made |= {"window": window(query), "q": search(query)}
    return [made[name] for name in obeyed if name in made]


def window(query: Query) -> Component:
    """Named windows, and the URL's own where it is another."""
    options = list(WINDOWS.items())
    if query.window not in WINDOWS:
        options.append((query.window, custom(query.window)))
    return select("window", options, query, clearable=False)


def search(query: Query) -> Component:
    """Words to look for."""
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
    """A window given by its ends, in words."""
    start, _, end = text.partition(",")
    return (
        components_text.span(start, end)
        if components_text.moment(start) and components_text.moment(end)
        else components_text.clip(text, 40)
    )


def select(name: str, options: list[tuple[str, str]], query: Query, clearable: bool = True) -> Component:
    """A select with a search; the value of the URL is always among its options."""
    value = query.window if name == "window" else query.get(name)
    if value and value not in {entry for entry, _ in options}:
        options = [*options, (value, value)]
    return html.Div(
        dmc.Select(
            id={"filter": name},
            data=[{"value": entry, "label": components_text.clip(word, 60)} for entry, word in options],
            value=value or None,
            placeholder=f"All {LABELS[name].lower()}s",
            searchable=clearable,
            clearable=clearable,
            allowDeselect=clearable,
            size="xs",
            nothingFoundMessage="No such name",
            comboboxProps={"transitionProps": {"duration": 0}},
            **parts.aria(LABELS[name]),
        ),
        className="filter",
    )


def changed(query: Query, values: dict[str, str | None]) -> str | None:
    """The URL's new search for the selects' values; None where nothing changed."""
    wanted = {name: value or None for name, value in values.items()}
    if wanted.get("window") == DEFAULT_WINDOW and not query.get("window"):
        wanted["window"] = None
    if all((query.get(name) or None) == value for name, value in wanted.items()):
        return None
    href = query.link(**{**wanted, "cursor": None, "page": None})
    _, mark, search = href.partition("?")
    return f"{mark}{search}"
