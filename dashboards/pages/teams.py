"""Charges: who pays what, down to user, job and slice; each amount opens to how it was computed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import urlencode

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import ledger_math, parts
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.components.charge_lines import cause_word
from gpuwatch.dashboards.components.ledger_math import Sum
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query, job_link

VIEWS = {
    "team": "Team",
    "user": "User",
    "job": "Job",
    "slice": "MIG slice",
    "queue": "Queue",
    "namespace": "Namespace",
    "account": "Account",
    "gpu_model": "GPU model",
    "pool": "Pool",
    "cluster": "Cluster",
    "cause": "Cause",
}
DRILL = {"team": "user", "user": "job", "queue": "user", "namespace": "user", "account": "user", "pool": "team"}
"""What a row of each view opens: the next one down."""

NARROWING = ("pool", "user", "queue", "namespace", "account", "gpu_model")
"""Dimensions a drill may have fixed on its way down, beside team and cluster, which are parameters of the API."""

UNNAMED = {"slice": "Whole GPUs", "job": "No job", "user": "No user", "team": "No team", "pool": "No pool"}
"""What a row without the word of its view is."""

MIX_VIEWS = ("team", "user")
MAX_ROWS = 200
EXPORTS = {"csv": "CSV", "xlsx": "Excel", "parquet": "Parquet"}
FOCUS = ("1.2", "1.4")
ALLOCATED, PLATFORM, SHARED, CORRECTION = "allocated", "platform", "shared", "correction"
KINDS = {
    ALLOCATED: ("Held", "Time that teams held, at its price"),
    PLATFORM: ("Platform", "Nobody held it, or the platform pays for it by policy"),
    SHARED: ("Shared", "Passed on to teams by policy: idle time, shared contracts"),
    CORRECTION: ("Corrections", "Of closed periods, billed when they were found"),
}
"""Kinds of charges in the order of their columns: the word and what it means."""


@dataclass(frozen=True)
class Data:
    """Charges of the window and of the one before, and the ledger by the same dimension."""

    charges: Row
    before: Row | None
    mixes: Row | None
    policies: Row | None = None


async def load(api: Api, query: Query) -> Data:
    """Charges by the view's dimension, with those a drill has fixed."""
    view = view_of(query)
    by = ",".join([*dimensions(query), *(["cluster"] if view == "job" else [])])
    charges, fleet, policies = await asyncio.gather(
        api.chargeback(query.window, by, **query.scope),
        ledger_math.optional(api.fleet()),
        ledger_math.optional(api.policies()),
    )
    window = ledger_math.window_of(charges)
    past = ledger_math.period_before(window, query.window, components_text.moment((fleet or {}).get("as_of")))
    earlier = api.chargeback(ledger_math.text_of(*past), by, **query.scope) if past else None
    mixed = f"{','.join(dimensions(query))},bucket" if view in MIX_VIEWS else None
    before, mixes = await asyncio.gather(
        ledger_math.booked(api, past, query, earlier),
        ledger_math.optional(api.ledger(query.window, mixed, **query.scope) if mixed else None),
    )
    return Data(charges, before, mixes, policies)


def view_of(query: Query) -> str:
    """The dimension of the rows."""
    wanted = query.get("by", "team")
    return wanted if wanted in VIEWS else "team"


def fixed(query: Query) -> dict[str, str]:
    """Dimensions a drill has fixed."""
    return {name: query.get(name) for name in NARROWING if query.get(name)}


def dimensions(query: Query) -> list[str]:
    """What to ask charges by: the view, and what must be known to narrow to the drill."""
    return list(dict.fromkeys([view_of(query), *fixed(query)]))


def narrowed(answer: Row | None, query: Query) -> list[Row]:
    """Rows of an answer that lie within the drill."""
    wanted = fixed(query).items()
    return [
        row for row in (answer or {}).get("items") or [] if all(str(row.get(name)) == value for name, value in wanted)
    ]


