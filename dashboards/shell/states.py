"""The states a page can be in instead of showing data: empty, loading, failing, forbidden."""

from __future__ import annotations

from typing import Any

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import ApiFailure
from gpuwatch.dashboards.components import parts
from gpuwatch.dashboards.shell.query import Query

Node = Any


def notice(kind: str, title: str, text: Node, *more: Node) -> Component:
    """A state a page can be in instead of showing data."""
    return html.Div(
        [html.Div(className=f"picture {kind}"), html.H2(title), html.P(text), *more],
        className=f"notice {kind}",
        role="alert" if kind in ("failing", "forbidden") else "status",
    )


def empty(title: str, text: Node, *more: Node) -> Component:
    """There is nothing to show, and that is known."""
    return notice("empty", title, text, *more)


def failed(error: ApiFailure, query: Query) -> Component:
    """What a page shows when the API did not give it what it needs."""
    if error.status == 401:
        return notice(
            "forbidden",
            "Sign in to see this",
            "This server asks for a token. The link you followed is kept.",
            html.A("Sign in", href=login_link(query), className="button primary"),
        )
    if error.status == 403:
        return notice(
            "forbidden",
            "Your token does not open this",
            error.message,
            html.P(error.hint, className="hint") if error.hint else None,
            html.A("Use another token", href=login_link(query), className="button"),
        )
    if error.status == 404:
        return notice(
            "empty",
            "There is no such thing here",
            error.message,
            html.P(error.hint, className="hint") if error.hint else None,
            parts.link("Back to the overview", query.link("/"), "button"),
        )
    return notice(
        "failing",
        "This could not be loaded",
        error.message,
        html.P(error.hint, className="hint") if error.hint else None,
        html.P("It is tried again every 30 seconds.", className="hint"),
        html.A("Try now", href=query.link(), className="button primary"),
    )


def login_link(query: Query) -> str:
    """The sign-in page that leads back here."""
    return Query("/login").link(next=query.link())


def skeleton() -> Component:
    """The frame of a page while its data is on the way."""
    return html.Div(
        [
            html.Div(className="bone title"),
            html.Div([html.Div(className="bone tile") for _ in range(5)], className="headlines"),
            html.Div(className="bone block"),
            html.Div(className="bone block"),
            html.Span("Loading", className="unseen"),
        ],
        className="skeleton",
        role="status",
    )


def fix(text: str, lead: str = "") -> Component:
    """The fix as the service words it: a sentence, then lines to paste."""
    first, _, paste = text.partition("\n")
    return advice(f"{lead}{first}", paste)


def advice(text: Node, fix: str = "") -> Component:
    """Something is missing: what, and the fix to paste."""
    return html.Div([html.Div(text), html.Pre(fix, tabIndex="0") if fix else None], className="advice")
