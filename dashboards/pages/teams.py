"""Charges by team, user, job, slice and more; each amount links to how it was computed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import dataclass
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import charge_cells, charge_tools, formats, ledger_math, parts
from gpuwatch.dashboards.components.charge_cells import ALLOCATED, CORRECTION, PLATFORM, SHARED
from gpuwatch.dashboards.components.ledger_math import Sum
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.waste import charges as charge_waste

NAMES = "name,user"
UNMIXED_VIEWS = ("slice", "cause")
"""Views without a dimension of the ledger that fits one answer."""
PAGE_SIZE = 50


@dataclass(frozen=True)
class Data:
    """Charges in the window and the one before, the ledger by the same dimension, and the policies.

    Where there are more rows than `charges` has, `whole` and `whole_before` have the same charges in few rows, for the totals.
    """

    charges: Row
    before: Row | None
    mixes: Row | None
    policies: Row | None = None
    whole: Row | None = None
    whole_before: Row | None = None
    named: Row | None = None
    """Charges by job with their names and users."""
    lost_before: Row | None = None
    """The ledger of the window to compare with, by the same dimensions."""


async def load(api: Api, query: Query) -> Data:
    """Charges by the view's dimension and those fixed by a drill-down."""
    view = view_of(query)
    by = ",".join([*dimensions(query), *(["cluster"] if view == "job" else [])])
    charges, fleet, policies = await asyncio.gather(
        api.chargeback(query.window, by, **query.scope),
        ledger_math.optional(api.fleet()),
        ledger_math.optional(api.policies()),
    )
    window = ledger_math.window_of(charges)
    past = ledger_math.period_before(window, query.window_name, formats.moment((fleet or {}).get("as_of")))
    earlier = api.chargeback(ledger_math.text_of(*past), by, **query.scope) if past else None
    mixed = None if view in UNMIXED_VIEWS else f"{','.join(dimensions(query))},bucket"
    names = api.chargeback(query.window, f"{by},{NAMES}", **query.scope) if view == "job" else None
    before, mixes, named = await asyncio.gather(
        compared(api, query, by, past, earlier),
        ledger_math.optional(api.ledger(query.window, mixed, **query.scope) if mixed else None),
        ledger_math.optional(names),
    )
    lost_before = await ledger_before(api, query, before) if mixed and view != "job" else None
    cut = (charges, before) if charges.get("next") else (None, None)
    whole, whole_before = await asyncio.gather(*(in_few_rows(api, query, answer) for answer in cut))
    return Data(charges, before, mixes, policies, whole, whole_before, named, lost_before)


async def ledger_before(api: Api, query: Query, before: Row | None) -> Row | None:
    """The ledger of the window of these charges, by what the rows are of."""
    window = ledger_math.window_of(before or {})
    if window is None:
        return None
    return await ledger_math.optional(
        api.ledger(ledger_math.text_of(*window), ",".join(dimensions(query)), **query.scope)
    )


async def in_few_rows(api: Api, query: Query, answer: Row | None) -> Row | None:
    """The charges of an answer's window by what a drill-down fixes only: an answer with all of them."""
    window = ledger_math.window_of(answer or {})
    if window is None:
        return None
    by = ",".join(fixed(query)) or "cluster"
    return await ledger_math.optional(api.chargeback(ledger_math.text_of(*window), by, **query.scope))


async def compared(
    api: Api, query: Query, by: str, past: ledger_math.Period | None, earlier: Awaitable[Row] | None
) -> Row | None:
    """The charges to compare with: those of the chosen window, else those of the period before as far as it has data."""
    if not query.get("vs"):
        return await ledger_math.if_recorded(api, past, query, earlier)
    if isinstance(earlier, Coroutine):
        earlier.close()
    return await ledger_math.optional(api.chargeback(query.get("vs"), by, **query.scope))


def view_of(query: Query) -> str:
    """The dimension of the rows."""
    wanted = query.get("by", "team")
    return wanted if wanted in charge_cells.VIEWS else "team"


def fixed(query: Query) -> dict[str, str]:
    """Dimensions fixed by a drill-down."""
    return {name: query.get(name) for name in charge_cells.NARROWING if query.get(name)}


def dimensions(query: Query) -> list[str]:
    """The dimensions to request: the view and those fixed by a drill-down."""
    return list(dict.fromkeys([view_of(query), *fixed(query)]))


