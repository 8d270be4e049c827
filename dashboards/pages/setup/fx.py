"""Exchange rates: what one currency is worth in another, from when on, and the currency in which charges are shown."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from dash import html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from gpuwatch.dashboards.client import Api, ApiFailure, Row, administers
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.editing import dated, dates, fields, history, list_actions, lists, preview
from gpuwatch.dashboards.editing.fields import Field
from gpuwatch.dashboards.editing.outcome import CLOSED, Outcome, Values, acts_on
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

PAGE_SIZE = 50
CURRENCY, DAYS = "currency", "max_age_days"
NEW = (
    Field("from", "From", hint="A three-letter code.", placeholder="EUR"),
    Field("to", "To", placeholder="USD"),
    Field("rate", "Rate", hint="What one unit of the first is worth in the second.", placeholder="1.0850"),
    Field(dates.FROM, "Valid from", hint=dated.HINT),
)
SETTINGS = (
    Field(
        CURRENCY,
        "Reporting currency",
        hint="Charges are converted into it. Empty: each price stays in its own.",
        placeholder="USD",
    ),
    Field(DAYS, "Oldest rate in days", hint="A rate that is older is not used."),
)
LATER = "A rate counts from its date on: give a date before the end of this time to see its effect."
PRICED = "All charges are priced again, those of the past too; closed periods keep their bill and get corrections."


@dataclass(frozen=True)
class Data:
    """The exchange rates with their settings, who looks at them, the API's time, and the latest changes."""

    listed: lists.Listed
    settings: Row
    me: Row
    now: str
    changes: list[Row] | None

    @property
    def edits(self) -> bool:
        """Whether the reader may change them."""
        return administers(self.me)


async def read(api: Api) -> tuple[lists.Listed, Row]:
    """All exchange rates, and their settings."""
    listed = await lists.whole(api, "fx")
    return listed, {name: listed.more.get(name) for name in (CURRENCY, DAYS)}


async def load(api: Api, query: Query) -> Data:
    """The whole list: a form changes one row of it."""
    (listed, settings), me, fleet = await asyncio.gather(read(api), api.me(), api.fleet())
    return Data(listed, settings, me, str(fleet["at"]), await history.read(api, me, "fx"))


@page("/fx", "Exchange rates", load, filters=(), under="/setup")
def layout(data: Data, query: Query, scheme: str) -> Component:
    """The settings and the rates, the newest first, a form if one is open, and the changes."""
    actions = []
    if data.edits:
        actions = [
            parts.link("Reporting currency", fields.opened(query, "set"), "button"),
            parts.link("Add a rate", fields.opened(query, "add"), "button primary"),
        ]
    return html.Div(
        [
            parts.link("← Rates", query.link("/rates"), "back"),
            parts.heading("Exchange rates", note(data.settings), *actions),
            form(data, query) if data.edits else None,
            table(data, query),
            history.card(data.changes, query, "fx"),
        ],
        className="setup",
    )


def note(settings: Row) -> str:
    """What the settings say."""
    if not settings.get(CURRENCY):
        return "Charges stay in the currency of their price: no reporting currency is set."
    return f"Charges are converted into {settings[CURRENCY]}, with rates of at most {settings.get(DAYS)} days."


def table(data: Data, query: Query) -> Component:
    """The rates, the newest of each pair first."""
    if not data.listed.items:
        return states.empty("No exchange rates yet", "They are needed where prices or bills are in several currencies.")
    numbered = sorted(enumerate(data.listed.items), key=lambda one: str(one[1].get(dates.FROM)), reverse=True)
    latest = newest(data)
    shown, links = parts.numbered(sorted(numbered, key=lambda one: pair(one[1])), PAGE_SIZE, query)
    heads = [
        parts.Column("Pair"),
        parts.Column("Rate", "r"),
        parts.Column(f"From ({formats.zone_word()})", "nowrap"),
        parts.Column("State", "narrow-hide"),
        *([parts.Column("Change", "r")] if data.edits else []),
    ]
    rows = [
        [
            html.B(pair(row)),
            html.Span(lists.amount(row.get("rate"), 4), className="num"),
            html.Span(dates.date(row.get(dates.FROM)), className="num"),
            state(row, number, latest, data.now),
            *(
                [
                    fields.controls(
                        query, number, f"{pair(row)} of {dates.date(row.get(dates.FROM))}", {"remove": "Remove"}
                    )
                ]
                if data.edits
                else []
            ),
        ]
        for number, row in shown
    ]
    return html.Div([parts.plain(parts.table(heads, rows, label="Exchange rates")), links])


