"""Audit log: who changed what and when, with the values before and after."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.editing import history
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

PAGE_SIZE = 50
WHAT = {
    "": "Everything",
    "rates": "Rates",
    "owned": "Owned hardware",
    "teams": "Team map",
    "policies": "Policies",
    "budgets": "Budgets",
    "periods": "Periods",
    "fx": "Exchange rates",
    "detectors": "Thresholds",
    "findings": "Findings",
    "channels": "Channels",
    "recipients": "Recipients",
    "tokens": "Tokens",
    "sign-ins": "Sign-ins",
    "imports": "Imports",
    "settings": "Settings",
}
"""Kinds of changes, as the API calls them."""
SINCE = {"": "Ever", "1": "Last day", "7": "Last 7 days", "30": "Last 30 days"}
DAY_S = 86_400


async def load(api: Api, query: Query) -> Row:
    """One page of the log; the API refuses who is no administrator."""
    since, days = "", query.get("since")
    if days in SINCE and days:
        now = formats.moment((await api.fleet())["at"])
        since = "" if now is None else formats.before(now, int(days) * DAY_S)
    return await api.get("audit", what=query.get("what"), since=since, limit=PAGE_SIZE, cursor=query.get("cursor"))


@page("/audit", "Audit log", load, icon="audit", order=61, filters=(), under="/setup")
def layout(data: Row, query: Query, scheme: str) -> Component:
    """The changes, newest first, by kind and time."""
    items: list[Row] = data.get("items") or []
    kinds = [
        (word, query.link(what=name or None, cursor=None), query.get("what") == name) for name, word in WHAT.items()
    ]
    times = [
        (word, query.link(since=name or None, cursor=None), query.get("since") == name) for name, word in SINCE.items()
    ]
    body = (
        parts.plain(history.table(items))
        if items
        else states.empty("No change of this kind", "Choose another kind or time.")
    )
    return html.Div(
        [
            parts.heading("Audit log", "Every change of what people set, and every sign-in."),
            parts.picks(kinds, "Kind of change"),
            parts.picks(times, "Time"),
            body,
            parts.pager(data, query),
        ],
        className="setup",
    )