def narrowed(answer: Row | None, query: Query) -> list[Row]:
    """Rows of a response within the drill-down."""
    wanted = fixed(query).items()
    return [
        row for row in (answer or {}).get("items") or [] if all(str(row.get(name)) == value for name, value in wanted)
    ]


@page("/teams", "Teams & chargeback", load, icon="teams", order=2)
def layout(data: Data, query: Query, scheme: str) -> Component:
    """The totals, then one row per team, user, job or slice."""
    view = view_of(query)
    rows = narrowed(data.charges, query)
    window = data.charges.get("window") or {}
    note = formats.span(window.get("start"), window.get("end")) if window else query.window_words
    choices = [
        (word, query.link(by=name, sort=None, page=None), name == view) for name, word in charge_cells.VIEWS.items()
    ]
    body = [listing(data, rows, view, query)] if rows else [empty(query)]
    if data.charges.get("next"):
        body.append(
            states.advice("There are more rows than are listed here; the totals above and the export have all.")
        )
    return html.Div(
        [
            parts.heading(
                "Charges",
                [note, *charge_tools.policy_words(data.policies, data.charges)],
                own_page(query),
                charge_tools.exports(query, ",".join(dimensions(query))),
            ),
            crumbs(query),
            bill(data, rows, query) if rows else None,
            parts.picks(choices, "Rows by"),
            charge_tools.versus(query),
            *body,
        ]
    )


def crumbs(query: Query) -> Component | None:
    """Breadcrumbs of a drill-down."""
    steps = [("All teams", query.link("/teams", team=None))]
    if query.get("team"):
        steps.append((formats.owner(query.get("team")), query.link("/teams", by="user")))
    for name, value in fixed(query).items():
        steps.append((f"{charge_cells.VIEWS[name]} {value}", query.link()))
    if len(steps) == 1:
        return None
    items = [html.Li(parts.link(formats.clip(word, 40), href)) for word, href in steps]
    return html.Nav(html.Ol(items), className="crumbs", **parts.aria("Breadcrumbs"))


def own_page(query: Query) -> Component | None:
    """The page of the chosen team."""
    team = query.get("team")
    if not team or team.startswith("__"):
        return None
    return parts.link("Team page", query.link(f"/team/{team}", team=None), "button small")


def bill(data: Data, rows: Sequence[Row], query: Query) -> Component:
    """The total and its parts: teams, shared, platform, corrections, no team."""
    currency = currency_of(data, rows)
    if data.charges.get("next"):
        rows = narrowed(data.whole, query)
    earlier = narrowed(data.whole_before if data.charges.get("next") else data.before, query)
    kinds, past = ledger_math.by_key(rows, "kind"), ledger_math.by_key(earlier, "kind")
    whole, before = ledger_math.total(kinds), ledger_math.total(past)
    known = ledger_math.comparable(before, whole)
    orphan = ledger_math.by_key(rows, "team").get("__unallocated__", Sum())

    def headline(label: str, now: Sum, then: Sum) -> parts.Headline:
        cost = ledger_math.nothing_costs(now, whole)
        against = formats.change(cost, then.cost if known else None)
        return parts.Headline(label, parts.money(cost, currency), against, note=parts.gpu_time(now.seconds))

    shown = [headline("Total", whole, before)]
    if not query.get("team") or SHARED in kinds:
        shown.append(headline("Held by teams", kinds.get(ALLOCATED, Sum()), past.get(ALLOCATED, Sum())))
    if SHARED in kinds:
        passed = parts.money(kinds[SHARED].cost, currency)
        shown.append(parts.Headline("Shared with teams", passed, note=external(data, query) or "by policy"))
    if not query.get("team"):
        shown.append(headline("Platform", kinds.get(PLATFORM, Sum()), past.get(PLATFORM, Sum())))
    if CORRECTION in kinds:
        corrected = parts.money(kinds[CORRECTION].cost, currency)
        shown.append(
            parts.Headline("Corrections", corrected, note=parts.link("of closed periods", query.link("/periods")))
        )
    if view_of(query) == "team" and not query.get("team"):
        note = parts.link("Assign teams", query.link("/quality")) if orphan.seconds else "Every held hour has a team"
        cost = parts.money(ledger_math.nothing_costs(orphan, whole), currency)
        shown.append(parts.Headline("No team assigned", cost, note=note))
    return parts.headlines(shown)


def external(data: Data, query: Query) -> str:
    """The part of the bill that is not GPU cost; nothing inside a drill-down."""
    total = data.charges.get("total") or {}
    amount = formats.number(total.get("external_cost"))
    if not amount or fixed(query):
        return ""
    return f"{formats.money(amount, str(total.get('currency') or ''))} of it not for GPUs"


