"""Rates: what a GPU-hour costs, changed from a date on, with the effect on a past time before it is saved."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row, administers
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.editing import dated, dates, fields, history, lists
from gpuwatch.dashboards.editing.dated import Dated
from gpuwatch.dashboards.editing.fields import Field
from gpuwatch.dashboards.editing.outcome import Outcome, Values, acts_on
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

PAGE_SIZE = 50
PRICINGS = {"on_demand": "On demand", "reserved": "Reserved", "spot": "Spot", "owned": "Owned"}
PRICE = Field("usd_per_gpu_hour", "Price", hint="Per whole GPU-hour, also for a MIG profile.", placeholder="2.49")
SCOPE = ("cluster", "pool", "mig_profile")
NEW = (
    Field("gpu_model", "GPU model", hint="The exporter's name, a part of it such as H100, or * for all."),
    Field("pricing", "Pricing", "choice", options=tuple(PRICINGS.items())),
    PRICE,
    Field("currency", "Currency", placeholder="USD"),
    Field("cluster", "Cluster", placeholder="All"),
    Field("pool", "Pool", placeholder="All"),
    Field("mig_profile", "MIG profile", placeholder="All"),
    Field("quantity", "Committed GPUs", hint="Reserved capacity only. Empty: all of the scope."),
    Field("commitment_id", "Commitment", hint="Reserved capacity only."),
)
OF_PRICE = ("node_price", "node_gpus", "node_vcpus", "node_memory_gib", "node_split", "contracted_price")
"""Fields of a rate that say how its price came about: a rate with a new price does not take them over."""


@dataclass(frozen=True)
class Data:
    """The rate card, who looks at it, the API's time, and the latest changes."""

    listed: lists.Listed
    me: Row
    now: str
    changes: list[Row] | None

    @property
    def edits(self) -> bool:
        """Whether the reader may change it."""
        return administers(self.me)


async def load(api: Api, query: Query) -> Data:
    """The whole card: a form changes one row of it."""
    listed, me, fleet = await asyncio.gather(lists.whole(api, "rates"), api.me(), api.fleet())
    return Data(listed, me, str(fleet["at"]), await history.read(api, me, "rates"))


@page("/rates", "Rates", load, icon="rates", order=51, filters=(), under="/setup")
def layout(data: Data, query: Query, scheme: str) -> Component:
    """The card, a form over it if one is open, and its changes."""
    add = parts.link("Add a rate", fields.opened(query, "add"), "button primary") if data.edits else None
    others = [
        parts.link(word, query.link(path), "button")
        for path, word in (("/owned", "Owned hardware"), ("/fx", "Exchange rates"), ("/spot", "Spot prices"))
    ]
    open_ = dated.form(KIND, data.listed.items, data.listed.version, data.now, query) if data.edits else None
    return html.Div(
        [
            parts.heading("Rates", "What a GPU-hour costs. A change prices the charges again.", *others, add),
            open_,
            table(data, query),
            history.card(data.changes, query, "rates"),
        ],
        className="setup",
    )


def table(data: Data, query: Query) -> Component:
    """The rates, those in force first."""
    if not data.listed.items:
        return states.empty("No rates yet", "Without a rate, time is counted and has no price.")
    shown, links = parts.numbered(dated.ordered(data.listed.items, data.now), PAGE_SIZE, query)
    columns = [
        parts.Column("GPU model", "wide"),
        parts.Column("Pricing", "narrow-hide"),
        parts.Column("Per GPU-hour", "r"),
        parts.Column(dates.column(), "narrow-hide"),
        parts.Column("State", "narrow-hide"),
        *([parts.Column("Change", "r")] if data.edits else []),
    ]
    rows = [line(number, row, data, query) for number, row in shown]
    return html.Div([parts.plain(parts.table(columns, rows, label="Rates")), links])


def line(number: int, row: Row, data: Data, query: Query) -> list[parts.Node]:
    """A rate."""
    scope = " · ".join(f"{name.replace('mig_', 'MIG ')} {row[name]}" for name in SCOPE if row.get(name))
    bought = [f"{row['quantity']} GPUs"] if row.get("quantity") else []
    bought += [str(row["commitment_id"])] if row.get("commitment_id") else []
    cells: list[parts.Node] = [
        html.Div(
            [
                html.B(formats.clip(row.get("gpu_model"), 60)),
                html.Div(formats.clip(scope, 80), className="soft small") if scope else None,
                dated.below(row, data.now, pricing(row)),
            ]
        ),
        html.Div([pricing(row), html.Div(formats.clip(" · ".join(bought), 60), className="soft small")]),
        html.Span(formats.clip(f"{lists.amount(row.get(PRICE.name), 2)} {row.get('currency')}", 40), className="num"),
        dates.validity(row),
        dated.tag(row, data.now),
    ]
    return [*cells, dated.controls(KIND, number, row, data.now, query)] if data.edits else cells


def pricing(row: Row) -> str:
    """The pricing model in words."""
    return PRICINGS.get(str(row.get("pricing")), str(row.get("pricing")))


def label(row: Row) -> str:
    """A rate in a title."""
    scope = [str(row[name]) for name in SCOPE if row.get(name)]
    return formats.clip(", ".join([str(row.get("gpu_model")), pricing(row).lower(), *scope]), 90)


def made(values: Values) -> Row:
    """A new rate. A number that is none stays text, for the API to refuse."""
    row: dict[str, Any] = {one.name: values.get(one.name, "") for one in NEW}
    if row["quantity"].isdecimal():
        row["quantity"] = int(row["quantity"])
    required = {name: row[name] for name in ("gpu_model", PRICE.name)}
    return lists.filled(row) | required


def replaced(row: Row, values: Values) -> Row:
    """The same rate with another price."""
    kept = {name: value for name, value in row.items() if name not in OF_PRICE}
    return kept | {PRICE.name: values.get(PRICE.name, "")}


KIND = Dated(
    path="rates",
    noun="rate",
    message="The rate card is changed.",
    new=NEW,
    later=(PRICE,),
    made=made,
    replaced=replaced,
    label=label,
    defaults={"pricing": "on_demand", "currency": "USD"},
    change_word="New price",
)


@acts_on("/rates")
async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Previews or saves the form of the address."""
    return await dated.act(KIND, api, query, action, values)
