"""Capacity page: requests that wait, why, and what would let each start."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.shell.query import Query, job_link

MAX_ROWS = 12
MAX_WORDS = 300


def queue(data: Row | None, query: Query, bound: bool = False) -> Component:
    """Waiting requests, the longest wait first; with what would let them start, unless the caller sees its own only."""
    if data is None:
        return parts.card("The queue could not be loaded")
    items: list[Row] = data.get("items") or []
    if not items:
        return parts.card("No request is waiting", note="As last reported by the schedulers")
    columns = [
        parts.Column("Request"),
        parts.Column("GPUs", "r narrow-hide"),
        parts.Column("Waits", "r narrow-hide"),
        parts.Column("Why, and what would let it start", "wide"),
    ]
    alike = groups(items)
    body = [
        [
            request(item, query, count),
            parts.num(shape_of(item)),
            parts.num(formats.duration(item.get("wait_seconds"))),
            reason(item, query),
        ]
        for item, count in alike[:MAX_ROWS]
    ]
    more = len(items) - sum(count for _, count in alike[:MAX_ROWS])
    least = "At least " if data.get("next") else ""
    return parts.card(
        f"{least}{title(items, bound)}",
        parts.table(columns, body, label="Waiting requests"),
        html.P(f"and {more} more", className="soft") if more > 0 else None,
        note="The longest wait first, as last reported by the schedulers",
        name="queue",
    )


def groups(items: list[Row]) -> list[tuple[Row, int]]:
    """The requests that wait longest of those alike in name, owner, shape and reason, and how many are."""
    found: dict[tuple[str, ...], tuple[Row, int]] = {}
    for item in items:
        name = item.get("name") or item.get("job")
        start: Row = item.get("start") or {}
        words = [name, item.get("team"), item.get("user"), item.get("queue"), item.get("cluster"), shape_of(item)]
        key = tuple(str(word) for word in (*words, start.get("words"), item.get("why"), item.get("reason")))
        first, count = found.get(key, (item, 0))
        found[key] = first, count + 1
    return list(found.values())


def shape_of(item: Row) -> str:
    """What a request asks for, as the API names it."""
    return str(item.get("shape") or item.get("gpus") or formats.MISSING)


def title(items: list[Row], bound: bool) -> str:
    """How many wait, and how many of them for GPUs."""
    count = len(items)
    words = f"{count:,} request{'s' if count != 1 else ''} wait{'s' if count == 1 else ''}"
    if bound:
        return words
    gpus = sum(1 for item in items if item.get("waits_for") == "gpus")
    if count == gpus == 1:
        return f"{words} for GPUs or MIG slices"
    return f"{words}, {f'{gpus:,}' if gpus else 'none'} of them for GPUs or MIG slices"


def request(item: Row, query: Query, count: int = 1) -> Component:
    """The job, its team and its queue; how many requests are alike."""
    job = str(item.get("job") or "")
    name = str(item.get("name") or job)
    shown: Component = html.Span(formats.clip(name, 40), title=name, className="strong one-line")
    if job:
        shown = parts.link(formats.clip(name, 40), job_link(query, item.get("cluster"), job), "title one-line", job)
    under = [formats.owner(item.get("team")), str(item.get("queue") or ""), job if job.isdecimal() else ""]
    return html.Div(
        [
            shown,
            html.Div(f"{count} requests like this", className="small", title="The longest wait is shown")
            if count > 1
            else None,
            html.Div(formats.clip(" · ".join(word for word in under if word), 60), className="soft small one-line"),
            html.Div(
                f"{asked(item)}, waits {formats.duration(item.get('wait_seconds'))}",
                className="small narrow-only",
            ),
        ]
    )


def asked(item: Row) -> str:
    """What a request asks for: `1 GPU`, `2x8 GPUs`, `1g.10gb`."""
    shape = shape_of(item)
    if "g." in shape:
        return shape
    return f"{shape} GPU" if shape == "1" else f"{shape} GPUs"


def reason(item: Row, query: Query) -> Component:
    """What would end the wait, with a link to the map; else the scheduler's reason: three lines at most."""
    text = str(item.get("why") or item.get("reason") or "no reason reported")
    why = formats.clip(text[:1].upper() + text[1:], MAX_WORDS)
    start: Row = item.get("start") or {}
    best: Row = start.get("best") or {}
    words = str(start.get("words") or "")
    if not words:
        other = "Free GPUs would not start it." if item.get("waits_for") == "other" else None
        return html.Div([html.Div(why, className="two-lines", title=why), html.Div(other, className="soft small")])
    link = None
    if best.get("shape"):
        href = query.link(shape=str(best["shape"]), within=None, of_pool=best.get("pool"), model=best.get("gpu_model"))
        link = html.Span(parts.link("Show on the map", href, "why"), className="small nowrap")
    return html.Div([html.Div(formats.clip(words, MAX_WORDS), className="two-lines", title=f"{words}\n{why}"), link])