def currency_of(data: Data, rows: Sequence[Row]) -> str:
    """The currency of the bill."""
    return str((rows[0].get("currency") if rows else None) or data.charges.get("currency") or "")


def listing(data: Data, rows: Sequence[Row], view: str, query: Query) -> Component:
    """One row per value: cost, what was avoidable of it, the change and the buckets. Platform and unassigned time come last."""
    currency = currency_of(data, rows)
    sums = ledger_math.by_key(rows, view)
    before = ledger_math.by_key(narrowed(data.before, query), view)
    wasted = charge_waste.of(data.mixes, fixed(query), view)
    priced = all(part.cost is not None for part in sums.values() if part.seconds)
    known = bool(query.get("vs")) or ledger_math.comparable(ledger_math.total(before), ledger_math.total(sums))
    every = sorted(
        sums.items(), key=lambda entry: charge_waste.place(entry[0], entry[1], wasted, query.get("sort", "cost"))
    )
    ordered, links = parts.numbered(every, PAGE_SIZE, query)
    lost_then = charge_waste.of(data.lost_before, fixed(query), view)
    against = view != "job" or bool(query.get("vs"))
    compares = against and bool(wasted) and view != "job"
    names = charge_cells.names_of(data.named)
    kinds, opened = charge_cells.shown_kinds(rows), charge_cells.charges_of(rows, view)
    clusters = {str(row.get(view)): row.get("cluster") for row in rows}
    whole = {name: (part.cost or Decimal(0)) if priced else part.seconds for name, part in every}
    top = max(whole.values(), default=Decimal(0))
    places = formats.money_places(part.cost for _, part in every)
    lost_places = formats.money_places(waste.cost for waste in wasted.values())
    drawn = bool(wasted) and not (data.mixes or {}).get("next")  # a cut list has the buckets of some rows only
    shown = {bucket for name, _ in ordered for bucket in wasted.get(name, charge_waste.NOTHING).buckets}
    inferred = charge_cells.inferred_words(rows) if view == "team" else {}
    cells = [
        [
            charge_cells.name_cell(name, view, clusters.get(name), query, inferred.get(name), names.get(name, ())),
            parts.hours(part.seconds),
            *(
                charge_cells.amount_cell(opened.get((name, kind), []), name, view, currency, query, places)
                for kind in kinds
            ),
            charge_cells.amount_cell(charge_cells.every(opened, name), name, view, currency, query, places),
            *([*charge_waste.cells(wasted.get(name), currency, lost_places)] if wasted else []),
            *([charge_cells.change_cell(part, before.get(name), known)] if against else []),
            *([charge_waste.change(wasted.get(name), lost_then.get(name), currency)] if compares else []),
            *([charge_waste.bar(wasted.get(name), whole[name], priced, currency, top, name)] if drawn else []),
        ]
        for name, part in ordered
    ]
    heads = charge_cells.columns_of(view, kinds, bool(wasted), currency, query, against, compares)
    heads += [parts.Column("Where it went", "where narrow-hide")] if drawn else []
    if len(every) > 1 and not data.charges.get("next"):
        every_lost = {name: wasted[name] for name in sums if name in wasted}
        lost = list(charge_waste.cells(charge_waste.total(every_lost), currency, lost_places)) if every_lost else []
        if against:
            lost.append(charge_cells.change_cell(ledger_math.total(sums), ledger_math.total(before), known))
        if compares:
            lost.append(charge_waste.change(charge_waste.whole(every_lost), charge_waste.whole(lost_then), currency))
        cells.append(charge_cells.total_row(rows, sums, kinds, currency, places, len(heads), lost))
    return html.Section(
        [
            parts.legend(shown) if drawn else None,
            parts.table(heads, cells, query, f"Charges by {charge_cells.VIEWS[view].lower()}", "cost"),
            links,
        ],
        className="card bare",
    )


def empty(query: Query) -> Component:
    """No charges, of what was chosen or of anybody."""
    chosen = any(query.get(name) for name in ("team", "cluster", "pool", *charge_cells.VIEWS))
    why = "This selection had no GPUs in it." if chosen else "No GPU was measured or reported by a scheduler in it."
    everyone = parts.link("Show all teams", query.link("/teams", team=None), "button")
    way = everyone if chosen else parts.link("Data quality", query.link("/quality"), "button")
    return states.empty("No charges in this window", why, way)
