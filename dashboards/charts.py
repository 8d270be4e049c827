"""Figures of money: the burn-down of a budget."""

from __future__ import annotations

from typing import Any

from gpuwatch.dashboards import words
from gpuwatch.dashboards.figures import Figure, layout
from gpuwatch.dashboards.theme import INK, Scheme

SMALL = {"height": "180px"}
MAX_DAYS = 62


def burn_down(item: dict[str, Any], scheme: Scheme) -> Figure | None:
    """What is left at the end of each day against an even pace; None without a day. Days before the first have no books."""
    days = [day for day in item.get("burn_down") or [] if isinstance(day, dict)][:MAX_DAYS]
    if not days:
        return None
    ink, window, amount = INK[scheme], item.get("window") or {}, words.number(item.get("amount"))
    start, end = str(window.get("start") or "")[:10], str(window.get("end") or "")[:10]
    ends = [f"{day['day']}T23:59:59Z" for day in days]
    money = f"%{{y:,.2f}} {item.get('currency') or ''}"
    even = {
        "type": "scatter",
        "mode": "lines",
        "name": "Even pace",
        "x": [start, end],
        "y": [float(amount or 0), 0.0],
        "line": {"color": ink.muted, "width": 1.2, "dash": "dash"},
        "hoverinfo": "skip",
    }
    left = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "Left",
        "x": [str(days[0]["day"]), *ends],
        "y": [float(amount or 0), *(_float(day.get("left")) for day in days)],
        "line": {"color": ink.series[0], "width": 2},
        "marker": {"size": 4, "color": ink.series[0]},
        "hovertemplate": money,
    }
    last = left["y"][-1]
    notes = [
        {
            "x": ends[-1],
            "y": last,
            "xanchor": "left",
            "xshift": 6,
            "text": "left",
            "showarrow": False,
            "font": {"size": 11, "color": ink.series[0]},
        },
        {
            "xref": "paper",
            "x": 0.62,
            "y": float(amount or 0) * 0.38,
            "xanchor": "left",
            "yanchor": "bottom",
            "text": "even pace",
            "showarrow": False,
            "font": {"size": 10.5, "color": ink.muted},
        },
    ]
    shapes = [
        {
            "type": "line",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": 0,
            "y1": 0,
            "line": {"color": ink.threshold, "width": 1.2},
        }
    ]
    return {
        "data": [even, left],
        "layout": layout(
            scheme,
            xaxis={"range": [start, end], "nticks": 6, "tickformat": "%-d %b"},
            yaxis={"tickformat": "~s", "nticks": 4},
            annotations=notes,
            shapes=shapes,
        ),
    }


def _float(value: object) -> float | None:
    found = words.number(value)
    return None if found is None else float(found)
