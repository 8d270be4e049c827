"""Commitments: how much of the reserved capacity was used, what the rest costs, and forms that change it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, ledger_math, parts
from gpuwatch.dashboards.editing import dated, dates, fields, history, lists
from gpuwatch.dashboards.editing.dated import Dated
from gpuwatch.dashboards.editing.fields import Field
from gpuwatch.dashboards.editing.outcome import Outcome, Values, acts_on
from gpuwatch.dashboards.pages.setup import rates
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import BUCKETS

RESERVED = "reserved"
QUANTITY = Field("quantity", "Committed GPUs", hint="Empty: all of the scope.")
NEW = (
    Field(
        "commitment_id", "Commitment", hint="Its id with the provider. Its use is counted by it.", placeholder="ri-2026"
    ),
    Field("gpu_model", "GPU model", hint="The exporter's name, a part of it such as H100, or * for all."),
    QUANTITY,
    rates.PRICE,
    Field("currency", "Currency", placeholder="USD"),
    Field("cluster", "Cluster", placeholder="All"),
    Field("pool", "Pool", placeholder="All"),
)
HELD = [bucket.name for bucket in BUCKETS if bucket.allocated]


@dataclass(frozen=True)
class Data:
    """How commitments were used, the GPU time that teams held meanwhile, the rate card, and who looks at it."""

    used: Row
    held: Decimal | None
    """GPU-seconds."""
    card: rates.Data


async def load(api: Api, query: Query) -> Data:
    """The use of the window, and the whole card: a form changes one row of it."""
    used, card, ledger = await asyncio.gather(
        api.get("commitments", window=query.window),
        rates.load(api, query),
        ledger_math.optional(api.ledger(query.window, "bucket")),
    )
    sums = ledger_math.by_key((ledger or {}).get("items") or [], "bucket")
    return Data(used, ledger_math.total(sums, HELD).seconds if ledger else None, card)


@page(
    "/commitments",
    "Commitments",
    load,
    icon="commitments",
    order=10,
    filters=("window",),
    under="/teams",
    whole_fleet=True,
)
def layout(data: Data, query: Query, scheme: str) -> Component:
    """What was unused and what it cost, the commitments, and the rates behind them."""
    items: list[Row] = data.used.get("items") or []
    edits, card = data.card.edits, data.card
    add = parts.link("Add a commitment", fields.opened(query, "add"), "button primary") if edits else None
    form = dated.form(KIND, card.listed.items, card.listed.version, card.now, query) if edits else None
    return html.Div(
        [
            parts.heading("Commitments", counted(data.used), add),
            form,
            headlines(items, data.held) if items else None,
            html.Div([table(items) if items else nothing(card), rows_of_card(card, query)], className="stack"),
            history.card(card.changes, query, "rates"),
        ],
        className="setup",
    )


def counted(used: Row) -> str:
    """The part of the window that the ledger covers."""
    span: Row | None = used.get("counted")
    return f"Counted {formats.span(span.get('start'), span.get('end'))}" if span else "No data in this window yet"


def headlines(items: Sequence[Row], held: Decimal | None) -> Component:
    """What was committed to, how much of it was used, and what the rest cost."""
    currencies = {str(row.get("currency")) for row in items}
    currency = currencies.pop() if len(currencies) == 1 else None
    committed, used = (
        formats.total(row.get(name) for row in items) for name in ("committed_gpu_seconds", "used_gpu_seconds")
    )
    cost, unused = (
        formats.total(row.get(name) for row in items) if currency else None
        for name in ("committed_cost", "unused_cost")
    )
    mixed = None if currency else "In several currencies: see the table"
    return parts.headlines(
        [
            parts.Headline("Committed", parts.money(cost, currency), note=mixed or parts.gpu_time(committed)),
            parts.Headline(
                "Used",
                parts.percent(ledger_math.ratio(used, committed)),
                note="of the committed GPU time, held by jobs",
            ),
            parts.Headline("Unused", parts.lost(unused, currency), note=mixed or "paid, and held by no job"),
            parts.Headline(
                "Covered", parts.percent(ledger_math.ratio(used, held)), note="of the GPU time that jobs held"
            ),
        ]
    )


def table(items: Sequence[Row]) -> Component:
    """Each commitment, the one whose unused part costs most first."""
    heads = [
        parts.Column("Commitment", "wide"),
        parts.Column("GPUs", "r narrow-hide"),
        parts.Column("Used", "grow narrow-hide", hint="Held by jobs, of the committed GPU time"),
        parts.Column("Used (GPU-h)", "r narrow-hide"),
        parts.Column("Idle (GPU-h)", "r narrow-hide", hint="In the fleet, but held by no job: charged to the platform"),
        parts.Column("Absent (GPU-h)", "r narrow-hide", hint="Committed, but not in the fleet: in no charge"),
        parts.Column("Committed", "r narrow-hide"),
        parts.Column("Unused", "r", hint="What the idle and the absent part cost"),
    ]
    rows = [line(row) for row in sorted(items, key=lambda row: -(formats.number(row.get("unused_cost")) or 0))]
    return parts.card("How they were used", parts.table(heads, rows, label="How commitments were used"))


def line(row: Row) -> list[parts.Node]:
    """How one was used."""
    share, currency = formats.number(row.get("utilisation")), str(row.get("currency") or "")
    model = formats.clip(row.get("gpu_model"), 60)
    used = f"{formats.percent(share)} used" if share is not None else "no committed time"
    return [
        html.Div(
            [
                html.B(formats.clip(row.get("commitment_id"), 60)),
                html.Div(model, className="soft small"),
                html.Div(used, className="small narrow-only"),
            ]
        ),
        parts.num(f"{row['quantity']:,}")
        if isinstance(row.get("quantity"), int)
        else html.Span("all", className="num"),
        html.Div([parts.bar(float(share)) if share is not None else None, parts.percent(share)], className="level"),
        parts.hours(row.get("used_gpu_seconds")),
        parts.hours(row.get("idle_gpu_seconds")),
        parts.hours(row.get("absent_gpu_seconds")),
        parts.money(row.get("committed_cost"), currency),
        parts.lost(row.get("unused_cost"), currency),
    ]


def nothing(card: rates.Data) -> Component:
    """No commitment was counted."""
    if any(row.get("pricing") == RESERVED for row in card.listed.items):
        return states.empty(
            "No use to show in this window",
            "The use of a reserved rate is counted if it has a commitment id, and while it covers GPUs of the fleet.",
        )
    return states.empty(
        "No commitments yet", "A commitment is a reserved price for a number of GPUs, from one date to another."
    )


def rows_of_card(data: rates.Data, query: Query) -> Component | None:
    """The reserved rates of the card, those in force first."""
    found = [
        (number, row) for number, row in dated.ordered(data.listed.items, data.now) if row.get("pricing") == RESERVED
    ]
    if not found:
        return None
    heads = [
        parts.Column("Commitment", "wide"),
        parts.Column("GPUs", "r narrow-hide"),
        parts.Column("Per GPU-hour", "r"),
        parts.Column(dates.column(), "narrow-hide"),
        parts.Column("State", "narrow-hide"),
        *([parts.Column("Change", "r")] if data.edits else []),
    ]
    rows = [
        [
            html.Div(
                [
                    html.B(formats.clip(row.get("commitment_id") or "No id: its use is not counted", 60)),
                    html.Div(formats.clip(scope(row), 80), className="soft small"),
                    dated.below(row, data.now, f"{row.get('quantity') or 'all'} GPUs"),
                ]
            ),
            parts.num(f"{row['quantity']:,}") if row.get("quantity") else html.Span("all", className="num"),
            html.Span(
                formats.clip(f"{lists.amount(row.get(rates.PRICE.name), 2)} {row.get('currency')}", 40), className="num"
            ),
            dates.validity(row),
            dated.tag(row, data.now),
            *([dated.controls(KIND, number, row, data.now, query)] if data.edits else []),
        ]
        for number, row in found
    ]
    return parts.card("Reserved rates", parts.table(heads, rows, label="Reserved rates"))


def scope(row: Row) -> str:
    """What a rate covers."""
    return " · ".join(str(row[name]) for name in ("gpu_model", *rates.SCOPE) if row.get(name))


def label(row: Row) -> str:
    """A commitment in a title."""
    return formats.clip(", ".join(str(row[name]) for name in ("commitment_id", "gpu_model") if row.get(name)), 90)


def made(values: Values) -> Row:
    """A new reserved rate."""
    return rates.made({**values, "pricing": RESERVED})


def replaced(row: Row, values: Values) -> Row:
    """The same commitment with another price or number of GPUs."""
    quantity = values.get(QUANTITY.name, "")
    changed = rates.replaced({name: value for name, value in row.items() if name != QUANTITY.name}, values)
    return changed | ({QUANTITY.name: int(quantity) if quantity.isdecimal() else quantity} if quantity else {})


KIND = Dated(
    path="rates",
    noun="commitment",
    message="The commitments are changed.",
    new=NEW,
    later=(QUANTITY, rates.PRICE),
    made=made,
    replaced=replaced,
    label=label,
    defaults={"currency": "USD"},
)


@acts_on("/commitments")
async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Previews or saves the form of the address."""
    return await dated.act(KIND, api, query, action, values)
