"""Budgets as they were set: the list and the form that the page of budgets shows to administrators."""

from __future__ import annotations

from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.editing import dated, dates, history, lists
from gpuwatch.dashboards.editing.dated import Dated
from gpuwatch.dashboards.editing.fields import Field
from gpuwatch.dashboards.editing.outcome import Outcome, Values
from gpuwatch.dashboards.shell.query import Query

FLEET = "*"
LATER = (
    Field("amount", "Amount", placeholder="25000"),
    Field("currency", "Currency", placeholder="USD"),
    Field("gpu_hours", "GPU-hours", hint="A quota beside the amount. Empty: none."),
    Field("alert_at", "Alerts at", hint="Percent of the amount, apart by blanks."),
)
NEW = (
    Field("team", "Team", hint="* is the whole fleet."),
    Field("period", "Period", "choice", options=(("month", "Month"), ("week", "Week"))),
    *LATER,
)


@dataclass(frozen=True)
class Data:
    """The list, the API's time, and the latest changes."""

    listed: lists.Listed
    now: str
    changes: list[Row] | None


def form(data: Data, query: Query) -> Component | None:
    """The form in the address."""
    return dated.form(KIND, data.listed.items, data.listed.version, data.now, query)


def cards(data: Data, query: Query) -> list[Component | None]:
    """The list and its changes."""
    if not data.listed.items:
        return [history.card(data.changes, query, "budgets")]
    columns = [
        parts.Column("Team", "wide"),
        parts.Column("Amount", "r"),
        parts.Column("GPU-hours", "r narrow-hide"),
        parts.Column("Alerts at", "narrow-hide"),
        parts.Column(dates.column(), "narrow-hide"),
        parts.Column("State", "narrow-hide"),
        parts.Column("Change", "r"),
    ]
    rows = [
        [
            html.Div([html.B(formats.clip(label(row), 60)), dated.below(row, data.now)]),
            html.Span(formats.clip(f"{lists.amount(row.get('amount'), 0)} {row.get('currency')}", 40), className="num"),
            parts.num(str(row.get("gpu_hours") or formats.MISSING), "No quota"),
            html.Span(alerts(row), className="num"),
            dates.validity(row),
            dated.tag(row, data.now),
            dated.controls(KIND, number, row, data.now, query),
        ]
        for number, row in dated.ordered(data.listed.items, data.now)
    ]
    table = parts.table(columns, rows, label="Budgets as set")
    return [parts.card("All budgets", table), history.card(data.changes, query, "budgets")]


def alerts(row: Row) -> str:
    """`80 %, 100 %`: the parts of the amount at which it alerts."""
    return ", ".join(f"{part} %" for part in str(row.get("alert_at") or "").split()) or formats.MISSING


def label(row: Row) -> str:
    """A budget in a title."""
    team = "The fleet" if row.get("team") == FLEET else formats.owner(row.get("team"))
    return formats.clip(f"{team}, each {row.get('period')}", 90)


def made(values: Values) -> Row:
    """A new budget."""
    row = {one.name: values.get(one.name, "") for one in NEW}
    return lists.filled(row) | {name: row[name] for name in ("team", "period", "amount", "currency")}


def replaced(row: Row, values: Values) -> Row:
    """The same budget with other amounts."""
    changed = {one.name: values.get(one.name, "") for one in LATER}
    kept = {name: value for name, value in row.items() if name not in changed}
    return kept | lists.filled(changed) | {name: changed[name] for name in ("amount", "currency")}


KIND = Dated(
    path="budgets",
    read="budgets/set",
    noun="budget",
    message="The budgets are changed.",
    new=NEW,
    later=LATER,
    made=made,
    replaced=replaced,
    label=label,
    defaults={"period": "month", "currency": "USD", "alert_at": "80 100"},
    charges=False,
)


async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Saves the form of the address."""
    return await dated.act(KIND, api, query, action, values)
