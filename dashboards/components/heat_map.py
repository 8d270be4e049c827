"""Heat map of GPUs over time: one row per GPU, one column per step; free and unread steps look different."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import figures, formats
from gpuwatch.dashboards.components.figures import Figure
from gpuwatch.dashboards.shell.theme import BUCKET, INK, Scheme

ROW_PX, EDGE_PX = 15, 60
HELD_MIN = 0.01
"""A step in which a GPU was held for a smaller part counts as free."""


@dataclass(frozen=True)
class Measure:
    """What the cells show. `top` is the end of the scale, None for the largest value."""

    word: str
    title: str
    top: float | None
    form: str
    scale: str = "use"


MEASURES = {
    "gr_engine_ratio": Measure("Utilization", "How busy each GPU's engine was", 1.0, ".0%"),
    "sm_active_ratio": Measure("SM active", "How many SMs worked on each GPU", 1.0, ".0%"),
    "fb_used_gib": Measure("Memory", "The most memory in use on each GPU (GiB)", None, ",.0f"),
    "power_watts": Measure("Power", "The mean power of each held GPU (W)", None, ",.0f"),
    "gpu_temp_celsius": Measure("Temperature", "The highest temperature of each GPU (°C)", None, ",.0f", "heat"),
    "health": Measure("Health", "XIDs, row remaps and memory errors of each GPU", 2.0, "d", "health"),
}
SCALES: dict[Scheme, dict[str, list[list[Any]]]] = {
    "light": {
        "use": [[0, "#EAF4F0"], [0.5, "#5DAE92"], [1, "#0F5B42"]],
        "heat": [[0, "#FFF6DA"], [0.5, "#E9A23B"], [1, "#9B1C31"]],
        "health": [[0, "#BFE3D3"], [0.33, "#BFE3D3"], [0.33, "#E08E2B"], [0.67, "#E08E2B"], [0.67, "#9B1C31"], [1, "#9B1C31"]],
    },
    "dark": {
        "use": [[0, "#1E3A33"], [0.5, "#2F8C6B"], [1, "#8FF0CB"]],
        "heat": [[0, "#3A3320"], [0.5, "#D98324"], [1, "#FF8B8B"]],
        "health": [[0, "#24594A"], [0.33, "#24594A"], [0.33, "#F0A54A"], [0.67, "#F0A54A"], [0.67, "#FF8B8B"], [1, "#FF8B8B"]],
    },
}  # fmt: skip
UNREAD, FREE = 0, 1
ESTIMATED = "≈"
"""Marks a GPU of which it is estimated that its jobs held it and not another one of the node."""


def height(items: list[Row]) -> int:
    """Pixels for that many GPUs."""
    return EDGE_PX + ROW_PX * max(len(items), 6)


def label(item: Row) -> str:
    """`gpu-h100-01 · 3`, with a mark where its jobs are estimated to have held this GPU of the node."""
    index = item.get("gpu_index")
    name = formats.clip(item.get("node") or formats.device(str(item.get("gpu"))), 28)
    mark = f" {ESTIMATED}" if item.get("estimated") else ""
    return f"{figures.literal(name)} · {'?' if index is None else index}{mark}"


def figure(found: Row, scheme: Scheme) -> Figure | None:
    """The heat map of an answer of GET /gpus; None without GPUs."""
    items: list[Row] = found.get("items") or []
    measure = MEASURES.get(str(found.get("measure")))
    if not items or measure is None:
        return None
    times, names = list(found.get("times") or []), unique([label(item) for item in items])
    values = [list(item.get("values") or []) for item in items]
    grounds = [ground(item, row) for item, row in zip(items, values, strict=True)]
    ink = INK[scheme]
    colours = BUCKET["unobserved"].colour(scheme), BUCKET["schedulable"].colour(scheme)
    base = {"type": "heatmap", "x": times, "y": names, "xgap": 0, "ygap": 1}
    below = {
        **base,
        "z": grounds,
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, colours[UNREAD]], [1, colours[FREE]]],
        "showscale": False,
        "customdata": [
            [("held, not measured", "free")[one] if one is not None else "" for one in row] for row in grounds
        ],
        "hovertemplate": "%{y}<br>%{x}<br>%{customdata}<extra></extra>",
    }
    above = {
        **base,
        "z": values,
        "zmin": 0,
        **({} if measure.top is None else {"zmax": measure.top}),
        "colorscale": SCALES[scheme][measure.scale],
        "hoverongaps": False,
        "hovertemplate": f"%{{y}}<br>%{{x}}<br>%{{z:{measure.form}}}<extra></extra>",
        "showscale": measure.scale != "health",
        "colorbar": {"thickness": 10, "len": 160, "lenmode": "pixels", "y": 1, "yanchor": "top", "tickformat": measure.form, "tickfont": {"color": ink.muted, "size": 11}},
    }  # fmt: skip
    layout = figures.layout(
        scheme,
        hovermode="closest",
        xaxis={"side": "top"},
        yaxis={"autorange": "reversed", "type": "category", "tickfont": {"color": ink.muted, "size": 10}, "dtick": 1},
    )
    return {"data": [below, above], "layout": layout}


def ground(item: Row, values: list[float | None]) -> list[int | None]:
    """What lies below the values: free, held without a reading, or nothing known."""
    held = list(item.get("held") or [])
    found: list[int | None] = []
    for place, value in enumerate(values):
        part = held[place] if place < len(held) else None
        if value is not None or part is None:
            found.append(None)
        else:
            found.append(FREE if part < HELD_MIN else UNREAD)
    return found


def unique(names: list[str]) -> list[str]:
    """The names, with a number where one is repeated: a row needs a name of its own."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found
