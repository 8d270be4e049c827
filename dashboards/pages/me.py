"""My work: a person's jobs, how efficient they were and what to change."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import columns, formats, ledger_math, measures, parts
from gpuwatch.dashboards.components.findings_list import card as finding_card
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import MEASURE_WORDS
from gpuwatch.dashboards.waste import jobs as work
from gpuwatch.dashboards.waste import morning
from gpuwatch.dashboards.waste import teams as team_waste

FINDINGS = 5
ASKED = 100
"""Findings requested; the search also matches other fields than the user."""
PEOPLE = 60


@dataclass(frozen=True)
class Data:
    """The ledger by user, and the jobs and open findings of one. The latter are None if they failed to load."""

    ledger: Row
    jobs: Row | None = None
    findings: Row | None = None


async def load(api: Api, query: Query) -> Data:
    """The ledger by user; with a user, their jobs and findings too."""
    user = query.get("user")
    ledger = api.ledger(query.window, "user,bucket", **query.scope)
    if not user:
        return Data(await ledger)
    found, jobs, findings = await asyncio.gather(
        ledger,
        ledger_math.optional(api.jobs(query.window, work.ASKED, sort="avoidable", user=user, **query.scope)),
        ledger_math.optional(api.findings(limit=ASKED, state="open", q=user, **query.scope)),
    )
    return Data(found, jobs, findings)


@page("/me", "My work", load, icon="me", order=6, filters=("window", "cluster", "team"), under="/jobs")
def layout(data: Data, query: Query, scheme: str) -> Component:
    """A sentence, numbers, jobs with what to change, findings; without a user, the people to choose from."""
    user = query.get("user")
    window = data.ledger.get("window") or {}
    note = formats.span(window.get("start"), window.get("end"))
    if not user:
        return html.Div([parts.heading("Whose work?", f"{note}. Bookmark the page you come to."), people(data, query)])
    group = next((row for row in data.ledger.get("groups") or [] if row.get("user") == user), None)
    buckets = ledger_math.by_key((row for row in data.ledger.get("items") or [] if row.get("user") == user), "bucket")
    mine = [item for item in (data.findings or {}).get("items") or [] if item.get("user") == user]
    whole = ledger_math.total(buckets)
    others = parts.link("Someone else", query.link(user=None), "button small")
    if group is None or not whole.seconds:
        return html.Div(
            [
                parts.heading(formats.clip(user, 60), note, others),
                states.empty(
                    "No GPU time in this window",
                    "Nobody of this name held a GPU. Choose a longer window, or check the spelling.",
                    parts.link("Everyone", query.link(user=None), "button"),
                ),
            ]
        )
    currency = str(data.ledger.get("currency") or "")
    return html.Div(
        [
            html.Div(
                [
                    html.Div(
                        ["Work of ", html.Span(formats.clip(user, 60), className="strong"), " ", others],
                        className="who-line",
                    ),
                    html.H1(sentence(group, whole, currency, query), className="answer"),
                    html.Div(note, className="note"),
                ],
                className="morning",
            ),
            headlines(group, whole, currency, mine),
            parts.card(
                "Where the GPU time went",
                team_waste.bar({name: part.seconds for name, part in buckets.items()}, None, whole.seconds, "GPU time"),
                parts.legend(buckets),
            ),
            html.Div(
                [
                    html.Div(open_findings(mine, query), className="column beside"),
                    work.card(data.jobs, query, user, users=False),
                ],
                className="mine",
            ),
        ]
    )


def sentence(group: Row, whole: ledger_math.Sum, currency: str, query: Query) -> list[parts.Node]:
    """What was avoidable of a person's GPU time."""
    lost = measures.measure(group, "avoidable")
    seconds, cost = formats.number(lost.get("gpu_seconds")), formats.number(lost.get("cost"))
    if measures.measured_partly(group) or seconds is None:
        return [
            f"Not measured: most of your {formats.gpu_time(whole.seconds)} {query.window_words}, so what was avoidable is unknown."
        ]
    priced = cost is not None and whole.cost is not None and bool(currency)
    found = (
        morning.Waste(cost or Decimal(0), whole.cost or Decimal(0), currency)
        if priced
        else morning.Waste(seconds, whole.seconds, None)
    )
    if not found.lost:
        return [f"Nothing of {found.words(found.whole)} was avoidable {query.window_words}."]
    size = html.Span(found.words(found.lost), className="lost nowrap")
    return [size, f" of {found.words(found.whole)} was avoidable {query.window_words}."]


def headlines(group: Row, whole: ledger_math.Sum, currency: str, mine: list[Row]) -> Component:
    """Cost, the shares of the time held, and open findings."""
    shown = [parts.Headline("Cost", parts.money(whole.cost, currency), note=parts.gpu_time(whole.seconds))]
    for name in ("working", "avoidable"):
        shown.append(
            parts.Headline(MEASURE_WORDS[name], parts.percent(measures.share(group, name)), note="of the time held")
        )
    efficiency = group.get("roofline_efficiency")
    shown.append(parts.Headline("Roofline efficiency", parts.percent(efficiency), note="of the working time"))
    shown.append(parts.Headline("Open findings", parts.num(f"{len(mine):,}")))
    return parts.headlines(shown)


def open_findings(mine: list[Row], query: Query) -> Component:
    """The most expensive open findings of a person."""
    if not mine:
        return parts.card("No open findings")
    cards = [html.Div(finding_card(item, query)) for item in mine[:FINDINGS]]
    return parts.card("Open findings", html.Div(cards, className="stack"))


def people(data: Data, query: Query) -> Component:
    """The people with GPU time in the window, those with the most avoidable cost first, or time without prices."""
    groups = [row for row in data.ledger.get("groups") or [] if row.get("user")]
    if not groups:
        return states.empty(
            "No users in this window",
            "No source reports who ran the jobs, or nothing ran.",
            parts.link("Jobs", query.link("/jobs"), "button"),
        )
    sums = ledger_math.by_key((row for row in data.ledger.get("items") or [] if row.get("user")), "user")
    currency = str(data.ledger.get("currency") or "")
    lost = {str(row["user"]): formats.number(measures.measure(row, "avoidable").get("cost")) for row in groups}
    groups.sort(key=lambda row: -(lost[str(row["user"])] or Decimal(0)))  # by time already, where nothing has a price
    shown, sign = groups[:PEOPLE], formats.sign_of(currency)
    places = formats.money_places(sums.get(str(row["user"]), ledger_math.Sum()).cost for row in shown)
    rows = [
        [
            parts.link(formats.clip(row["user"], 60), query.link(user=str(row["user"])), "title"),
            parts.hours(sums.get(str(row["user"]), ledger_math.Sum()).seconds),
            columns.amount(sums.get(str(row["user"]), ledger_math.Sum()).cost, places, currency),
            columns.amount(lost[str(row["user"])], places, currency, lost=True),
            columns.share(measures.share(row, "avoidable")),
        ]
        for row in shown
    ]
    heads = [
        parts.Column("User", "wide"),
        parts.Column("GPU-h", "r narrow-hide"),
        parts.Column(f"Cost ({sign})" if sign else "Cost", "r"),
        parts.Column(f"Avoidable ({sign})" if sign else "Avoidable cost", "r"),
        parts.Column("% of time", "r", hint="Avoidable part of the GPU time held"),
    ]
    note = f"The {PEOPLE} with the most that was avoidable, of {len(groups)}." if len(groups) > PEOPLE else None
    return parts.plain(parts.table(heads, rows, label="People"), html.P(note, className="soft") if note else None)
