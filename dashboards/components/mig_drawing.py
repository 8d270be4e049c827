"""Drawings of a MIG GPU: its slices as rectangles over memory and compute, or as bars by size."""

from __future__ import annotations

from fractions import Fraction

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.components import formats, parts, slice_use
from gpuwatch.dashboards.components.slice_use import COMPUTE_ROWS, MEMORY_COLUMNS, Slice

LETTERS_A_COLUMN = 6
"""Letters that fit in one memory column."""


def drawing(slices: list[Slice], ident: str, rest: Fraction | None) -> Component:
    """8 memory columns by 7 compute rows; each slice spans its memory and compute, the rest is remainder.

    A slice's columns are pale above and below it, because their memory is taken and nothing else fits there. A
    remainder that costs nothing (seven 1g slices leave an eighth of the memory) is drawn fainter.
    """
    cells: list[Component] = []
    over: list[Component] = []
    row_at, taken = COMPUTE_ROWS + 1, set[int]()
    for part in slices:
        where = part.placement or {}
        size = (
            min(slice_use.whole(where.get("memory_slices") or where.get("size"), 1), MEMORY_COLUMNS - part.start) or 1
        )
        compute = max(1, min(slice_use.whole(where.get("compute_slices"), 1), row_at - 1))
        row_at = max(1, row_at - compute)
        taken |= set(range(part.start, part.start + size))
        columns = f"{part.start + 1} / span {size}"
        over.append(
            html.Div(className=f"slice m-{part.state} pale", style={"gridColumn": columns, "gridRow": "1 / -1"})
        )
        cells.append(
            html.Div(
                html.Span(fitting(part, size)),
                className=f"slice m-{part.state}{' tiny' if size == 1 else ''}",
                style={"gridColumn": columns, "gridRow": f"{row_at} / span {compute}"},
                title=part.words,
            )
        )
    lost = "m-rest" if rest is None or rest > 0 else "m-spare"
    cells += [
        html.Div(
            className=f"slice {lost}",
            style={"gridColumn": f"{column + 1}", "gridRow": "1 / -1"},
            title="Unused memory",
        )
        for column in range(MEMORY_COLUMNS)
        if column not in taken
    ]
    if row_at > 1:
        style = {"gridColumn": "1 / -1", "gridRow": f"1 / {row_at}"}
        over.append(html.Div(className=f"slice {lost}", style=style, title="Unused compute"))
    label = f"GPU {ident}: " + "; ".join(part.words for part in slices)
    return html.Div(
        [
            html.Div("compute →", className="axis y"),
            html.Div([*over, *cells], className="grid", role="img", **parts.aria(label)),
            html.Div("memory →", className="axis x"),
        ],
        className="drawing",
    )


def sizes(slices: list[Slice], rest: Fraction | None) -> Component:
    """Slices side by side by their share of the GPU, for unknown positions."""
    blocks = [
        html.Div(
            html.Span(fitting(part, int((slice_use.share(part.share) or Fraction(0)) * MEMORY_COLUMNS))),
            className=f"slice m-{part.state}",
            style=parts.width(float(slice_use.share(part.share) or 0)),
            title=part.words,
        )
        for part in slices
    ]
    if rest:
        blocks.append(html.Div(className="slice m-rest", style=parts.width(float(rest)), title="Remainder"))
    return html.Div(blocks, className="sizes", role="img", **parts.aria("; ".join(part.words for part in slices)))


def fitting(part: Slice, columns: int) -> str:
    """The owner if the slice is wide enough for the name, else nothing; the list below has it."""
    name = short_owner(part.owner) if part.owner else "free"
    return name if len(name) <= max(1, columns) * LETTERS_A_COLUMN else ""


def short_owner(name: str) -> str:
    """A short label of an owner."""
    return "no team" if name == "__unallocated__" else formats.owner(name)
