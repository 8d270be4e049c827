"""Workloads: what ran under one name, its cost, what was avoidable of it, and how well it used the hardware."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import MAX_LIMIT, Api, Row
from gpuwatch.dashboards.components import columns, formats, parts
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import MEASURE_WORDS

KEYS = ("name", "team", "user")
BY = ",".join(KEYS)
PAGE_SIZE = 50
FILTERS = ("window", "cluster", "pool", "team", "q")
PARTS = {"working": "compute", "avoidable": "hoarded", "not_measured": "unobserved"}
"""Measures of held time in the order of the bar, and the bucket with whose colour each is drawn."""

Key = tuple[str, ...]


@dataclass(frozen=True)
class Workload:
    """What one user ran for one team under one name. None: unknown."""

    name: str
    team: str
    user: str
    seconds: Decimal
    cost: Decimal | None
    avoidable: Decimal | None = None
    share: Decimal | None = None
    """Avoidable part of what was held."""
    roofline: Decimal | None = None
    """Of the working time."""
    measured: bool = True
    """Whether enough of its time was measured to name a share."""
    sizes: tuple[tuple[str, Decimal], ...] = ()
    """GPU-seconds by measure."""


@dataclass(frozen=True)
class Data:
    """The workloads, their currency, and whether there are more than were read."""

    items: list[Workload]
    currency: str
    more: bool


async def load(api: Api, query: Query) -> Data:
    """The thousand most expensive ones, with what was avoidable of them."""
    scope = query.scope | ({"pool": query.get("pool")} if query.get("pool") else {})
    charges, ledger = await asyncio.gather(
        api.get("chargeback", window=query.window, by=BY, limit=MAX_LIMIT, **scope),
        api.get("ledger", window=query.window, by=BY, limit=MAX_LIMIT, **scope),
    )
    groups = {key_of(group): group for group in ledger.get("groups") or []}
    costs: dict[Key, list[Row]] = {}
    for row in charges.get("items") or []:
        if row.get("kind") == "allocated":
            costs.setdefault(key_of(row), []).append(row)
    currency = str(charges.get("currency") or next((rows[0].get("currency") for rows in costs.values()), None) or "")
    items = [workload(key, rows, groups.get(key)) for key, rows in costs.items()]
    return Data(items, currency, bool(charges.get("next")))


def key_of(row: Row) -> Key:
    """The name, team and user of a row; empty where there is none."""
    return tuple(str(row.get(name) or "") for name in KEYS)


def workload(key: Key, rows: Sequence[Row], group: Row | None) -> Workload:
    """One workload from its charges and its part of the ledger."""
    name, team, user = key
    seconds = formats.total(row.get("gpu_seconds") for row in rows) or Decimal(0)
    cost = formats.total(row.get("cost") for row in rows)
    if group is None:
        return Workload(name, team, user, seconds, cost)
    found = {part: group.get(part) or (group.get("unknown") or {}).get(part) or {} for part in PARTS}
    lost = found["avoidable"]
    share = formats.number(lost.get("ratio"))
    return Workload(
        name,
        team,
        user,
        seconds,
        cost,
        formats.number(lost.get("cost")) if share is not None else None,
        share,
        formats.number(group.get("roofline_efficiency")),
        share is not None,
        tuple((part, formats.number(row.get("gpu_seconds")) or Decimal(0)) for part, row in found.items()),
    )


@page("/workloads", "Workloads", load, icon="workloads", order=6, filters=FILTERS, under="/jobs")
def layout(data: Data, query: Query, scheme: str) -> Component:
    """The sums, then one row per workload; its name opens its jobs."""
    wanted = query.get("q").lower()
    items = [one for one in data.items if wanted in f"{one.name}\n{one.user}\n{one.team}".lower()]
    note = f"{len(items):,}{'+' if data.more else ''} {query.window_words}"
    if not items:
        return html.Div([parts.heading("Workloads", note), nothing(query)])
    return html.Div([parts.heading("Workloads", note), headlines(items, data), *listing(items, data.currency, query)])


def headlines(items: Sequence[Workload], data: Data) -> Component:
    """The sums of the workloads shown."""
    cost = formats.total(one.cost for one in items)
    seconds = sum((one.seconds for one in items), Decimal(0))
    lost = formats.total(one.avoidable for one in items)
    known = sum((one.cost or Decimal(0) for one in items if one.avoidable is not None), Decimal(0))
    worst = max((one for one in items if one.avoidable is not None), key=lambda one: one.avoidable or 0, default=None)
    about = "of the 1,000 most expensive" if data.more else "as charged"
    return parts.headlines(
        [
            parts.Headline("GPU time", parts.gpu_time(seconds), note=f"{len(items):,} workloads"),
            parts.Headline("Cost", parts.money(cost, data.currency), note=about),
            parts.Headline(
                "Avoidable",
                parts.lost(lost, data.currency),
                note=f"{formats.percent(lost / known)} of the cost of measured workloads"
                if lost is not None and known
                else None,
            ),
            parts.Headline(
                "Most avoidable",
                html.Span(
                    formats.clip(worst.name or "No name", 40) if worst else "none", className="in-words one-line"
                ),
                note=f"{formats.money(worst.avoidable, data.currency)}, team {formats.clip(formats.owner(worst.team), 30)}"
                if worst
                else None,
            ),
        ]
    )


def listing(items: Sequence[Workload], currency: str, query: Query) -> list[Component | None]:
    """The table, sorted by the column of the address."""
    sort = query.get("sort", "cost")
    ordered = sorted(items, key=lambda one: (order(one, sort), one.name.lower(), one.team, one.user))
    shown, links = parts.numbered(ordered, PAGE_SIZE, query)
    sign = formats.sign_of(currency)
    unit = f" ({sign})" if sign else ""
    heads = [
        parts.Column("Workload", "wide", "name"),
        parts.Column("Team", "narrow-hide"),
        parts.Column("User", "narrow-hide"),
        parts.Column("GPU-h", "r narrow-hide", "gpu_seconds"),
        parts.Column(f"Cost{unit}", "r", "cost"),
        parts.Column(f"Avoidable{unit}", "r", "avoidable", "Idle while held, busy without work, or waiting"),
        parts.Column("% of time", "r narrow-hide", "share", "Avoidable part of the GPU time held"),
        parts.Column(
            "Roofline", "r narrow-hide", "roofline", "Of the working time, how close the hardware ran to its peak"
        ),
        parts.Column("Where it went", "mix narrow-hide"),
    ]
    places = formats.money_places(one.cost for one in shown)
    lost_places = formats.money_places(one.avoidable for one in shown)
    rows = [line(one, (places, lost_places), currency, query) for one in shown]
    key = [
        html.Span([html.Span(className=f"dot b-{bucket}"), MEASURE_WORDS[name]], className="bucket")
        for name, bucket in PARTS.items()
    ]
    table = parts.plain(html.Div(key, className="legend"), parts.table(heads, rows, query, "Workloads", "cost"))
    return [table, links]


def order(one: Workload, sort: str) -> Decimal:
    """Sort key: the largest first, unknown last; zero for all where the name decides."""
    if sort == "name":
        return Decimal(0)
    sizes = {"gpu_seconds": one.seconds, "avoidable": one.avoidable, "share": one.share, "roofline": one.roofline}
    size = sizes.get(sort, one.cost)
    return Decimal(1) if size is None else -size


def line(one: Workload, places: tuple[int, int], currency: str, query: Query) -> list[parts.Node]:
    """A workload."""
    jobs = query.link("/jobs", q=one.name or None, user=one.user or None, team=one.team or None)
    name = formats.clip(one.name or "No name", 44)
    under = " · ".join(word for word in (formats.owner(one.team), one.user) if word)
    unseen = html.Span("not measured", className="soft small", title="Less than half of its time was measured")
    return [
        html.Div(
            [
                parts.link(name, jobs, "title two-lines", f"Jobs of {one.name or 'no name'}"),
                html.Div(formats.clip(under, 60), className="soft small narrow-only"),
            ]
        ),
        parts.team_link(query, one.team),
        html.Span(formats.clip(one.user, 28), title=one.user)
        if one.user
        else html.Span(formats.MISSING, className="missing", title="No source reports the user"),
        parts.hours(one.seconds),
        columns.amount(one.cost, places[0], currency),
        columns.amount(one.avoidable, places[1], currency, lost=True) if one.measured else unseen,
        columns.share(one.share),
        parts.percent(one.roofline),
        bar(one),
    ]


def bar(one: Workload) -> Component:
    """Its held time by measure."""
    whole = sum((size for _, size in one.sizes), Decimal(0))
    if not whole:
        return html.Span()
    titles = [
        f"{MEASURE_WORDS[name]}: {formats.gpu_time(size)} ({formats.percent(size / whole)})" for name, size in one.sizes
    ]
    fills = [
        html.Span(className=f"fill b-{PARTS[name]}", style=parts.width(float(size / whole)), title=title)
        for (name, size), title in zip(one.sizes, titles, strict=True)
        if size
    ]
    return html.Span(fills, className="strip", role="img", **parts.aria(f"{one.name}: {', '.join(titles)}"))


def nothing(query: Query) -> Component:
    """No workloads."""
    if any(query.get(name) for name in ("team", "q", "cluster", "pool")):
        back = parts.link("Show all", query.link("/workloads", team=None, cluster=None, pool=None), "button")
        return states.empty("No workloads match these filters", "Choose a longer window or remove a filter.", back)
    link = parts.link("Data quality", query.link("/quality"), "button")
    return states.empty("No workloads in this window", "Either nothing ran, or no scheduler is connected.", link)
