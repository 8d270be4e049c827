"""Capacity page: moves that would free up space, jobs that strand free GPUs, and the history."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import charts, figures, formats, parts
from gpuwatch.dashboards.components.capacity_now import model_word, place_cell, place_word
from gpuwatch.dashboards.components.capacity_slots import shape_word
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query, job_link
from gpuwatch.dashboards.shell.theme import Scheme

MAX_PLANS = 12
MAX_MOVES = 8
MAX_BLOCKERS = 3
MAX_LAYOUTS = 10
MAX_JOBS = 8


def plans(data: Row | None, query: Query, pending: Row | None = None) -> Component:
    """The cheapest moves after which a requested shape fits, with the waiting requests that need them."""
    if data is None:
        return parts.card("Plans could not be loaded")
    items: list[Row] = data.get("items") or []
    if not items:
        return parts.card("Every requested shape fits now", note="No move is needed")
    possible = [item for item in items if item.get("possible") and item.get("moves")]
    full = [item for item in items if item not in possible and not item.get("free_gpus")]
    others = [item for item in items if item not in possible and item not in full]
    ordered = sorted(possible, key=lambda item: formats.number(item.get("moved_gpus")) or Decimal(0))
    title = "No moves would make the requested shapes fit"
    if possible:
        title = f"{count(len(possible), 'shape')} would fit after moving jobs, counted in each pool"
    shown = listed(ordered, query, pending) if ordered else []
    if others:
        some = f"{count(len(others), 'shape')} that no moves would make fit, counted in each pool"
        shown.append(html.Details([html.Summary(some), *listed(others, query, pending)], open=not possible))
    if full:
        shown.append(html.P(no_gpu_free(full), className="soft small"))
    return parts.card(
        title, *shown, note="Fewest GPUs moved, preemptible jobs first. Suggestions only: gpuwatch moves nothing."
    )


def no_gpu_free(items: Sequence[Row]) -> str:
    """The pools in which requested shapes have no GPU at all: one line instead of a plan for each shape."""
    pools = list(dict.fromkeys(place_word(item) for item in items))
    more = f" and {len(pools) - MAX_PLANS} more" if len(pools) > MAX_PLANS else ""
    verb = "is" if len(items) == 1 else "are"
    return f"{count(len(items), 'shape')} {verb} asked for where no GPU is free: {', '.join(pools[:MAX_PLANS])}{more}."


def needed_by(item: Row, pending: Row | None, query: Query) -> Component | None:
    """The waiting requests that a plan is for."""
    place = tuple(item.get(name) for name in ("cluster", "pool", "gpu_model", "shape"))
    names: list[Component | str] = []
    for one in (pending or {}).get("items") or []:
        best: Row = (one.get("start") or {}).get("best") or {}
        if best and place == (one.get("cluster"), *(best.get(name) for name in ("pool", "gpu_model", "shape"))):
            name = formats.clip(one.get("name") or one.get("job"), 40)
            ident = f" ({one['job']})" if str(one.get("job") or "").isdecimal() else ""
            names += [", " if names else "", f"{name}{ident} of {formats.inside(formats.owner(one.get('team')))}"]
    if pending is None:
        return None
    if not names:
        return html.P(
            "No waiting request needs it now; it was asked for in the last four weeks.", className="soft small"
        )
    return html.P([html.B("For "), *names[: 2 * MAX_BLOCKERS]], className="small")


def listed(items: Sequence[Row], query: Query, pending: Row | None = None) -> list[Component]:
    """The first plans, and how many more there are."""
    first = html.Div([plan(item, query, pending) for item in items[:MAX_PLANS]], className="plans")
    hidden = len(items) - MAX_PLANS
    return [first, html.P(f"and {hidden} more", className="soft")] if hidden > 0 else [first]


def count(number: object, noun: str) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{number} {noun}{'s' if number != 1 else ''}"


def plan(item: Row, query: Query, pending: Row | None = None) -> Component:
    """One shape: the jobs to move, or the jobs in the way."""
    every: list[Row] = item.get("moves") or []
    moves = [html.Li(move(one, item, query)) for one in every[:MAX_MOVES]]
    if len(every) > MAX_MOVES:
        moves.append(html.Li(f"and {len(every) - MAX_MOVES} more", className="soft"))
    notes = [blockers(item, query)] if item.get("blockers") else []
    if every and item.get("exact") is False:
        notes.append(html.P("The search stopped early; there may be cheaper moves.", className="soft small"))
    facts = [
        html.B(f"{shape_word(item)} on {place_word(item)}"),
        plan_state(item),
        html.Span(f"{count(item.get('free_gpus'), 'GPU')} free", className="soft small"),
    ]
    if every:
        link = query.link(
            shape=str(item.get("shape")), within=None, of_pool=item.get("pool"), model=item.get("gpu_model")
        )
        facts.append(html.Span(parts.link("show on the map", link, "why"), className="small"))
    if every and (whom := needed_by(item, pending, query)) is not None:
        notes.append(whom)
    if every and item.get("places"):
        notes.append(html.P(f"Then it fits on {formats.clip(', '.join(item['places']), 120)}.", className="small"))
    if every and item.get("not_known"):
        notes.append(not_known(item["not_known"]))
    body = [html.Div(facts, className="facts"), html.Ol(moves, className="plainlist") if moves else None, *notes]
    return html.Div(body, className="plan")


def not_known(words: str) -> Component:
    """What no source has of the jobs that would move and of the nodes."""
    return html.P(f"Not known: {formats.clip(words, 400)}.", className="soft small")


def plan_state(item: Row) -> Component:
    """Whether a shape fits now, after moves, or not at all."""
    if not item.get("possible"):
        return parts.tag("no moves help")
    if not item.get("moves"):
        return parts.tag("fits now", "ok")
    return parts.tag(f"move {count(item.get('moved_gpus'), 'GPU')}", "warn")


def blockers(item: Row, query: Query) -> Component:
    """The first jobs in the way of a shape."""
    words: list[Component | str] = []
    for one in item["blockers"][:MAX_BLOCKERS]:
        words += [
            ", " if words else "In the way: ",
            job(one.get("job"), item.get("cluster"), query),
            f" ({count(one.get('gpus'), 'GPU')} held, {one.get('free_gpus')} more free on the node)",
        ]
    return html.P(words, className="soft small")


def move(one: Row, item: Row, query: Query) -> list[Component | str]:
    """One part of a job to move or requeue."""
    mark: list[Component | str] = [" ", parts.tag("preemptible", "ok")] if one.get("preemptible") else []
    return [
        job(one.get("job"), item.get("cluster"), query),
        f": {count(one.get('gpus'), 'GPU')} on {formats.clip(one.get('node'), 60)}",
        *([f" to {formats.clip(one['to'], 60)}"] if one.get("to") else []),
        *mark,
    ]


def job(ident: object, cluster: object, query: Query) -> Component:
    """A job, linked to its page."""
    if not ident:
        return html.Span("unknown job", className="soft")
    return parts.link(formats.clip(ident, 40), job_link(query, cluster, str(ident)), "title", str(ident))


def repartition(data: Row | None) -> Component | None:
    """MIG layouts that would have served last week's demand better; nothing if there are none."""
    rows: list[Row] = [row for row in (data or {}).get("repartition") or [] if row.get("changes")]
    if not rows:
        return None
    sections: list[Component] = []
    for row in rows:
        changes = row["changes"]
        columns = [parts.Column("GPU"), parts.Column("Current layout"), parts.Column("Better layout")]
        body = [
            [
                html.Span(
                    formats.clip(formats.device(str(one.get("gpu"))), 40),
                    className="mono",
                    title=str(one.get("gpu")),
                ),
                layout(one.get("layout")),
                layout(one.get("better")),
            ]
            for one in changes[:MAX_LAYOUTS]
        ]
        more = (
            html.P(f"and {len(changes) - MAX_LAYOUTS} more", className="soft") if len(changes) > MAX_LAYOUTS else None
        )
        served = f"{formats.percent(row.get('served_ratio'))} of the demand of {formats.span(row.get('since'), row.get('until'))} found a slice of the requested profile; {formats.percent(row.get('served_ratio_after'))} would have with the better layouts"
        sections += [
            html.H3(f"{formats.clip(row.get('cluster'), 30)} · {model_word(row.get('gpu_model'))}"),
            html.P(served, className="soft small"),
            html.Div(parts.table(columns, body, label="Layouts"), className="tight"),
            *([more] if more else []),
        ]
    idle = count(sum(len(row["changes"]) for row in rows), "idle GPU")
    return parts.card(
        f"{idle} would serve the demand better with another MIG layout",
        *sections,
        note="Suggestions only: gpuwatch changes no layout.",
    )


