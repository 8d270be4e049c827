"""The frame of every page: navigation, filters, account, light and dark mode."""

from __future__ import annotations

import dash_mantine_components as dmc  # type: ignore[import-untyped]
from dash import dcc, html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api
from gpuwatch.dashboards.components import formats, ledger_math, parts
from gpuwatch.dashboards.shell import filters, saved_views, search, states
from gpuwatch.dashboards.shell.filters import Choices
from gpuwatch.dashboards.shell.page import Page, find, pages
from gpuwatch.dashboards.shell.query import ROOT, Query

REFRESH_S = 30


def frame() -> Component:
    """The static part of every page; callbacks fill `nav`, `filters` and `page`."""
    provider: Component = dmc.MantineProvider(
        html.Div(
            [
                dcc.Location(id="url", refresh="callback-nav"),
                dcc.Interval(id="tick", interval=REFRESH_S * 1000),
                dcc.Store(id="digest"),
                dcc.Store(id="filtered"),
                dcc.Store(id="wanted"),
                dcc.Store(id="acted"),
                dcc.Store(id="due"),
                dcc.Store(id="pressed"),
                dcc.Store(id="notice"),
                dcc.Store(id="title"),
                dcc.Store(id="focused"),
                dcc.Store(id="ground"),
                html.A("Skip to content", href="#page", className="skip"),
                html.Header(
                    [
                        brand(),
                        html.Div(id="drawer-box", className="drawer-box"),
                        html.Div([saved_views.menu(), zone_toggle(), finder(), scheme_toggle()], className="top-right"),
                    ],
                    className="top",
                ),
                html.Aside([brand(), html.Div(navigation(Query()), id="nav", className="nav-box")], className="side"),
                html.Div(
                    [
                        html.Div(id="filters", className="filters", role="search", **parts.aria("Filters")),
                        html.Div(id="message", className="message", role="status"),
                        html.Main(states.skeleton(), id="page", className="page"),
                        html.Footer(id="as-of", className="soft small"),
                    ],
                    className="body",
                ),
                *search.panels(),
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


def first(page: Page | None, query: Query, choices: Choices, content: str) -> Component:
    """The frame around a page that is shown until the scripts of the real one have run."""
    return html.Div(
        [
            html.Header(
                [
                    brand(),
                    html.Div(drawer(query, choices), className="drawer-box"),
                    html.Div(
                        [
                            html.Span("Views", className="topword"),
                            html.Span("UTC" if formats.zone_word() == "UTC" else "Local", className="topword"),
                            finder(),
                        ],
                        className="top-right",
                    ),
                ],
                className="top",
            ),
            html.Aside(
                [
                    brand(),
                    html.Div(side(query, choices), className="nav-box"),
                ],
                className="side",
            ),
            html.Div(
                [
                    html.Div(filters.outline(query, page.filters if page else ()), className="filters"),
                    html.Div(className="message"),
                    html.Main(content, className="page"),
                ],
                className="body",
            ),
        ],
        className="shell",
    )


def brand() -> Component:
    """The product name, linked to the overview."""
    return parts.link(
        [html.Span(className="logo"), html.Span("gpuwatch", className="name")], ROOT + "/", "brand", "gpuwatch"
    )


def finder() -> Component:
    """Opens the search, as Ctrl-K and / do."""
    return html.Button(
        html.Span(className="icon i-search"),
        className="finder",
        type="button",
        title="Search (Ctrl K or /); ? lists all keys",
        **parts.aria("Search"),
    )


def zone_toggle() -> Component:
    """UTC or the browser's time zone; assets/zone.js stores the choice in a cookie."""
    return html.Button(
        "UTC",
        className="topword zone",
        type="button",
        title="Times in UTC; click for your own time zone",
        **parts.aria("Time zone: UTC"),
    )


async def as_of(api: Api) -> str:
    """The footer of a replica's pages: as of when its data are. Empty for a process with data of its own."""
    await ledger_math.optional(api.get("coverage"))
    oldest = min(api.instants, default=None)
    return "" if oldest is None else f"Data as of {formats.when(oldest)}, copied from the lake"


def crumbs(page: Page | None, query: Query) -> Component | None:
    """The way to a page that lies below another one."""
    above = find(page.under) if page and page.under else None
    if page is None or above is None:
        return None
    steps = [
        dcc.Link(above.title, href=query.link(above.path)),
        html.Span("/", className="soft"),
        html.Span(page.title),
    ]
    return html.Nav(steps, className="crumbs small", **parts.aria("Breadcrumb"))


def scheme_toggle() -> Component:
    """Light or dark: follows the system until used, then stored by the browser."""
    toggle: Component = dmc.ColorSchemeToggle(
        id="scheme",
        lightIcon=html.Span(className="icon i-sun"),
        darkIcon=html.Span(className="icon i-moon"),
        variant="subtle",
        color="gray",
        size="lg",
        **parts.aria("Switch between light and dark mode"),
    )
    return toggle


def side(query: Query, choices: Choices) -> list[Component | None]:
    """The navigation and the account of who looks."""
    return [navigation(query, choices.open_findings, choices.bound), account(choices)]


def navigation(query: Query, open_findings: int | None = None, bound: bool = False) -> Component:
    """Links to the pages that keep the current filters. Subpages are listed below their parent. `bound`: for people who see some teams only."""
    shown = [page for page in pages() if page.icon and not (bound and page.whole_fleet)]
    current = place(query)
    open_ = next((page.under or page.path for page in shown if page.path == current), current)
    entries: list[Component] = []
    for page in shown:
        if page.under:
            continue
        entries.append(entry(page, query, current, open_findings if page.path == "/findings" else None))
        if below := [entry(one, query, current) for one in shown if one.under == page.path]:
            entries.append(html.Div(below, className="below inside" if open_ == page.path else "below"))
    return html.Nav(entries, className="nav", **parts.aria("Pages"))


def place(query: Query) -> str:
    """The path of the navigation entry for this page."""
    top = "/" + query.path.split("/")[1]
    page = find(top) or find(query.path)
    return page.under if page and page.under and not page.icon else top


def entry(page: Page, query: Query, current: str, count: int | None = None) -> Component:
    """One navigation link; `count` is shown as a badge."""
    return dcc.Link(
        [
            html.Span(className=f"icon i-{page.icon}"),
            html.Span(page.title, className="word"),
            html.Span([f"{count:,}", html.Span(" open", className="unseen")], className="badge") if count else None,
            parts.HERE if page.path == current else None,
        ],
        href=query.link(page.path),
        className="entry current" if page.path == current else "entry",
        title=page.title,
    )


def drawer(query: Query, choices: Choices) -> Component:
    """The navigation on narrow screens; works without a script and closes when a page opens."""
    return html.Details(
        [
            html.Summary([html.Span(className="icon i-menu"), html.Span("Menu", className="unseen")]),
            html.Div(side(query, choices), className="drawer"),
        ],
        id={"drawer": query.link()},
    )


def account(choices: Choices) -> Component:
    """The signed-in user with a sign-out button; only the version where tokens are off."""
    me = choices.me
    version = html.Div(f"gpuwatch {me['version']}", className="soft small") if me.get("version") else None
    if not me.get("tokens"):
        return html.Div(version, className="who")
    teams = me.get("teams")
    scope = ", ".join(teams) if teams else "all teams"
    return html.Div(
        [
            html.Div(formats.clip(me.get("name"), 40), className="strong"),
            html.Div(formats.clip(f"{me.get('scope')}, {scope}", 60), className="soft small"),
            html.Form(
                html.Button("Sign out", className="button small", type="submit"), action=f"{ROOT}/logout", method="post"
            ),
            version,
        ],
        className="who",
    )
