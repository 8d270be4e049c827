"""Settings: every page on which people set something, by what it is for."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row, administers
from gpuwatch.dashboards.components import parts
from gpuwatch.dashboards.shell.page import find, page
from gpuwatch.dashboards.shell.query import Query

GROUPS = {
    "Money": {
        "/rates": "What a GPU-hour costs, from when on",
        "/owned": "The price of owned GPUs from what they cost to buy and run",
        "/fx": "What one currency is worth in another, and the currency of charges",
        "/spot": "What spot capacity cost, as its cloud reports it",
        "/commitments": "Reserved capacity, how much of it is used, and what the rest costs",
        "/policies": "Who pays for idle time, for what is shared, and for the rest",
        "/budgets": "What a team may spend, and when it is warned",
    },
    "Teams and access": {
        "/owners": "Which team owns what runs, by account, namespace, queue or user",
        "/tokens": "Who and what may use this server",
        "/audit": "Who changed what, and when",
    },
    "Findings and messages": {
        "/detectors": "The rules and their thresholds, for all, for a pool or for a team",
        "/channels": "Where messages go: Slack, e-mail, webhooks, Alertmanager",
        "/recipients": "Who gets which team's report by e-mail",
    },
    "Data": {
        "/quality": "What is missing or wrong in the inputs, with the fix",
        "/imports": "Files and backfills that were read, and taking one back",
        "/reconcile": "Cloud bills: upload one and compare it",
    },
}


async def load(api: Api, query: Query) -> Row:
    """Who looks at it."""
    return await api.me()


@page("/setup", "Settings", load, icon="setup", order=50, filters=())
def layout(data: Row, query: Query, scheme: str) -> Component:
    """A card per group, with a line per page."""
    note = None if administers(data) else "Only a token with the scope admin may change them."
    cards = [group(name, entries, query) for name, entries in GROUPS.items()]
    halves = [html.Div(cards[::2], className="column"), html.Div(cards[1::2], className="column")]
    return html.Div([parts.heading("Settings", note), html.Div(halves, className="halves even")])


def group(name: str, entries: dict[str, str], query: Query) -> Component:
    """The pages of one purpose."""
    lines = [
        html.Li([parts.link(found.title, query.link(path), "title"), html.Div(words, className="soft small")])
        for path, words in entries.items()
        if (found := find(path)) is not None
    ]
    return parts.card(name, html.Ul(lines, className="settings"))
