"""The web pages under /ui/: mounts Dash on the API's app and runs its callbacks."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate
from fastapi import FastAPI
from starlette.routing import Route

from gpuwatch.dashboards.browser_headers import zone_of
from gpuwatch.dashboards.client import COOKIE, Caller, Client, passed_on
from gpuwatch.dashboards.components import formats, rule_trial
from gpuwatch.dashboards.shell import acting, filters, forms, saved_views, search
from gpuwatch.dashboards.shell import frame as shell_frame
from gpuwatch.dashboards.shell.data_end import anchored
from gpuwatch.dashboards.shell.direct import title_of
from gpuwatch.dashboards.shell.login import login_routes
from gpuwatch.dashboards.shell.page import find
from gpuwatch.dashboards.shell.query import ROOT, Query
from gpuwatch.dashboards.shell.responses import Guarded, policy
from gpuwatch.dashboards.shell.scripts import (
    DUE_SCRIPT,
    FOCUS_SCRIPT,
    GROUND_SCRIPT,
    NOTICE_SCRIPT,
    TITLE_SCRIPT,
    WANTED_SCRIPT,
)
from gpuwatch.dashboards.shell.short_addresses import ShortAddresses
from gpuwatch.dashboards.shell.theme import Scheme
from gpuwatch.dashboards.shell.views import Views

INDEX = """<!DOCTYPE html>
<html lang="en">
<head>{%metas%}<title>{%title%}</title><link rel="icon" type="image/svg+xml" href="/ui/assets/logo.svg">{%css%}</head>
<body><!--first-->{%app_entry%}<footer>{%config%}{%scripts%}{%renderer%}</footer></body>
</html>"""
_log = logging.getLogger("gpuwatch.dashboards")


def mount(app: FastAPI, client: Client | None = None) -> None:
    """Adds the pages to `app` at /ui/. They read their data through `client`, by default from `app` itself."""
    client = client or Client(app)
    # A separate app behind one route keeps Dash's middleware, catch-all page and errors out of the API.
    inner = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    inner.router.routes.extend(login_routes(client))
    views = Views(client)
    dash = create(inner, client, views)
    guarded = Guarded(inner, policy(dash), views)
    app.router.routes.append(Route(f"{ROOT}/{{path:path}}", guarded, include_in_schema=False))
    app.router.routes.append(Route(ROOT, guarded, include_in_schema=False))
    app.router.routes.append(ShortAddresses())


def create(server: Any, client: Client, views: Views) -> Dash:
    """The Dash app with its callbacks on a FastAPI server. `server` is untyped because Dash detects it by class name."""
    dash = Dash(
        "gpuwatch.dashboards",
        server=server,
        url_base_pathname=f"{ROOT}/",
        assets_folder=str(Path(__file__).parent / "assets"),
        assets_ignore="^plotly-",  # charts.js loads it when a chart is near
        suppress_callback_exceptions=True,
        index_string=INDEX,
        title="gpuwatch",
        update_title="",
        add_log_handler=False,
        on_error=_unexpected,
        meta_tags=[{"name": "color-scheme", "content": "light dark"}, {"name": "referrer", "content": "same-origin"}],
    )
    # Callbacks use plain requests; without this every page would start a worker for unused web sockets.
    dash.backend.websocket_capability = False
    dash.layout = shell_frame.frame()
    _register(dash, client, views)
    return dash


def _register(dash: Dash, client: Client, views: Views) -> None:
    """Registers all callbacks: show a page, refresh it, change a filter, act on a finding."""

    @dash.callback(
        Output("page", "children"),
        Output("digest", "data"),
        Output("message", "children"),
        Output("title", "data"),
        Input("url", "pathname"),
        Input("url", "search"),
        Input("ground", "data"),
        running=[(Output("page", "className"), "page busy", "page")],
    )
    async def show(pathname: str, search: str, scheme: Scheme | None) -> tuple[Any, ...]:
        query = Query.parse(pathname, search)
        page, view = find(query.path), await views.draw(_caller(), query, scheme or "light")
        return view.content, view.digest, "", title_of(page.title if page else None)

    @dash.callback(Output("as-of", "children"), Input("url", "pathname"), Input("tick", "n_intervals"))
    async def as_of(_: str, __: int | None) -> str:
        formats.use_zone(_caller().zone)
        return await shell_frame.as_of(client.of(_caller()))

    @dash.callback(
        Output("filters", "children"),
        Output("filtered", "data"),
        Output("nav", "children"),
        Output("drawer-box", "children"),
        Input("url", "pathname"),
        Input("url", "search"),
    )
    async def frame(pathname: str, search: str) -> tuple[Any, ...]:
        formats.use_zone(_caller().zone)
        query = await anchored(client.of(_caller()), Query.parse(pathname, search))
        page, choices = find(query.path), await filters.load(client.of(_caller()), query)
        return (
            filters.layout(choices, query, page.filters if page else ()),
            f"{pathname}{search}",
            shell_frame.side(query, choices),
            shell_frame.drawer(query, choices),
        )

    @dash.callback(
        Output("page", "children", allow_duplicate=True),
        Output("digest", "data", allow_duplicate=True),
        Input("due", "data"),
        Input("acted", "data"),
        State("url", "pathname"),
        State("url", "search"),
        State("ground", "data"),
        State("digest", "data"),
        State({"draft": ALL}, "value"),
        State({"pick": ALL}, "value"),
        State({"field": ALL}, "value"),
        prevent_initial_call=True,
    )
    async def refresh(
        _due: str,
        _acted: str,
        pathname: str,
        search: str,
        scheme: Scheme | None,
        digest: str,
        drafts: list[str | None],
        picks: list[list[str] | None],
        fields: list[str | None],
    ) -> tuple[Any, Any]:
        query = Query.parse(pathname, search)
        acted = "acted" in {name.split(".")[0] for name in ctx.triggered_prop_ids}
        form = bool(query.get("edit")) and bool(fields)
        if (any(drafts) or any(picks) or form) and not acted:
            raise PreventUpdate  # somebody is typing, or selecting findings: do not discard it
        page = find(query.path)
        if page and page.load_once:
            raise PreventUpdate
        view = await views.draw(_caller(), query, scheme or "light")
        return (no_update, no_update) if view.digest == digest and not acted else (view.content, view.digest)

    @dash.callback(
        Output("sought", "children"),
        Input("sought-words", "data"),
        State("url", "pathname"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    async def seek(text: str | None, pathname: str, location: str) -> list[Component]:
        return await search.results(client.of(_caller()), text or "", Query.parse(pathname, location))

    @dash.callback(
        Output("wanted", "data"),
        Input({"filter": ALL}, "value"),
        State("url", "pathname"),
        State("url", "search"),
        State("filtered", "data"),
        prevent_initial_call=True,
    )
    def filter_by(_values: list[str | None], pathname: str, search: str, filtered: str | None) -> Any:
        drawn = len(ctx.triggered_prop_ids) == len(ctx.inputs_list[0])
        if drawn and filtered != f"{pathname}{search}":
            return no_update  # these controls belong to the previous address: do not undo the Back button
        values = {entry["id"]["filter"]: entry.get("value") for entry in ctx.inputs_list[0]}
        wanted = filters.changed(Query.parse(pathname, search), values)
        return no_update if wanted is None else {"at": f"{pathname}{search}", "search": wanted}

    @dash.callback(
        Output("url", "search", allow_duplicate=True),
        Input({"try": ALL}, "n_clicks"),
        Input({"limit": ALL}, "n_submit"),
        State({"limit": ALL}, "value"),
        State("url", "pathname"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def try_limits(
        _clicks: list[int | None], _entered: list[int | None], values: list[str | None], pathname: str, search: str
    ) -> Any:
        if not any(entry["value"] for entry in ctx.triggered):
            raise PreventUpdate
        names = [str(entry["id"]["limit"]) for entry in ctx.states_list[0]]
        return rule_trial.trial_search(Query.parse(pathname, search), dict(zip(names, values, strict=True)))

    acting.register(dash, lambda: client.of(_caller()))
    forms.register(dash, lambda: client.of(_caller()))
    saved_views.register(dash, lambda: client.of(_caller()))
    scripted: Any = dash.clientside_callback  # without types of its own
    scripted(WANTED_SCRIPT, Output("url", "search"), Input("wanted", "data"), prevent_initial_call=True)
    scripted(DUE_SCRIPT, Output("due", "data"), Input("tick", "n_intervals"), prevent_initial_call=True)
    shown = Output("message", "children", allow_duplicate=True)
    scripted(NOTICE_SCRIPT, shown, Input("digest", "data"), State("notice", "data"), prevent_initial_call=True)
    scripted(GROUND_SCRIPT, Output("ground", "data"), Input("scheme", "computedColorScheme"), State("ground", "data"))
    scripted(FOCUS_SCRIPT, Output("focused", "data"), Input("digest", "data"), State("focused", "data"))
    scripted(TITLE_SCRIPT, Output("title", "modified_timestamp"), Input("title", "data"))


def _caller() -> Caller:
    """The browser that sent the current callback."""
    return Caller(None, ctx.cookies.get(COOKIE), (ctx.remote or "", 0), passed_on(ctx.headers), zone_of(ctx.cookies))


def _unexpected(error: Exception) -> None:
    """Logs a callback that failed outside a page; the browser keeps its content."""
    _log.error("a callback failed", exc_info=error)
