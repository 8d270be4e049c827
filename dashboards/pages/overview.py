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
from gpuwatch.dashboards.components import charge_tools, formats, funnel, ledger_math, measures, parts
from gpuwatch.dashboards.components.ledger_math import Sum
from gpuwatch.dashboards.components.waterfall import waterfall
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import BUCKET, MEASURE_WORDS, Scheme
from gpuwatch.dashboards.waste import do_first, morning
from gpuwatch.dashboards.waste import teams as team_waste
from gpuwatch.dashboards.waste import trend as waste_trend

NOTHING_BEFORE = "no earlier data"
ALIKE = Decimal("0.99")
"""The part of the window's time that the period before has data of, if their amounts can stand side by side."""


@dataclass(frozen=True)
class Data:
    """The response of GET /overview, and the fleet now (None if it failed to load)."""

    answer: Row
    fleet: Row | None

    @property
    def now(self) -> Row:
        """The ledger of the window by bucket."""
        found: Row = self.answer["now"]
        return found


async def load(api: Api, query: Query) -> Data:
    """Both at once."""
    answer, fleet = await asyncio.gather(
        api.overview(query.window, pool=query.get("pool"), **query.scope), ledger_math.optional(api.fleet())
    )
    return Data(answer, fleet)


@page("/", "Overview", load, icon="overview", order=1)
def layout(data: Data, query: Query, scheme: Scheme) -> Component:
    """The answer in a sentence, what to do first, teams by waste; then the trend and where the time went."""
    sums = ledger_math.by_key(data.now.get("items") or [], "bucket")
    whole = ledger_math.total(sums)
    window = data.answer.get("window") or {}
    note = f"{formats.span(window.get('start'), window.get('end'))}" if window else query.window_words
    if not whole.seconds and never_had_data(data.fleet):
        return states.first_run()
    if not whole.seconds:
        return html.Div(
            [
                parts.heading("Where the GPU-hours went", note),
                states.empty(
                    "No GPU time in this window",
                    "There is no data yet for this window. Choose another window, or check the data sources.",
                    earlier(data.fleet or {}, query),
                    parts.link("Data quality", query.link("/quality"), "button"),
                ),
            ]
        )
    currency = str(data.now.get("currency") or "")
    note += ", the end of the data" if query.at_the_end else ""
    covered = morning.covered_words(data.answer)
    return html.Div(
        [
            html.Div(
                [
                    morning.answered(data.answer, query),
                    html.Div(
                        [". ".join(filter(None, [note, covered.rstrip(".")])), " ", charge_tools.pdf(query)],
                        className="note",
                    ),
                ],
                className="morning",
            ),
            html.Div(
                [do_first.card(data.answer.get("actions") or [], query), team_waste.card(data.answer, query)],
                className="halves",
            ),
            headlines(data, sums, whole, currency, query),
            html.Div(
                [
                    html.Div([buckets(data.now, sums, currency, query)], className="column"),
                    html.Div(
                        [
                            waste_trend.card(data.answer, query, scheme),
                            funnel.card(data.now, data.fleet, sums, query, currency),
                        ],
                        className="column",
                    ),
                ],
                className="halves even",
            ),
        ]
    )


