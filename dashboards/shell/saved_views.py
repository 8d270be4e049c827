"""The menu of saved views, and its callback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import dash_mantine_components as dmc  # type: ignore[import-untyped]
from dash import ALL, Dash, Input, Output, State, ctx, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from gpuwatch.dashboards.client import Api, ApiFailure, Row
from gpuwatch.dashboards.components import formats, parts

NAME_MAX = 80
"""Characters of a view's name."""


def menu() -> Component:
    """Closed; the list is loaded when it opens. assets/zone.js closes it."""
    form = html.Div(
        [
            dmc.TextInput(
                id="view-name",
                placeholder="Name of this view",
                size="xs",
                inputProps={"maxLength": NAME_MAX, "autoComplete": "off", **parts.aria("Name of this view")},
            ),
            html.Button("Save", id="view-save", className="button small", type="button"),
        ],
        className="view-form",
    )
    body = html.Div(
        [
            html.Div(id="view-list", className="view-list"),
            form,
            html.Div(id="view-note", className="soft small", role="status"),
        ],
        className="view-panel",
    )
    summary = html.Summary(
        "Views", id="view-open", className="topword", title="Saved views: this page with its filters"
    )
    return html.Details([summary, body], className="views")


def listing(items: list[Row]) -> Component:
    """The saved views as links, each with a button that deletes it."""
    if not items:
        return html.P(
            "No saved views yet. A view is this page with its filters; its address can be shared.",
            className="soft small",
        )
    rows = [
        html.Li(
            [
                dcc.Link(
                    formats.clip(item.get("name"), 40), href=str(item.get("address")), title=str(item.get("address"))
                ),
                html.Button(
                    "×",
                    id={"dropview": str(item.get("name"))},
                    type="button",
                    className="drop",
                    title="Delete this view",
                    **parts.aria(f"Delete view {formats.clip(item.get('name'), 40)}"),
                ),
            ]
        )
        for item in items
        if str(item.get("address")).startswith("/ui/")
    ]
    return html.Ul(rows)


def register(dash: Dash, api: Callable[[], Api]) -> None:
    """Registers the callback of the menu. `api` has the permissions of the browser that sent the current one."""

    @dash.callback(
        Output("view-list", "children"),
        Output("view-note", "children"),
        Output("view-name", "value"),
        Input("view-open", "n_clicks"),
        Input("view-save", "n_clicks"),
        Input("view-name", "n_submit"),
        Input({"dropview": ALL}, "n_clicks"),
        State("view-name", "value"),
        State("url", "pathname"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    async def change(
        _open: int | None,
        _save: int | None,
        _enter: int | None,
        _drop: list[int | None],
        name: str | None,
        pathname: str,
        search: str,
    ) -> tuple[Any, ...]:
        chosen = ctx.triggered_id
        if not any(entry["value"] for entry in ctx.triggered):
            raise PreventUpdate  # the list was drawn
        note, kept = "", name or ""
        try:
            if isinstance(chosen, dict):
                note = await deleted(api(), str(chosen["dropview"]))
            elif chosen in ("view-save", "view-name"):
                note, kept = await saved(api(), kept, f"{pathname}{search}")
            items = (await api().get("views")).get("items") or []
        except ApiFailure as error:
            return html.P(error.message, className="soft small"), "", kept
        return listing(items), note, kept


async def saved(api: Api, name: str, address: str) -> tuple[str, str]:
    """Saves the page under a name; a note, and what stays in the field."""
    name = " ".join(name.split())[:NAME_MAX]
    if not name:
        return "Give the view a name.", ""
    try:
        await api.change("PUT", f"views/{quote(name, safe='')}", {"address": address})
    except ApiFailure as error:
        return error.message, name
    return f"Saved as {formats.clip(name, 40)}.", ""


async def deleted(api: Api, name: str) -> str:
    """Deletes a view; a note."""
    try:
        # The answer has no body.
        await api.client.send(api.caller, "DELETE", f"/api/v1/views/{quote(name, safe='')}", {})
    except ApiFailure as error:
        return error.message
    return f"Deleted {formats.clip(name, 40)}."
