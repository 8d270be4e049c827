"""One MIG GPU or one slice: its layouts over time, and who held what, when, at what cost and use."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import figures, formats, mig_drawing, parts, slice_use
from gpuwatch.dashboards.components.figures import Figure
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query, job_link
from gpuwatch.dashboards.shell.theme import BUCKET, INK, Scheme

ROWS_SHOWN = 200
BARS_MAX = 500
ROW_PX, EDGE_PX = 34, 60
SLICE = "/GI-"
MAX_PAGES = 10
"""API pages to read: a thousand tenancies each."""


@dataclass(frozen=True)
class Data:
    """The tenancies of the GPU or slice in the path, the newest first. `cut`: there are more than were read."""

    rows: list[Row]
    cut: bool


async def load(api: Api, query: Query) -> Data:
    """The tenancies of the window."""
    ident = ident_of(query)
    rows: list[Row] = []
    cursor = ""
    for _ in range(MAX_PAGES):
        answer = await api.slices(query.window, cursor, gpu=ident.partition(SLICE)[0], **query.scope)
        rows += answer.get("items") or []
        cursor = str(answer.get("next") or "")
        if not cursor:
            break
    if SLICE in ident:
        rows = [row for row in rows if row.get("slice") == ident]
    return Data(sorted(rows, key=lambda row: str(row.get("start")), reverse=True), bool(cursor))


def ident_of(query: Query) -> str:
    """The GPU or slice in a path such as /mig/GPU-1c1abed6/GI-3."""
    return query.path.removeprefix("/mig/")


@page("/mig/*", "MIG GPU", load, filters=("window",))
def layout(data: Data, query: Query, scheme: Scheme) -> Component:
    """Headline numbers, the layouts as bars over time, and the tenancies."""
    ident = ident_of(query)
    gpu, is_slice, gi = ident.partition(SLICE)
    first: Row = data.rows[0] if data.rows else {}
    back = parts.link("← The whole GPU", query.link(f"/mig/{gpu}"), "back")
    head = [
        back if is_slice else parts.link("← MIG", query.link("/mig"), "back"),
        parts.heading(
            f"Slice GI-{gi} of {formats.device(gpu)}"
            if is_slice
            else f"MIG GPU {formats.clip(formats.device(gpu), 40)}",
            f"{formats.clip(first.get('node') or 'node not known', 40)}, {formats.clip(first.get('gpu_model') or '', 40)}",
            parts.link("Its health", query.link(f"/fleet/{gpu}"), "button"),
        ),
    ]
    if not data.rows:
        return html.Div([*head, states.empty("No slices in this window", "Choose a longer window.")])
    figure, height = timeline(data.rows, scheme)
    graph = parts.graph(figure, {"height": f"{height}px"})
    return html.Div(
        [
            *head,
            numbers(data.rows),
            html.Div(
                [
                    parts.card(
                        "Which slices there were, and who held them",
                        graph,
                        note=f"{formats.zone_word()}; pale grey: free; a gap: no such slice",
                    ),
                    tenancies(data.rows, query),
                ],
                className="column",
            ),
            states.advice("Not all who held it are shown. Choose a shorter window.") if data.cut else None,
        ]
    )


def numbers(rows: list[Row]) -> Component:
    """Cost, idle time and use of the held time."""
    held = [row for row in rows if slice_use.owner_of(row)]
    whole = sum((slice_use.seconds(row, "device_seconds") for row in rows), Decimal(0))
    taken = sum((slice_use.seconds(row, "device_seconds") for row in held), Decimal(0))
    currency = next((str(row["currency"]) for row in rows if row.get("currency")), "")
    idle = formats.total(row.get("idle_seconds") for row in held)
    return parts.headlines(
        [
            parts.Headline(
                "Cost of held slices", parts.money(formats.total(row.get("cost") for row in held), currency)
            ),
            parts.Headline("Held", parts.percent(taken / whole if whole else None), note="of the slices' time"),
            parts.Headline("An hour held", hourly(held, taken, currency), note="its cost by the time held"),
            parts.Headline("Held idle", parts.percent(idle / taken if idle is not None and taken else None)),
            parts.Headline("Engine busy", parts.percent(slice_use.mean_of(held, "gr_engine_ratio")), note="while held"),
            parts.Headline("Memory used", parts.percent(slice_use.mean_of(held, "fb_used_ratio")), note="while held"),
        ]
    )


def hourly(held: list[Row], seconds: Decimal, currency: str) -> Component:
    """What an hour of a held slice cost on average."""
    cost = formats.total(row.get("cost") for row in held)
    if cost is None or not seconds:
        return parts.num(formats.MISSING)
    price = cost * 3600 / seconds
    return parts.num(slice_use.price_words(price, currency), formats.exact(price, currency))


def timeline(rows: list[Row], scheme: Scheme) -> tuple[Figure, int]:
    """One line per slice, one bar per tenancy in the colour of its owner; and the height in pixels."""
    ink, drawn = INK[scheme], rows[:BARS_MAX]
    owners = mig_drawing.colours(by_time(drawn))
    palette = (*ink.series, ink.threshold, ink.muted)
    bars: list[dict[str, Any]] = []
    for row in sorted(drawn, key=lambda one: (slice_use.whole(one.get("gi"), 99), str(one.get("start")))):
        start, end = formats.moment(row.get("start")), formats.moment(row.get("end"))
        if start is None or end is None:
            continue
        owner = slice_use.owner_of(row)
        name = figures.literal(formats.clip(mig_drawing.short_owner(owner), 40)) if owner else "free"
        colour = palette[owners[owner] % len(palette)] if owner else BUCKET["schedulable"].colour(scheme)
        bars.append(
            {
                "type": "bar",
                "orientation": "h",
                "y": [figures.literal(f"GI-{row.get('gi')} {row.get('profile') or ''}".strip())],
                "base": [str(row.get("start"))],
                "x": [(end - start).total_seconds() * 1000],
                "width": 0.7,
                "marker": {"color": colour, "line": {"width": 1, "color": ink.ground}},
                "text": [name],
                "textposition": "inside",
                "insidetextanchor": "start",
                "hovertemplate": f"{name}<br>{formats.span(row.get('start'), row.get('end'))}<extra></extra>",
            }
        )
    lines = len({bar["y"][0] for bar in bars})
    layout = figures.layout(
        scheme,
        barmode="overlay",
        hovermode="closest",
        yaxis={"type": "category", "autorange": "reversed", "showgrid": False},
        xaxis={"type": "date", "showgrid": True},
    )
    return {"data": bars, "layout": layout}, EDGE_PX + ROW_PX * max(lines, 2)


def by_time(rows: list[Row]) -> list[str]:
    """Who held slices, those with the most time first."""
    held: dict[str, Decimal] = {}
    for row in rows:
        if owner := slice_use.owner_of(row):
            held[owner] = held.get(owner, Decimal(0)) + slice_use.seconds(row, "device_seconds")
    return sorted(held, key=lambda name: (-held[name], name))


def tenancies(rows: list[Row], query: Query) -> Component:
    """Who held which slice, when, at what cost and use. On a phone: who, and at what cost; of a single slice also since when."""
    several = len({row.get("slice") for row in rows}) > 1
    columns = [
        parts.Column("Slice", "" if several else "narrow-hide"),
        parts.Column("Team"),
        parts.Column("Job"),
        parts.Column(f"From ({formats.zone_word()})", "r narrow-hide" if several else "r"),
        parts.Column(f"Until ({formats.zone_word()})", "r narrow-hide"),
        parts.Column("Busy", "r narrow-hide"),
        parts.Column("Memory used", "r narrow-hide"),
        parts.Column("Hours", "r narrow-hide"),
        parts.Column("Cost", "r"),
    ]
    shown = []
    for row in rows[:ROWS_SHOWN]:
        use: Row = row.get("utilisation") or {}
        job = str(row.get("job") or "")
        owner = slice_use.owner_of(row)
        shown.append(
            [
                parts.link(
                    f"GI-{row.get('gi')} {formats.clip(row.get('profile') or '', 14)}".strip(),
                    query.link(f"/mig/{row.get('slice')}"),
                    "mono nowrap",
                ),
                parts.team_link(query, row.get("team")) if owner else html.Span("free", className="soft"),
                parts.link(formats.clip(job, 40), job_link(query, row.get("cluster"), job)) if job else "",
                *(html.Span(formats.clock(row.get(name)), className="num nowrap") for name in ("start", "end")),
                *(parts.percent(use.get(name)) if owner else "" for name in ("gr_engine_ratio", "fb_used_ratio")),
                parts.hours(slice_use.seconds(row, "device_seconds")),
                parts.money(row.get("cost"), str(row.get("currency") or "")),
            ]
        )
    note = f"the newest {ROWS_SHOWN} of {len(rows)}" if len(rows) > ROWS_SHOWN else None
    return parts.card("Who held it", parts.table(columns, shown, label="Tenancies"), note=note)
