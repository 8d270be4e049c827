"""Spot prices: the imported history of a cloud, the latest price of each series, and a form that adds to it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from decimal import Decimal

from dash import html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from gpuwatch.dashboards.client import Api, ApiFailure, Row, administers
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.editing import dates, fields, history, list_actions, lists
from gpuwatch.dashboards.editing.fields import Field
from gpuwatch.dashboards.editing.outcome import CLOSED, Outcome, Values, acts_on
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

PAGE_SIZE = 50
SERIES = ("instance_type", "zone", "product", "currency", "cluster", "pool")
FIELDS = (
    Field("prices", "Prices", "area", hint="The JSON that aws ec2 describe-spot-price-history prints."),
    Field("instance", "GPUs of the instance types", hint="Separated by commas.", placeholder="p5.48xlarge=H100:8"),
    Field("zone", "Zone", hint="Needed where the file has several.", placeholder="us-east-1a"),
    Field("product", "Product", placeholder="Linux/UNIX"),
    Field("currency", "Currency", placeholder="USD"),
    Field("cluster", "Cluster", placeholder="All"),
    Field("pool", "Pool", placeholder="All"),
)
ADDED = "Prices that are known already change nothing. Charges are priced again, those of the past too; closed periods get corrections."


@dataclass(frozen=True)
class Data:
    """All prices, who looks at them, and the latest changes."""

    items: list[Row]
    me: Row
    changes: list[Row] | None


async def load(api: Api, query: Query) -> Data:
    """The whole history: a row of the page is a series of it."""
    listed, me = await asyncio.gather(lists.whole(api, "spot"), api.me())
    return Data(listed.items, me, await history.read(api, me, "spot"))


@page("/spot", "Spot prices", load, filters=(), under="/setup")
def layout(data: Data, query: Query, scheme: str) -> Component:
    """Each series with its latest price, a form if it is open, and the changes."""
    edits = administers(data.me)
    add = parts.link("Add prices", fields.opened(query, "add"), "button primary") if edits else None
    return html.Div(
        [
            parts.link("← Rates", query.link("/rates"), "back"),
            parts.heading("Spot prices", "What spot capacity cost, hour by hour, as its cloud reports it.", add),
            form(query) if edits else None,
            table(data, query),
            history.card(data.changes, query, "spot"),
        ],
        className="setup",
    )


def table(data: Data, query: Query) -> Component:
    """One row per series, by instance type and zone."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in data.items:
        found.setdefault(tuple(str(row.get(name) or "") for name in SERIES), []).append(row)
    if not found:
        return states.empty("No spot prices yet", "Spot capacity has the spot rates of the rate card, if any.")
    shown, links = parts.numbered(sorted(found.items()), PAGE_SIZE, query)
    heads = [
        parts.Column("Instance type", "wide"),
        parts.Column("Per GPU-hour", "r"),
        parts.Column("Per instance-hour", "r narrow-hide"),
        parts.Column("Lowest", "r narrow-hide", hint="Per GPU-hour, of all prices"),
        parts.Column("Highest", "r narrow-hide", hint="Per GPU-hour, of all prices"),
        parts.Column("Prices", "r narrow-hide"),
        parts.Column(f"Latest ({formats.zone_word()})", "nowrap narrow-hide"),
    ]
    rows = [line(prices) for _, prices in shown]
    return html.Div([parts.plain(parts.table(heads, rows, label="Spot prices")), links])


def line(prices: list[Row]) -> list[parts.Node]:
    """A series."""
    last = max(prices, key=lambda row: str(row.get("at")))
    currency = str(last.get("currency") or "")
    each = [price for row in prices if (price := per_gpu(row)) is not None]
    where = [str(last[name]) for name in ("zone", "product", "cluster", "pool") if last.get(name)]
    model = f"{last.get('gpus')} × {last.get('gpu_model')}"
    return [
        html.Div(
            [
                html.B(formats.clip(last.get("instance_type"), 60)),
                html.Div(formats.clip(" · ".join([model, *where]), 100), className="soft small"),
                html.Div(f"since {dates.date(last.get('at'))}", className="soft small narrow-only"),
            ]
        ),
        parts.num(rate(per_gpu(last), currency)),
        parts.num(rate(formats.number(last.get("price")), currency)),
        parts.num(rate(min(each, default=None), currency)),
        parts.num(rate(max(each, default=None), currency)),
        parts.num(f"{len(prices):,}"),
        html.Span(dates.date(last.get("at")), className="num"),
    ]


def per_gpu(row: Row) -> Decimal | None:
    """The price of one of its GPUs."""
    price, gpus = formats.number(row.get("price")), formats.number(row.get("gpus"))
    return None if price is None or not gpus else price / gpus


def rate(value: object, currency: str) -> str:
    """A price with four decimals, as spot prices have them."""
    return formats.MISSING if value is None else f"{formats.sign_of(currency)}{formats.fixed(value, 4)}"


def form(query: Query) -> Component | None:
    """The form in the address."""
    if query.get("edit") != "add":
        return None
    buttons = [fields.button(list_actions.SAVE, "Add them", "primary"), fields.cancel(query)]
    return fields.form("Add spot prices", FIELDS, {"currency": "USD"}, buttons, ADDED)


@acts_on("/spot")
async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Adds the prices of the form."""
    if action != list_actions.SAVE or query.get("edit") != "add":
        raise PreventUpdate
    words = {one.name: values.get(one.name, "") for one in FIELDS if one.name != "prices"}
    done = await api.change("POST", "spot", document(values.get("prices", "")), patient=True, **words)
    if not done.get("changed"):
        return Outcome(message="Nothing changed: all these prices are known.", go=CLOSED)
    return Outcome(message=f"{done.get('rows'):,} prices were read, and the new ones added.", go=CLOSED)


def document(text: str) -> Row:
    """The pasted history. Raises ApiFailure for what is not."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ApiFailure(400, "bad_request", "prices is not JSON: paste the whole output", field="prices") from error
    found = {"SpotPriceHistory": found} if isinstance(found, list) else found
    if not isinstance(found, dict):
        raise ApiFailure(400, "bad_request", "prices is not a spot price history", field="prices")
    return found
