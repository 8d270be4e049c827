"""Overview: where the GPU-hours and the money went, and what to do first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import effectiveness, figures, formats, funnel, ledger_math, parts
from gpuwatch.dashboards.components.findings_list import card as finding_card
from gpuwatch.dashboards.components.ledger_math import History, Sum
from gpuwatch.dashboards.components.waterfall import waterfall
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import BUCKETS, Scheme

TOP_FINDINGS = 4
NOTHING_BEFORE = "no earlier data"


@dataclass(frozen=True)
class Data:
    """The data of the overview. Optional parts are None if they failed to load."""

    history: History
    fleet: Row | None
    findings: Row | None


async def load(api: Api, query: Query) -> Data:
    """Loads everything at once; only the ledger is required."""
    top = api.findings(limit=TOP_FINDINGS, state="open", sort="cost", pool=query.get("pool"), **query.scope)
    history, findings = await asyncio.gather(ledger_math.history(api, query), ledger_math.optional(top))
    return Data(history, history.fleet, findings)


@page("/", "Overview", load, icon="overview", order=1)
def layout(data: Data, query: Query, scheme: Scheme) -> Component:
    """Headline numbers, funnel and waterfall, top findings and trend."""
    sums = ledger_math.by_key(ledger_math.within(data.history.now, query), "bucket")
    whole = ledger_math.total(sums)
    window = data.history.now.get("window") or {}
    note = f"{formats.span(window.get('start'), window.get('end'))}" if window else query.window_words
    top = parts.heading("Where the GPU-hours went", note)
    if not whole.seconds:
        return html.Div(
            [
                top,
                states.empty(
                    "No GPU time in this window",
                    "There is no data yet for this window. Choose another window, or check the data sources.",
                    earlier(data.fleet or {}, query),
                    parts.link("Data quality", query.link("/quality"), "button"),
                ),
            ]
        )
    currency = str(data.history.now.get("currency") or "")
    return html.Div(
        [
            top,
            headlines(data, sums, whole, currency, query),
            html.Div(
                [
                    html.Div(
                        [
                            funnel.card(data.history.now.get("funnel"), data.fleet, sums, query, currency),
                            buckets(sums, currency, query),
                        ],
                        className="column",
                    ),
                    html.Div([top_findings(data, query), trend(data, query, scheme)], className="column"),
                ],
                className="halves",
            ),
        ]
    )


def earlier(fleet: Row, query: Query) -> Component | None:
    """A link to the last week with ledger data."""
    end = formats.moment(fleet.get("as_of"))
    if end is None:
        return None
    window = ledger_math.text_of(end - timedelta(days=7), end)
    return parts.link(
        f"Show the week until {formats.when(fleet.get('as_of'))}", query.link(window=window), "button primary"
    )


def headlines(data: Data, sums: Mapping[str, Sum], whole: Sum, currency: str, query: Query) -> Component:
    """Cost, productive, allocated, held idle and not measured, each against the previous window."""
    before = ledger_math.by_key(ledger_math.within(data.history.before, query), "bucket")
    past = ledger_math.total(before)
    known = ledger_math.comparable(past, whole)
    alone = None if known else NOTHING_BEFORE
    steps = ledger_math.trend(
        ledger_math.within(data.history.stepped, query), data.history.step, ledger_math.window_of(data.history.now)
    )
    allocated = [bucket.name for bucket in BUCKETS if bucket.allocated]

    def part(of: Mapping[str, Sum], names: list[str], all_: Sum) -> Decimal | None:
        return ledger_math.ratio(ledger_math.total(of, names).seconds, all_.seconds)

    def productive() -> parts.Headline:
        now, then = effectiveness.worked(sums), effectiveness.worked(before) if known else None
        partial = effectiveness.measured_partly(sums)
        alike = then is not None and not partial and not effectiveness.measured_partly(before)
        return parts.Headline(
            "Productive",
            parts.percent(now),
            formats.points(now, then) if alike else None,
            None if now is None or then is None else now >= then,
            effectiveness.worked_by_step(steps),
            funnel.not_measured(query) if now is None and whole.seconds else "of measured time" if partial else alone,
        )

    def share(label: str, names: list[str], good_up: bool | None, href: str | None = None) -> parts.Headline:
        now = part(sums, names, whole)
        then = part(before, names, past) if known else None
        good = None if good_up is None or now is None or then is None else (now >= then) is good_up
        return parts.Headline(
            label, parts.percent(now), formats.points(now, then), good, steps.share(names), alone, href
        )

    idle, idle_before = sums.get("hoarded", Sum()), before.get("hoarded", Sum())
    return parts.headlines(
        [
            parts.Headline(
                "GPU cost",
                parts.money(whole.cost, currency),
                formats.change(whole.cost, past.cost if known else None),
                series=steps.sums(list(steps.hours)),
                note=parts.gpu_time(whole.seconds),
                href=query.link("/teams"),
            ),
            productive(),
            share("Allocated", allocated, None),
            parts.Headline(
                "Held idle",
                parts.money(ledger_math.nothing_costs(idle, whole), currency),
                formats.change(idle.seconds, idle_before.seconds if known else None),
                idle.seconds <= idle_before.seconds,
                steps.sums(["hoarded"]),
                note=parts.gpu_time(idle.seconds),
                href=query.link("/findings", detector="idle-hoarding"),
            ),
            share("Not measured", ["unobserved"], False, query.link("/quality")),
        ]
    )


def buckets(sums: Mapping[str, Sum], currency: str, query: Query) -> Component:
    """The waterfall, with the largest loss as its title."""
    waste = [(sums[b.name].seconds, b.word) for b in BUCKETS if b.waste and b.name in sums and sums[b.name].seconds]
    seconds, word = max(waste, default=(Decimal(0), ""))
    title = (
        f"Largest loss: {formats.inside(word)}, {formats.gpu_time(seconds)} {query.window_words}"
        if word
        else "GPU-hours by bucket"
    )
    return parts.card(title, waterfall(sums, currency, "Waterfall by bucket"), name="tight")


def trend(data: Data, query: Query, scheme: Scheme) -> Component:
    """The buckets over time."""
    steps = ledger_math.trend(
        ledger_math.within(data.history.stepped, query), data.history.step, ledger_math.window_of(data.history.now)
    )
    unit = "hour" if data.history.step == "1h" else "day"
    if not steps.starts:
        return parts.card("Trend", states.advice("The ledger has no steps for this window yet."))
    share = effectiveness.worked_by_step(steps)
    known = [
        (value, start)
        for at, (value, start) in enumerate(zip(share, steps.starts, strict=True))
        if value is not None and at not in steps.cut
    ]
    best = max(known, default=None)
    title = (
        f"Best {unit}: {formats.when(best[1]) if unit == 'hour' else formats.day(best[1])}, {formats.percent(best[0])} productive"
        if best and len(known) > 1
        else f"GPU-hours by {unit}"
    )
    partial = "; pale columns are partial" if steps.cut else ""
    graph = parts.graph(figures.stack(steps.starts, steps.hours, steps.step_s, scheme, steps.cut), figures.LOW)
    return parts.card(title, graph, note=f"One column per {unit}, UTC{partial}")


def top_findings(data: Data, query: Query) -> Component:
    """The most expensive open findings."""
    more = parts.link("All findings", query.link("/findings"), "more")
    if data.findings is None:
        return parts.card("What to do first", states.advice("Findings could not be loaded. Retrying."))
    items: list[Row] = (data.findings.get("items") or [])[:TOP_FINDINGS]
    if not items:
        return parts.card("No open findings", note=more)
    cards = [html.Div(finding_card(item, query)) for item in items]
    return parts.card("What to do first", html.Div(cards, className="stack"), note=more)
