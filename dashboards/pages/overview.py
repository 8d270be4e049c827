"""Overview: where the GPU-hours and the money went, and what to do about it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import figures, ledger_math, parts
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.components.findings_list import card as finding_card
from gpuwatch.dashboards.components.ledger_math import History, Sum
from gpuwatch.dashboards.components.waterfall import waterfall
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import BUCKETS, PRODUCTIVE, STAGES, Scheme

TOP_FINDINGS = 4
PARTLY = 1 - ledger_math.UNSEEN_MAX
"""Part of the held time that nobody measured, above which a ratio is of what is measured."""
NOTHING_BEFORE = "no period before"


@dataclass(frozen=True)
class Data:
    """What the overview shows. Parts it can do without are None when they failed."""

    books: History
    fleet: Row | None
    findings: Row | None


async def load(api: Api, query: Query) -> Data:
    """Asks for everything at once; only the ledger is needed."""
    top = api.findings(limit=TOP_FINDINGS, state="open", sort="cost", pool=query.get("pool"), **query.scope)
    told, findings = await asyncio.gather(ledger_math.history(api, query), ledger_math.optional(top))
    return Data(told, told.fleet, findings)


@page("/", "Overview", load, icon="overview", order=1)
def layout(data: Data, query: Query, scheme: Scheme) -> Component:
    """Headline numbers, then the funnel and the waterfall, then the trend and what to act on."""
    sums = ledger_math.by_key(ledger_math.within(data.books.now, query), "bucket")
    whole = ledger_math.total(sums)
    window = data.books.now.get("window") or {}
    note = f"{components_text.span(window.get('start'), window.get('end'))}" if window else query.window_words
    top = parts.heading("Where the GPU-hours went", note)
    if not whole.seconds:
        return html.Div(
            [
                top,
                states.empty(
                    "No GPU time in this window",
                    "Nothing was measured or scheduled then. Choose another window, or look at what the sources say.",
                    earlier(data.fleet or {}, query),
                    parts.link("Data quality", query.link("/quality"), "button"),
                ),
            ]
        )
    currency = str(data.books.now.get("currency") or "")
    return html.Div(
        [
            top,
            headlines(data, sums, whole, currency, query),
            html.Div(
                [
                    html.Div([funnel(data, sums, query, currency), buckets(sums, currency, query)], className="column"),
                    html.Div([top_findings(data, query), trend(data, query, scheme)], className="column"),
                ],
                className="halves",
            ),
        ]
    )


def earlier(fleet: Row, query: Query) -> Component | None:
    """Leads to the last week that has books, where they ended before the window."""
    end = components_text.moment(fleet.get("as_of"))
    if end is None:
        return None
    window = ledger_math.text_of(end - timedelta(days=7), end)
    return parts.link(
        f"Show the week up to {components_text.when(fleet.get('as_of'))}", query.link(window=window), "button primary"
    )


def headlines(data: Data, sums: Mapping[str, Sum], whole: Sum, currency: str, query: Query) -> Component:
    """Cost, productive, allocated, held idle, not measured: each against the window before."""
    before = ledger_math.by_key(ledger_math.within(data.books.before, query), "bucket")
    past = ledger_math.total(before)
    known = ledger_math.comparable(past, whole)
    alone = None if known else NOTHING_BEFORE
    steps = ledger_math.trend(
        ledger_math.within(data.books.stepped, query), data.books.step, ledger_math.window_of(data.books.now)
    )
    allocated = [bucket.name for bucket in BUCKETS if bucket.allocated]

    def part(of: Mapping[str, Sum], names: list[str], all_: Sum) -> Decimal | None:
        return ledger_math.ratio(ledger_math.total(of, names).seconds, all_.seconds)

    def productive() -> parts.Headline:
        now, then = worked(sums), worked(before) if known else None
        partial = measured_partly(sums)
        alike = then is not None and not partial and not measured_partly(before)
        return parts.Headline(
            "Productive",
            parts.percent(now),
            components_text.points(now, then) if alike else None,
            None if now is None or then is None else now >= then,
            worked_by_step(steps),
            not_measured(query) if now is None and whole.seconds else "of the measured" if partial else alone,
        )

    def share(label: str, names: list[str], good_up: bool | None, href: str | None = None) -> parts.Headline:
        now = part(sums, names, whole)
        then = part(before, names, past) if known else None
        good = None if good_up is None or now is None or then is None else (now >= then) is good_up
        return parts.Headline(
            label, parts.percent(now), components_text.points(now, then), good, steps.share(names), alone, href
        )

    idle, idle_before = sums.get("hoarded", Sum()), before.get("hoarded", Sum())
    return parts.headlines(
        [
            parts.Headline(
                "GPU cost",
                parts.money(whole.cost, currency),
                components_text.change(whole.cost, past.cost if known else None),
                series=steps.sums(list(steps.hours)),
                note=parts.gpu_time(whole.seconds),
                href=query.link("/teams"),
            ),
            productive(),
            share("Allocated", allocated, None),
            parts.Headline(
                "Held idle",
                parts.money(ledger_math.nothing_costs(idle, whole), currency),
                components_text.change(idle.seconds, idle_before.seconds if known else None),
                idle.seconds <= idle_before.seconds,
                steps.sums(["hoarded"]),
                note=parts.gpu_time(idle.seconds),
                href=query.link("/findings", detector="idle-hoarding"),
            ),
            share("Not measured", ["unobserved"], False, query.link("/quality")),
        ]
    )


def unseen(sums: Mapping[str, Sum]) -> Decimal:
    """The part of the held time that nobody measured (0..1)."""
    held = ledger_math.total(sums, [bucket.name for bucket in BUCKETS if bucket.allocated]).seconds
    return sums.get("unobserved", Sum()).seconds / held if held else Decimal(0)


def measured_partly(sums: Mapping[str, Sum]) -> bool:
    """Whether so much of the held time was not measured that a ratio of all of it would say too little."""
    return unseen(sums) > PARTLY


def worked(sums: Mapping[str, Sum]) -> Decimal | None:
    """Productive part of the time (0..1), of what is measured where much is not; None where (nearly) nothing held is."""
    if unseen(sums) > ledger_math.UNSEEN_MAX:
        return None
    whole = ledger_math.total(sums).seconds
    if measured_partly(sums):
        whole -= sums.get("unobserved", Sum()).seconds
    return ledger_math.ratio(ledger_math.total(sums, PRODUCTIVE).seconds, whole)


def worked_by_step(steps: ledger_math.Trend) -> list[float | None]:
    """The productive part of each step; None where it is not known."""
    found: list[float | None] = []
    for at in range(len(steps.starts)):
        known = {name: Sum(Decimal(str(series[at] or 0))) for name, series in steps.hours.items()}
        part = worked(known)
        found.append(None if part is None else float(part))
    return found


def not_measured(query: Query) -> Component:
    """Why nobody knows what the held GPUs did, leading to the fix."""
    return parts.link("SM activity is not measured", query.link("/quality"), "more", "Data quality says how to fix it")


def funnel(data: Data, sums: Mapping[str, Sum], query: Query, currency: str) -> Component:
    """Owned to effective: GPU-hours and money of the window, GPUs of this minute."""
    priced = pool_stages(sums)
    # Which free GPUs report is not in the buckets; what is held and measured is.
    stages: Row = priced if query.get("pool") else {**(data.books.now.get("funnel") or {}), **priced}
    now = running(data.fleet or {}, query)
    whole, team = components_text.number((stages.get("total") or {}).get("gpu_seconds")), query.get("team")
    rows = []
    for name, word, meaning in STAGES:
        stage: Row = stages.get(name) or {}
        share = ledger_math.ratio(stage.get("gpu_seconds"), whole)
        # A stage says 0.00 also where no bucket of it has a price.
        known = name in stages and (priced.get(name) or priced["total"])["cost"] is not None
        cost = stage.get("cost") if known else None
        rows.append(
            [
                html.Span("Held" if name == "total" and team else word, title=meaning),
                parts.bar(float(share), f"f-{name}") if share is not None else None,
                parts.percent(share),
                parts.hours(stage.get("gpu_seconds")),
                parts.money(cost, currency),
                *([] if team else [alive(now.get(name))]),
            ]
        )
    columns = [
        parts.Column("Stage", "stage"),
        parts.Column("", "grow"),
        parts.Column("Share", "r"),
        parts.Column("GPU-h", "r"),
        parts.Column("Cost", "r narrow-hide"),
    ]
    if not team:
        hint = "GPUs, and MIG slices of partitioned GPUs, in the last booked minutes"
        columns.append(parts.Column("Now", "r now", hint=hint))
    effective, partial = worked(sums), measured_partly(sums)
    of = "of what is measured" if partial else f"of the GPU time {'held' if team else 'owned'}"
    title = f"{components_text.percent(effective)} {of} did effective work"
    if effective is None:
        title = "How much of the GPU time did effective work is not known" if partial else "How far the GPU time got"
    note = not_measured(query) if effective is None and partial else None
    return parts.card(title, parts.table(columns, rows, label="Funnel"), note=note, name="tight")


def pool_stages(sums: Mapping[str, Sum]) -> Row:
    """The funnel from buckets; which free GPUs report is not in them, so that stage is unknown, and so is what the held
    ones did where (nearly) nobody measured it.
    """
    held = [bucket.name for bucket in BUCKETS if bucket.allocated and bucket.name != "unobserved"]
    stages = {
        "total": list(sums),
        "allocated": held,
        "active": [name for name in held if name != "hoarded"],
        "effective": list(PRODUCTIVE),
    }
    found = {name: ledger_math.total(sums, names) for name, names in stages.items()}
    rows: Row = {name: {"gpu_seconds": part.seconds, "cost": part.cost} for name, part in found.items()}
    if unseen(sums) > ledger_math.UNSEEN_MAX:
        rows |= {name: {"gpu_seconds": None, "cost": None} for name in ("active", "effective")}
    return rows


def running(fleet: Row, query: Query) -> dict[str, tuple[Decimal | None, Decimal | None]]:
    """Whole GPUs and MIG slices now at each stage, of the clusters and pools that the query leaves."""
    items = [
        row
        for row in fleet.get("items") or []
        if query.get("cluster") in ("", row.get("cluster")) and query.get("pool") in ("", row.get("pool"))
    ]
    if query.get("team"):
        return {}
    keys = {name: "effective_known" if name == "allocated" else name for name, _, _ in STAGES}
    return {name: (added(items, "gpus", key), added(items, "slices", key)) for name, key in keys.items()}


def added(items: list[Row], kind: str, stage: str) -> Decimal | None:
    """The sum of what is known; None where nothing is."""
    known = [found for row in items if (found := components_text.number((row.get(kind) or {}).get(stage))) is not None]
    return sum(known, Decimal(0)) if known else None


def alive(counts: tuple[Decimal | None, Decimal | None] | None) -> Component:
    """`96 + 26 slices`."""
    gpus, slices = counts or (None, None)
    text = count(gpus)
    if slices:
        text = f"{text} + {count(slices)} slices" if gpus else f"{count(slices)} slices"
    return parts.num(text, f"{gpus} whole GPUs, {slices or 0} MIG slices" if gpus is not None else None)


def count(value: object) -> str:
    """GPUs: whole numbers as such, averages with one decimal."""
    found = components_text.number(value)
    return components_text.MISSING if found is None else f"{found:,.0f}" if found == int(found) else f"{found:,.1f}"


def buckets(sums: Mapping[str, Sum], currency: str, query: Query) -> Component:
    """The waterfall under the sentence that names the largest loss."""
    waste = [(sums[b.name].seconds, b.word) for b in BUCKETS if b.waste and b.name in sums and sums[b.name].seconds]
    seconds, word = max(waste, default=(Decimal(0), ""))
    title = (
        f"The largest loss: {components_text.inside(word)}, {components_text.gpu_time(seconds)} {query.window_words}"
        if word
        else "Every GPU-hour in one bucket"
    )
    return parts.card(title, waterfall(sums, currency, "Waterfall by bucket"), name="tight")


def trend(data: Data, query: Query, scheme: Scheme) -> Component:
    """Buckets over time."""
    steps = ledger_math.trend(
        ledger_math.within(data.books.stepped, query), data.books.step, ledger_math.window_of(data.books.now)
    )
    unit = "hour" if data.books.step == "1h" else "day"
    if not steps.starts:
        return parts.card("Trend", states.advice("No books over time for this window yet."))
    share = worked_by_step(steps)
    known = [
        (value, start)
        for at, (value, start) in enumerate(zip(share, steps.starts, strict=True))
        if value is not None and at not in steps.cut
    ]
    best = max(known, default=None)
    title = (
        f"The best {unit}, {components_text.when(best[1]) if unit == 'hour' else components_text.day(best[1])}, was {components_text.percent(best[0])} productive"
        if best and len(known) > 1
        else f"GPU-hours by {unit}"
    )
    partial = "; the pale ones are cut by the window" if steps.cut else ""
    graph = parts.graph(figures.stack(steps.starts, steps.hours, steps.step_s, scheme, steps.cut), figures.LOW)
    return parts.card(title, graph, note=f"Each column is one {unit}, UTC{partial}")


def top_findings(data: Data, query: Query) -> Component:
    """The open findings that cost most."""
    more = parts.link("All findings", query.link("/findings"), "more")
    if data.findings is None:
        return parts.card("What to do first", states.advice("Findings could not be loaded; they are tried again."))
    items: list[Row] = (data.findings.get("items") or [])[:TOP_FINDINGS]
    if not items:
        return parts.card("Nothing to act on: no open findings", note=more)
    daily = [html.Div(finding_card(item, query)) for item in items]
    return parts.card("What to do first", html.Div(daily, className="stack"), note=more)
