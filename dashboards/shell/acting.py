"""The callbacks that act: on the finding of a page or those checked in a list, and on a channel."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from gpuwatch.dashboards.client import Api, ApiFailure
from gpuwatch.dashboards.components import parts
from gpuwatch.dashboards.components.finding_actions import (
    ACTIONS,
    DEFAULT_REASONS,
    ENDS,
    MAX_REASON,
    SENT,
    UNEXPLAINED,
    until_after,
)
from gpuwatch.dashboards.components.findings_inbox import KEYS_MAX, SEPARATOR
from gpuwatch.dashboards.pages import channels
from gpuwatch.dashboards.pages.finding import key_of
from gpuwatch.dashboards.shell.query import Query

LIST = "/findings"

CHECK_ALL_SCRIPT = """function(checked, groups) {
  const all = checked && checked.length > 0;
  return groups.map(boxes => all ? boxes.map(box => box.props.value) : []);
}"""
"""The checkbox of the header checks all others."""


def register(dash: Dash, api: Callable[[], Api]) -> None:
    """Registers the callbacks. `api` has the permissions of the browser that sent the current one."""

    @dash.callback(
        Output("message", "children", allow_duplicate=True),
        Output("acted", "data"),
        Input({"act": ALL}, "n_clicks"),
        State({"draft": ALL}, "value"),
        State({"until": ALL}, "value"),
        State({"assignee": ALL}, "value"),
        State({"pick": ALL}, "value"),
        State("url", "pathname"),
        prevent_initial_call=True,
    )
    async def act(
        _clicks: list[int | None],
        drafts: list[str | None],
        untils: list[str | None],
        assignees: list[str | None],
        picks: list[list[str] | None],
        pathname: str,
    ) -> tuple[Any, Any]:
        chosen = ctx.triggered_id
        if not chosen or not any(entry["value"] for entry in ctx.triggered):
            raise PreventUpdate
        name, query = str(chosen["act"]), Query.parse(pathname, "")
        ends = {str(one["id"]["until"]): value for one, value in zip(ctx.states_list[1], untils, strict=True)}
        keys = picked(picks) if query.path == LIST else [key_of(query)]
        words = {
            "reason": (drafts[0] or "").strip() if drafts else "",
            "assignee": (assignees[0] or "").strip() if assignees else "",
        }
        return await send(api(), name, keys, words, ends.get(name))

    @dash.callback(
        Output("message", "children", allow_duplicate=True),
        Input({"test": ALL}, "n_clicks"),
        prevent_initial_call=True,
    )
    async def test_channel(_clicks: list[int | None]) -> Any:
        chosen = ctx.triggered_id
        if not chosen or not any(entry["value"] for entry in ctx.triggered):
            raise PreventUpdate
        return await tested(api(), str(chosen["test"]))

    scripted: Any = dash.clientside_callback  # without types of its own
    scripted(
        CHECK_ALL_SCRIPT,
        Output({"pick": ALL}, "value"),
        Input("pick-all", "value"),
        State({"pick": ALL}, "children"),
        prevent_initial_call=True,
    )


async def tested(api: Api, hexadecimal: str) -> Component:
    """Sends a test message through the channel of a button. Returns the message to show."""
    try:
        return await channels.send_test(api, bytes.fromhex(hexadecimal).decode())
    except ValueError as error:
        raise PreventUpdate from error  # no button of ours
    except ApiFailure as error:
        return parts.tag(error.message, "bad")


def picked(picks: list[list[str] | None]) -> list[str]:
    """The keys of all checked boxes; that of a cause has the keys of its findings."""
    keys = [key for checked in picks for value in checked or () for key in value.split(SEPARATOR)]
    return list(dict.fromkeys(keys))


async def send(api: Api, name: str, keys: list[str], words: dict[str, str], days: str | None) -> tuple[Component, Any]:
    """Acts on the findings. Returns the message to show and a value that makes the page reload."""
    if name not in ACTIONS:
        raise PreventUpdate
    reason = words["reason"] or DEFAULT_REASONS.get(name, "")
    if wrong := fault(name, keys, reason):
        return parts.tag(wrong, "warn"), no_update
    action, verdict = SENT.get(name, (name, None))
    assignee = words["assignee"] if name == "assign" else None
    try:
        until = until_after(name, days, str((await api.fleet())["at"])) if name in ENDS else None
        await api.act(keys, action, reason=reason, until=until, verdict=verdict, assignee=assignee)
    except ApiFailure as error:
        return parts.tag(f"{error.message} {error.hint}".strip(), "bad"), no_update
    many = f" {len(keys)} findings" if len(keys) > 1 else ""
    done = json.dumps([name, keys, words, until])
    return parts.tag(f"{ACTIONS[name]}{many}: done.", "ok"), hashlib.sha256(done.encode()).hexdigest()


def fault(name: str, keys: list[str], reason: str) -> str | None:
    """What is wrong with a request, in words."""
    if not keys:
        return "Select at least one finding first."
    if len(keys) > KEYS_MAX:
        return f"Select at most {KEYS_MAX} findings; {len(keys)} are selected."
    if not reason and name not in UNEXPLAINED:
        return "Enter a reason first."
    if len(reason) > MAX_REASON:
        return f"The reason may have at most {MAX_REASON} characters."
    return None
