"""Owned hardware: purchase and running costs from which the price of a GPU-hour follows, with the whole formula."""

from __future__ import annotations

import asyncio

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.editing import dated, dates, fields, history, lists
from gpuwatch.dashboards.editing.dated import Dated
from gpuwatch.dashboards.editing.fields import Field
from gpuwatch.dashboards.editing.outcome import Outcome, Values, acts_on
from gpuwatch.dashboards.pages.setup.rates import Data
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

ALL = "Of all these GPUs."
RATIO = "A ratio such as 0.2, or 20 %."
COMPUTED = ("usd_per_gpu_hour", "formula")
"""Fields that the API adds to a row."""
LATER = (
    Field("gpus", "GPUs", hint="The amounts are of all of them."),
    Field("capex", "Purchase price", hint=ALL),
    Field("years", "Years of use"),
    Field("kw", "Power in kW", hint=ALL),
    Field("price_per_kwh", "Price per kWh"),
    Field("host_kw", "Power of the hosts in kW", hint=ALL),
    Field("pue", "PUE"),
    Field("adders", "Adders to the purchase price", hint=RATIO),
    Field("residual", "Residual value", hint=RATIO),
    Field("availability", "Availability", hint=RATIO),
    Field("ops_per_year", "Operation per year", hint=ALL),
    Field("space_per_year", "Space per year", hint=ALL),
    Field("support_per_year", "Support per year", hint=ALL),
)
NEW = (
    Field("name", "Name", placeholder="DGX rack 1"),
    Field("gpu_model", "GPU model", placeholder="H100"),
    *LATER,
    Field("currency", "Currency"),
    Field("cluster", "Cluster", placeholder="All"),
    Field("pool", "Pool", placeholder="All"),
)
REQUIRED = ("name", "gpu_model", "gpus", "capex", "years", "kw", "price_per_kwh")


async def load(api: Api, query: Query) -> Data:
    """The whole list: a form changes one row of it."""
    listed, me, fleet = await asyncio.gather(lists.whole(api, "owned"), api.me(), api.fleet())
    return Data(listed, me, str(fleet["at"]), await history.read(api, me, "owned"))


@page("/owned", "Owned hardware", load, filters=(), under="/setup")
def layout(data: Data, query: Query, scheme: str) -> Component:
    """Each purchase with its price and formula, a form if one is open, and the changes."""
    add = parts.link("Add hardware", fields.opened(query, "add"), "button primary") if data.edits else None
    return html.Div(
        [
            parts.link("← Rates", query.link("/rates"), "back"),
            parts.heading("Owned hardware", "Its price per GPU-hour follows from what it costs to own and run.", add),
            dated.form(KIND, data.listed.items, data.listed.version, data.now, query) if data.edits else None,
            table(data, query),
            history.card(data.changes, query, "owned"),
        ],
        className="setup",
    )


def table(data: Data, query: Query) -> Component:
    """The purchases, those in use first."""
    if not data.listed.items:
        return states.empty("No owned hardware yet", "Its GPU-hours have the prices of the rate card, if any.")
    columns = [
        parts.Column("Name", "wide"),
        parts.Column("GPUs", "r narrow-hide"),
        parts.Column("Per GPU-hour", "r"),
        parts.Column(dates.column(), "narrow-hide"),
        parts.Column("State", "narrow-hide"),
        *([parts.Column("Change", "r")] if data.edits else []),
    ]
    rows = [line(number, row, data, query) for number, row in dated.ordered(data.listed.items, data.now)]
    return parts.plain(parts.table(columns, rows, label="Owned hardware"))


def line(number: int, row: Row, data: Data, query: Query) -> list[parts.Node]:
    """A purchase."""
    formula = html.Details([html.Summary("Formula"), html.Pre(str(row.get("formula")), tabIndex="0")])
    price = parts.money(row.get("usd_per_gpu_hour"), str(row.get("currency")))
    cells: list[parts.Node] = [
        html.Div(
            [html.B(formats.clip(label(row), 80)), dated.below(row, data.now, f"{row.get('gpus')} GPUs"), formula]
        ),
        parts.num(f"{row.get('gpus')}"),
        price,
        dates.validity(row),
        dated.tag(row, data.now),
    ]
    return [*cells, dated.controls(KIND, number, row, data.now, query)] if data.edits else cells


def label(row: Row) -> str:
    """A purchase in a title."""
    return formats.clip(f"{row.get('name')}, {row.get('gpu_model')}", 90)


def made(values: Values) -> Row:
    """New hardware. A number that is none stays text, for the API to refuse."""
    row: Row = {one.name: values.get(one.name, "") for one in NEW}
    return counted(lists.filled(row) | {name: row[name] for name in REQUIRED})


def replaced(row: Row, values: Values) -> Row:
    """The same hardware at other costs."""
    kept = {name: value for name, value in row.items() if name not in (*COMPUTED, "kw_source")}
    return counted(kept | {one.name: values.get(one.name, "") for one in LATER})


def counted(row: Row) -> Row:
    """A row with its number of GPUs as a number."""
    gpus = str(row["gpus"])
    return row | {"gpus": int(gpus)} if gpus.isdecimal() else row


KIND = Dated(
    path="owned",
    noun="purchase",
    message="The owned hardware is changed.",
    new=NEW,
    later=LATER,
    made=made,
    replaced=replaced,
    label=label,
    defaults={
        "currency": "USD", "pue": "1", "adders": "0", "residual": "0", "availability": "1",
        "host_kw": "0", "ops_per_year": "0", "space_per_year": "0", "support_per_year": "0",
    },
    dropped=COMPUTED,
    change_word="New costs",
)  # fmt: skip


@acts_on("/owned")
async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Previews or saves the form of the address."""
    return await dated.act(KIND, api, query, action, values)
