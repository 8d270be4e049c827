"""Capacity page: how many requests of each shape fitted over time."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import figures, formats, parts
from gpuwatch.dashboards.components.figures import Figure
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import INK, Scheme

DAY = timedelta(days=1)
SHAPES = (
    ("slots", "4", "4 GPUs on one node"),
    ("slots", "8", "8 GPUs on one node"),
    ("gangs", "2x8", "2 nodes with 8 GPUs"),
    ("gangs", "4x8", "4 nodes with 8 GPUs"),
)


def slots(data: Row | None, scheme: Scheme, query: Query) -> Component | None:
    """Lines of how many jobs of each shape fitted, on average of each step."""
    steps = fitted((data or {}).get("items") or [])
    if not steps:
        return None
    figure = lines(steps, scheme)
    return parts.card(
        title(steps, query),
        parts.graph(figure, figures.LOW),
        note=f"All pools, {formats.zone_word()}. How many would have fitted at the same time",
    )


def fitted(items: list[Row]) -> dict[str, dict[str, Decimal]]:
    """How many of each shape fitted, over all pools, by start of the step."""
    found: dict[str, dict[str, Decimal]] = {}
    for item in items:
        step = found.setdefault(str(item.get("start")), {})
        for kind, shape, _ in SHAPES:
            amount = formats.number((item.get(kind) or {}).get(shape))
            if amount is not None:
                step[shape] = step.get(shape, Decimal(0)) + amount
    return dict(sorted(found.items()))


def title(steps: dict[str, dict[str, Decimal]], query: Query) -> str:
    """In how many steps an 8-GPU job would have fitted. A step has the average of its time, so above 0 means at some time."""
    known = [step["8"] for step in steps.values() if "8" in step]
    some, word = sum(1 for amount in known if amount > 0), step_word(list(steps))
    if not some:
        return f"A job with 8 GPUs on one node never fitted {query.window_words}"
    times = f"each of {len(known):,} {word}s" if some == len(known) else f"{some:,} of {len(known):,} {word}s"
    return f"A job with 8 GPUs on one node fitted at some time in {times} {query.window_words}"


def step_word(starts: list[str]) -> str:
    """`hour` or `day`: what lies between the nearest two steps."""
    moments = [at for start in starts if (at := formats.moment(start)) is not None]
    nearest = min((after - before for before, after in pairwise(moments)), default=DAY)
    return "day" if nearest >= DAY else "hour"


def lines(steps: dict[str, dict[str, Decimal]], scheme: Scheme) -> Figure:
    """One stepped line for each shape."""
    ink = INK[scheme]
    drawn: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": word,
            "x": list(steps),
            "y": [None if shape not in step else float(step[shape]) for step in steps.values()],
            "line": {"color": colour, "width": 1.8, "shape": "hv"},
            "connectgaps": False,
            "hovertemplate": "%{y:,.1f}",
        }
        for (_, shape, word), colour in zip(SHAPES, ink.series, strict=False)
    ]
    return {
        "data": drawn,
        "layout": figures.layout(scheme, showlegend=True, legend=figures.legend_above(ink), margin={"t": 28}),
    }
