"""Reconcile: cloud bills beside what gpuwatch charged, and what each part of the difference comes from."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import urlencode

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import MAX_LIMIT, Api, Row
from gpuwatch.dashboards.components import columns, formats, ledger_math, parts
from gpuwatch.dashboards.editing import bill_files, dates
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

CAUSES = {
    "untracked": (
        "Billed, but not known",
        "GPUs on the bill that gpuwatch does not know, or hours in which it did not know them",
    ),
    "unbilled": ("Known, but not billed", "GPUs or hours that no bill contains, including GPUs on premises"),
    "price": ("Price", "The price of the bill against the rate card, over the hours of the bill"),
    "boundaries": ("Rounding of time", "The bill counts whole hours, gpuwatch microseconds"),
    "discounts": ("Discounts", "Credits, discounts and refunds on lines of their own"),
    "taxes": ("Taxes", "On lines of their own"),
    "commitments": ("Commitments", "Purchases, and unused parts of commitments"),
    "not_gpu": ("Not for GPUs", "Storage, traffic, machines without GPUs"),
    "no_rate": ("No rate", "GPUs on both sides that have no rate"),
    "not_convertible": ("No exchange rate", "Two currencies without a known exchange rate"),
    "unexplained": ("Not explained", "The rest: GPUs that are billed without hours"),
}
BY = {"day": "Day", "node": "Node", "account": "Account"}
COSTS = {"effective": "Effective cost", "billed": "Billed cost"}
PAGE_SIZE = 40


@dataclass(frozen=True)
class Data:
    """The comparison, the files of bills that were imported, and who looks at it. None: failed to load."""

    found: Row
    imports: Row | None
    me: Row


async def load(api: Api, query: Query) -> Data:
    """The first thousand rows of the comparison; its sums cover all."""
    words = {"by": by(query), "cost": cost(query), "provider": query.get("provider")}
    found, imports, me = await asyncio.gather(
        api.get("reconcile", window=query.window, limit=MAX_LIMIT, **words),
        ledger_math.optional(api.get("imports", limit=MAX_LIMIT)),
        api.me(),
    )
    return Data(found, imports, me)


def by(query: Query) -> str:
    """What a row is."""
    return query.get("by") if query.get("by") in BY else "day"


def cost(query: Query) -> str:
    """Which cost of the bill is compared."""
    return query.get("cost") if query.get("cost") in COSTS else "effective"


@page(
    "/reconcile", "Reconcile", load, icon="reconcile", order=11, filters=("window",), under="/teams", whole_fleet=True
)
def layout(data: Data, query: Query, scheme: str) -> Component:
    """Both sums and their difference, its causes, the rows, the prices to correct, and the bills."""
    totals: list[Row] = data.found.get("totals") or []
    bills = [
        row for row in (data.imports or {}).get("items") or [] if str(row.get("kind")).startswith(bill_files.PREFIX)
    ]
    window = data.found.get("window") or {}
    note = f"{formats.span(window.get('start'), window.get('end'))}, whole days" if window else query.window_words
    params = {"window": query.window, "by": by(query), "cost": cost(query), "format": "csv"}
    csv = html.A("CSV", href=f"/api/v1/reconcile?{urlencode(params)}", download="", className="button small")
    top = parts.heading("Reconcile", note, html.Div([html.Span("Export ", className="soft"), csv], className="exports"))
    billed = any(formats.number(row.get("bill")) for row in totals)
    if not billed:
        body: list[Component | None] = [empty(bool(bills)), bill_files.files(data.me, bills)]
    else:
        body = [
            html.Div([causes(row) for row in totals], className="stack"),
            choices(query),
            rows_table(data, query),
            suggestions(data.found, query),
            notes(data.found),
            bill_files.files(data.me, bills),
        ]
    return html.Div([top, *(headlines(row) for row in totals if billed), html.Div(body, className="stack")])


def empty(imported: bool) -> Component:
    """No bill in the window."""
    if imported:
        return states.empty(
            "No bill covers this window", "Choose the window of an imported bill, or upload another one."
        )
    return states.empty(
        "No cloud bill yet",
        "Upload one below: it is compared with the rate card and the ledger, day by day and node by node.",
    )


def headlines(total: Row) -> Component:
    """Both sides in a currency."""
    currency = str(total.get("currency") or "")
    gap, bill = formats.number(total.get("difference")), formats.number(total.get("bill"))
    name, size = largest(total)
    return parts.headlines(
        [
            parts.Headline("Billed", parts.money(bill, currency), note="by the providers"),
            parts.Headline(
                "In gpuwatch", parts.money(total.get("gpuwatch"), currency), note="rates × capacity, before policies"
            ),
            parts.Headline(
                "Difference",
                parts.more(gap, currency),
                note=f"{formats.percent(abs(gap) / bill)} of the bill" if gap is not None and bill else None,
            ),
            parts.Headline(
                "Largest cause",
                html.Span(CAUSES[name][0] if name else "none", className="in-words"),
                note=parts.more(size, currency) if name else "both sides agree",
            ),
        ]
    )


def largest(row: Row) -> tuple[str, Decimal]:
    """The cause of the largest part of a difference; empty if there is none."""
    sizes = {name: formats.number(row.get(name)) or Decimal(0) for name in CAUSES}
    name = max(sizes, key=lambda one: abs(sizes[one]))
    return (name, sizes[name]) if sizes[name] else ("", Decimal(0))


def causes(total: Row) -> Component:
    """The parts of the difference in a currency, the largest first."""
    currency = str(total.get("currency") or "")
    sizes = {name: size for name in CAUSES if (size := formats.number(total.get(name)))}
    top = max((abs(size) for size in sizes.values()), default=Decimal(1))
    places = formats.money_places(sizes.values())
    heads = [
        parts.Column("Cause", "wide"),
        parts.Column(f"Difference ({formats.sign_of(currency)})", "r", hint="Bill minus gpuwatch"),
        parts.Column("", "grow narrow-hide"),
    ]
    rows = [
        [
            html.Div([html.B(CAUSES[name][0]), html.Div(CAUSES[name][1], className="soft small two-lines")]),
            signed(size, places, currency),
            parts.bar(float(abs(size) / top), "b-stalled" if size > 0 else ""),
        ]
        for name, size in sorted(sizes.items(), key=lambda one: -abs(one[1]))
    ]
    if not rows:
        return parts.card("Bill and gpuwatch agree")
    return parts.card(
        "What the difference comes from", parts.table(heads, rows, label="Causes"), note="They add up to it exactly"
    )


def signed(value: object, places: int, currency: str) -> Component:
    """A difference of a column with `places` decimals, with its sign."""
    amount = formats.number(value)
    sign = "+" if amount is not None and amount > 0 else ""
    return parts.num(f"{sign}{formats.fixed(amount, places)}", formats.exact(value, currency))


def choices(query: Query) -> Component:
    """What a row is, and which cost of the bill counts."""
    return html.Div(
        [
            parts.picks(
                [(word, query.link(by=name, page=None), name == by(query)) for name, word in BY.items()], "Rows by"
            ),
            parts.picks(
                [(word, query.link(cost=name), name == cost(query)) for name, word in COSTS.items()], "Cost of the bill"
            ),
        ],
        className="asks",
    )


def rows_table(data: Data, query: Query) -> Component:
    """One row per day, node or account."""
    items: list[Row] = data.found.get("items") or []
    shown, links = parts.numbered(items, PAGE_SIZE, query)
    currencies = {str(row.get("currency") or "") for row in shown}
    unit = f" ({formats.sign_of(next(iter(currencies)))})" if len(currencies) == 1 else ""
    places = formats.money_places(row.get(side) for row in shown for side in ("bill", "gpuwatch"))
    heads = [
        parts.Column(BY[by(query)], "wide"),
        parts.Column(f"Billed{unit}", "r narrow-hide"),
        parts.Column(f"In gpuwatch{unit}", "r narrow-hide"),
        parts.Column(f"Difference{unit}", "r"),
        parts.Column("Largest cause", "grow narrow-hide"),
    ]
    more = states.advice("There are more rows than shown; the export has all.") if data.found.get("next") else None
    table = parts.table(
        heads, [line(row, by(query), places, bool(unit)) for row in shown], label=f"Rows by {BY[by(query)].lower()}"
    )
    return html.Div([parts.plain(table), links, more])


def line(row: Row, of: str, places: int, one_currency: bool) -> list[parts.Node]:
    """A day, a node or an account."""
    currency, (name, size) = str(row.get("currency") or ""), largest(row)
    under = [str(row[part]) for part in ("provider", "cluster") if row.get(part) and part != of]
    under += [] if one_currency else [currency]
    under += [] if row.get("final") else ["not final yet"]
    cause = f"{CAUSES[name][0]}: {formats.money(size, currency)}" if name else "none"
    return [
        html.Div(
            [
                html.B(title(row, of)),
                html.Div(formats.clip(" · ".join(under), 80), className="soft small"),
                html.Div(cause, className="small narrow-only"),
            ]
        ),
        columns.amount(row.get("bill"), places, currency),
        columns.amount(row.get("gpuwatch"), places, currency),
        signed(row.get("difference"), places, currency),
        html.Span(cause, className="small"),
    ]


def title(row: Row, of: str) -> str:
    """The name of a row."""
    if of == "day":
        return dates.date(f"{row.get('day')}T00:00:00Z")
    return formats.clip(row.get(of) or "On the bill only", 60)


def suggestions(found: Row, query: Query) -> Component | None:
    """Prices of the bill that the card does not have."""
    items: list[Row] = found.get("suggestions") or []
    if not items:
        return None
    heads = [
        parts.Column("GPU model", "wide"),
        parts.Column("GPU-h", "r narrow-hide"),
        parts.Column("In the bill", "r"),
        parts.Column("In the rate card", "r"),
        parts.Column("Line of rates.csv", "narrow-hide"),
    ]
    rows = [
        [
            html.Div(
                [
                    html.B(formats.clip(row.get("gpu_model"), 60)),
                    html.Div(
                        formats.clip(f"{row.get('provider')} · {row.get('pricing')}".replace("_", " "), 60),
                        className="soft small",
                    ),
                ]
            ),
            parts.num(formats.fixed(row.get("gpu_hours"), 1)),
            parts.money(row.get("bill_per_gpu_hour"), str(row.get("currency"))),
            parts.money(row.get("card_per_gpu_hour"), str(row.get("currency"))),
            html.Span(formats.clip(row.get("rates_csv"), 160), className="mono"),
        ]
        for row in items
    ]
    edit = parts.link("Change the rates", query.link("/rates"), "button small")
    return parts.card(
        "Prices that the rate card does not have", parts.table(heads, rows, label="Prices to correct"), note=edit
    )


def notes(found: Row) -> Component | None:
    """How the two sides were matched."""
    items = [formats.clip(note, 400) for note in found.get("notes") or []]
    return parts.card("Notes", html.Ul([html.Li(note) for note in items], className="method")) if items else None