def never_had_data(fleet: Row | None) -> bool:
    """Whether no source has reported a GPU yet. An unreadable fleet is no proof."""
    return fleet is not None and not fleet.get("items") and not fleet.get("as_of")


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
    """Cost and the measures, each against the period before; what was not measured comes first where that is most."""
    now, before = data.now, data.answer.get("before")
    steps: Row = data.answer.get("steps") or {}
    trend = ledger_math.trend(
        steps.get("items") or [], str(steps.get("step") or "1d"), ledger_math.window_of(data.answer)
    )
    partial = measures.measured_partly(now)
    alone = None if before else NOTHING_BEFORE

    def share(name: str, good_up: bool | None, href: str | None = None, note: str | None = None) -> parts.Headline:
        part, then = of_all(now, name), of_all(before or {}, name) if before else None
        good = None if good_up is None or part is None or then is None else (part >= then) is good_up
        return parts.Headline(
            MEASURE_WORDS[name],
            parts.percent(part),
            None if note else formats.points(part, then),
            good,
            measures.shares_by_step(trend, name),
            note or (funnel.not_measured(query) if part is None else alone),
            href,
        )

    found = [share("working", True), avoidable(data, trend, currency, query), share("free", None)]
    seen = formats.number(now.get("measured_ratio"))
    of_held = f"of all GPU time, {formats.percent(1 - seen)} of the time held" if partial and seen is not None else None
    unseen = share("not_measured", False, query.link("/quality"), of_held)
    cost = parts.Headline(
        "GPU cost",
        parts.money(whole.cost, currency),
        formats.change(*per_second(now, before, "cost")),
        series=trend.sums(list(trend.hours)),
        note=parts.gpu_time(whole.seconds),
        href=query.link("/teams"),
        before=amount_before(now, before, before, currency),
    )
    return parts.headlines([cost, unseen, *found] if partial else [cost, *found, unseen])


def of_all(side: Row, name: str) -> Decimal | None:
    """The share of a measure; what was free or not measured has one even where the others have none."""
    if name not in ("free", "not_measured"):
        return measures.share(side, name)
    return ledger_math.ratio(measures.measure(side, name).get("gpu_seconds"), side.get("capacity_gpu_seconds"))


def per_second(now: Row, before: Row | None, name: str) -> list[Decimal | None]:
    """An amount of both windows for each second with data; None where it is unknown."""
    return [ledger_math.ratio(side.get(name), side.get("covered_seconds")) for side in (now, before or {})]


def amount_before(now: Row, before: Row | None, amount: Row | None, currency: str) -> str:
    """What the period before cost, if it has data of as much time; else only that it was the period before."""
    part = ledger_math.ratio((before or {}).get("covered_seconds"), now.get("covered_seconds"))
    cost = formats.number((amount or {}).get("cost"))
    return "previous" if cost is None or part is None or part < ALIKE else formats.rounded(cost, currency)


def avoidable(data: Data, trend: ledger_math.Trend, currency: str, query: Query) -> parts.Headline:
    """The waste: its cost, or its GPU time without a price."""
    now = measures.measure(data.now, "avoidable")
    seconds = formats.number(now.get("gpu_seconds"))
    ratio = morning.change(data.answer)
    return parts.Headline(
        MEASURE_WORDS["avoidable"],
        parts.money(now.get("cost"), currency),
        None if ratio is None else formats.change(ratio + 1, 1),
        None if ratio is None else ratio <= 0,
        measures.shares_by_step(trend, "avoidable"),
        note=funnel.not_measured(query) if seconds is None else parts.gpu_time(seconds),
        href=query.link("/teams", sort="avoidable"),
        before=amount_before(
            data.now,
            data.answer.get("before"),
            measures.measure(data.answer.get("before") or {}, "avoidable"),
            currency,
        ),
    )


def buckets(now: Row, sums: Mapping[str, Sum], currency: str, query: Query) -> Component:
    """The waterfall, with the waste as its title and the roofline efficiency below."""
    lost, part = measures.measure(now, "avoidable"), measures.share(now, "avoidable")
    cost, seconds = formats.number(lost.get("cost")), formats.number(lost.get("gpu_seconds"))
    if seconds is None or part is None:
        title = measures.measured_words(now) if measures.measured_partly(now) else "GPU-hours by bucket"
    elif not seconds:
        title = "Nothing was avoidable"
    else:
        size = formats.gpu_time(seconds) if cost is None else formats.rounded(cost, currency)
        of_cost = None if cost is None else ledger_math.ratio(cost, now.get("cost"))
        share = (
            f"{formats.percent(part)} of the GPU time" if of_cost is None else f"{formats.percent(of_cost)} of the cost"
        )
        title = f"{size} was avoidable ({share}) {query.window_words}"
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
