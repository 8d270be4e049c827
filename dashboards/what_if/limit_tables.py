"""Idle limits: the tables of all limits, and of the teams that give and get."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.shell.query import Query, job_link
from gpuwatch.dashboards.what_if.limit_charts import seconds, words

MAX_TEAMS = 40
JOBS_A_PAGE = 20


def limits_table(items: list[Row], at: Row, currency: str, query: Query) -> Component:
    """One row per limit."""
    sign = formats.sign_of(currency)
    places = formats.money_places(item.get("returned_cost") for item in items)
    columns = [
        parts.Column("Limit"),
        parts.Column("Returned, GPU-h", "r"),
        parts.Column(f"Worth, {sign}" if sign else "Worth", "r"),
        parts.Column("Jobs hit", "r"),
        parts.Column("Used again", "r", hint="Jobs that used the GPU again before they gave it back"),
        parts.Column(
            "GPUs back in 30 min",
            "r narrow-hide",
            hint="GPUs, not jobs, that their job used again within 30 minutes of losing them",
        ),
        parts.Column("Start sooner", "r narrow-hide", hint="Waiting requests that the released GPUs would have served"),
        parts.Column("Median wait saved, min", "r narrow-hide", hint="The median of how much sooner they start"),
    ]
    rows = [
        [
            html.Div(
                [
                    parts.link(words(item), query.link(limit=str(item["limit_minutes"])), "title nowrap"),
                    parts.HERE if item is at else None,
                ]
            ),
            *cells(item, places),
        ]
        for item in items
    ]
    return parts.table(columns, rows, label="Idle limits")


def cells(item: Row, places: int) -> list[Component]:
    """The numbers of a limit, for all teams or one."""
    sooner: Row = item.get("sooner") or {}
    cost = item.get("returned_cost")
    known = item.get("sooner") is not None
    median = sooner.get("median_s")
    return [
        parts.num(
            formats.fixed(item.get("returned_gpu_hours"), 1), parts.exact_hours(seconds(item.get("returned_gpu_hours")))
        ),
        parts.num(formats.fixed(cost, places), cost if cost is not None else "No price for a part of it"),
        parts.num(f"{int(item.get('jobs') or 0):,}"),
        parts.num(f"{int(item.get('wrong_jobs') or 0):,}"),
        parts.num(f"{int(item.get('soon_devices') or 0):,}"),
        parts.num(
            f"{int(sooner.get('requests') or 0):,}" if known else formats.MISSING, None if known else "Not replayed"
        ),
        parts.num(minutes(median), formats.duration(median) if median is not None else "None"),
    ]


def teams_card(data: Row, at: Row, currency: str, query: Query) -> Component:
    """The chosen limit by team."""
    rows = [item for item in data.get("teams") or [] if item.get("limit_minutes") == at.get("limit_minutes")]
    rows = [item for item in rows if item.get("jobs") or (item.get("sooner") or {}).get("requests")]
    places = formats.money_places(item.get("returned_cost") for item in rows)
    sign = formats.sign_of(currency)
    columns = [
        parts.Column("Team"),
        parts.Column("Returned, GPU-h", "r"),
        parts.Column(f"Worth, {sign}" if sign else "Worth", "r"),
        parts.Column("Jobs hit", "r"),
        parts.Column("Used again", "r"),
        parts.Column("GPUs back in 30 min", "r narrow-hide"),
        parts.Column("Start sooner", "r narrow-hide", hint="Requests of this team"),
        parts.Column("Median wait saved, min", "r narrow-hide", hint="The median of how much sooner they start"),
    ]
    shown = [[parts.team_link(query, item.get("team")), *cells(item, places)] for item in rows[:MAX_TEAMS]]
    note = f"the {MAX_TEAMS} largest of {len(rows)} teams" if len(rows) > MAX_TEAMS else None
    body = (
        parts.table(columns, shown, label="By team")
        if shown
        else html.P("No team would have lost a GPU.", className="soft")
    )
    return parts.card(f"Who gives, who gets, at {words(at)}", body, note=note)


def jobs_card(data: Row, at: Row, currency: str, query: Query) -> Component | None:
    """The jobs that the chosen limit hits, those hit wrongly first: whom to warn."""
    items: list[Row] = data.get("jobs") or []
    if not items:
        return None
    sign, places = formats.sign_of(currency), formats.money_places(item.get("returned_cost") for item in items)
    columns = [
        parts.Column("Job", "wide"),
        parts.Column("Team", "narrow-hide"),
        parts.Column("User"),
        parts.Column("GPUs taken", "r narrow-hide", hint="Each time counted"),
        parts.Column("Used again", "r", hint="GPUs that the job used again before it gave them back"),
        parts.Column("Returned, GPU-h", "r"),
        parts.Column(f"Worth, {sign}" if sign else "Worth", "r narrow-hide"),
    ]
    shown, pages = parts.numbered(items, JOBS_A_PAGE, query)
    rows: list[list[parts.Node]] = [
        [
            job(item, query),
            parts.team_link(query, item.get("team")),
            formats.clip(item.get("user") or formats.MISSING, 32),
            parts.num(f"{int(item.get('devices') or 0):,}"),
            parts.num(f"{int(item.get('wrong_devices') or 0):,}"),
            parts.num(
                formats.fixed(item.get("returned_gpu_hours"), 1),
                parts.exact_hours(seconds(item.get("returned_gpu_hours"))),
            ),
            parts.num(formats.fixed(item.get("returned_cost"), places), item.get("returned_cost") or "No price"),
        ]
        for item in shown
    ]
    cut = int(at.get("jobs") or 0) > len(items)
    note = (
        f"the first {len(items)}; those that used a GPU again come first"
        if cut
        else "those that used a GPU again come first"
    )
    table = parts.table(columns, rows, label="Jobs hit")
    return html.Div(parts.card(f"Jobs that a limit of {words(at)} hits", table, pages, note=note), id="jobs")


def job(item: Row, query: Query) -> Component:
    """A job by its name, with its id."""
    ident = str(item.get("job"))
    name = str(item.get("name") or ident)
    return html.Div(
        [
            parts.link(formats.clip(name, 44), job_link(query, item.get("cluster"), ident), "title", name),
            html.Div(formats.clip(ident, 60), className="soft small") if name != ident else None,
        ]
    )


def minutes(seconds_: object) -> str:
    """Minutes with one decimal, for a column."""
    found = formats.number(seconds_)
    return formats.MISSING if found is None else formats.fixed(found / 60, 1)
