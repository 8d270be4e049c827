"""Quotas: the sentence, the numbers, the charts and the tables."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.components.figures import Figure, layout
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import BUCKET, Scheme
from gpuwatch.dashboards.what_if import trials
from gpuwatch.dashboards.what_if.limit_charts import seconds
from gpuwatch.dashboards.what_if.limit_tables import minutes

HALF = 0.5
"""Without a quota in the address, the first that is at least half of the most held is shown."""


def gpus(item: Row) -> str:
    """The quota without needless decimals."""
    return formats.exact(item.get("gpus"))


def chosen(items: list[Row], query: Query) -> Row:
    """The quota in the address, else one in the middle."""
    known = {gpus(item): item for item in items}
    middle = float(items[-1].get("gpus") or 0) * HALF
    return known.get(query.get("gpus")) or next(item for item in items if float(item.get("gpus") or 0) >= middle)


def sentence(answer: Row, at: Row) -> str:
    """What the quota would have changed."""
    team, runs = formats.clip(answer.get("team"), 40), int(answer.get("runs") or 0)
    most = formats.exact(answer.get("peak_gpus"))
    text = f"{team} held up to {most} GPUs at once. With a quota of {gpus(at)}, "
    delayed, never = int(at.get("delayed_runs") or 0), int(at.get("too_large_runs") or 0)
    if not delayed and not never:
        return text + f"none of its {trials.count(runs, 'run')} would have waited."
    if delayed:
        text += f"{delayed:,} of its {trials.count(runs, 'run')} would have waited, {formats.duration(at.get('median_s'))} at the median"
        text += f"; {never:,} ask for more than the quota." if never else "."
    else:
        text += f"{never:,} of its {trials.count(runs, 'run')} could never have started."
    found = at.get("sooner")
    return (
        text
        if found is None
        else f"{text} {trials.count(int(found.get('requests') or 0), 'request')} of other teams would have started sooner."
    )


def numbers(answer: Row, at: Row) -> Component:
    """Waiting runs, hours of waiting, unused quota, and requests of others."""
    shown = [
        parts.Headline(
            "Runs that wait",
            parts.num(f"{int(at.get('delayed_runs') or 0):,}"),
            note=f"of {trials.count(int(answer.get('runs') or 0), 'run')}",
        ),
        parts.Headline(
            "Waiting added",
            parts.num(formats.duration(seconds(at.get("waiting_hours")))),
            note=f"longest {formats.duration(at.get('longest_s'))}" if at.get("longest_s") else None,
        ),
        parts.Headline(
            "Never start", parts.num(f"{int(at.get('too_large_runs') or 0):,}"), note="larger than the quota"
        ),
        parts.Headline(
            "Unused quota", parts.gpu_time(seconds(at.get("unused_gpu_hours"))), note="quota less what is held"
        ),
    ]
    found = at.get("sooner")
    if found is not None:
        saved = formats.duration(seconds(found.get("waiting_hours")))
        shown.append(
            parts.Headline(
                "Others start sooner",
                parts.num(f"{int(found.get('requests') or 0):,}"),
                note=f"requests, {saved} less waiting",
            )
        )
    return parts.headlines(shown)


def charts(items: list[Row], at: Row, scheme: Scheme) -> Component:
    """Waiting falls and unused quota grows with the quota."""
    late = f"At {gpus(at)} GPUs, runs wait {formats.duration(seconds(at.get('waiting_hours')))} in all"
    unused = f"At {gpus(at)} GPUs, {formats.gpu_time(seconds(at.get('unused_gpu_hours')))} of the quota stay unused"
    first = bars(items, at, "waiting_hours", "Hours of waiting", BUCKET["stalled"].colour(scheme), scheme)
    second = bars(items, at, "unused_gpu_hours", "GPU-hours unused", BUCKET["stranded"].colour(scheme), scheme)
    return html.Div(
        [
            parts.card(late, parts.graph(first, trials.HEIGHT, late)),
            parts.card(unused, parts.graph(second, trials.HEIGHT, unused)),
        ],
        className="halves even",
    )


def bars(items: list[Row], at: Row, name: str, title: str, colour: str, scheme: Scheme) -> Figure:
    """One number by quota; the chosen quota is filled."""
    drawn = {
        "type": "bar",
        "x": [gpus(item) for item in items],
        "y": [float(item.get(name) or 0) for item in items],
        "marker": {"color": colour, "opacity": [1 if item is at else 0.5 for item in items]},
        "hovertemplate": "%{y:,.1f} h<extra></extra>",
    }
    return {
        "data": [drawn],
        "layout": layout(
            scheme,
            xaxis={"type": "category", "title": {"text": "Quota, GPUs"}},
            yaxis={"title": {"text": title}},
            bargap=0.25,
            hovermode="x",
        ),
    }


def table(items: list[Row], at: Row, query: Query) -> Component:
    """One row per quota."""
    columns = [
        parts.Column("Quota, GPUs"),
        parts.Column("Runs that wait", "r"),
        parts.Column("Jobs", "r narrow-hide"),
        parts.Column("Waiting, h", "r"),
        parts.Column("Median, min", "r narrow-hide"),
        parts.Column("Never start", "r", hint="Runs that ask for more than the quota"),
        parts.Column("Held, GPU-h", "r narrow-hide"),
        parts.Column("Unused, GPU-h", "r"),
        parts.Column("Others sooner", "r narrow-hide", hint="Requests of other teams"),
    ]
    rows = []
    for item in items:
        found = item.get("sooner")
        name = parts.link(gpus(item), query.link(gpus=gpus(item)), "title")
        rows.append(
            [
                html.Span([name, parts.HERE if item is at else None]),
                parts.num(f"{int(item.get('delayed_runs') or 0):,}"),
                parts.num(f"{int(item.get('delayed_jobs') or 0):,}"),
                parts.num(formats.fixed(item.get("waiting_hours"), 1), formats.exact(item.get("waiting_hours"), "h")),
                parts.num(
                    minutes(item.get("median_s")),
                    formats.duration(item.get("median_s")) if item.get("median_s") else "None waits",
                ),
                parts.num(f"{int(item.get('too_large_runs') or 0):,}"),
                parts.num(
                    formats.fixed(item.get("held_gpu_hours"), 1), formats.exact(item.get("held_gpu_hours"), "GPU-h")
                ),
                parts.num(
                    formats.fixed(item.get("unused_gpu_hours"), 1), formats.exact(item.get("unused_gpu_hours"), "GPU-h")
                ),
                parts.num(
                    formats.MISSING if found is None else f"{int(found.get('requests') or 0):,}",
                    "Not replayed" if found is None else None,
                ),
            ]
        )
    return parts.table(columns, rows, label="Quotas")


def hit(at: Row) -> Component:
    """Who waits: users and queues."""
    cards = []
    for name, title in (("users", "Users who wait"), ("queues", "Queues that wait")):
        rows = [
            [
                formats.clip(row.get("name"), 40),
                parts.num(f"{int(row.get('runs') or 0):,}"),
                parts.num(formats.fixed(row.get("waiting_hours"), 1), formats.exact(row.get("waiting_hours"), "h")),
            ]
            for row in at.get(name) or []
        ]
        columns = [
            parts.Column(name.removesuffix("s").capitalize()),
            parts.Column("Runs", "r"),
            parts.Column("Waiting, h", "r"),
        ]
        body = parts.table(columns, rows, label=title) if rows else html.P("Nobody waits.", className="soft")
        cards.append(parts.card(title, body))
    return html.Div(cards, className="halves even")


def waited(answer: Row) -> list[str]:
    """Requests that waited for the quota as it was."""
    found: Row = answer.get("waited_for_quota") or {}
    if not found.get("requests"):
        return []
    hours = formats.duration(seconds(found.get("waiting_hours")))
    return [
        f"In this time {trials.count(int(found['requests']), 'request')} of the team waited {hours} in all for a quota or limit as it was."
    ]
