"""Recipients: who gets which team's report by e-mail."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from gpuwatch.dashboards.client import Api, ApiFailure, Row, administers
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.editing import fields, history, list_actions, lists
from gpuwatch.dashboards.editing.fields import Field
from gpuwatch.dashboards.editing.outcome import Outcome, Values, acts_on
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

FLEET = "*"
HELD = (Field(list_actions.VERSION, "", "held"),)
TEAM = Field("team", "Team", hint="* is the report of the fleet.", placeholder="vision")
TO = Field("to", "Addresses", hint="Apart by commas.", placeholder="ann@example.com")


@dataclass(frozen=True)
class Data:
    """The recipients, who looks at them, and the latest changes."""

    listed: lists.Listed
    me: Row
    changes: list[Row] | None


async def load(api: Api, query: Query) -> Data:
    """All recipients."""
    listed, me = await asyncio.gather(lists.whole(api, "recipients"), api.me())
    return Data(listed, me, await history.read(api, me, "recipients"))


@page("/recipients", "Recipients of reports", load, filters=(), under="/setup")
def layout(data: Data, query: Query, scheme: str) -> Component:
    """One row per team, a form if one is open, and the changes."""
    edits = administers(data.me)
    add = parts.link("Add a team", fields.opened(query, "add"), "button primary") if edits else None
    return html.Div(
        [
            parts.link("← Reports", query.link("/reports"), "back"),
            parts.heading("Recipients of reports", "Channels of kind e-mail with the event report send to them.", add),
            form(data, query) if edits else None,
            table(data, query, edits),
            history.card(data.changes, query, "recipients"),
        ],
        className="setup",
    )


def table(data: Data, query: Query, edits: bool) -> Component:
    """The recipients."""
    if not data.listed.items:
        return states.empty("No recipients yet", "Reports go to the addresses of the channels only.")
    columns = [
        parts.Column("Team"),
        parts.Column("Addresses", "wide"),
        *([parts.Column("Change", "r")] if edits else []),
    ]
    rows = [
        [
            html.B(formats.clip(label(row), 60)),
            formats.clip(", ".join(row.get("to") or []), 300),
            *([controls(number, row, query)] if edits else []),
        ]
        for number, row in enumerate(data.listed.items)
    ]
    return parts.plain(parts.table(columns, rows, label="Recipients of reports"))


def controls(number: int, row: Row, query: Query) -> Component:
    """Edit and remove."""
    return fields.controls(query, number, label(row), {"change": "Edit", "remove": "Remove"})


def label(row: Row) -> str:
    """Whose report."""
    return "The fleet" if row.get("team") == FLEET else formats.owner(row.get("team"))


def form(data: Data, query: Query) -> Component | None:
    """The form in the address."""
    action, held = query.get("edit"), {list_actions.VERSION: data.listed.version}
    buttons = [fields.button(list_actions.SAVE, "Save", "primary"), fields.cancel(query)]
    if action == "add":
        return fields.form("Add a team", [TEAM, TO, *HELD], held, buttons)
    if action not in ("change", "remove"):
        return None
    row = lists.at(data.listed.items, query.get("row"))
    title = formats.clip(label(row), 60)
    if action == "remove":
        buttons[0] = fields.button(list_actions.SAVE, "Remove it", "danger")
        return fields.form(f"Remove: {title}", HELD, held, buttons, "Its report is no longer sent to these addresses.")
    return fields.form(f"Edit: {title}", [TO, *HELD], held | {"to": ", ".join(row.get("to") or [])}, buttons)


@acts_on("/recipients")
async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Saves the form of the address."""
    if query.get("edit") not in ("add", "change", "remove"):
        raise PreventUpdate
    return await list_actions.run(
        api,
        action,
        values,
        lambda items: changed(items, query, values),
        path="recipients",
        message="The recipients are changed.",
        previewed=False,
    )


def changed(items: list[Row], query: Query, values: Values) -> list[Row]:
    """The recipients with the change of a form."""
    to = [one for part in values.get("to", "").split(",") if (one := part.strip())]
    if query.get("edit") != "remove" and not to:
        raise ApiFailure(400, "bad_request", "to is empty: give an address", field="to")
    if query.get("edit") == "add":
        return [*items, {"team": values.get("team", ""), "to": to}]
    row, number = lists.at(items, query.get("row")), int(query.get("row"))
    present = [] if query.get("edit") == "remove" else [row | {"to": to}]
    return [*items[:number], *present, *items[number + 1 :]]
