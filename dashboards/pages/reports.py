"""Weekly and monthly reports of the fleet and each team, in all formats."""

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
from gpuwatch.dashboards.components import columns, formats, ledger_math, parts
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

WEEKS, MONTHS = 8, 4
"""Number of complete weeks offered, and of months with the one that runs."""

TEAMS_A_PAGE = 50
NOBODY = {
    "__platform__": "is the platform's (GPUs that nobody held, or that it pays for by policy)",
    "__unallocated__": "has no team",
}
"""Rows of the charges that are no team's, in words."""
PERIOD = re.compile(r"\d{4}-(W\d{2}|\d{2})", re.ASCII)


@dataclass(frozen=True)
class Data:
    """The weeks and months offered, newest first; the selected one; the caller; the charges by team; and the formats of a report."""

    weeks: tuple[str, ...]
    week: str
    me: Row
    charges: Row | None
    missing: str = ""
    """Why there is no data for the week."""
    forms: Sequence[Row] = ()
    months: tuple[str, ...] = ()


async def load(api: Api, query: Query) -> Data:
    """Charges by team for the week or month in the URL, or else for the last complete week."""
    me, fleet, listed, covered = await asyncio.gather(
        api.me(), api.fleet(), api.get("reports/formats"), ledger_math.optional(api.get("coverage"))
    )
    now, start = formats.moment(fleet.get("at")), formats.moment((covered or {}).get("start"))
    weeks, months = since(ended(now), start), months_of(now, start)
    if covered is not None and start is None:
        weeks = weeks[:1]  # nothing has data
    wanted = query.get("week")
    week = wanted if PERIOD.fullmatch(wanted) else weeks[0] if weeks else ""
    if not week:
        return Data(weeks, "", me, None, "The service did not return its current time.", months=months)
    try:
        charges = await api.chargeback(week, "team")
        return Data(weeks, week, me, charges, forms=listed.get("items") or [], months=months)
    except ApiFailure as error:
        if error.status not in (400, 404):
            raise
        return Data(weeks, week, me, None, f"{error.message} {error.hint}".strip(), months=months)


def ended(now: datetime | None) -> tuple[str, ...]:
    """Complete ISO weeks at `now`, newest first."""
    if now is None:
        return ()
    sunday = now.astimezone(UTC) - timedelta(days=now.astimezone(UTC).isoweekday())
    weeks = [(sunday - timedelta(weeks=back)).isocalendar() for back in range(WEEKS)]
    return tuple(f"{week.year}-W{week.week:02d}" for week in weeks)


def since(weeks: tuple[str, ...], start: datetime | None) -> tuple[str, ...]:
    """The weeks in which there is data, and the last complete one in any case."""
    if start is None:
        return weeks
    first = start.astimezone(UTC).isocalendar()
    return tuple(week for week in weeks if week >= f"{first.year}-W{first.week:02d}") or weeks[:1]


def months_of(now: datetime | None, start: datetime | None) -> tuple[str, ...]:
    """The month that runs at `now` and those before, newest first, back to the first with data."""
    if now is None:
        return ()
    at = now.astimezone(UTC)
    counts = [at.year * 12 + at.month - 1 - back for back in range(MONTHS)]
    names = [f"{count // 12}-{count % 12 + 1:02d}" for count in counts]
    first = names[0] if start is None else f"{start.astimezone(UTC):%Y-%m}"
    return tuple(name for name in names if name >= first) or (names[0],)


@page("/reports", "Reports", load, icon="reports", order=9, filters=("team",), under="/teams")
def layout(data: Data, query: Query, scheme: str) -> Component:
    """The weeks, then one row per report with its files."""
    known = data.week in (*data.weeks, *data.months)
    offered = data.weeks if known else (*data.weeks, data.week)
    choices = [
        (week, query.link(week=None if week == data.weeks[0] else week, page=None), week == data.week)
        for week in offered
        if week
    ]
    choices += [
        (words(month, data), query.link(week=month, page=None), month == data.week) for month in reversed(data.months)
    ]
    rows = reports(data, query)
    every = everything(data, query) if rows else None
    to = parts.link("Recipients", query.link("/recipients"), "button")
    return html.Div(
        [
            parts.heading("Reports", note_of(data), to, every),
            parts.picks(choices, "Week or month"),
            *(listed(rows, data, query) if rows else [nothing(data, query)]),
        ]
    )


