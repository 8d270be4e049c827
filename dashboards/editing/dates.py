"""Dates of what people set, with their year."""

from __future__ import annotations

from datetime import UTC, time

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats

FROM, UNTIL = "valid_from", "valid_to"
EPOCH = "1970-01-01T00:00:00Z"
"""The beginning of what has none."""


def date(text: object) -> str:
    """`30 Aug 2026 22:06`, in the time zone of the page; `30 Aug 2026` for the beginning of a day in UTC."""
    at = formats.moment(text)
    if at is None:
        return formats.clip(text, 40)
    if at.astimezone(UTC).time() == time():
        return f"{at.astimezone(UTC):%-d %b %Y}"
    return f"{formats.local(at):%-d %b %Y %H:%M}"


def column() -> str:
    """The header above `validity`."""
    return f"Valid ({formats.zone_word()})"


def validity(row: Row) -> Component:
    """From when to when something is valid."""
    start = "" if row.get(FROM) in (None, "", EPOCH) else date(row[FROM])
    end = "" if row.get(UNTIL) in (None, "") else date(row[UNTIL])
    if start and end:
        words = f"{start} – {end}"
    elif start:
        words = f"from {start}"
    else:
        words = f"until {end}" if end else "always"
    return html.Span(words, className="num")
