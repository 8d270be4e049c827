"""Charges by team, user, job, slice and more; each amount links to how it was computed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import urlencode

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, ledger_math, parts
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
"""The view that a row opens."""

NARROWING = ("pool", "user", "queue", "namespace", "account", "gpu_model")
"""Dimensions that a drill-down can fix, in addition to team and cluster, which are API parameters."""

UNNAMED = {"slice": "Whole GPUs", "job": "No job", "user": "No user", "team": "No team", "pool": "No pool"}
"""Labels of rows without a value in their view."""

MIX_VIEWS = ("team", "user")
MAX_ROWS = 200
EXPORTS = {"csv": "CSV", "xlsx": "Excel", "parquet": "Parquet"}
FOCUS = ("1.2", "1.4")
ALLOCATED, PLATFORM, SHARED, CORRECTION = "allocated", "platform", "shared", "correction"
KINDS = {
    ALLOCATED: ("Held", "GPU time held by teams, at its price"),
    PLATFORM: ("Platform", "Unallocated, or paid by the platform by policy"),
    SHARED: ("Shared", "Passed on to teams by policy, such as idle time and shared contracts"),
    CORRECTION: ("Corrections", "Corrections of closed periods, billed when found"),
}
"""Kinds of charges in column order: label and tooltip."""


@dataclass(frozen=True)
class Data:
    """Charges in the window and the one before, the ledger by the same dimension, and the policies."""

    charges: Row
    before: Row | None
    mixes: Row | None
    policies: Row | None = None


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
    past = ledger_math.period_before(window, query.window, formats.moment((fleet or {}).get("as_of")))
    earlier = api.chargeback(ledger_math.text_of(*past), by, **query.scope) if past else None
    mixed = f"{','.join(dimensions(query))},bucket" if view in MIX_VIEWS else None
    before, mixes = await asyncio.gather(
        ledger_math.if_recorded(api, past, query, earlier),
        ledger_math.optional(api.ledger(query.window, mixed, **query.scope) if mixed else None),
    )
    return Data(charges, before, mixes, policies)


def view_of(query: Query) -> str:
    """The dimension of the rows."""
    wanted = query.get("by", "team")
    return wanted if wanted in VIEWS else "team"


def fixed(query: Query) -> dict[str, str]:
    """Dimensions fixed by a drill-down."""
    return {name: query.get(name) for name in NARROWING if query.get(name)}


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
        body.append(states.advice("There are more rows than shown; the export has all of them."))
    return html.Div(
        [
            parts.heading("Charges", [note, *policy_words(data)], exports),
            crumbs(query),
            bill(data, rows, query) if rows else None,
            parts.picks(choices, "Rows by"),
            *body,
        ]
    )


def policy_words(data: Data) -> list[Component]:
    """The policy in effect at the end of the window, and the one before it; nothing if unknown."""
    window = data.charges.get("window") or {}
    start, end = str(window.get("start") or ""), str(window.get("end") or "")
    if data.policies is None:
        return []
    items = sorted(data.policies.get("items") or [], key=lambda item: str(item.get("valid_from")))
    held = [item for item in items if str(item.get("valid_from")) < end and start < str(item.get("valid_to") or "9")]
    # A policy without an end is in effect until the next one starts.
    later = [str(item.get("valid_from")) for item in held[1:]] + ["9"]
    held = [item for item, until in zip(held, later, strict=False) if until > start]
    name = formats.clip(held[-1].get("name"), 60) if held else ""
    if not name:
        return [html.Div("Policy: teams pay for what they hold, the platform pays for the rest")]
    since = f", since {formats.day(held[-1].get('valid_from'))}" if str(held[-1].get("valid_from")) > start else ""
    before = f"; before: {formats.clip(held[-2].get('name'), 60)}" if len(held) > 1 else ""
    return [html.Div(f"Policy: {name}{since}{before}", title=f"version {data.policies.get('version')}")]


def export(word: str, query: Query, **form: str) -> Component:
    """A link that downloads all rows of this view."""
    pool = {"pool": query.get("pool")} if query.get("pool") else {}
    params = {"window": query.window, **query.scope, **pool, **form}
    return html.A(word, href=f"/api/v1/chargeback?{urlencode(params)}", download="", className="button small")


def crumbs(query: Query) -> Component | None:
    """Breadcrumbs of a drill-down."""
    steps = [("All teams", query.link("/teams", team=None))]
    if query.get("team"):
        steps.append((formats.owner(query.get("team")), query.link("/teams", by="user")))
    for name, value in fixed(query).items():
        steps.append((f"{VIEWS[name]} {value}", query.link()))
    if len(steps) == 1:
        return None
    items = [html.Li(parts.link(formats.clip(word, 40), href)) for word, href in steps]
    return html.Nav(html.Ol(items), className="crumbs", **parts.aria("Breadcrumbs"))


def bill(data: Data, rows: Sequence[Row], query: Query) -> Component:
    """The total and its parts: teams, shared, platform, corrections, no team."""
    currency = currency_of(data, rows)
    kinds, past = ledger_math.by_key(rows, "kind"), ledger_math.by_key(narrowed(data.before, query), "kind")
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
    """One row per value, sorted by cost, with share, change and buckets."""
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
        parts.Column("Change", "r", hint="Cost against the previous window"),
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
    note = f"Showing the {MAX_ROWS} largest of {len(ordered)}; the export has all." if len(ordered) > MAX_ROWS else None
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
    """The kinds that get a column; none if every row has only one kind."""
    present = {str(row.get("kind")) for row in rows}
    return [kind for kind in KINDS if kind in present] if present & {SHARED, CORRECTION} else []


def charges_of(rows: Sequence[Row], view: str) -> dict[tuple[str, str], list[Row]]:
    """API rows by table row and kind."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((str(row.get(view)), str(row.get("kind"))), []).append(row)
    return found