def pair(row: Row) -> str:
    """The two currencies."""
    return formats.clip(f"{row.get('from')} to {row.get('to')}", 30)


def newest(data: Data) -> dict[str, int]:
    """The place of the rate of each pair that began last."""
    found: dict[str, int] = {}
    for number, row in enumerate(data.listed.items):
        if not lists.is_past(str(row.get(dates.FROM)), data.now):
            continue
        before = found.get(pair(row))
        if before is None or str(row.get(dates.FROM)) > str(data.listed.items[before].get(dates.FROM)):
            found[pair(row)] = number
    return found


def state(row: Row, number: int, latest: dict[str, int], now: str) -> Component:
    """Whether a rate is in force."""
    if not lists.is_past(str(row.get(dates.FROM)), now):
        return parts.tag("Future", "warn")
    return parts.tag("In force", "ok") if latest.get(pair(row)) == number else parts.tag("Replaced")


def form(data: Data, query: Query) -> Component | None:
    """The form in the address."""
    action, held = (
        query.get("edit"),
        {list_actions.VERSION: data.listed.version, "now": data.now, list_actions.PAST: "no"} | preview.DEFAULTS,
    )
    buttons = [
        fields.button(list_actions.PREVIEW, "Show the effect"),
        fields.button(list_actions.SAVE, "Save", "primary"),
        fields.cancel(query),
    ]
    if action == "add":
        shown = [*NEW, dated.PAST, preview.PERIOD, *dated.HELD]
        return fields.form("Add a rate", shown, held | {dates.FROM: lists.tomorrow(data.now)}, buttons)
    if action == "set":
        known = {name: lists.text(data.settings.get(name)) for name in (CURRENCY, DAYS)}
        return fields.form(
            "Reporting currency", [*SETTINGS, preview.PERIOD, *dated.HELD], held | known, buttons, PRICED
        )
    if action != "remove":
        return None
    row = lists.at(data.listed.items, query.get("row"))
    buttons[1] = fields.button(list_actions.SAVE, "Remove it", "danger")
    title = f"Remove: {pair(row)}, {lists.amount(row.get('rate'), 4)} from {dates.date(row.get(dates.FROM))}"
    return fields.form(title, [preview.PERIOD, *dated.HELD], held, buttons, PRICED)


@acts_on("/fx")
async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Previews or saves the form of the address."""
    if query.get("edit") not in ("add", "set", "remove") or action not in (list_actions.PREVIEW, list_actions.SAVE):
        raise PreventUpdate
    if action == list_actions.SAVE and query.get("edit") == "add":
        refused = list_actions.past_change(values, values.get("now"), dates.FROM)
        if refused is not None:
            return refused
    listed, settings = await read(api)
    body = changed(listed.items, settings, query, values)
    if action == list_actions.PREVIEW:
        return Outcome(below=await preview.ask(api, "fx", body, values, LATER))
    done = await api.change("PUT", "fx", body, version=values.get(list_actions.VERSION, ""))
    warnings = "; ".join(str(one) for one in done.get("warnings") or [])
    message = (
        "The exchange rates are changed." if done.get("changed", True) else "Nothing changed: the list is as before."
    )
    return Outcome(message=formats.clip(f"{message} {warnings}".strip(), 400), go=CLOSED)


def changed(items: list[Row], settings: Row, query: Query, values: Values) -> Row:
    """The body of the list with the change of a form."""
    rows: list[Row] = list(items)
    kept: dict[str, Any] = dict(settings)
    if query.get("edit") == "add":
        row = {name: values.get(name, "") for name in ("from", "to", "rate")}
        rows.append(row | {dates.FROM: lists.instant(values.get(dates.FROM, ""))})
    elif query.get("edit") == "set":
        days = values.get(DAYS, "")
        if not days.isdecimal():
            raise ApiFailure(400, "bad_request", f"{DAYS} is not a whole number", field=DAYS)
        kept = {CURRENCY: values.get(CURRENCY, "").upper() or None, DAYS: int(days)}
    else:
        row = lists.at(items, query.get("row"))
        rows = [one for one in items if one is not row]
    return {"items": rows, **kept}
