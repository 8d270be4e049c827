"""Capacity page: how many requests of each shape fitted over time."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import figures, formats, parts
from gpuwatch.dashboards.components.figures import Figure
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import INK, Scheme

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
    """How often an 8-GPU job would have fitted."""
    known = [step["8"] for step in steps.values() if "8" in step]
    some = sum(1 for amount in known if amount >= 1)
    if not known or not some:
        return f"A job with 8 GPUs on one node never fitted {query.window_words}"
    if some == len(known):
        return f"A job with 8 GPUs on one node fitted at all times {query.window_words}"
    return f"A job with 8 GPUs on one node fitted {formats.percent(Decimal(some) / len(known))} of the time with free GPUs {query.window_words}"


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
