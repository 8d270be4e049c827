"""Plotly figures as plain dictionaries: zero-based, with gaps where nothing was measured."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gpuwatch.dashboards.components import formats
from gpuwatch.dashboards.shell.theme import BUCKETS, HATCHED, INK, Ink, Scheme

Figure = dict[str, Any]
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
CONFIG = {"displayModeBar": False, "responsive": True, "scrollZoom": False, "doubleClick": "reset", "showTips": False}
"""For dcc.Graph: no toolbar and no links."""

LOW, TALL = {"height": "240px"}, {"height": "300px"}
"""Heights of a graph; it fills the width of its container."""

MAX_LINES = 5
PALE = 0.5
FEW_STEPS = 40
"""With more columns than this there are no gaps between them."""

MAX_THRESHOLDS = 4
RATIO = "_ratio"
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|\+00:00)", re.ASCII)
NOT_READINGS = ("at", "coverage", "devices")

LINES = {
    "gr_engine_ratio": "Engine busy",
    "gpu_util_ratio": "GPU utilization",
    "sm_active_ratio": "SMs active",
    "sm_occupancy_ratio": "SM occupancy",
    "tensor_active_ratio": "Tensor cores",
    "dram_active_ratio": "Memory bandwidth",
    "fp_active_ratio": "FP pipes",
    "link_ratio": "Links",
    "fb_used_ratio": "Memory used",
    "power_watts": "Power (W)",
}
"""Labels of series columns. Others are shown by name."""


def line_word(column: str) -> str:
    """The label of a series column."""
    return LINES.get(column, column.removesuffix(RATIO).replace("_", " "))


def literal(text: str) -> str:
    """A name from outside for a figure: Plotly would read its tags, links among them, as markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def in_zone(value: Any) -> Any:
    """A figure with its times in the time zone of the page: Plotly shows them as they are written."""
    if formats.zone_word() == "UTC":
        return value
    if isinstance(value, dict):
        return {name: in_zone(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [in_zone(each) for each in value]
    if isinstance(value, str) and INSTANT.fullmatch(value) and (at := formats.moment(value)):
        return formats.local(at).replace(tzinfo=None).isoformat()
    return value


def legend_above(ink: Ink) -> Figure:
    """A legend in one line above the figure."""
    return {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 11, "color": ink.text}}


def layout(scheme: Scheme, **changes: Any) -> Figure:
    """Axes, fonts and colours shared by all figures."""
    ink = INK[scheme]
    axis = {
        "gridcolor": ink.line,
        "zerolinecolor": ink.line,
        "linecolor": ink.line,
        "tickfont": {"color": ink.muted, "size": 11},
        "title": {"font": {"color": ink.muted, "size": 11}},
        "fixedrange": True,
        "automargin": True,
    }
    base: Figure = {
        "template": None,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": ink.text},
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "xaxis": {**axis, "showgrid": False, "type": "date"},
        "yaxis": {**axis, "rangemode": "tozero"},
        "showlegend": False,
        "hovermode": "x unified",
        "hoverlabel": {"bgcolor": ink.ground, "bordercolor": ink.line, "font": {"color": ink.text, "size": 12}},
        "transition": {"duration": 0},
    }
    for name, value in changes.items():
        base[name] = {**base[name], **value} if isinstance(base.get(name), dict) else value
    return base


def stack(
    times: Sequence[str],
    hours: Mapping[str, Sequence[float | None]],
    step_s: int,
    scheme: Scheme,
    cut: Collection[int] = (),
) -> Figure:
    """GPU-hours per step by bucket, stacked in ledger order. `times` are starts of steps; `cut` holds the indexes of
    partial steps, which are drawn paler.
    """
    ink = INK[scheme]
    opacity = [PALE if at in cut else 1 for at in range(len(times))]
    bars = [
        {
            "type": "bar",
            "name": bucket.word,
            "x": list(times),
            "y": list(hours[bucket.name]),
            "width": [step_s * 1000 * (0.92 if len(times) <= FEW_STEPS else 1)] * len(times),
            "offset": 0,
            "marker": {
                "color": bucket.colour(scheme),
                "line": {"width": 0},
                "opacity": opacity,
                **(
                    {"pattern": {"shape": "/", "bgcolor": ink.ground, "fgcolor": bucket.colour(scheme), "size": 5}}
                    if bucket.name == HATCHED
                    else {}
                ),
            },
            "hovertemplate": "%{y:,.1f} GPU-h",
        }
        for bucket in BUCKETS
        if any(hours.get(bucket.name, ()))
    ]
    return {
        "data": bars,
        "layout": layout(
            scheme, barmode="stack", yaxis={"title": {"text": "GPU-hours", "font": {"color": ink.muted, "size": 11}}}
        ),
    }


def waste(
    times: Sequence[str],
    amounts: Mapping[str, Sequence[float | None]],
    before: Sequence[float | None],
    step_s: int,
    scheme: Scheme,
    sign: str,
    cut: Collection[int] = (),
) -> Figure:
    """What was avoidable per step by bucket, and all of it in the period before as dashes. `sign` of a currency; empty:
    GPU-hours.
    """
    ink = INK[scheme]
    text = f"{sign}%{{y:,.2f}}" if sign else "%{y:,.1f} GPU-h"
    found = stack(times, amounts, step_s, scheme, cut)
    for bars in found["data"]:
        bars["hovertemplate"] = text
    if any(value is not None for value in before):
        found["data"].append(
            {
                "type": "scatter",
                "mode": "lines+markers" if len(times) == 1 else "lines",
                "name": "The period before",
                "x": list(times),
                "y": list(before),
                "line": {"color": ink.text, "width": 1.6, "dash": "dash", "shape": "hv"},
                "connectgaps": False,
                "hovertemplate": text,
            }
        )
    if sign:
        found["layout"]["yaxis"] |= {"title": {"text": ""}, "tickprefix": sign}
    return found


def evidence(series: Mapping[str, Any], scheme: Scheme, thresholds: Mapping[str, float] | None = None) -> Figure | None:
    """Readings over the window with the rule's thresholds; None if there is nothing to draw."""
    points = [point for point in series.get("points") or [] if isinstance(point, dict)]
    shown = drawn_columns(points, series.get("columns"))
    if not shown:
        return None
    ink, as_ratio = INK[scheme], all(name.endswith(RATIO) for name in shown)
    lines = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": line_word(name),
            "x": [point.get("at") for point in points],
            "y": [point.get(name) for point in points],
            "connectgaps": False,
            "line": {"color": colour, "width": 1.8, "shape": "hv"},
            "hovertemplate": "%{y:.0%}" if as_ratio else "%{y:,.3~g}",
        }
        for name, colour in zip(shown, ink.series, strict=False)
    ]
    marks = threshold_marks(thresholds or {}, shown, scheme) if as_ratio else ([], [])
    axis: dict[str, Any] = {"tickformat": ".0%", "range": [-0.01, 1.04]} if as_ratio else {}
    return {
        "data": lines,
        "layout": layout(
            scheme,
            yaxis=axis,
            shapes=marks[0],
            annotations=marks[1],
            showlegend=True,
            legend=legend_above(ink),
            margin={"t": 28},
        ),
    }


