"""What a page shows when it has no data to show: empty, loading, failing, forbidden."""

from __future__ import annotations

from typing import Any

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import ApiFailure
from gpuwatch.dashboards.components import parts
from gpuwatch.dashboards.shell.page_links import linked
from gpuwatch.dashboards.shell.query import Query

Node = Any
TEAM_SCOPE = "team_scope"
"""The code of the API for who asks about more than their teams."""
API = "/api/v1"
"""In a hint that is for programs: people are shown none."""


def notice(kind: str, title: str, text: Node, *more: Node, whole: bool = False) -> Component:
    """A notice in place of data. `whole`: of a whole page, whose heading it is."""
    head = html.H1 if whole else html.H2
    return html.Div(
        [html.Div(className=f"picture {kind}"), head(title), html.P(text), *more],
        className=f"notice {kind}",
        role="alert" if kind in ("failing", "forbidden") else "status",
    )


def empty(title: str, text: Node, *more: Node) -> Component:
    """A notice that there is nothing to show."""
    return notice("empty", title, text, *more)


def failed(error: ApiFailure, query: Query, whole: bool = True) -> Component:
    """What a page shows when a required API call failed. `whole`: in place of the page, else below its heading."""
    if error.status == 401:
        return notice(
            "forbidden",
            "Sign in to see this",
            "This server requires a token. You will return to this page after signing in.",
            html.A("Sign in", href=login_link(query), className="button primary"),
            whole=whole,
        )
    if error.status == 403 and error.code == TEAM_SCOPE:
        return notice(
            "forbidden",
            "This covers the whole fleet",
            "You are signed in for some teams only, and see what is theirs.",
            parts.link("Your jobs and findings are on the overview", query.link("/"), "button primary"),
            parts.link("Your GPUs on the map", query.link("/topology"), "button") if query.path == "/fleet" else None,
            html.A("Sign in with another token", href=login_link(query), className="button"),
            whole=whole,
        )
    if error.status == 403:
        return notice(
            "forbidden",
            "You don't have access to this",
            error.message,
            html.P(error.hint, className="hint") if error.hint else None,
            html.A("Use another token", href=login_link(query), className="button"),
            whole=whole,
        )
    if error.status == 404:
        return notice(
            "empty",
            "Not found",
            error.message,
            html.P(error.hint, className="hint") if error.hint and API not in error.hint else None,
            parts.link("Back to Overview", query.link("/"), "button"),
            whole=whole,
        )
    return notice(
        "failing",
        "This could not be loaded",
        error.message,
        html.P(error.hint, className="hint") if error.hint else None,
        html.P("Retrying every 30 seconds.", className="hint"),
        html.A("Retry now", href=query.link(), className="button primary"),
        whole=whole,
    )


FIRST_STEPS = (
    (
        "Try it on a simulated fleet",
        "Simulates GPUs, jobs and waste, and serves these pages on them. Needs no cluster.",
        "gpuwatch demo",
    ),
    (
        "Connect a cluster",
        "List your sources in gpuwatch.toml (here dcgm-exporter and Slurm; [[kubernetes]] and [[prometheus]] work alike) and start the server with it.",
        (
            '[[dcgm]]\ncluster = "c1"\ntargets = ["gpu-node-1:9400"]\n\n[[slurm]]\ncluster = "c1"\n\n'
            "gpuwatch serve --config gpuwatch.toml --check"
        ),
    ),
    (
        "Import a folder",
        "Reads files that you collected: metrics, sacct and kubectl output. A running server takes them too.",
        "gpuwatch import bundle BUNDLE\ngpuwatch analyze",
    ),
)
"""What to do on a server that has no data yet: a title, a sentence, and lines to paste."""


def first_run() -> Component:
    """The first page of a server that never had data."""
    cards = [
        parts.card(title, html.P(text, className="soft"), html.Pre(paste, tabIndex="0"))
        for title, text, paste in FIRST_STEPS
    ]
    return html.Div(
        [
            parts.heading(
                "Welcome to gpuwatch",
                "There is no data yet. Choose one of three ways to begin; this page shows the first numbers by itself.",
            ),
            html.Div(cards, className="first-steps"),
            html.P(parts.link("Data quality", Query("/quality").link(), "button"), className="pager"),
        ]
    )


def login_link(query: Query) -> str:
    """The sign-in page, which leads back here afterwards."""
    return Query("/login").link(next=query.link())


def skeleton() -> Component:
    """The outline of a page while its data loads."""
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
    """A fix from the service: a sentence, then lines to paste."""
    first, _, paste = text.partition("\n")
    return advice(f"{lead}{first}", paste)


def advice(text: Node, fix: str = "") -> Component:
    """A hint: what is missing, and lines to paste. A command that has a page is a link to it."""
    shown = linked(text) if isinstance(text, str) else text
    return html.Div([html.Div(shown), html.Pre(fix, tabIndex="0") if fix else None], className="advice")
