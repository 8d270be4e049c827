"""Team map: the rules that decide which team a job belongs to, a test of them, and what a change would move."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from gpuwatch.dashboards.client import Api, ApiFailure, Row, administers
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.editing import fields, history, list_actions, lists, preview
from gpuwatch.dashboards.editing.fields import Field
from gpuwatch.dashboards.editing.outcome import Outcome, Values, acts_on
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

PAGE_SIZE = 100
KINDS = (("namespace", "Namespace"), ("account", "Account"), ("user", "User"), ("queue", "Queue"), ("label", "Label"))
HELD = (preview.PERIOD, Field(list_actions.VERSION, "", "held"))
ORDER = "Rules of one kind are tried from top to bottom; labels decide first, then queue, namespace, account and user."
RULE = (
    Field("match_kind", "Look at", "choice", options=KINDS),
    Field("key", "Label's key", hint="Only for a label.", placeholder="cost-center"),
    Field("match", "Is", hint="* stands for any text; upper and lower case count.", placeholder="vision-*"),
    Field("team", "Team", hint="* is the value itself: a label's value names the team.", placeholder="vision"),
    Field("place", "Place in the list", hint="1 is the top."),
)
TEST = (
    Field("job", "Job or pod", hint="Its own names are looked up.", placeholder="train-1"),
    Field("namespace", "Namespace"),
    Field("account", "Account"),
    Field("user", "User"),
    Field("queue", "Queue"),
    Field("label", "Label", placeholder="cost-center=42"),
)
SAME = "*"
"""As the team of a rule: the value that matched names the team."""
ASK = "ask"


@dataclass(frozen=True)
class Data:
    """The rules, who looks at them, and the latest changes."""

    listed: lists.Listed
    me: Row
    changes: list[Row] | None

    @property
    def edits(self) -> bool:
        """Whether the reader may change them."""
        return administers(self.me)


async def load(api: Api, query: Query) -> Data:
    """All rules: a form changes one of them, or its place."""
    listed, me = await asyncio.gather(lists.whole(api, "teams"), api.me())
    return Data(listed, me, await history.read(api, me, "teams"))


@page("/owners", "Team map", load, icon="owners", order=52, filters=(), under="/setup")
def layout(data: Data, query: Query, scheme: str) -> Component:
    """The rules, a form over them if one is open, a test, and the changes."""
    add = parts.link("Add a rule", fields.opened(query, "add"), "button primary") if data.edits else None
    return html.Div(
        [
            parts.heading("Team map", "Which team a job belongs to, and so who pays for it.", add),
            form(data, query) if data.edits else None,
            table(data, query),
            tester() if data.me.get("teams") is None and not query.get("edit") else None,
            history.card(data.changes, query, "teams"),
        ],
        className="setup",
    )


def table(data: Data, query: Query) -> Component:
    """The rules in the order in which they are tried."""
    if not data.listed.items:
        text = "Without rules, the label gpuwatch.io/team, the account or the namespace names the team."
        return states.empty("No rules yet", text)
    shown, links = parts.numbered(list(enumerate(data.listed.items)), PAGE_SIZE, query)
    columns = [
        parts.Column("#", "r"),
        parts.Column("Look at", "narrow-hide"),
        parts.Column("Is", "wide"),
        parts.Column("Team"),
        *([parts.Column("Change", "r")] if data.edits else []),
    ]
    rows = [line(number, row, data, query) for number, row in shown]
    return html.Div([parts.plain(html.P(ORDER, className="soft"), parts.table(columns, rows, label="Rules")), links])


def line(number: int, row: Row, data: Data, query: Query) -> list[parts.Node]:
    """A rule."""
    cells: list[parts.Node] = [
        parts.num(str(number + 1)),
        formats.clip(row.get("match_kind"), 60),
        html.Div(
            [
                html.Div(formats.clip(row.get("match_kind"), 60), className="soft small narrow-only"),
                html.Span(formats.clip(row.get("match"), 80), className="mono"),
            ]
        ),
        html.Span("its value", className="soft")
        if row.get("team") == SAME
        else parts.team_link(query, row.get("team")),
    ]
    if not data.edits:
        return cells
    return [*cells, fields.controls(query, number, f"rule {number + 1}", {"change": "Edit", "remove": "Remove"})]


def tester() -> Component:
    """The form that asks the server who would own something."""
    return fields.form(
        "Who would own it?",
        TEST,
        {},
        [fields.button(ASK, "Ask", "primary")],
        "Fill in what is known of it; the server's rules decide.",
    )


def form(data: Data, query: Query) -> Component | None:
    """The form in the address."""
    action, held = query.get("edit"), {list_actions.VERSION: data.listed.version} | preview.DEFAULTS
    buttons = [
        fields.button(list_actions.PREVIEW, "Show what moves"),
        fields.button(
            list_actions.SAVE,
            "Remove it" if action == "remove" else "Save",
            "danger" if action == "remove" else "primary",
        ),
        fields.cancel(query),
    ]
    note = "Charges that are not closed are divided again, past ones too. Closed periods get corrections."
    if action == "add":
        values = held | {"match_kind": "namespace", "place": str(len(data.listed.items) + 1)}
        return fields.form("Add a rule", [*RULE, *HELD], values, buttons, note)
    if action not in ("change", "remove"):
        return None
    row = lists.at(data.listed.items, query.get("row"))
    kind, _, key = str(row.get("match_kind")).partition(":")
    title = formats.clip(f"{row.get('match_kind')} {row.get('match')} to {row.get('team')}", 90)
    if action == "remove":
        return fields.form(f"Remove: {title}", HELD, held, buttons, note)
    values = held | {"match_kind": kind, "key": key, "place": str(int(query.get("row")) + 1)}
    values |= {name: str(row.get(name)) for name in ("match", "team")}
    return fields.form(f"Edit: {title}", [*RULE, *HELD], values, buttons, note)


@acts_on("/owners")
async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Asks who would own something, or previews or saves the form of the address."""
    if action == ASK:
        return await asked(api, values)
    if query.get("edit") not in ("add", "change", "remove"):
        raise PreventUpdate
    place = values.get("place", "1")
    if not place.isdecimal() or not int(place):
        return Outcome(wrong={"place": "Give a number; 1 is the top of the list."})
    return await list_actions.run(
        api,
        action,
        values,
        lambda items: changed(items, query, values),
        path="teams",
        message="The team map is changed.",
    )


