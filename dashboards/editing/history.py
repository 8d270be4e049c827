"""The changes of a list as a table: who, when, and the rows before and after."""

from __future__ import annotations

from collections.abc import Mapping

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row, administers
from gpuwatch.dashboards.components import formats, ledger_math, parts
from gpuwatch.dashboards.editing import dates
from gpuwatch.dashboards.shell.query import Query

SHOWN = 10
"""Changes that a page lists; the audit log has all."""
ROWS_SHOWN = 5
"""Rows of a change that are named on each side."""
MAX_CELL, MAX_VALUE = 220, 60
NAMES = {
    "usd_per_gpu_hour": "price per GPU-hour",
    "alert_at": "alert at %",
    "valid_to": "valid until",
    "match_kind": "by",
}


async def read(api: Api, me: Mapping[str, object], what: str) -> list[Row] | None:
    """The latest changes; None for who may not read the audit log."""
    if not administers(me):
        return None
    found = await ledger_math.optional(api.get("audit", what=what, limit=SHOWN))
    return None if found is None else list(found.get("items") or [])


def card(entries: list[Row] | None, query: Query, what: str) -> Component | None:
    """The latest changes of a list."""
    if entries is None:
        return None
    way = parts.link("Audit log", query.link("/audit", what=what), "more")
    if not entries:
        return parts.card("No change yet", note=way)
    return parts.card("Changes", table(entries), note=way)


def table(entries: list[Row]) -> Component:
    """Changes, one a row. Where nothing was there before any of them, that side is left out."""
    both = [(entry, *sides(entry)) for entry in entries]
    first = any(before.children for _, before, _ in both)
    columns = [
        parts.Column(f"When ({formats.zone_word()})", "nowrap"),
        parts.Column("Who", "narrow-hide"),
        parts.Column("What"),
        *([parts.Column("Before", "wide narrow-hide")] if first else []),
        parts.Column("After", "wide narrow-hide"),
    ]
    rows = [
        [
            html.Span(formats.clock(entry.get("at")), className="num nowrap"),
            formats.clip(entry.get("actor"), 60),
            what(entry),
            *([before] if first else []),
            after,
        ]
        for entry, before, after in both
    ]
    return parts.table(columns, rows, label="Changes")


def what(entry: Row) -> Component:
    """What was changed; on the narrow screen of a phone also by whom, and both sides that are there."""
    below = [html.Div(formats.clip(entry.get("actor"), 60), className="soft small")]
    for name, side in zip(("Before", "After"), sides(entry), strict=True):
        if side.children:
            below.append(html.Div([html.Span(f"{name}:", className="soft small"), side]))
    narrow = html.Div(html.Div(below), className="narrow-only")
    return html.Div([formats.clip(entry.get("what"), 80), narrow], className="breaks")


def sides(entry: Row) -> tuple[Component, Component]:
    """What was there before, and what is there now."""
    difference: Row | None = entry.get("difference")
    if difference is None:
        return tuple(html.Div(words(entry.get(name)), className="small") for name in ("before", "after"))  # type: ignore[return-value]
    return (
        listed(difference.get("removed") or [], int(difference.get("removed_count") or 0)),
        listed(difference.get("added") or [], int(difference.get("added_count") or 0)),
    )


def listed(rows: list[Row], count: int) -> Component:
    """Rows in words, the first ones, and how many more there are."""
    lines: list[parts.Node] = [html.Div(words(row), className="small") for row in rows]
    more, unread = count - ROWS_SHOWN, count - len(rows)
    if more <= 0:
        return html.Div(lines)
    count_words = f"and {more:,} more row{'' if more == 1 else 's'}"
    rest = lines[ROWS_SHOWN:]
    if not rest:
        return html.Div([*lines, html.Div(count_words, className="soft small")])
    if unread > 0:
        rest.append(html.Div(f"and {unread:,} more", className="soft small"))
    return html.Div([*lines[:ROWS_SHOWN], html.Details([html.Summary(count_words, className="soft small"), *rest])])


def words(value: object) -> str:
    """A value in words: `team vision · amount 100`."""
    if isinstance(value, dict):
        known = {name: entry for name, entry in value.items() if entry not in (None, "", [], {}, False, dates.EPOCH)}
        return formats.clip(" · ".join(f"{label(name)} {words(entry)}" for name, entry in known.items()), MAX_CELL)
    if isinstance(value, list):
        return formats.clip(", ".join(words(entry) for entry in value), MAX_CELL)
    if isinstance(value, str) and formats.moment(value) is not None and "T" in value:
        return dates.date(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else formats.clip(value, MAX_VALUE)


def label(name: str) -> str:
    """The name of a field in words: `valid from`, `GPU model`."""
    return NAMES.get(name) or name.replace("_", " ").replace("gpu", "GPU").replace("mig ", "MIG ")
