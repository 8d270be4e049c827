"""What if partitioned GPUs had other layouts: who fits, who moves, and the plan that serves most of last week's demand."""

from __future__ import annotations

from collections import Counter

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query, job_link
from gpuwatch.dashboards.shell.theme import Scheme
from gpuwatch.dashboards.what_if import trials

MAX_PLACES, MAX_LAYOUTS, MAX_HOLDERS = 20, 12, 8
METHOD = (
    "The layouts are those of NVIDIA's profile tables: sets of instances that can exist together and fill a GPU.",
    (
        "Demand is the slice time that was held or asked for in the last week, hour by hour. An instance serves demand for its own "
        "profile only. Requests that may use several pools or models count for none."
    ),
    (
        "A holder fits if an instance of its profile is left, or a larger one in compute and memory; the largest choose first. Holders on a GPU "
        "that changes have to stop: an instance cannot be cut while it is in use."
    ),
    "The plan changes one GPU at a time, the largest gain first. Two changes together may be better. Nothing is changed.",
)


async def load(api: Api, query: Query) -> Row:
    """Every legal layout by pool and model."""
    return await api.get("what-if/mig", cluster=query.get("cluster"), pool=query.get("pool"))


def layout(data: Row, query: Query, scheme: Scheme) -> Component:
    """A card for each pool and model."""
    items: list[Row] = data.get("items") or []
    top = [
        parts.heading("What if MIG GPUs had other layouts?", f"As of {formats.when(data.get('at'))}"),
        trials.tabs(query),
    ]
    if not items:
        return html.Div(
            [*top, states.empty("No partitioned GPUs", "No GPU has MIG instances now, or no source reports them.")]
        )
    cards = [card(item, query) for item in items[:MAX_PLACES]]
    return html.Div([*top, *cards, trials.method(METHOD)], className="stack")


def words(profiles: list[str]) -> str:
    """`3 × 2g.20gb, 1g.10gb`, the largest first."""
    counts = Counter(profiles)
    order = sorted(counts, key=lambda name: (-int(name.partition("g")[0]) if name[:1].isdigit() else 0, name))
    return ", ".join(f"{counts[name]} × {name}" if counts[name] > 1 else name for name in order)


def sentence(item: Row) -> str:
    """What the plan would gain, and whom it moves."""
    plan: Row = item.get("plan") or {}
    now, then = item.get("served_ratio"), plan.get("served_ratio")
    gpus = trials.count(int(item.get("gpus") or 0), "GPU")
    left = int(item.get("not_counted") or 0)
    others = (
        f" {trials.count(left, 'request')} that may use several pools or models {'is' if left == 1 else 'are'} not part of it."
        if left
        else ""
    )
    if now is None:
        return f"{gpus}: nothing was held or asked for in the last week, so no layout is better than another.{others}"
    if not plan.get("changes"):
        return (
            f"{gpus} serve {formats.percent(now)} of the demand of the last week that only this pool can serve. "
            f"No other layout serves more of it.{others}"
        )
    moved = trials.count(int(plan.get("move") or 0), "job")
    return (
        f"Another layout on {trials.count(int(plan.get('changed_gpus') or 0), 'GPU')} would serve {formats.percent(then)} of last week's "
        f"demand that only this pool can serve, instead of {formats.percent(now)}. {moved} would have to stop first.{others}"
    )


def card(item: Row, query: Query) -> Component:
    """A pool and model: the plan, then all layouts."""
    title = f"{formats.clip(item.get('pool') or 'No pool', 40)} · {formats.clip(item.get('gpu_model'), 40)}"
    held = (
        f"{trials.count(int(item.get('held') or 0), 'slice')} held of {sum((item.get('instances') or {}).values()):,}"
    )
    changes: list[Row] = (item.get("plan") or {}).get("changes") or []
    columns = [
        parts.Column("GPU"),
        parts.Column("Layout now"),
        parts.Column("Better layout"),
        parts.Column("Who has to move", "wide narrow-hide"),
    ]
    rows = [
        [
            parts.link(
                formats.clip(formats.device(str(one.get("gpu"))), 30),
                query.link(f"/mig/{one.get('gpu')}"),
                "title mono",
                str(one.get("gpu")),
            ),
            html.Span(words(one.get("layout") or [])),
            html.Span(words(one.get("better") or [])),
            movers(one.get("holders") or [], item, query),
        ]
        for one in changes
    ]
    plan = parts.table(columns, rows, label=f"Plan for {title}") if rows else None
    count = len(item.get("layouts") or [])
    shown = f"The best {MAX_LAYOUTS} of {count} legal layouts" if count > MAX_LAYOUTS else f"All {count} legal layouts"
    every = html.Details([html.Summary(shown), layouts_table(item, title)])
    return parts.card(title, html.P(sentence(item), className="lead"), plan, every, note=held)


def movers(holders: list[Row], item: Row, query: Query) -> Component:
    """The jobs on a GPU, each with the profile it would get."""
    if not holders:
        return html.Span("nobody", className="soft")
    found: list[Component | str] = []
    for one in holders[:MAX_HOLDERS]:
        place = f" to {one['then']}" if one.get("then") else " does not fit"
        found += [
            ", " if found else "",
            parts.link(
                formats.clip(one.get("name") or one.get("job"), 30),
                job_link(query, item.get("cluster"), str(one.get("job"))),
                title=f"{one.get('job')}, {formats.owner(one.get('team'))}",
            ),
            html.Span(place, className="soft"),
        ]
    if len(holders) > MAX_HOLDERS:
        found.append(f" and {len(holders) - MAX_HOLDERS} more")
    return html.Span(found)


def layouts_table(item: Row, title: str) -> Component:
    """Each legal layout on all GPUs of the place, the one that serves most first."""
    rows = sorted(
        item.get("layouts") or [],
        key=lambda one: (-(one.get("served_ratio") or 0), -int(one.get("fit") or 0), one["layout"]),
    )
    held = int(item.get("held") or 0)
    columns = [
        parts.Column("Layout on every GPU"),
        parts.Column(
            "Demand served", "r", hint="Slice time of the last week that instances of the same profile could serve"
        ),
        parts.Column("Fit", "r", hint="Holders now that find an instance of their size or larger"),
        parts.Column("Move", "r narrow-hide", hint="Holders on GPUs that change"),
        parts.Column("GPUs changed", "r narrow-hide"),
    ]
    body = [
        [
            words(one["layout"]),
            parts.percent(one.get("served_ratio")),
            parts.num(f"{int(one.get('fit') or 0)} of {held}"),
            parts.num(f"{int(one.get('move') or 0):,}"),
            parts.num(f"{int(one.get('changed_gpus') or 0):,}"),
        ]
        for one in rows[:MAX_LAYOUTS]
    ]
    return parts.table(columns, body, label=f"Layouts for {title}")
