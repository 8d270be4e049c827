"""The form of a channel. Its secrets are never shown: an empty field keeps what is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from gpuwatch.dashboards.client import Api, ApiFailure, Row
from gpuwatch.dashboards.components import formats
from gpuwatch.dashboards.editing import fields, list_actions
from gpuwatch.dashboards.editing.fields import Field
from gpuwatch.dashboards.editing.outcome import Outcome, Values
from gpuwatch.dashboards.shell.query import Query

PATH = "channels"
KEPT = "Never shown. Empty: it stays as it is."
NAMES = "Apart by commas. Empty: all."
SEVERITIES = tuple((name, name.capitalize()) for name in ("info", "low", "medium", "high", "critical"))
KINDS = (("slack", "Slack"), ("webhook", "Webhook"), ("alertmanager", "Alertmanager"), ("email", "E-mail"))
DIGESTS = (("off", "Each at once"), ("hourly", "Hourly"), ("daily", "Daily"))
YES_NO = (("yes", "Yes"), ("no", "No"))
HELD = (Field(list_actions.VERSION, "", "held"), Field("kind", "", "held"))
FIELDS = (
    Field("name", "Name", placeholder="gpu-waste"),
    Field("enabled", "Sends", "choice", options=YES_NO),
    Field("severity_min", "From severity", "choice", options=SEVERITIES),
    Field("severity_max", "To severity", "choice", options=SEVERITIES),
    Field("teams", "Teams", hint=NAMES),
    Field("rules", "Rules", hint=NAMES, placeholder="idle-hoarding"),
    Field("clusters", "Clusters", hint=NAMES),
    Field("fallback", "Only what no other channel sends", "choice", options=YES_NO),
)
POSTED = (
    Field("url", "Address", "secret", hint=KEPT),
    Field("authorization", "Authorization header", "secret", hint=f"Webhook and Alertmanager. {KEPT}"),
    Field("signing_secret", "Signing secret", "secret", hint=f"Webhook. {KEPT}"),
)
TIMED = (
    Field("events", "Events", hint="opened, worsened, resolved, report."),
    Field("digest", "Digest", "choice", options=DIGESTS),
    Field("quiet_hours", "Quiet hours", placeholder="22:00-07:00"),
    Field("timezone", "Time zone", placeholder="UTC"),
)
MAILED = (
    Field("host", "Mail server", placeholder="smtp.example.com"),
    Field("port", "Port", placeholder="587"),
    Field("user", "User"),
    Field("password", "Password", "secret", hint=KEPT),
    Field("from", "From", placeholder="gpuwatch@example.com"),
    Field("to", "To", hint="Addresses apart by commas."),
)
LISTS = ("teams", "rules", "clusters", "events", "to")
FLAGS = ("enabled", "fallback")
OWN = {
    "webhook": (*POSTED, *TIMED),
    "slack": (POSTED[0], *TIMED),
    "alertmanager": POSTED[:2],
    "email": (*MAILED, *TIMED),
}
"""Fields by the kind of a channel."""
ADDED = ("status", "url_hint", "origin", "password_set", "signing_secret_set", "authorization_set")
"""Fields that the API adds."""
DEFAULTS = {
    "severity_min": "medium", "severity_max": "critical", "enabled": "yes", "fallback": "no", "digest": "off",
    "events": "opened, worsened, resolved", "timezone": "UTC",
}  # fmt: skip


def shown(kind: str) -> list[Field]:
    """The fields of a form."""
    return [*FIELDS, *OWN.get(kind, OWN["slack"]), *HELD]


def form(items: list[Row], version: str, query: Query) -> Component | None:
    """The form in the address. A new channel has the fields of its kind: `kind` of the address."""
    action, held = query.get("edit"), {list_actions.VERSION: version}
    save = [fields.button(list_actions.SAVE, "Save", "primary"), fields.cancel(query)]
    if action == "add":
        kind = query.get("kind", "slack")
        return fields.form(
            f"Add a channel: {dict(KINDS).get(kind, 'Slack')}", shown(kind), held | DEFAULTS | {"kind": kind}, save
        )
    if action not in ("change", "remove"):
        return None
    row = found(items, query.get("row"))
    title = formats.clip(row.get("name"), 64)
    if action == "remove":
        save[0] = fields.button(list_actions.SAVE, "Remove it", "danger")
        note = "Messages that wait for it are not sent, and its secrets are deleted. This cannot be undone."
        return fields.form(f"Remove: {title}", HELD, held, save, note)
    return fields.form(f"Edit: {title}", shown(str(row.get("kind"))), held | as_text(row), save)


def found(items: list[Row], name: str) -> Row:
    """The channel of a name."""
    for row in items:
        if row.get("name") == name:
            return row
    raise ApiFailure(404, "not_found", "There is no channel of this name any more.", "Go back to the list.")


def as_text(row: Row) -> dict[str, str]:
    """A channel as the values of its fields."""
    values: dict[str, str] = {}
    for name, value in row.items():
        if isinstance(value, bool):
            values[name] = "yes" if value else "no"
        elif isinstance(value, list):
            values[name] = ", ".join(str(one) for one in value)
        elif value is not None and not isinstance(value, dict):
            values[name] = str(value)
    return values


async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Adds, changes or removes the channel of the address."""
    if action != list_actions.SAVE or query.get("edit") not in ("add", "change", "remove"):
        raise PreventUpdate
    message = (
        "The channel is removed." if query.get("edit") == "remove" else "The channel is saved. Send a test to be sure."
    )
    return await list_actions.run(
        api, action, values, lambda items: changed(items, query, values), path=PATH, message=message, previewed=False
    )


def changed(items: list[Row], query: Query, values: Values) -> list[Row]:
    """The channels that the pages set, after a change; those of the file are left out, because they stay by themselves."""
    own = [
        {name: value for name, value in row.items() if name not in ADDED}
        for row in items
        if row.get("origin") != "file"
    ]
    if query.get("edit") == "add":
        if any(row.get("name") == values.get("name") for row in items):
            raise ApiFailure(400, "bad_request", "name is taken by another channel", field="name")
        return [*own, given(values, {})]
    name = query.get("row")
    before = found(own, name)
    rest = [row for row in own if row is not before]
    return rest if query.get("edit") == "remove" else [*rest, given(values, before)]


def given(values: Values, before: Mapping[str, Any]) -> Row:
    """A channel with the values of its form; a secret that is empty is left out, so that it stays."""
    row: Row = dict(before)
    for name, text in values.items():
        if name == list_actions.VERSION:
            continue
        if name in LISTS:
            parts = [one for part in text.split(",") if (one := part.strip())]
            row[name] = parts or ([] if name == "to" else None)
        elif name in FLAGS:
            row[name] = text == "yes"
        elif name == "port":
            row[name] = int(text) if text.isdecimal() else (text or None)
        elif text:
            row[name] = text
        elif name not in ("url", "authorization", "signing_secret", "password"):
            row[name] = None
    if row.get("events") is None:
        row.pop("events", None)
    return row