@page("/teams", "Teams & chargeback", load, icon="teams", order=2)
def layout(data: Data, query: Query, scheme: str) -> Component:
    """The bill on top, then one row a team, user, job or slice."""
    view = view_of(query)
    rows = narrowed(data.charges, query)
    window = data.charges.get("window") or {}
    note = components_text.span(window.get("start"), window.get("end")) if window else query.window_words
    exports = html.Div(
        [
            html.Span("Export ", className="soft"),
            *(export(word, query, by=",".join(dimensions(query)), format=form) for form, word in EXPORTS.items()),
            *(export(f"FOCUS {version}", query, format="focus", focus_version=version) for version in FOCUS),
        ],
        className="exports",
    )
    choices = [(word, query.link(by=name, sort=None), name == view) for name, word in VIEWS.items()]
    body = [listing(data, rows, view, query)] if rows else [empty(query)]
    if data.charges.get("next"):
        body.append(states.advice("More rows than a page holds: the export has all of them."))
    return html.Div(
        [
            parts.heading("Who pays what", [note, *policy_words(data)], exports),
            crumbs(query),
            bill(data, rows, query) if rows else None,
            parts.picks(choices, "Rows by"),
            *body,
        ]
    )


def policy_words(data: Data) -> list[Component]:
    """The policy that holds at the end of the window, and how many held before it within; nothing where unknown."""
    window = data.charges.get("window") or {}
    start, end = str(window.get("start") or ""), str(window.get("end") or "")
    if data.policies is None:
        return []
    items = sorted(data.policies.get("items") or [], key=lambda item: str(item.get("valid_from")))
    held = [item for item in items if str(item.get("valid_from")) < end and start < str(item.get("valid_to") or "9")]
    # One without an end holds until the next begins.
    later = [str(item.get("valid_from")) for item in held[1:]] + ["9"]
    held = [item for item, until in zip(held, later, strict=False) if until > start]
    name = components_text.clip(held[-1].get("name"), 60) if held else ""
    if not name:
        return [html.Div("Policy: teams pay for what they hold, the platform for the rest")]
    since = (
        f", since {components_text.day(held[-1].get('valid_from'))}" if str(held[-1].get("valid_from")) > start else ""
    )
    before = f"; before: {components_text.clip(held[-2].get('name'), 60)}" if len(held) > 1 else ""
    return [html.Div(f"Policy: {name}{since}{before}", title=f"version {data.policies.get('version')}")]


def export(word: str, query: Query, **form: str) -> Component:
    """A link that downloads what is shown, and all of it."""
    pool = {"pool": query.get("pool")} if query.get("pool") else {}
    params = {"window": query.window, **query.scope, **pool, **form}
    return html.A(word, href=f"/api/v1/chargeback?{urlencode(params)}", download="", className="button small")


def crumbs(query: Query) -> Component | None:
    """The way back up from a drill."""
    steps = [("All teams", query.link("/teams", team=None))]
    if query.get("team"):
        steps.append((components_text.owner(query.get("team")), query.link("/teams", by="user")))
    for name, value in fixed(query).items():
        steps.append((f"{VIEWS[name]} {value}", query.link()))
    if len(steps) == 1:
        return None
    items = [html.Li(parts.link(components_text.clip(word, 40), href)) for word, href in steps]
    return html.Nav(html.Ol(items), className="crumbs", **parts.aria("Drill"))


