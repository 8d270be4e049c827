"""Charts of money and capacity: a budget's burn-down, free and stranded GPUs over time."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from gpuwatch.dashboards.components import formats
from gpuwatch.dashboards.components.figures import Figure, layout, legend_above
from gpuwatch.dashboards.shell.theme import BUCKET, INK, Ink, Scheme

SMALL = {"height": "190px"}
MAX_DAYS = 62
AT_THE_END = 0.17
"""Height of the "even pace" label at the right end, as a share of the budget."""
FILL_OPACITY = "33"
"""Opacity of the forecast interval, as the last two hex digits of a colour."""


def burn_down(item: dict[str, Any], scheme: Scheme) -> Figure | None:
    """What is left at the end of each day, against an even pace, with the forecast; None without any day.

    The line starts at the first day with data.
    """
    days = [day for day in item.get("burn_down") or [] if isinstance(day, dict)][:MAX_DAYS]
    if not days:
        return None
    ink, window, amount = INK[scheme], item.get("window") or {}, _float(item.get("amount")) or 0.0
    start, end = str(window.get("start") or ""), str(window.get("end") or "")
    at, left = f"{days[-1]['day']}T23:59:59Z", _float(days[-1].get("left"))
    even = {
        "type": "scatter",
        "mode": "lines",
        "name": "Even pace",
        "x": [start, end],
        "y": [amount, 0.0],
        "line": {"color": ink.muted, "width": 1.2, "dash": "dash"},
        "hoverinfo": "skip",
    }
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "Left",
        "x": [str(days[0]["day"]), *(f"{day['day']}T23:59:59Z" for day in days)],
        "y": [amount, *(_float(day.get("left")) for day in days)],
        "line": {"color": ink.series[0], "width": 2},
        "marker": {"size": 4, "color": ink.series[0]},
        "hovertemplate": f"%{{y:,.2f}} {item.get('currency') or ''}",
    }
    notes = [even_pace(amount, left, _float((item.get("forecast") or {}).get("amount")), ink)]
    if left is not None:
        notes.append(mark("left", left, ink.series[0], x=at, xanchor="right", xshift=-4, yanchor="top", yshift=-2))
    zero = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 0, "y1": 0}
    return {
        "data": [even, *forecast(item, at, left, end, ink), line],
        "layout": layout(
            scheme,
            xaxis={"range": [start, end], "nticks": 6, "tickformat": "%-d %b"},
            yaxis={"tickformat": "~s", "tickprefix": formats.sign_of(item.get("currency")), "nticks": 4},
            annotations=notes,
            shapes=[{**zero, "line": {"color": ink.threshold, "width": 1.2}}],
        ),
    }


def even_pace(amount: float, left: float | None, ends: float | None, ink: Ink) -> Figure:
    """The label of the even pace, on the side that the other lines leave free."""
    passed = (left or 0.0) < 0 if ends is None else ends > amount
    if passed:
        return mark("even pace", amount * AT_THE_END, ink.muted, xref="paper", yanchor="bottom", x=1, xanchor="right")
    return mark("even pace", amount / 2, ink.muted, xref="paper", yanchor="top", x=0.48, xanchor="right")


def forecast(item: dict[str, Any], at: str, left: float | None, end: str, ink: Ink) -> list[Figure]:
    """From what is left now to the forecast: the interval as an area, its middle as a dotted line."""
    outlook, amount = item.get("forecast") or {}, _float(item.get("amount"))
    low, middle, high = (_float(outlook.get(name)) for name in ("low", "amount", "high"))
    if left is None or amount is None or low is None or middle is None or high is None:
        return []
    colour = ink.series[0]
    area = {
        "type": "scatter",
        "mode": "lines",
        "x": [at, end, end],
        "y": [left, amount - low, amount - high],
        "fill": "toself",
        "fillcolor": f"{colour}{FILL_OPACITY}",
        "line": {"width": 0},
        "hoverinfo": "skip",
    }
    line = {
        "type": "scatter",
        "mode": "lines",
        "name": "Forecast",
        "x": [at, end],
        "y": [left, amount - middle],
        "line": {"color": colour, "width": 1.6, "dash": "dot"},
        "hovertemplate": f"%{{y:,.2f}} {item.get('currency') or ''}",
    }
    return [area, line]


def mark(text: str, y: float, colour: str, **place: Any) -> Figure:
    """A label next to a line, in its colour."""
    return {"text": text, "y": y, "showarrow": False, "font": {"size": 11, "color": colour}, **place}


def free_then(items: list[dict[str, Any]]) -> dict[str, tuple[Decimal, Decimal]]:
    """Free and stranded GPUs over all pools, by start of the step."""
    found: dict[str, tuple[Decimal, Decimal]] = {}
    for item in items:
        start = str(item.get("start"))
        free, stranded = found.get(start, (Decimal(0), Decimal(0)))
        more = (
            formats.number(item.get("free_gpus")) or Decimal(0),
            formats.number(item.get("stranded_gpus")) or Decimal(0),
        )
        found[start] = (free + more[0], stranded + more[1])
    return dict(sorted(found.items()))


def free_hours(items: list[dict[str, Any]]) -> tuple[Decimal, Decimal]:
    """Free and stranded GPUs summed over steps; their ratio is the ratio of GPU-hours."""
    steps = free_then(items).values()
    return sum((one[0] for one in steps), Decimal(0)), sum((one[1] for one in steps), Decimal(0))


def fragmentation(items: list[dict[str, Any]], scheme: Scheme) -> Figure | None:
    """Free GPUs over time, stranded ones at the bottom; None if none were free."""
    steps = free_then(items)
    if not any(free for free, _ in steps.values()):
        return None
    shown = {"stranded": [one[1] for one in steps.values()], "schedulable": [one[0] - one[1] for one in steps.values()]}
    words_of = {"stranded": "Free but stranded", "schedulable": "Free and usable"}
    bars = [
        {
            "type": "bar",
            "name": words_of[name],
            "x": list(steps),
            "y": [float(value) for value in values],
            "marker": {"color": BUCKET[name].colour(scheme), "line": {"width": 0}},
            "hovertemplate": "%{y:,.1f} GPUs",
        }
        for name, values in shown.items()
    ]
    return {
        "data": bars,
        "layout": layout(
            scheme, barmode="stack", bargap=0.04, showlegend=True, legend=legend_above(INK[scheme]), margin={"t": 28}
        ),
    }


def _float(value: object) -> float | None:
    found = formats.number(value)
    return None if found is None else float(found)