def every(opened: dict[tuple[str, str], list[Row]], name: str) -> list[Row]:
    """All charges of a table row."""
    return [row for kind in KINDS for row in opened.get((name, kind), [])]


def amount_cell(charges: Sequence[Row], name: str, view: str, currency: str, query: Query) -> Component:
    """A cost, linked to how it was computed or, if it sums several charges, to the rows by cause."""
    if not charges:
        return html.Span()
    costs = [cost for row in charges if (cost := formats.number(row.get("cost"))) is not None]
    amount = parts.money(sum(costs, Decimal(0)) if costs else None, currency)
    if len(charges) == 1:
        if not charges[0].get("charge"):
            return amount
        href = query.link(f"/charges/{charges[0]['charge']}")
        return parts.link(amount, href, "why", "How this was computed")
    if view == "cause" or name in ("None", "") or view not in (*NARROWING, "team", "cluster"):
        return amount
    return parts.link(amount, query.link(**{view: name, "by": "cause", "sort": None}), "why", "Show the parts")


def place(name: str, part: Sum, sort: str) -> tuple[Decimal, str]:
    """Sort key: largest first, unknown cost last; or by name."""
    if sort == "name":
        return Decimal(0), name.lower()
    size = part.seconds if sort == "gpu_seconds" else part.cost
    return (Decimal(1) if size is None else -size), name.lower()


def change_cell(now: Sum, then: Sum | None, known: bool) -> Component:
    """The cost compared with the previous window."""
    if not known:
        return parts.num(formats.MISSING, "No earlier data to compare with")
    if then is not None and then.seconds and not then.cost:
        return parts.num(formats.MISSING, "No price in the previous window")
    if then is None or not then.cost:
        return html.Span("new", className="soft", title="Nothing in the previous window")
    return parts.num(formats.change(now.cost, then.cost) or formats.MISSING, f"previously {then.cost}")


def name_cell(name: str, view: str, cluster: object, query: Query) -> Component:
    """The value of the row, linked one level down; a job links to its page."""
    label = formats.clip(formats.owner("" if name in ("None", "") else name), 60)
    if view == "cause":
        return html.Span(cause_word(name), title=name)
    if name in ("None", "", "__platform__"):
        unnamed = UNNAMED.get(view, "None")
        return html.Span(label if name == "__platform__" else unnamed, className="soft", title=unnamed)
    if view == "job":
        return parts.link(label, job_link(query, cluster, name), "title", name)
    if view == "slice":
        return html.Span(formats.clip(formats.device(name), 60), title=name, className="mono")
    if view not in DRILL:
        return html.Span(label, title=name)
    return parts.link(label, query.link(**{view: name, "by": DRILL[view], "sort": None}), "title", name)


def empty(query: Query) -> Component:
    """No charges."""
    return states.empty(
        "No charges in this window",
        "This selection had no GPUs in this window.",
        parts.link("Show all teams", query.link("/teams", team=None), "button"),
    )
