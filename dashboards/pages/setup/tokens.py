"""Tokens: who and what may use this server. A new one is shown once, and each can be revoked."""

from __future__ import annotations

from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.editing import dates, fields, lists
from gpuwatch.dashboards.editing.fields import Field
from gpuwatch.dashboards.editing.outcome import CLOSED, Outcome, Values, acts_on
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

PAGE_SIZE = 100
SCOPES = (("read", "Read"), ("ingest", "Send measurements"), ("admin", "Administer"))
FIELDS = (
    Field("name", "Name", hint="Who or what uses it; the audit log has it.", placeholder="vision dashboard"),
    Field("scope", "May", "choice", options=SCOPES),
    Field("teams", "Teams", hint="Only for Read. Apart by commas; empty: all teams."),
    Field("expires_at", "Expires", hint="A date (UTC), or empty: never."),
)
FIRST = "There is no token yet. Once one exists, this browser too has to sign in with one, so create one that may administer first."


@dataclass(frozen=True)
class Data:
    """The tokens, and the API's time. None: the reader may not see them."""

    items: list[Row]
    now: str


async def load(api: Api, query: Query) -> Data:
    """All tokens; the API refuses who is no administrator."""
    found = await lists.whole(api, "tokens")
    return Data(found.items, str((await api.fleet())["at"]))


@page("/tokens", "Tokens", load, icon="tokens", order=60, filters=(), under="/setup")
def layout(data: Data, query: Query, scheme: str) -> Component:
    """Each token, those in force first, and a form if one is open."""
    add = parts.link("Create a token", fields.opened(query, "add"), "button primary")
    return html.Div(
        [
            parts.heading("Tokens", "Each request needs one, once there is any.", add),
            form(data, query),
            table(data, query),
        ],
        className="setup",
    )


def table(data: Data, query: Query) -> Component:
    """The tokens."""
    if not data.items:
        return states.empty(
            "No tokens yet", "Whoever is on the server's own machine may do everything; others nothing."
        )
    ordered = sorted(data.items, key=lambda row: (state(row, data.now) != "In force", str(row.get("name"))))
    shown, links = parts.numbered(ordered, PAGE_SIZE, query)
    columns = [
        parts.Column("Name", "wide"),
        parts.Column("May"),
        parts.Column("Created", "narrow-hide"),
        parts.Column(f"Expires ({formats.zone_word()})", "narrow-hide"),
        parts.Column("State"),
        parts.Column("Change", "r"),
    ]
    rows = [line(row, data, query) for row in shown]
    return html.Div([parts.plain(parts.table(columns, rows, label="Tokens")), links])


def line(row: Row, data: Data, query: Query) -> list[parts.Node]:
    """A token."""
    word, name = state(row, data.now), formats.clip(row.get("name"), 60)
    teams = formats.clip(", ".join(row.get("teams") or []), 80)
    revoke = fields.controls(query, row.get("id"), name, {"revoke": "Revoke"})
    return [
        html.Div([html.B(name), html.Div(str(row.get("id")), className="soft small mono")]),
        html.Div(
            [dict(SCOPES).get(str(row.get("scope")), ""), html.Div(teams, className="soft small") if teams else None]
        ),
        html.Span(
            f"{formats.when(row.get('created_at'))} by {formats.clip(row.get('created_by'), 40)}", className="soft"
        ),
        html.Span(dates.date(row["expires_at"]) if row.get("expires_at") else "never", className="num"),
        parts.tag(word, "ok" if word == "In force" else "plain"),
        revoke if word == "In force" else None,
    ]


def state(row: Row, now: str) -> str:
    """Whether it opens anything."""
    if row.get("revoked_at"):
        return "Revoked"
    return "Expired" if row.get("expires_at") and lists.is_past(str(row["expires_at"]), now) else "In force"


def form(data: Data, query: Query) -> Component | None:
    """The form in the address."""
    if query.get("edit") == "add":
        first = not any(not row.get("revoked_at") for row in data.items)
        save = [fields.button("create", "Create", "primary"), fields.cancel(query)]
        return fields.form(
            "Create a token", FIELDS, {"scope": "admin" if first else "read"}, save, FIRST if first else None
        )
    if query.get("edit") != "revoke":
        return None
    name = next((str(row.get("name")) for row in data.items if row.get("id") == query.get("row")), "")
    buttons = [fields.button("revoke", "Revoke it", "danger"), fields.cancel(query)]
    note = "It opens nothing from then on, and what uses it stops working. This cannot be undone."
    return fields.form(f"Revoke: {formats.clip(name, 60)}", (), {}, buttons, note)


@acts_on("/tokens")
async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Creates a token, or revokes one."""
    if action == "revoke" and query.get("edit") == "revoke":
        row: Row = (await api.change("DELETE", f"tokens/{query.get('row')}")).get("items", [{}])[0]
        return Outcome(message=f"{row.get('name')} is revoked.", go=CLOSED)
    if action != "create" or query.get("edit") != "add":
        raise PreventUpdate
    teams = [one for part in values.get("teams", "").split(",") if (one := part.strip())]
    body: Row = {"name": values.get("name", ""), "scope": values.get("scope", "read"), "teams": teams or None}
    body["expires_at"] = lists.instant(values.get("expires_at", "")) or None
    made = await api.change("POST", "tokens", body)
    return Outcome(below=made_once(made, query))


def made_once(made: Row, query: Query) -> Component:
    """The text of a new token, which is not shown again."""
    return html.Div(
        [
            html.H3("Copy it now: it is not shown again."),
            html.Pre(str(made.get("token")), tabIndex="0", **parts.aria("The new token")),
            parts.link("Done", fields.closed(query), "button"),
        ]
    )
