"""Policies: who pays for what nobody uses. Edited as one document, checked by line, with the effect on a time of choice."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from gpuwatch.dashboards.client import Api, Row, administers
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.editing import dates, fields, history, list_actions, lists, preview, toml_text
from gpuwatch.dashboards.editing.fields import Field
from gpuwatch.dashboards.editing.outcome import CLOSED, Outcome, Values, acts_on
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

HINT = "TOML. Every mistake is named with its line, and nothing is stored then. The documentation on policies lists the fields."
FIELDS = (Field("document", "Document", "area", hint=HINT), preview.PERIOD, Field(list_actions.VERSION, "", "held"))
LATER = "A policy counts from its valid_from on: give a date before this time to see its effect."
FIRST = """[[policies]]
name = "standard"
valid_from = "{day}"
preset = "share-idle"
"""
"""The document of who has no policy yet."""
WORDS = {"platform": "the platform", "proportional": "all teams by their use", "even": "all teams alike"}


@dataclass(frozen=True)
class Data:
    """The policies, who looks at them, the API's time, and the latest changes."""

    policies: Row
    me: Row
    now: str
    changes: list[Row] | None


async def load(api: Api, query: Query) -> Data:
    """All policies."""
    found, me, fleet = await asyncio.gather(api.policies(), api.me(), api.fleet())
    return Data(found, me, str(fleet["at"]), await history.read(api, me, "policies"))


@page("/policies", "Policies", load, icon="policies", order=53, filters=(), under="/setup")
def layout(data: Data, query: Query, scheme: str) -> Component:
    """Each policy, the document if it is open, and the changes."""
    edits = administers(data.me)
    edit = parts.link("Edit the document", fields.opened(query, "change"), "button primary") if edits else None
    return html.Div(
        [
            parts.heading("Policies", f"In force now: {formats.clip(data.policies.get('in_force'), 80)}", edit),
            form(data, query) if edits else None,
            table(data),
            history.card(data.changes, query, "policies"),
        ],
        className="setup",
    )


def table(data: Data) -> Component:
    """The policies."""
    items: list[Row] = data.policies.get("items") or []
    if not items:
        text = "Teams pay for the time that they hold; the platform pays for the rest."
        return states.empty("No policies set", text)
    columns = [
        parts.Column("Policy", "wide"),
        parts.Column(dates.column()),
        parts.Column("Who pays", "wide"),
        parts.Column("Also has", "narrow-hide"),
    ]
    return parts.plain(parts.table(columns, [line(item) for item in items], label="Policies"))


def line(item: Row) -> list[parts.Node]:
    """A policy."""
    payers: Row = item.get("payers") or {}
    pays = [f"{cause.replace('_', ' ')}: {payer(entry)}" for cause, entry in payers.items()]
    counts = [f"{len(item[name])} {name}" for name in ("quotas", "discounts", "shared") if item.get(name)]
    return [
        html.B(formats.clip(item.get("name"), 60)),
        dates.validity(item),
        html.Div([html.Div(formats.clip(one, 100), className="small") for one in pays] or "the platform"),
        ", ".join(counts),
    ]


def payer(entry: object) -> str:
    """Who pays for one cause."""
    name = str(entry.get("payer")) if isinstance(entry, dict) else str(entry)
    return WORDS.get(name, name)


def form(data: Data, query: Query) -> Component | None:
    """The document."""
    if query.get("edit") != "change":
        return None
    items: list[Row] = data.policies.get("items") or []
    document = toml_text.written({"policies": items}) if items else FIRST.format(day=lists.tomorrow(data.now))
    buttons = [
        fields.button(list_actions.PREVIEW, "Check it and show the effect"),
        fields.button(list_actions.SAVE, "Save", "primary"),
        fields.cancel(query),
    ]
    values = {"document": document, list_actions.VERSION: str(data.policies.get("version"))} | preview.DEFAULTS
    return fields.form("Edit the policies", FIELDS, values, buttons)


@acts_on("/policies")
async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Checks or saves the document."""
    document = values.get("document", "") + "\n"
    if action == list_actions.PREVIEW:
        return Outcome(below=await preview.ask(api, "policies", document, values, LATER))
    if action != list_actions.SAVE:
        raise PreventUpdate
    done = await api.change("PUT", "policies", document, version=values.get(list_actions.VERSION, ""))
    message = "The policies are changed." if done.get("changed") else "Nothing changed: the policies are as before."
    return Outcome(message=message, go=CLOSED)