def changed(items: list[Row], query: Query, values: Values) -> list[Row]:
    """The rules with the change of a form."""
    left = list(items)
    if query.get("edit") != "add":
        lists.at(items, query.get("row"))
        del left[int(query.get("row"))]
        if query.get("edit") == "remove":
            return left
    kind = values.get("match_kind", "")
    if kind == "label":
        if not values.get("key"):
            raise ApiFailure(400, "bad_request", "key is empty: name the label", field="key")
        kind = f"label:{values['key']}"
    rule: Row = {"match_kind": kind, "match": values.get("match", ""), "team": values.get("team", "")}
    place = min(int(values["place"]), len(left) + 1) - 1
    return [*left[:place], rule, *left[place:]]


async def asked(api: Api, values: Values) -> Outcome:
    """Who would own what the test describes, and by which rule."""
    given = lists.filled({one.name: values.get(one.name) for one in TEST})
    if not given:
        return Outcome(wrong={fields.FORM: "Fill in at least one field."})
    found = await api.get("teams/owner", **given)
    return Outcome(below=html.Div([answered(one) for one in found.get("items") or []], className="stack"))


def answered(found: Row) -> Component:
    """One answer."""
    rule: Row | None = found.get("rule")
    known = " · ".join(f"{name} {value}" for name, value in (found.get("of") or {}).items() if value)
    by = f"Rule {rule['place']}: {rule['match_kind']} {rule['match']}" if rule else "No rule"
    return html.Div(
        [
            html.B(formats.clip(formats.owner(found.get("team")), 60)),
            html.Span(formats.clip(f" by {found.get('why')}", 200)),
            html.Div(formats.clip(by, 200), className="soft small"),
            html.Div(formats.clip(known, 300), className="soft small") if known else None,
        ],
        className="advice",
    )