def drawn_columns(points: Sequence[Mapping[str, Any]], columns: Sequence[str] | None) -> list[str]:
    """The columns to draw, best known first: those with readings; only the ratios if there are any."""
    measured = [
        name
        for name in columns or dict.fromkeys(name for point in points for name in point)
        if name not in NOT_READINGS and any(isinstance(point.get(name), int | float) for point in points)
    ]
    ratios = [name for name in measured if name.endswith(RATIO)] or measured
    order = {name: place for place, name in enumerate(LINES)}
    return sorted(ratios, key=lambda name: order.get(name, len(order)))[:MAX_LINES]


def threshold_marks(
    thresholds: Mapping[str, Any], columns: Sequence[str], scheme: Scheme
) -> tuple[list[Figure], list[Figure]]:
    """Labelled dashed lines for thresholds on the drawn ratios."""
    ink = INK[scheme]
    drawn = [
        (line_word(column), value)
        for name, value in thresholds.items()
        if (column := column_of(name)) in columns and isinstance(value, int | float) and 0 < value <= 1
    ][:MAX_THRESHOLDS]
    drawn.sort(key=lambda pair: pair[1])  # neighbours have their labels on different sides
    shapes = [
        {
            "type": "line",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": value,
            "y1": value,
            "line": {"color": ink.threshold, "width": 1.2, "dash": "dash"},
        }
        for _, value in drawn
    ]
    notes = [
        {
            "xref": "paper",
            "x": 1 - place % 2,
            "xanchor": "left" if place % 2 else "right",
            "y": value,
            "yanchor": "bottom",
            "showarrow": False,
            "text": f"{word} threshold {value:.0%}",
            "font": {"size": 10.5, "color": ink.threshold},
        }
        for place, (word, value) in enumerate(drawn)
    ]
    return shapes, notes


def column_of(threshold: str) -> str:
    """The column a threshold applies to: `sm_active_max` -> `sm_active_ratio`."""
    stem = threshold.removesuffix("_min").removesuffix("_max")
    if stem == "busy_ratio":
        return "gr_engine_ratio"
    return stem if stem.endswith(RATIO) else f"{stem}{RATIO}"
