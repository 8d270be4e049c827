"""Idle limits: charts of what they return and whom they hit."""

from __future__ import annotations

from decimal import Decimal

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats
from gpuwatch.dashboards.components.figures import Figure, layout, legend_above
from gpuwatch.dashboards.shell.theme import BUCKET, INK, Scheme
from gpuwatch.dashboards.what_if import trials


def words(item: Row) -> str:
    """`15 min`, `2 h`."""
    return formats.duration((formats.number(item.get("limit_minutes")) or 0) * 60)


def seconds(hours: object) -> Decimal | None:
    """GPU-hours in seconds, as the formats take them."""
    found = formats.number(hours)
    return None if found is None else found * formats.HOUR_S


def returned_title(items: list[Row]) -> str:
    """The first and the last limit, as a sentence."""
    first, last = items[0], items[-1]
    low, high = (formats.gpu_time(seconds(one.get("returned_gpu_hours"))) for one in (first, last))
    return f"A limit of {words(first)} returns {low}; a limit of {words(last)}, {high}"


def hit_title(at: Row) -> str:
    """Jobs hit at the chosen limit."""
    return f"At {words(at)}, {int(at.get('wrong_jobs') or 0):,} of {trials.count(int(at.get('jobs') or 0), 'job')} hit used the GPU again"


def returned(items: list[Row], at: Row, scheme: Scheme) -> Figure:
    """GPU-hours returned by limit; the chosen one is filled."""
    colour = BUCKET["hoarded"].colour(scheme)
    bars = {
        "type": "bar",
        "x": [words(item) for item in items],
        "y": [float(formats.number(item.get("returned_gpu_hours")) or 0) for item in items],
        "marker": {"color": colour, "opacity": [1 if item is at else 0.45 for item in items]},
        "hovertemplate": "%{y:,.1f} GPU-h<extra></extra>",
    }
    return {
        "data": [bars],
        "layout": layout(
            scheme,
            xaxis={"type": "category"},
            yaxis={"title": {"text": "GPU-hours returned"}},
            bargap=0.25,
            hovermode="x",
        ),
    }


def hit(items: list[Row], at: Row, scheme: Scheme) -> Figure:
    """Jobs hit by limit: those that used the GPU again below, the others above."""
    opacity = [1 if item is at else 0.5 for item in items]
    again = [int(item.get("wrong_jobs") or 0) for item in items]
    rest = [int(item.get("jobs") or 0) - wrong for item, wrong in zip(items, again, strict=True)]
    bars = [
        {
            "type": "bar",
            "name": name,
            "x": [words(item) for item in items],
            "y": values,
            "marker": {"color": colour, "opacity": opacity},
            "hovertemplate": "%{y:,} jobs",
        }
        for name, values, colour in (
            ("Used the GPU again", again, BUCKET["stalled"].colour(scheme)),
            ("Never used it again", rest, BUCKET["stranded"].colour(scheme)),
        )
    ]
    return {
        "data": bars,
        "layout": layout(
            scheme,
            barmode="stack",
            bargap=0.25,
            xaxis={"type": "category"},
            yaxis={"title": {"text": "Jobs"}},
            showlegend=True,
            legend=legend_above(INK[scheme]),
            margin={"t": 28},
        ),
    }