def words(name: str, data: Data) -> str:
    """`Week 2026-W47`, `October 2026`, `November 2026 so far`."""
    if "W" in name:
        return f"Week {name}"
    return f"{formats.period(name)}{' so far' if data.months and name == data.months[0] else ''}"


def note_of(data: Data) -> str:
    """The week or month and its dates."""
    window = (data.charges or {}).get("window") or {}
    days = f", {formats.span(window.get('start'), window.get('end'))}" if window else ""
    return f"{words(data.week, data)}{days}" if data.week else ""


@dataclass(frozen=True)
class Report:
    """One report: of a team, or of the fleet (team empty)."""

    team: str
    cost: Decimal | None
    currency: str


def reports(data: Data, query: Query) -> list[Report]:
    """The fleet's report first, then teams by cost. Unallocated time has no report."""
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
    """A page of reports, and what has no report."""
    shown, links = parts.numbered(rows, TEAMS_A_PAGE, query)
    rest = nobody(data) if not query.get("team") and data.me.get("teams") is None else None
    sign = formats.sign_of(rows[0].currency)
    heads = [
        parts.Column("Report", "wide"),
        parts.Column(f"Cost ({sign})" if sign else "Cost", "r narrow-hide"),
        parts.Column("Files", "files"),
    ]
    places = formats.money_places(one.cost for one in rows)
    cells = [
        [title(one, data, query), columns.amount(one.cost, places, one.currency), files(one, data)] for one in shown
    ]
    return [
        parts.plain(parts.table(heads, cells, label="Reports")),
        html.P(rest, className="soft") if rest else None,
        links,
    ]


def nobody(data: Data) -> str | None:
    """What the fleet's cost has beside that of the teams: it has no report of its own."""
    rows: list[Row] = (data.charges or {}).get("items") or []
    currency = str(next((row["currency"] for row in rows if row.get("currency")), ""))
    sums = ledger_math.by_key(rows, "team")
    found = [
        f"{formats.money(part.cost, currency)} {words}"
        for name, words in NOBODY.items()
        if (part := sums.get(name)) is not None and part.cost
    ]
    return f"The fleet's cost is more than that of the teams: {' and '.join(found)}." if found else None


def title(one: Report, data: Data, query: Query) -> Component:
    """The team, or the fleet, linked to its charges in the week."""
    href = query.link("/teams", team=one.team or None, window=data.week, by="user" if one.team else None)
    label = formats.clip(formats.owner(one.team), 60) if one.team else "The fleet"
    return parts.link(label, href, "title", one.team or None)


def files(one: Report, data: Data) -> Component:
    """One link per format."""
    whose = one.team or "the fleet"
    return html.Div([file(form, one.team, data.week, whose) for form in data.forms], className="exports")


def file(form: Row, team: str, week: str, whose: str) -> Component:
    """A link that opens the file in a new tab if the browser can show it, and downloads it otherwise."""
    word = str(form.get("label"))
    href = address(week, str(form.get("format")), team)
    how: dict[str, Any] = {"target": "_blank", "rel": "noopener"} if form.get("inline") else {"download": ""}
    label: dict[str, Any] = parts.aria(
        f"{word} report of {formats.clip(whose, 60)}, {'week ' if 'W' in week else ''}{week}"
    )
    return html.A(word, href=href, className="button small", title=str(form.get("about")), **how, **label)


def address(week: str, form: str, team: str = "") -> str:
    """The API URL of a report."""
    params = {"week": week, "format": form} | ({"team": team} if team else {})
    return f"/api/v1/reports/weekly?{urlencode(params)}"


def everything(data: Data, query: Query) -> Component:
    """All files of all listed reports as one ZIP."""
    href = address(data.week, "zip", query.get("team"))
    return html.A("All files (ZIP)", href=href, download="", className="button")


def nothing(data: Data, query: Query) -> Component:
    """No reports for this week or month."""
    if query.get("team") and data.charges and data.charges.get("items"):
        return states.empty(
            "No charges for this team in this time",
            "A report needs at least one charge.",
            parts.link("All reports", query.link("/reports", team=None, week=query.get("week")), "button"),
        )
    return states.empty(
        f"No data for {formats.inside(words(data.week, data))}" if data.week else "No complete week yet",
        data.missing or "No GPUs were measured in this time. Choose another week or month.",
    )
