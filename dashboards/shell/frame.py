"""The frame round every page: navigation, filters, who is signed in, light and dark."""

from __future__ import annotations

import dash_mantine_components as dmc  # type: ignore[import-untyped]
from dash import dcc, html
from dash.development.base_component import Component

from gpuwatch.dashboards.components import parts
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.filters import Choices
from gpuwatch.dashboards.shell.page import Page, find, pages
from gpuwatch.dashboards.shell.query import ROOT, Query

REFRESH_S = 30


def frame() -> Component:
    """What is there before any data: the callbacks fill `nav`, `filters` and `page`."""
    provider: Component = dmc.MantineProvider(
        html.Div(
            [
                dcc.Location(id="url", refresh="callback-nav"),
                dcc.Interval(id="tick", interval=REFRESH_S * 1000),
                dcc.Store(id="digest"),
                dcc.Store(id="filtered"),
                dcc.Store(id="acted"),
                dcc.Store(id="title"),
                dcc.Store(id="focused"),
                dcc.Store(id="ground"),
                html.A("Skip to the page", href="#page", className="skip"),
                html.Header(
                    [
                        brand(),
                        html.Div(id="drawer-box", className="drawer-box"),
                        html.Div(scheme_toggle(), className="top-right"),
                    ],
                    className="top",
                ),
                html.Aside([brand(), html.Div(navigation(Query()), id="nav")], className="side"),
                html.Div(
                    [
                        html.Div(id="filters", className="filters", role="search", **parts.aria("Filters")),
                        html.Div(id="said", className="said", role="status"),
                        html.Main(states.skeleton(), id="page", className="page"),
                    ],
                    className="body",
                ),
            ],
            className="shell",
        ),
        defaultColorScheme="auto",
        theme={
            "primaryColor": "teal",
            "respectReducedMotion": True,
            "fontFamily": "inherit",
            "headings": {"fontFamily": "inherit"},
        },
    )
    return provider


def brand() -> Component:
    """The name, leading home."""
    return parts.link(
        [html.Span(className="logo"), html.Span("gpuwatch", className="name")], ROOT + "/", "brand", "gpuwatch"
    )


def scheme_toggle() -> Component:
    """Light or dark: follows the system until it is used, and is kept by the browser."""
    toggle: Component = dmc.ColorSchemeToggle(
        id="scheme",
        lightIcon=html.Span(className="icon i-sun"),
        darkIcon=html.Span(className="icon i-moon"),
        variant="subtle",
        color="gray",
        size="lg",
        **parts.aria("Light or dark"),
    )
    return toggle


def navigation(query: Query) -> Component:
    """Real links to the pages; the filters go along. Pages that belong to another are shown where that one is."""
    shown = [page for page in pages() if page.icon]
    current = place(query)
    open_ = next((page.under or page.path for page in shown if page.path == current), current)
    entries: list[Component] = []
    for page in shown:
        if page.under:
            continue
        entries.append(entry(page, query, current))
        if below := [entry(one, query, current) for one in shown if one.under == page.path]:
            entries.append(html.Div(below, className="below inside" if open_ == page.path else "below"))
    return html.Nav(entries, className="nav", **parts.aria("Pages"))


def place(query: Query) -> str:
    """The path of the entry that the page of a query belongs to."""
    top = "/" + query.path.split("/")[1]
    page = find(top) or find(query.path)
    return page.under if page and page.under and not page.icon else top


def entry(page: Page, query: Query, current: str) -> Component:
    """One link of the navigation."""
    return dcc.Link(
        [
            html.Span(className=f"icon i-{page.icon}"),
            html.Span(page.title, className="word"),
            parts.HERE if page.path == current else None,
        ],
        href=query.link(page.path),
        className="entry current" if page.path == current else "entry",
        title=page.title,
    )


def drawer(query: Query, choices: Choices) -> Component:
    """The navigation of narrow screens: opens without a script, closes when a page is shown."""
    return html.Details(
        [
            html.Summary([html.Span(className="icon i-menu"), html.Span("Menu", className="unseen")]),
            html.Div([navigation(query), who(choices)], className="drawer"),
        ],
        id={"drawer": query.link()},
    )


def who(choices: Choices) -> Component:
    """Who is signed in and how to leave; nothing where tokens are off."""
    me = choices.me
    version = html.Div(f"gpuwatch {me['version']}", className="soft small") if me.get("version") else None
    if not me.get("tokens"):
        return html.Div(version, className="who")
    teams = me.get("teams")
    seen = ", ".join(teams) if teams else "all teams"
    return html.Div(
        [
            html.Div(components_text.clip(me.get("name"), 40), className="strong"),
            html.Div(components_text.clip(f"{me.get('scope')}, {seen}", 60), className="soft small"),
            html.Form(
                html.Button("Sign out", className="button small", type="submit"), action=f"{ROOT}/logout", method="post"
            ),
            version,
        ],
        className="who",
    )
