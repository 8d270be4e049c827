"""Parts of the pages that try a policy on the past: tabs, days, and how the answer is computed."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import parts
from gpuwatch.dashboards.shell.query import Query

HEIGHT = {"height": "240px"}
DAYS = ("30", "14", "7")
TABS = (("Idle limit", "/what-if"), ("Quota", "/what-if/quotas"), ("MIG layouts", "/what-if/mig"))


def days_of(query: Query) -> str:
    """How many days to replay."""
    return query.get("days") if query.get("days") in DAYS else DAYS[0]


def choices(*rows: tuple[str, Component]) -> Component:
    """Rows of choices, each with its name before it."""
    return html.Div(
        [html.Div([html.Span(word, className="soft small"), row], className="versus") for word, row in rows],
        className="trial-choices",
    )


def days(query: Query) -> Component:
    """The choice of days."""
    here = days_of(query)
    return parts.picks([(f"Last {number} days", query.link(days=number), number == here) for number in DAYS], "Days")


def tabs(query: Query) -> Component:
    """The questions."""
    return parts.picks([(word, query.link(path), path == query.path) for word, path in TABS], "Question")


def ends(data: Row) -> tuple[str, str]:
    """Start and end of the answer's window."""
    window = data.get("window") or {}
    return str(window.get("start") or ""), str(window.get("end") or "")


def count(number: int, word: str) -> str:
    """`1 job`, `2,920 waiting requests`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def method(lines: Sequence[str], more: Sequence[str] = ()) -> Component:
    """How the numbers are computed, and their limits."""
    return parts.card(
        "How this is computed", html.Ul([html.Li(line) for line in (*lines, *more)], className="method small")
    )