def layout(profiles: object) -> Component:
    """A MIG layout: `3g.40gb + 4 x 1g.10gb`."""
    found: dict[str, int] = {}
    for name in profiles if isinstance(profiles, list) else []:
        found[str(name)] = found.get(str(name), 0) + 1
    text = " + ".join(name if size == 1 else f"{size} × {name}" for name, size in found.items())
    return html.Span(text or "empty", className="mono")


def strands(data: Row | None, query: Query) -> Component:
    """Jobs that held part of a node and left the rest unusable."""
    if data is None:
        return parts.card("Stranded GPUs could not be loaded")
    items: list[Row] = data.get("items") or []
    if not items:
        return parts.card(f"No job stranded free GPUs {query.window_words}")
    columns = [
        parts.Column("Job", "wide"),
        parts.Column("Pool", "narrow-hide"),
        parts.Column("GPU-h", "r"),
        parts.Column("Price", "r"),
    ]
    body = [
        [
            html.Div(
                [
                    job(item.get("job"), item.get("cluster"), query)
                    if item.get("job")
                    else html.Span("No job on the node", className="soft"),
                    html.Div(
                        formats.clip(formats.owner(item.get("team")), 30)
                        + (f" · {formats.clip(item.get('user'), 24)}" if item.get("user") else ""),
                        className="soft small",
                    )
                    if item.get("job")
                    else None,
                ]
            ),
            place_cell(item),
            parts.num(
                formats.short((formats.number(item.get("stranded_gpu_hours")) or Decimal(0)).quantize(Decimal("0.1"))),
                item.get("stranded_gpu_hours"),
            ),
            parts.money(item.get("cost"), str(item.get("currency") or "")),
        ]
        for item in items[:MAX_JOBS]
    ]
    whole = sum((formats.number(item.get("stranded_gpu_hours")) or Decimal(0) for item in items), Decimal(0))
    least = "At least " if data.get("next") else ""
    title = f"{least}{formats.short(whole.quantize(Decimal('0.1')))} free GPU-hours next to {len(items):,} job{'s' if len(items) != 1 else ''} were too few together {query.window_words}"
    more = html.P(f"and {len(items) - MAX_JOBS:,} more", className="soft") if len(items) > MAX_JOBS else None
    return parts.card(
        title,
        parts.table(columns, body, label="Jobs next to stranded GPUs"),
        more,
        note="Stranded by placement, not by the jobs themselves. Other stranded GPU-hours are of a model or MIG mode that is not asked for",
    )


def history(data: Row | None, scheme: Scheme, query: Query) -> Component:
    """Free and stranded GPUs over the window."""
    if data is None:
        return parts.card("The history could not be loaded")
    figure = charts.fragmentation(data.get("items") or [], scheme)
    if figure is None:
        return parts.card(
            f"Nothing was free {query.window_words}", states.advice("Or the ledger does not cover this window yet.")
        )
    free, stranded = charts.free_hours(data.get("items") or [])
    part = formats.percent(stranded / free) if free else formats.MISSING
    title = f"{part} of the free GPU-hours {query.window_words} were stranded"
    note = f"Average GPUs, {formats.zone_word()}. Stranded: of no use to the requests of the 28 days before, which ask for another model or MIG mode, or for more GPUs together."
    return parts.card(title, parts.graph(figure, figures.LOW), note=note)
