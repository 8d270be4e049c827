"""Capacity page: how many jobs of each shape fit now, as whole GPUs and MIG profiles, by pool."""

from __future__ import annotations

from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.components.capacity_now import count, place_word
from gpuwatch.dashboards.shell import states

MAX_POOLS = 60
OPEN_POOLS = 4
"""Pools whose tables are not collapsed."""

MAX_FULL = 6
"""Full pools listed by name."""
MAX_ROWS = 400


def whole(data: Row) -> Component:
    """How many jobs of each size in whole GPUs fit now, by pool."""
    items = [item for item in of(data) if not item.get("profile")]
    if not items:
        return states.empty("Free GPUs are unknown", "The notes beside list what is missing.")
    note = "How many fit at the same time within one node, NVLink domain or leaf switch"
    shown = parts.card(slots_title(items), whole_table(items), note=note, name="slots")
    if not data.get("next") and len(data.get("items") or []) <= MAX_ROWS:
        return shown
    more = html.P("More pools and shapes: run gpuwatch shapes for the full list.", className="soft")
    return html.Div([shown, more], className="stack")


def sliced(data: Row) -> Component | None:
    """How many MIG instances of each profile fit now, by pool."""
    items = [item for item in of(data) if item.get("profile")]
    if not items:
        return None
    note = "Instances that fit at the same time"
    return parts.card("MIG profiles on partitioned GPUs", sliced_table(items), note=note, name="slots")


def of(data: Row) -> list[Row]:
    """The rows that are shown."""
    found: list[Row] = (data.get("items") or [])[:MAX_ROWS]
    return found


def slots_title(rows: list[Row]) -> str:
    """The largest size that fits on one node, and the next one that does not."""
    fits: dict[Decimal, int] = {}
    for row in rows:
        size, shape = formats.number(row.get("gpus")), str(row.get("shape"))
        if size is not None and "x" not in shape:
            fits[size] = fits.get(size, 0) + int(formats.number(row.get("node_local")) or 0)
    best = max((size for size, slots in fits.items() if slots), default=None)
    if best is None:
        return "No whole GPU is free"
    jobs = f"{fits[best]:,} job{'s' if fits[best] != 1 else ''} of {best.normalize():f} GPU{'s' if best != 1 else ''}"
    larger = min((size for size in fits if size > best), default=None)
    none = f", but none of {larger.normalize():f}" if larger is not None else ""
    return f"{jobs} could start now on one node{none}"


def grouped(rows: list[Row], most: str) -> list[tuple[str, list[Row]]]:
    """Rows by cluster, pool and model, those with the most space (by one column) first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(place_word(row), []).append(row)
    return sorted(found.items(), key=lambda one: (-max(formats.number(row.get(most)) or 0 for row in one[1]), one[0]))


def tables(found: list[tuple[str, Component]]) -> list[Component]:
    """A table for each pool; all but the first few are collapsed."""
    sections: list[list[Component]] = [[html.H3(name), html.Div(table, className="tight")] for name, table in found]
    shown = [part for section in sections[:OPEN_POOLS] for part in section]
    folded = [part for section in sections[OPEN_POOLS:MAX_POOLS] for part in section]
    if folded:
        count = len(found) - OPEN_POOLS
        shown.append(html.Details([html.Summary(f"{count} more pool{'s' if count != 1 else ''}"), *folded]))
    return shown


def shape_word(row: Row) -> str:
    """`8 GPUs`, `2x8`."""
    shape = formats.clip(row.get("shape"), 24)
    return shape if "x" in shape or row.get("profile") else f"{shape} GPU{'s' if shape != '1' else ''}"


def requested(row: Row) -> Component:
    """The share of requests with this shape."""
    return parts.percent(row.get("requested_ratio")) if row.get("requested_ratio") is not None else html.Span()


def whole_table(rows: list[Row]) -> Component:
    """How many whole-GPU jobs fit, by pool."""
    columns = [
        parts.Column("Shape", "nowrap"),
        parts.Column("Requested", "r narrow-hide", hint="Share of requests with this shape"),
        parts.Column("Node", "r"),
        parts.Column("NVLink", "r", hint="One NVLink island or domain"),
        parts.Column("Leaf switch", "r", hint="Nodes on one leaf switch"),
        parts.Column("Anywhere", "r"),
    ]
    found: list[tuple[str, Component]] = []
    full: list[str] = []
    for name, group in grouped(rows, "across"):
        body = [
            [
                shape_word(row),
                requested(row),
                count(row.get("node_local")),
                count(row.get("nvlink_local")),
                count(row.get("leaf_local")),
                count(row.get("across")),
            ]
            for row in group
        ]
        if any(formats.number(row.get("across")) for row in group):
            found.append((name, parts.table(columns, body, label=name)))
        else:
            full.append(name)
    more = f" and {len(full) - MAX_FULL} more" if len(full) > MAX_FULL else ""
    none = [html.P(f"Nothing is free in {', '.join(full[:MAX_FULL])}{more}.", className="soft small")] if full else []
    return html.Div([*tables(found), *none])


def sliced_table(rows: list[Row]) -> Component:
    """How many instances of each MIG profile fit, by pool."""
    columns = [
        parts.Column("Profile", "nowrap"),
        parts.Column("Requested", "r narrow-hide"),
        parts.Column("Ready", "r", hint="Existing instances that are free"),
        parts.Column("Creatable", "r narrow-hide", hint="Could be created next to the existing instances"),
        parts.Column("Now", "r", hint="Ready plus creatable"),
        parts.Column("After repartition", "r", hint="If idle instances are removed first"),
    ]
    found: list[tuple[str, Component]] = []
    for name, group in grouped(rows, "after_repartition"):
        body = [
            [
                html.Span(shape_word(row), className="mono"),
                requested(row),
                count(row.get("ready")),
                count(row.get("creatable")),
                count(row.get("placeable")),
                count(row.get("after_repartition")),
            ]
            for row in group
        ]
        found.append((name, parts.table(columns, body, label=name)))
    least = any(row.get("exact") is False for row in rows)
    note = (
        [
            html.P(
                "No source reports where instances start on the GPU; this is the lowest count over all possible layouts.",
                className="soft small",
            )
        ]
        if least
        else []
    )
    return html.Div([*tables(found), *note])
