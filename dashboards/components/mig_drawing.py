"""Drawings of a MIG GPU: its compute and its memory as bars of its slices, coloured by owner and filled by use."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.components import formats, parts, slice_use
from gpuwatch.dashboards.components.slice_use import COMPUTE_ROWS, MEMORY_COLUMNS, Slice

COLOURS = 7
"""Owners with a colour of their own; the others share one more."""
LETTERS = 40
"""Letters that fit into the width of a GPU."""
MEMORY_OF = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}
"""Memory slices of the profile with that many compute slices, unless its name has another size."""
_PROFILE = re.compile(r"(\d+)g\.(\d+)gb")
_MODEL = re.compile(r"(\d+)\s*GB", re.IGNORECASE)


def colours(owners: Sequence[str]) -> dict[str, int]:
    """A colour for each owner, in this order; the last of them share one."""
    return {name: min(place, COLOURS) for place, name in enumerate(owners)}


def drawing(slices: list[Slice], ident: str, model: str, owners: Mapping[str, int], rest: Fraction | None) -> Component:
    """Two bars: compute in sevenths and memory in eighths of the GPU. A GPU that is cut up completely looks full.

    What a slice used is filled from the bottom: its engine in the upper bar, its memory in the lower one. A remainder that
    costs nothing (seven 1g slices leave an eighth of the memory) is drawn fainter.
    """
    lost = "rest" if rest is None or rest > 0 else "spare"
    rows = (
        ("Compute", [(part, compute_share(part), part.busy) for part in slices]),
        ("Memory", [(part, memory_share(part, model), part.memory_used) for part in slices]),
    )
    label = f"GPU {ident}: " + "; ".join(part.words for part in slices)
    return html.Div(
        [
            html.Div([html.Span(word, className="axis"), bar(sized, owners, lost)], className="mig-row")
            for word, sized in rows
        ],
        className="mig",
        role="img",
        **parts.aria(label),
    )


def bar(sized: Sequence[tuple[Slice, Fraction, object]], owners: Mapping[str, int], lost: str) -> Component:
    """Slices side by side, then what is in no slice. Slices that overlap on paper shrink to fit."""
    cut = sum((size for _, size, _ in sized), Fraction(0))
    whole = max(cut, Fraction(1))
    blocks = [block(part, size / whole, used, owners) for part, size, used in sized]
    left = 1 - cut / whole
    if left > 0:
        title = "In no slice" if lost == "rest" else "No profile can use it"
        blocks.append(html.Div(className=f"mig-block {lost}", style=parts.width(float(left)), title=title))
    return html.Div(blocks, className="mig-bar")


def block(part: Slice, size: Fraction, used: object, owners: Mapping[str, int]) -> Component:
    """One slice: its owner's colour, filled up to what it used; hatched if it was not measured."""
    ratio = formats.number(used)
    name = short_owner(part.owner) if part.owner else "free"
    kind = "free" if part.owner is None else f"o-{owners.get(part.owner, COLOURS)}"
    if part.owner is not None and ratio is None:
        kind += " unread"
    fill = None
    if part.owner is not None and ratio is not None:
        fill = html.Span(className="fill", style={"height": f"{max(0.0, min(1.0, float(ratio))) * 100:.1f}%"})
    fits = len(name) <= LETTERS * size
    return html.Div(
        [fill, html.Span(name, className="name") if fits else None],
        className=f"mig-block {kind}",
        style=parts.width(float(size)),
        title=f"{part.words}; {formats.percent(ratio)} used" if ratio is not None else part.words,
    )


def dot(part: Slice, owners: Mapping[str, int]) -> str:
    """The CSS classes of a slice's dot in a list: its owner's colour, or red if it was mostly idle while held."""
    if part.owner is None:
        return "free"
    kind = f"o-{owners.get(part.owner, COLOURS)}"
    return {"idle": "m-idle", "unmeasured": f"unread {kind}"}.get(part.state, kind)


def compute_share(part: Slice) -> Fraction:
    """Which part of the GPU's compute a slice has: by its position, its profile, or else its share."""
    known = slice_use.whole((part.placement or {}).get("compute_slices"), 0)
    named = _PROFILE.search(part.profile)
    if known or named:
        return Fraction(known or int(named[1] if named else 0), COMPUTE_ROWS)
    return slice_use.share(part.share) or Fraction(0)


def memory_share(part: Slice, model: str) -> Fraction:
    """Which part of the GPU's memory a slice has: by its position, its profile, or else its share."""
    where = part.placement or {}
    known = slice_use.whole(where.get("memory_slices") or where.get("size"), 0)
    if known:
        return Fraction(known, MEMORY_COLUMNS)
    named, whole = _PROFILE.search(part.profile), _MODEL.search(model)
    if named and whole and int(whole[1]):
        size = max(1, round(int(named[2]) * MEMORY_COLUMNS / int(whole[1])))
        return Fraction(min(size, MEMORY_COLUMNS), MEMORY_COLUMNS)
    if named and int(named[1]) in MEMORY_OF:
        return Fraction(MEMORY_OF[int(named[1])], MEMORY_COLUMNS)
    return slice_use.share(part.share) or Fraction(0)


def key(owners: Mapping[str, int]) -> Component:
    """The legend: owners by colour, and what fill and hatching mean."""
    named = [(f"o-{place}", short_owner(name)) for name, place in owners.items() if place < COLOURS]
    named += [(f"o-{COLOURS}", "other owners")] if any(place == COLOURS for place in owners.values()) else []
    kinds = [("free", "free slice"), ("rest", "in no slice"), ("unread o-1", "not measured"), ("m-idle", "mostly idle")]
    return html.Div(
        [
            *(
                html.Span([html.Span(className=f"dot {kind}"), word], className="bucket")
                for kind, word in named + kinds
            ),
            html.Span("Filled: what was used", className="soft small"),
        ],
        className="legend mig-key",
    )


def short_owner(name: str) -> str:
    """A short label of an owner."""
    return "no team" if name == "__unallocated__" else formats.owner(name)