def bill(data: Data, rows: Sequence[Row], query: Query) -> Component:
    """The total, what teams pay, what the platform carries, what has no owner."""
    currency = currency_of(data, rows)
    kinds, past = ledger_math.by_key(rows, "kind"), ledger_math.by_key(narrowed(data.before, query), "kind")
    whole, before = ledger_math.total(kinds), ledger_math.total(past)
    known = ledger_math.comparable(before, whole)
    orphan = ledger_math.by_key(rows, "team").get("__unallocated__", Sum())

    def headline(label: str, now: Sum, then: Sum) -> parts.Headline:
        cost = ledger_math.nothing_costs(now, whole)
        against = components_text.change(cost, then.cost if known else None)
        return parts.Headline(label, parts.money(cost, currency), against, note=parts.gpu_time(now.seconds))

    shown = [headline("Total", whole, before)]
    if not query.get("team") or SHARED in kinds:
        shown.append(headline("Held by teams", kinds.get(ALLOCATED, Sum()), past.get(ALLOCATED, Sum())))
    if SHARED in kinds:
        passed = parts.money(kinds[SHARED].cost, currency)
        shown.append(parts.Headline("Shared with teams", passed, note=external(data, query) or "by policy"))
    if not query.get("team"):
        shown.append(headline("The platform's", kinds.get(PLATFORM, Sum()), past.get(PLATFORM, Sum())))
    if CORRECTION in kinds:
        corrected = parts.money(kinds[CORRECTION].cost, currency)
        shown.append(
            parts.Headline("Corrections", corrected, note=parts.link("of closed periods", query.link("/periods")))
        )
    if view_of(query) == "team" and not query.get("team"):
        note = parts.link("Name its teams", query.link("/quality")) if orphan.seconds else "Every held hour has a team"
        cost = parts.money(ledger_math.nothing_costs(orphan, whole), currency)
        shown.append(parts.Headline("Held, team unknown", cost, note=note))
    return parts.headlines(shown)


def external(data: Data, query: Query) -> str:
    """The money in the bill that no GPU costs; nothing where the rows are only a part of the bill."""
    told = data.charges.get("total") or {}
    amount = components_text.number(told.get("external_cost"))
    if not amount or fixed(query):
        return ""
    return f"{components_text.money(amount, str(told.get('currency') or ''))} of it no GPU's"


def currency_of(data: Data, rows: Sequence[Row]) -> str:
    """The currency of the bill."""
    return str((rows[0].get("currency") if rows else None) or data.charges.get("currency") or "")


def listing(data: Data, rows: Sequence[Row], view: str, query: Query) -> Component:
    """One row a value, sorted by money, with its share, its change and where its time went."""
    currency = currency_of(data, rows)
    sums = ledger_math.by_key(rows, view)
    before = ledger_math.by_key(narrowed(data.before, query), view)
    mixes = ledger_math.mixes(narrowed(data.mixes, query), view)
    whole = ledger_math.total(sums)
    known = ledger_math.comparable(ledger_math.total(before), whole)
    top = max((part.cost or Decimal(0) for part in sums.values()), default=Decimal(0))
    clusters = {str(row.get(view)): row.get("cluster") for row in rows}
    ordered = sorted(sums.items(), key=lambda entry: place(entry[0], entry[1], query.get("sort", "cost")))
    kinds = shown_kinds(rows)
    opened = charges_of(rows, view)
    columns = [
        parts.Column(VIEWS[view], "wide", "name"),
        parts.Column("GPU-h", "r", "gpu_seconds"),
        *(parts.Column(KINDS[kind][0], "r narrow-hide", hint=KINDS[kind][1]) for kind in kinds),
        parts.Column("Cost", "r", "cost"),
        parts.Column("", "grow narrow-hide"),
        parts.Column("Share", "r narrow-hide"),
        parts.Column("Change", "r", hint="Cost against the window before"),
        *([parts.Column("Where it went", "mix narrow-hide")] if mixes else []),
    ]
    cells = [
        [
            name_cell(name, view, clusters.get(name), query),
            parts.hours(part.seconds),
            *(amount_cell(opened.get((name, kind), []), name, view, currency, query) for kind in kinds),
            amount_cell(every(opened, name), name, view, currency, query),
            parts.bar(float(part.cost / top), "b-owner") if part.cost is not None and top > 0 else html.Span(),
            parts.percent(ledger_math.ratio(part.cost, whole.cost)),
            change_cell(part, before.get(name), known),
            *([parts.strip(mixes.get(name, {}), name)] if mixes else []),
        ]
        for name, part in ordered[:MAX_ROWS]
    ]
    note = f"The {MAX_ROWS} largest of {len(ordered)}; the export has all." if len(ordered) > MAX_ROWS else None
    shown = {bucket for mix in mixes.values() for bucket in mix}
    return html.Section(
        [
            parts.legend(shown) if mixes else None,
            parts.table(columns, cells, query, f"Charges by {VIEWS[view].lower()}", "cost"),
            html.P(note, className="soft") if note else None,
        ],
        className="card bare",
    )


