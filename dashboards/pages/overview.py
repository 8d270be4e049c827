"""Overview: where the GPU-hours and the money went, and what to do first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import figures, formats, funnel, ledger_math, measures, parts
from gpuwatch.dashboards.components.findings_list import card as finding_card
from gpuwatch.dashboards.components.ledger_math import History, Sum
from gpuwatch.dashboards.components.waterfall import waterfall
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import BUCKET, MEASURE_WORDS, Scheme

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
                            funnel.card(data.history.now, data.fleet, sums, query, currency),
                            buckets(data.history.now, sums, currency, query),
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
    """Cost and the measures, each against the previous window; what was not measured comes first where that is most."""
    before = data.history.before
    past = ledger_math.total(ledger_math.by_key(ledger_math.within(before, query), "bucket"))
    known = ledger_math.comparable(past, whole)
    alone = None if known else NOTHING_BEFORE
    steps = ledger_math.trend(
        ledger_math.within(data.history.stepped, query), data.history.step, ledger_math.window_of(data.history.now)
    )
    now, partial = data.history.now, measures.measured_partly(data.history.now)

    def share(name: str, good_up: bool | None, href: str | None = None) -> parts.Headline:
        part, then = measures.share(now, name), measures.share(before, name) if known else None
        if name == "not_measured":
            part = ledger_math.ratio(measures.measure(now, name).get("gpu_seconds"), whole.seconds)
            then = (
                ledger_math.ratio(measures.measure(before or {}, name).get("gpu_seconds"), past.seconds)
                if known
                else None
            )
        good = None if good_up is None or part is None or then is None else (part >= then) is good_up
        return parts.Headline(
            MEASURE_WORDS[name],
            parts.percent(part),
            formats.points(part, then),
            good,
            measures.shares_by_step(steps, name),
            funnel.not_measured(query) if part is None else alone,
            href,
        )

    found = [share("working", True), avoidable(data, known, steps, currency, query), share("free", None)]
    unseen = share("not_measured", False, query.link("/quality"))
    cost = parts.Headline(
        "GPU cost",
        parts.money(whole.cost, currency),
        formats.change(whole.cost, past.cost if known else None),
        series=steps.sums(list(steps.hours)),
        note=parts.gpu_time(whole.seconds),
        href=query.link("/teams"),
    )
    return parts.headlines([cost, unseen, *found] if partial else [cost, *found, unseen])


def avoidable(data: Data, known: bool, steps: ledger_math.Trend, currency: str, query: Query) -> parts.Headline:
    """The waste: its cost, or its GPU time without a price."""
    now = measures.measure(data.history.now, "avoidable")
    seconds = formats.number(now.get("gpu_seconds"))
    then = (
        formats.number(measures.measure(data.history.before or {}, "avoidable").get("gpu_seconds")) if known else None
    )
    return parts.Headline(
        MEASURE_WORDS["avoidable"],
        parts.money(now.get("cost"), currency),
        formats.change(seconds, then),
        None if seconds is None or then is None else seconds <= then,
        measures.shares_by_step(steps, "avoidable"),
        note=funnel.not_measured(query) if seconds is None else parts.gpu_time(seconds),
        href=query.link("/findings"),
    )


def buckets(now: Row, sums: Mapping[str, Sum], currency: str, query: Query) -> Component:
    """The waterfall, with the waste as its title and the roofline efficiency below."""
    lost, part = measures.measure(now, "avoidable"), measures.share(now, "avoidable")
    cost, seconds = formats.number(lost.get("cost")), formats.number(lost.get("gpu_seconds"))
    if seconds is None or part is None:
        title = "Most of the GPU time held was not measured" if measures.measured_partly(now) else "GPU-hours by bucket"
    elif not seconds:
        title = "Nothing was avoidable"
    else:
        size = formats.gpu_time(seconds) if cost is None else formats.money(cost, currency)
        title = f"{size} was avoidable ({formats.percent(part)} of the GPU time) {query.window_words}"
    notes = [claimed_words(now)] if seconds else []
    if (efficiency := formats.number(now.get("roofline_efficiency"))) is not None:
        notes.append(f"Of the working time, the hardware ran at {formats.percent(efficiency)} of its roofline.")
    note = " ".join(notes) or None
    return parts.card(title, waterfall(sums, currency, "Waterfall by bucket"), note=note, name="tight")


def claimed_words(now: Row) -> str:
    """Which rows of the waterfall are avoidable."""
    rows = [row for row in now.get("items") or [] if row.get("bucket") == "below_roof"]
    claimed = formats.total(row.get("avoidable_gpu_seconds") for row in rows)
    more = f", and {formats.gpu_time(claimed)} of {BUCKET['below_roof'].word} that findings claim" if claimed else ""
    return f"Avoidable: the costs in red{more}."


def trend(data: Data, query: Query, scheme: Scheme) -> Component:
    """The buckets over time."""
    steps = ledger_math.trend(
        ledger_math.within(data.history.stepped, query), data.history.step, ledger_math.window_of(data.history.now)
    )
    unit = "hour" if data.history.step == "1h" else "day"
    if not steps.starts:
        return parts.card("Trend", states.advice("The ledger has no steps for this window yet."))
    share = measures.shares_by_step(steps, "working")
    known = [
        (value, start)
        for at, (value, start) in enumerate(zip(share, steps.starts, strict=True))
        if value is not None and at not in steps.cut
    ]
    best = max(known, default=None)
    title = (
        f"Best {unit}: {formats.when(best[1]) if unit == 'hour' else formats.day(best[1])}, {formats.percent(best[0])} working"
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
