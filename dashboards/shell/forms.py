"""The callback of all forms: runs the action of a button, and shows what it did or what is wrong."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, no_update
from dash.exceptions import PreventUpdate

from gpuwatch.dashboards.client import Api, ApiFailure
from gpuwatch.dashboards.components import parts
from gpuwatch.dashboards.editing.fields import FORM
from gpuwatch.dashboards.editing.outcome import Outcome, action_of, mistakes
from gpuwatch.dashboards.shell.page import find
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.scripts import PRESSED_SCRIPT


def register(dash: Dash, api: Callable[[], Api]) -> None:
    """Registers the callback. `api` has the permissions of the browser that sent the current one."""
    scripted: Any = dash.clientside_callback  # without types of its own
    scripted(PRESSED_SCRIPT, Output("pressed", "data"), Input({"edit": ALL}, "n_clicks"), prevent_initial_call=True)

    @dash.callback(
        Output("notice", "data"),
        Output("message", "children", allow_duplicate=True),
        Output("url", "search", allow_duplicate=True),
        Output("acted", "data", allow_duplicate=True),
        Output({"field": ALL}, "error"),
        Output({"wrong": ALL}, "children"),
        Output({"below": ALL}, "children"),
        Input("pressed", "data"),
        State({"field": ALL}, "value"),
        State({"held": ALL}, "value"),
        State("url", "pathname"),
        State("url", "search"),
        running=[(Output({"edit": ALL}, "disabled"), True, False)],
        prevent_initial_call=True,
    )
    async def act(
        pressed: str | None, fields: list[Any], held: list[Any], pathname: str, search: str
    ) -> tuple[Any, ...]:
        *_, action = (pressed or "").split("\n", 2)
        if not action:
            raise PreventUpdate
        query = Query.parse(pathname, search)
        names = [str(entry["id"]["field"]) for entry in ctx.states_list[0]]
        kept = [str(entry["id"]["held"]) for entry in ctx.states_list[1]]
        values = dict(zip([*names, *kept], map(stripped, [*fields, *held]), strict=True))
        done = await outcome(api(), query, action, values)
        places = len(ctx.outputs_list[5]), len(ctx.outputs_list[6])
        return answer(done, query, names, places, search or "", str(pressed))


def stripped(value: Any) -> str:
    """The text of a field."""
    return value.strip() if isinstance(value, str) else ""


async def outcome(api: Api, query: Query, action: str, values: dict[str, str]) -> Outcome:
    """Runs the action of a page. An error of the API is shown at the fields that it is about."""
    page = find(query.path)
    run = None if page is None else action_of(page.path)
    if run is None:
        raise PreventUpdate  # no button of ours
    try:
        return await run(api, query, action, values)
    except ApiFailure as error:
        return Outcome(wrong=mistakes(error, values))


def answer(
    done: Outcome, query: Query, names: Sequence[str], places: tuple[int, int], search: str, click: str
) -> tuple[Any, ...]:
    """The outputs of the callback. `places`: how many there are for mistakes and below forms."""
    wrong, below = places
    errors = [done.wrong.get(name) or None for name in names]
    rest = "; ".join(text for name, text in done.wrong.items() if name == FORM or name not in names)
    shown = [done.below] * below
    if done.go is None:
        message = parts.tag(done.message, "ok") if done.message else no_update
        if rest and not wrong:  # a button outside a form has no place for its mistakes
            message = parts.tag(rest, "bad")
        return no_update, message, no_update, no_update, errors, [rest] * wrong, shown
    _, mark, target = query.link(**done.go).partition("?")
    notice = f"{query.link(**done.go)}\n{done.message}"
    if f"{mark}{target}" == search:  # the address stays: the page is read again where it is
        digest = hashlib.sha256(json.dumps([notice, search, click]).encode()).hexdigest()
        return no_update, parts.tag(done.message, "ok"), no_update, digest, errors, [rest] * wrong, shown
    return notice, no_update, f"{mark}{target}", no_update, errors, [rest] * wrong, shown