def shown_kinds(rows: Sequence[Row]) -> list[str]:
    """Kinds that have a column: those there are, where a row of the table may hold more than one."""
    there = {str(row.get("kind")) for row in rows}
    return [kind for kind in KINDS if kind in there] if there & {SHARED, CORRECTION} else []


def charges_of(rows: Sequence[Row], view: str) -> dict[tuple[str, str], list[Row]]:
    """Rows of the API by a row of the table and kind."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((str(row.get(view)), str(row.get("kind"))), []).append(row)
    return found


def every(opened: dict[tuple[str, str], list[Row]], name: str) -> list[Row]:
    """All charges of a row of the table."""
    return [row for kind in KINDS for row in opened.get((name, kind), [])]


def amount_cell(charges: Sequence[Row], name: str, view: str, currency: str, query: Query) -> Component:
    """Money that opens to how it was computed; where it is of several charges, to the rows that tell them apart."""
    if not charges:
        return html.Span()
    costs = [cost for row in charges if (cost := components_text.number(row.get("cost"))) is not None]
    said = parts.money(sum(costs, Decimal(0)) if costs else None, currency)
    if len(charges) == 1:
        if not charges[0].get("charge"):
            return said
        href = query.link(f"/charges/{charges[0]['charge']}")
        return parts.link(said, href, "why", "How it was computed")
    if view == "cause" or name in ("None", "") or view not in (*NARROWING, "team", "cluster"):
        return said
    return parts.link(said, query.link(**{view: name, "by": "cause", "sort": None}), "why", "What it is made of")


def place(name: str, part: Sum, sort: str) -> tuple[Decimal, str]:
    """What rows are sorted by: largest first, unknown money below known; by name where that is asked."""
    if sort == "name":
        return Decimal(0), name.lower()
    size = part.seconds if sort == "gpu_seconds" else part.cost
    return (Decimal(1) if size is None else -size), name.lower()


def change_cell(now: Sum, then: Sum | None, known: bool) -> Component:
    """Cost against the window before."""
    if not known:
        return parts.num(components_text.MISSING, "No window before to compare with")
    if then is not None and then.seconds and not then.cost:
        return parts.num(components_text.MISSING, "No price for the window before")
    if then is None or not then.cost:
        return html.Span("new", className="soft", title="Nothing in the window before")
    return parts.num(components_text.change(now.cost, then.cost) or components_text.MISSING, f"before: {then.cost}")


def name_cell(name: str, view: str, cluster: object, query: Query) -> Component:
    """The value of the row; leads one step down, a job to its page."""
    said = components_text.clip(components_text.owner("" if name in ("None", "") else name), 60)
    if view == "cause":
        return html.Span(cause_word(name), title=name)
    if name in ("None", "", "__platform__"):
        unnamed = UNNAMED.get(view, "Not named")
        return html.Span(said if name == "__platform__" else unnamed, className="soft", title=unnamed)
    if view == "job":
        return parts.link(said, job_link(query, cluster, name), "title", name)
    if view == "slice":
        return html.Span(components_text.clip(components_text.device(name), 60), title=name, className="mono")
    if view not in DRILL:
        return html.Span(said, title=name)
    return parts.link(said, query.link(**{view: name, "by": DRILL[view], "sort": None}), "title", name)


def empty(query: Query) -> Component:
    """No charges here."""
    return states.empty(
        "Nothing to charge in this window",
        "No GPU of this selection was owned then.",
        parts.link("Show all teams", query.link("/teams", team=None), "button"),
    )
