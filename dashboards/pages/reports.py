"""Weekly reports: one of the fleet and one a team, in each format, to open and to forward."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, ApiFailure, Row
from gpuwatch.dashboards.components import ledger_math, parts
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

WEEKS = 8
"""Weeks that are offered: those that ended last."""

TEAMS_A_PAGE = 50
WEEK = re.compile(r"\d{4}-W\d{2}", re.ASCII)
FORMATS = {
    "html": ("HTML", "A page that opens anywhere"),
    "pdf": ("PDF", "To forward and to print"),
    "xlsx": ("Excel", "Real numbers with filters, a sheet a level"),
    "csv": ("CSV", "Every number unrounded"),
    "focus": ("FOCUS", "FOCUS 1.2 rows for billing tools"),
    "parquet": ("Parquet", "Every number unrounded, with types"),
}
OPENED = ("html", "pdf")
"""Formats that a browser shows; others are saved."""

AGAIN = "gpuwatch report weekly --week {week} --out reports"


@dataclass(frozen=True)
class Data:
    """The weeks on offer, the newest first; the one chosen; who may see what; and what each team paid in it."""

    weeks: tuple[str, ...]
    week: str
    me: Row
    charges: Row | None
    missing: str = ""
    """Why nothing is known of the week."""


async def load(api: Api, query: Query) -> Data:
    """What teams paid in the week of the address, else in the one that ended last."""
    me, fleet = await asyncio.gather(api.me(), api.fleet())
    weeks = ended(components_text.moment(fleet.get("at")))
    wanted = query.get("week")
    week = wanted if WEEK.fullmatch(wanted) else weeks[0] if weeks else ""
    if not week:
        return Data(weeks, "", me, None, "The service does not tell its time.")
    try:
        return Data(weeks, week, me, await api.chargeback(week, "team"))
    except ApiFailure as error:
        if error.status not in (400, 404):
            raise
        return Data(weeks, week, me, None, f"{error.message} {error.hint}".strip())


def ended(now: datetime | None) -> tuple[str, ...]:
    """ISO weeks that are over at `now`, the newest first."""
    if now is None:
        return ()
    sunday = now.astimezone(UTC) - timedelta(days=now.astimezone(UTC).isoweekday())
    weeks = [(sunday - timedelta(weeks=back)).isocalendar() for back in range(WEEKS)]
    return tuple(f"{week.year}-W{week.week:02d}" for week in weeks)


@page("/reports", "Reports", load, icon="reports", order=9, filters=("team",), under="/teams")
def layout(data: Data, query: Query, scheme: str) -> Component:
    """The weeks, then a row a report with its files."""
    offered = data.weeks if data.week in data.weeks else (*data.weeks, data.week)
    choices = [
        (week, query.link(week=None if week == data.weeks[0] else week, page=None), week == data.week)
        for week in offered
        if week
    ]
    rows = reports(data, query)
    every = everything(data, query) if rows else None
    return html.Div(
        [
            parts.heading("Reports to forward", note_of(data), every),
            parts.picks(choices, "Week"),
            *(listed(rows, data, query) if rows else [nothing(data, query)]),
        ]
    )


def note_of(data: Data) -> str:
    """The week by its days."""
    window = (data.charges or {}).get("window") or {}
    days = f", {components_text.span(window.get('start'), window.get('end'))}" if window else ""
    return f"Week {data.week}{days}" if data.week else ""


@dataclass(frozen=True)
class Report:
    """One report: of a team, or of the fleet (team empty)."""

    team: str
    cost: Decimal | None
    currency: str


def reports(data: Data, query: Query) -> list[Report]:
    """The fleet's first, then teams by what they paid. Nobody's time has no report of its own."""
    rows: list[Row] = (data.charges or {}).get("items") or []
    currency = str(next((row["currency"] for row in rows if row.get("currency")), ""))
    sums = ledger_math.by_key(rows, "team")
    teams = [Report(team, part.cost, currency) for team, part in sums.items() if team != "None" and team[:2] != "__"]
    teams.sort(key=lambda one: (one.cost is None, -(one.cost or Decimal(0)), one.team))
    if query.get("team"):
        return [one for one in teams if one.team == query.get("team")]
    whole = [Report("", ledger_math.total(sums).cost, currency)] if rows and data.me.get("teams") is None else []
    return [*whole, *teams]


def listed(rows: Sequence[Report], data: Data, query: Query) -> list[Component | None]:
    """A page of reports, and how to have them made by a machine."""
    shown, links = parts.numbered(rows, TEAMS_A_PAGE, query)
    columns = [parts.Column("Report", "wide"), parts.Column("Paid", "r narrow-hide"), parts.Column("Files", "files")]
    cells = [[title(one, data, query), parts.money(one.cost, one.currency), files(one, data.week)] for one in shown]
    return [
        parts.plain(parts.table(columns, cells, label="Reports of the week")),
        links,
        states.advice("The same files in a folder:", AGAIN.format(week=data.week)),
    ]


def title(one: Report, data: Data, query: Query) -> Component:
    """Whose report it is; leads to its charges of the week."""
    href = query.link("/teams", team=one.team or None, window=data.week, by="user" if one.team else None)
    said = components_text.clip(components_text.owner(one.team), 60) if one.team else "The fleet"
    return parts.link(said, href, "title", one.team or None)


def files(one: Report, week: str) -> Component:
    """A link a format."""
    whose = one.team or "the fleet"
    return html.Div([file(form, one.team, week, whose) for form in FORMATS], className="exports")


def file(form: str, team: str, week: str, whose: str) -> Component:
    """Opens in a tab of its own where the browser can show it, else it is saved."""
    word, hint = FORMATS[form]
    how: dict[str, Any] = {"target": "_blank", "rel": "noopener"} if form in OPENED else {"download": ""}
    said: dict[str, Any] = parts.aria(f"{word} report of {components_text.clip(whose, 60)}, week {week}")
    return html.A(word, href=address(week, form, team), className="button small", title=hint, **how, **said)


def address(week: str, form: str, team: str = "") -> str:
    """Where the API gives a report."""
    params = {"week": week, "format": form} | ({"team": team} if team else {})
    return f"/api/v1/reports/weekly?{urlencode(params)}"


def everything(data: Data, query: Query) -> Component:
    """All files of all reports shown, in one."""
    href = address(data.week, "zip", query.get("team"))
    return html.A("All files (ZIP)", href=href, download="", className="button")


def nothing(data: Data, query: Query) -> Component:
    """No report can be made of this week."""
    if query.get("team") and data.charges and data.charges.get("items"):
        return states.empty(
            "This team paid nothing in this week",
            "A report has at least one charge.",
            parts.link("All reports", query.link("/reports", team=None, week=query.get("week")), "button"),
        )
    return states.empty(
        f"Week {data.week} has no books" if data.week else "No week is known",
        data.missing or "No GPU was measured then. Choose another week.",
    )
