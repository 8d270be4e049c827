"""Draws the charts that prove a finding: its members, its readings over time with limits, and its numbers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import figures, formats, quantities
from gpuwatch.dashboards.components.evidence_specs import SPECS, Spec
from gpuwatch.dashboards.components.figures import Figure
from gpuwatch.dashboards.shell.theme import INK, Ink, Scheme

Chart = tuple[str, Figure, int]
"""Title, figure and height in pixels."""
GIB = 2**30
UNITS = {"fb_used_bytes": ("GiB", 1 / GIB), "pcie_bytes_per_s": ("GB/s", 1e-9), "nvlink_bytes_per_s": ("GB/s", 1e-9)}
"""Unit and factor of columns that are not ratios; other columns are drawn as they are."""
WORDS = {
    "fb_used_bytes": "Memory used (GiB)",
    "pcie_bytes_per_s": "PCIe (GB/s)",
    "nvlink_bytes_per_s": "NVLink (GB/s)",
    "sm_clock_mhz": "SM clock (MHz)",
    "gpu_temp_celsius": "Temperature (°C)",
    "samples": "Readings an hour",
    "pcie_lanes": "PCIe lanes",
}
MEMBERS_DRAWN = 32
SM_LOAD = 0.8
_PROFILE = re.compile(r"(\d+)g\.(\d+)gb")
_SLOT = re.compile(r"\{(\w+)\}")


def charts(finding: Row, scheme: Scheme) -> list[Chart]:
    """The charts of a finding; empty if nothing can be drawn."""
    evidence: Row = finding.get("evidence") or {}
    series: Row = finding.get("series") or {}
    spec = SPECS.get(str(finding.get("detector")), Spec())
    found = [
        members(series, spec, finding, scheme),
        *lines(series, spec, finding, scheme),
        numbers(spec, evidence, scheme),
    ]
    drawn = [chart for chart in found if chart is not None]
    for _, figure, _ in drawn:
        mark_ends(figure, finding, INK[scheme])
    return drawn


def mark_ends(figure: Figure, finding: Row, ink: Ink) -> None:
    """Marks where the finding begins and ends, in a figure over time that shows more than it."""
    times = [
        at for trace in figure["data"] if trace.get("type") == "scatter" for at in map(formats.moment, trace["x"]) if at
    ]
    if not times:
        return
    layout = figure["layout"]
    for name, word, anchor in (("started_at", "begins", "left"), ("ended_at", "ends", "right")):
        at = formats.moment(finding.get(name))
        if at is None or not min(times) < at < max(times):
            continue
        stamp = at.isoformat().replace("+00:00", "Z")
        line = {"color": ink.muted, "width": 1.6}
        shape = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": stamp, "x1": stamp, "line": line}
        note = {
            "x": stamp, "yref": "paper", "y": 1, "xanchor": anchor, "yanchor": "top", "showarrow": False,
            "text": f" {word} {formats.clock(finding.get(name))} ", "font": {"size": 11, "color": ink.muted}, "bgcolor": ink.ground,
        }  # fmt: skip
        layout["shapes"] = [*(layout.get("shapes") or []), shape]
        layout["annotations"] = [*(layout.get("annotations") or []), note]


def filled(text: str, evidence: Mapping[str, Any]) -> str:
    """A title with the evidence in it."""

    def word(match: re.Match[str]) -> str:
        entry = evidence.get(match[1])
        number = None if isinstance(entry, str) else formats.number(entry)
        return formats.clip(entry, 40) if number is None else formats.short(number)

    return _SLOT.sub(word, text)


def members(series: Row, spec: Spec, finding: Row, scheme: Scheme) -> Chart | None:
    """One line per member of the job; those that the finding is about stand out. None for a single device."""
    found: Row = series.get("members") or {}
    items: list[Row] = [item for item in found.get("items") or [] if isinstance(item, dict)][:MEMBERS_DRAWN]
    drawn = [item for item in items if any(value is not None for value in item.get("values") or [])]
    if not drawn:
        return None
    ink, column = INK[scheme], str(found.get("column"))
    subjects = [item for item in drawn if item.get("is_subject")]
    apart = 0 < len(subjects) < len(drawn)
    traces = []
    for place, item in enumerate(sorted(drawn, key=lambda one: bool(one.get("is_subject")))):
        stands_out = bool(item.get("is_subject")) and apart
        colour = ink.threshold if stands_out else ink.muted if apart else ink.series[place % len(ink.series)]
        name = f"{formats.device(str(item.get('device')))} {item.get('node') or ''}".strip()
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": figures.literal(formats.clip(name, 60)),
                "x": list(found.get("times") or []),
                "y": list(item.get("values") or []),
                "connectgaps": False,
                "line": {"color": colour, "width": 2.4 if stands_out else 1.3, "shape": "hv"},
                "opacity": 1 if stands_out or not apart else 0.7,
                "hovertemplate": "%{y:.0%}" if column.endswith(figures.RATIO) else "%{y:,.4~g}",
            }
        )
    evidence: Row = finding.get("evidence") or {}
    shapes, notes = marks(spec, finding, ink)
    value = (evidence.get("thresholds") or {}).get(spec.limit)
    if isinstance(value, int | float):
        level = across(float(value), f"threshold {value:.0%}", ink)
        shapes, notes = [*shapes, level[0]], [*notes, level[1]]
    notes += direct_labels(traces, subjects if apart else [], ink)
    word = figures.line_word(column)
    title = filled(spec.members, evidence) if spec.members else f"{word} of each member"
    axis = {"tickformat": ".0%", "range": [-0.01, 1.04]} if column.endswith(figures.RATIO) else {}
    layout = figures.layout(scheme, yaxis={**axis, "title": {"text": word}}, shapes=shapes, annotations=notes)
    return title, {"data": traces, "layout": {**layout, "hovermode": "closest"}}, 260


def direct_labels(traces: Sequence[Figure], subjects: Sequence[Row], ink: Ink) -> list[Figure]:
    """Names of the members that differ, at the end of their lines."""
    found = []
    for trace in traces[len(traces) - len(subjects) :] if subjects else ():
        points = [(x, y) for x, y in zip(trace["x"], trace["y"], strict=False) if y is not None]
        if points and len(subjects) <= 3:
            x, y = points[-1]
            found.append(
                {
                    "x": x, "y": y, "xanchor": "right", "yanchor": "bottom", "showarrow": False, "text": trace["name"],
                    "font": {"size": 11, "color": ink.threshold},
                }
            )  # fmt: skip
    return found


def marks(spec: Spec, finding: Row, ink: Ink) -> tuple[list[Figure], list[Figure]]:
    """Vertical lines at times after the start of the finding, such as 15 min, 1 h and 2 h of idleness."""
    start = formats.moment(finding.get("started_at"))
    end = formats.moment(finding.get("ended_at") or finding.get("last_seen_at"))
    limits = (finding.get("evidence") or {}).get("thresholds") or {}
    shapes: list[Figure] = []
    notes: list[Figure] = []
    for name, word in spec.marks:
        length = limits.get(name)
        if start is None or end is None or not isinstance(length, int | float):
            continue
        at = start + timedelta(microseconds=length)
        if at > end:
            continue
        stamp = at.isoformat().replace("+00:00", "Z")
        line = {"color": ink.threshold, "width": 1.2, "dash": "dot"}
        shapes.append({"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": stamp, "x1": stamp, "line": line})
        span = formats.duration(formats.number(length / 1_000_000))
        place = {"x": stamp, "yref": "paper", "y": 1 - 0.09 * len(notes), "xanchor": "left", "yanchor": "top"}
        notes.append(
            {**place, "showarrow": False, "text": f" {span}: {word}", "font": {"size": 11, "color": ink.threshold}}
        )
    return shapes, notes


def lines(series: Row, spec: Spec, finding: Row, scheme: Scheme) -> list[Chart]:
    """Readings over time, a chart for each unit; for rules without a choice, the best known columns."""
    evidence: Row = finding.get("evidence") or {}
    points = nvlink([point for point in series.get("points") or [] if isinstance(point, dict)], evidence)
    wanted = [name for name in spec.columns if any(isinstance(point.get(name), int | float) for point in points)]
    if not spec.columns:
        figure = None if spec.members or spec.bars else figures.evidence(series, scheme, series.get("thresholds") or {})
        return [] if figure is None else [("Measurements during the finding", figure, 300)]
    by_unit: dict[str, list[str]] = defaultdict(list)
    for name in wanted:
        by_unit["ratio" if name.endswith(figures.RATIO) else UNITS.get(name, (name, 1))[0]].append(name)
    found: list[Chart] = []
    for place, names in enumerate(by_unit.values()):
        title = filled(spec.lines, evidence) if place == 0 else WORDS.get(names[0], figures.line_word(names[0]))
        found.append((title, over_time(points, names, series, spec, evidence, scheme), 280 if place == 0 else 190))
    return found


def nvlink(points: list[Row], evidence: Row) -> list[Row]:
    """The points with the NVLink rate, where the evidence has the peak: its mean rate and its mean share of the peak."""
    rate, share = formats.number(evidence.get("nvlink_gb_per_s")), formats.number(evidence.get("nvlink_ratio"))
    if not rate or not share:
        return points
    peak = float(rate / share) * 1e9
    return [
        {**point, "nvlink_bytes_per_s": point["link_ratio"] * peak}
        if isinstance(point.get("link_ratio"), int | float)
        else point
        for point in points
    ]


def over_time(
    points: Sequence[Row], names: Sequence[str], series: Row, spec: Spec, evidence: Row, scheme: Scheme
) -> Figure:
    """Columns of one unit with their limits; gaps where nothing was measured."""
    ink, as_ratio = INK[scheme], names[0].endswith(figures.RATIO)
    traces = []
    for name, colour in zip(names, ink.series, strict=False):
        factor = UNITS.get(name, ("", 1))[1]
        values = [point.get(name) for point in points]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": WORDS.get(name, figures.line_word(name)),
                "x": [point.get("at") for point in points],
                "y": [value * factor if isinstance(value, int | float) else None for value in values],
                "connectgaps": False,
                "line": {"color": colour, "width": 1.8, "shape": "hv"},
                "hovertemplate": "%{y:.0%}" if as_ratio else "%{y:,.3~g}",
            }
        )
    shapes, notes = figures.threshold_marks(series.get("thresholds") or {}, names, scheme) if as_ratio else ([], [])
    for column, name, label in spec.limits:
        value = limit_of(column, name, evidence) if column in names else None
        if value is not None:
            shown = f"{value:.0%}" if as_ratio else f"{value:,.3g}"
            shape, note = across(value, figures.literal(f"{filled(label, evidence)} {shown}"), ink)
            shapes, notes = [*shapes, shape], [*notes, note]
    unit = WORDS.get(names[0], figures.line_word(names[0])) if len(names) == 1 else UNITS.get(names[0], ("", 1))[0]
    axis: Figure = {"tickformat": ".0%", "range": [-0.01, 1.04]} if as_ratio else {"title": {"text": unit}}
    return {
        "data": traces,
        "layout": figures.layout(
            scheme,
            yaxis=axis,
            shapes=shapes,
            annotations=notes,
            showlegend=len(traces) > 1,
            legend=figures.legend_above(ink),
            margin={"t": 28 if len(traces) > 1 else 10},
        ),
    }


def limit_of(column: str, name: str, evidence: Row) -> float | None:
    """A limit in the unit of its column: a number of the evidence, a threshold, or what a MIG profile offers."""
    entry = evidence.get(name, (evidence.get("thresholds") or {}).get(name))
    if isinstance(entry, str) and (profile := _PROFILE.match(entry)):
        if column == "fb_used_bytes":
            return float(profile[2])
        own = _PROFILE.match(str(evidence.get("profile")))
        return SM_LOAD * int(profile[1]) / int(own[1]) if own and int(own[1]) >= int(profile[1]) else None
    if isinstance(entry, bool) or not isinstance(entry, int | float):
        return None
    return entry / 1024 if name.endswith(("_mib_max", "_mib")) else float(entry)


def across(value: float, text: str, ink: Ink) -> tuple[Figure, Figure]:
    """A dashed line at a value, with its label."""
    line = {"color": ink.threshold, "width": 1.2, "dash": "dash"}
    shape = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value, "line": line}
    note = {
        "xref": "paper", "x": 1, "xanchor": "right", "y": value, "yanchor": "bottom", "showarrow": False, "text": text,
        "font": {"size": 10.5, "color": ink.threshold},
    }  # fmt: skip
    return shape, note


def numbers(spec: Spec, evidence: Row, scheme: Scheme) -> Chart | None:
    """Numbers of the evidence as bars, and their limits. None unless a number is known and not zero."""
    limits: Row = evidence.get("thresholds") or {}
    rows = [(name, evidence.get(name), False) for name in spec.numbers]
    rows += [(name, evidence.get(name, limits.get(name)), True) for name in spec.against]
    known = [
        (name, float(entry), limit)
        for name, entry, limit in rows
        if isinstance(entry, int | float) and not isinstance(entry, bool)
    ]
    if not any(value and not limit for _, value, limit in known):
        return None
    ink = INK[scheme]
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": [quantities.label(name) for name, _, _ in known],
        "x": [value for _, value, _ in known],
        "text": [str(getattr(quantities.value(name, value), "children", "")) for name, value, _ in known],
        "textposition": "auto",
        "marker": {"color": [ink.threshold if limit else ink.series[0] for _, _, limit in known]},
        "width": 0.6,
        "hoverinfo": "skip",
        "cliponaxis": False,
    }
    layout = figures.layout(
        scheme,
        xaxis={"type": "linear", "rangemode": "tozero", "showgrid": True, "showticklabels": False},
        yaxis={"autorange": "reversed", "type": "category"},
    )
    return filled(spec.bars, evidence), {"data": [bars], "layout": layout}, 50 + 34 * len(known)
