"""A team's own page: what it paid, what was avoidable, which jobs, what to change, its budget and the trend."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import charge_tools, formats, ledger_math, measures, parts
from gpuwatch.dashboards.pages import budgets
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import MEASURE_WORDS, Scheme
from gpuwatch.dashboards.waste import do_first, morning
from gpuwatch.dashboards.waste import jobs as work
from gpuwatch.dashboards.waste import trend as waste_trend

ROOT = "/team/"


@dataclass(frozen=True)
class Data:
    """The overview of the team, its jobs, its charges and budgets. Optional parts are None if they failed to load."""

    answer: Row
    jobs: Row | None
    charges: Row | None
    budgets: Row | None


def team_of(query: Query) -> str:
    """The team in the path."""
    return query.path.removeprefix(ROOT)


async def load(api: Api, query: Query) -> Data:
    """Everything at once; only the overview is required."""
    team, cluster = team_of(query), query.get("cluster")
    scope = {"team": team} | ({"cluster": cluster} if cluster else {})
    answer, jobs, charges, found = await asyncio.gather(
        api.overview(query.window, **scope),
        ledger_math.optional(api.jobs(query.window, work.ASKED, sort="avoidable", **scope)),
        ledger_math.optional(api.chargeback(query.window, "team", **scope)),
        ledger_math.optional(api.budgets(team=team)),
    )
    return Data(answer, jobs, charges, found)


@page("/team/*", "Team", load, filters=("window", "cluster"), under="/teams")
def layout(data: Data, query: Query, scheme: Scheme) -> Component:
    """The answer in a sentence, numbers, what to change beside the jobs, then trend and budget."""
    team = team_of(query)
    query = replace(query, values={**query.values, "team": team})
    window = data.answer.get("window") or {}
    now: Row = data.answer["now"]
    top = html.Div(
        [
            html.Div(
                [html.Span("Team "), html.Span(formats.clip(formats.owner(team), 60), className="strong")],
                className="who-line",
            ),
            morning.answered(data.answer, query),
            html.Div(
                [formats.span(window.get("start"), window.get("end")), " ", charge_tools.pdf(query, team)],
                className="note",
            ),
        ],
        className="morning",
    )
    if not formats.number(now.get("capacity_gpu_seconds")):
        return html.Div(
            [
                parts.heading(
                    formats.clip(formats.owner(team), 60), formats.span(window.get("start"), window.get("end"))
                ),
                states.empty(
                    "This team held no GPUs in this window",
                    "Choose another window, or check how GPU time is assigned to teams.",
                    parts.link("All teams", query.link("/teams", team=None), "button"),
                    parts.link("Data quality", query.link("/quality", team=None), "button"),
                ),
            ]
        )
    cards = [
        budgets.card(item, query, scheme)
        for item in (data.budgets or {}).get("items") or []
        if item.get("team") == team
    ]
    return html.Div(
        [
            top,
            headlines(data, query),
            html.Div(
                [
                    html.Div(
                        [
                            do_first.card(data.answer.get("actions") or [], query, "What to change first"),
                            waste_trend.card(data.answer, query, scheme),
                            *cards,
                            drill(query),
                        ],
                        className="column beside",
                    ),
                    work.card(data.jobs, query, team, users=True),
                ],
                className="mine",
            ),
        ]
    )


def headlines(data: Data, query: Query) -> Component:
    """What the team is charged, what was avoidable of what it held, how much of it worked, and open findings."""
    now, before = data.answer["now"], data.answer.get("before") or {}
    currency = str(now.get("currency") or "")
    total = (data.charges or {}).get("total") or {}
    lost, ratio = measures.measure(now, "avoidable"), morning.change(data.answer)
    charged = [row for row in (data.charges or {}).get("items") or [] if formats.number(row.get("cost")) is not None]
    paid = total.get("cost") or formats.total(row.get("cost") for row in charged)
    shown = [
        parts.Headline(
            "Charged",
            parts.money(paid, str(total.get("currency") or currency)),
            note=parts.gpu_time(now.get("capacity_gpu_seconds")),
            href=query.link("/teams", by="user"),
        ),
        parts.Headline(
            MEASURE_WORDS["avoidable"],
            parts.money(lost.get("cost"), currency)
            if lost.get("cost") is not None
            else parts.gpu_time(lost.get("gpu_seconds")),
            None if ratio is None else formats.change(ratio + 1, 1),
            None if ratio is None else ratio <= 0,
            note="not measured" if lost.get("gpu_seconds") is None else "nothing to compare with",
        ),
    ]
    for name in ("working", "not_measured"):
        part, then = measures.share(now, name), measures.share(before, name)
        if part is None and name == "not_measured" and formats.number(now.get("measured_ratio")) == 0:
            part = Decimal(1)
        shown.append(
            parts.Headline(
                MEASURE_WORDS[name], parts.percent(part), formats.points(part, then), note="of the time held"
            )
        )
    many = sum(int(action.get("findings") or 0) for action in data.answer.get("actions") or [])
    shown.append(
        parts.Headline("Open findings", parts.num(f"{many:,}"), note="not acknowledged", href=query.link("/findings"))
    )
    return parts.headlines(shown)


def drill(query: Query) -> Component:
    """Where to go from here."""
    ways = (
        ("Charges by user", query.link("/teams", by="user")),
        ("Charges by queue", query.link("/teams", by="queue")),
        ("Charges by job", query.link("/teams", by="job")),
        ("Findings", query.link("/findings")),
        ("Budgets", query.link("/budgets")),
        ("Weekly reports", query.link("/reports")),
    )
    return parts.card(
        "More", html.Div([parts.link(word, href, "button small") for word, href in ways], className="buttons")
    )
