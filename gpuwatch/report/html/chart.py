"""Inline SVG: bars of the waterfall and bars of size in a cell. Widths are percent, so they fit any page."""

from __future__ import annotations

from fractions import Fraction

from gpuwatch.core.money import Number, format_quantity
from gpuwatch.report.html.markup import Html, tag

COLOURS = {
    "compute": ("#1B7F5C", "#35B98A"),
    "memory_roof": ("#57A773", "#7CCB97"),
    "below_roof": ("#C9B458", "#D9C873"),
    "stalled": ("#E08E2B", "#F0A54A"),
    "communication": ("#B8602F", "#D98250"),
    "gap": ("#8A6FB0", "#AC93D1"),
    "hoarded": ("#C0392B", "#E6655A"),
    "unobserved": ("#7F8C8D", "#A5B1B2"),
    "schedulable": ("#D5DBDF", "#4A555C"),
    "stranded": ("#9FB3C8", "#6C8299"),
    "mig_remainder": ("#B7C4DA", "#5A6B8A"),
    "out_of_service": ("#3E4A52", "#8C99A1"),
}
"""Light and dark colour of every bucket, in the order in which stacks run."""

HATCHED = "unobserved"
TOTAL = "total"
WASTE = "hoarded"
"""The colour of what was avoidable."""
PILLAR_PX = 96
BAR_PX = 16
SIZE_PX = 8
SWATCH_PX = 12
EDGE = "#7F8C8D"
"""Round every bar: the palest would fade on white paper."""
LEAST = Fraction(1, 400)
"""A part that is there is drawn at least this wide."""


def hatching() -> Html:
    """The pattern for bars of unmeasured time; defined once in a page, before its first bar."""
    colour = COLOURS[HATCHED][0]
    stroke = tag("path", d="M-1,7 L7,-1 M-1,1 L1,-1 M5,7 L7,5", stroke=colour, stroke_width="1.6", cls=f"l-{HATCHED}")
    ground = tag("rect", width=6, height=6, fill="#FFFFFF", cls="ground")
    pattern = tag("pattern", ground, stroke, id="hatch", width=6, height=6, patternUnits="userSpaceOnUse")
    return tag("svg", tag("defs", pattern), width=0, height=0, cls="defs", aria_hidden="true")


def bar(kind: str, start: Number, length: Number, words: str) -> Html:
    """A bar of the waterfall: `kind` is a bucket or TOTAL, start and length are parts of the whole (0..1)."""
    low = max(Fraction(0), min(Fraction(1), Fraction(start)))
    long = min(Fraction(1) - low, Fraction(length))
    shape = None
    if long > 0:
        long = max(long, LEAST)
        shape = _rect(kind, min(low, 1 - long), long, BAR_PX)
    axis = tag("line", x1="0", x2="0", y1="0", y2=BAR_PX, cls="axis")
    return tag("svg", axis, shape, width="100%", height=BAR_PX, role="img", aria_label=words, cls="bar")


def size(part: Number) -> Html:
    """A bar next to a number, with a length relative to the largest (0..1)."""
    long = max(Fraction(0), min(Fraction(1), Fraction(part)))
    shape = tag("rect", width=_percent(long), height="100%", cls="size") if long else None
    return tag("svg", shape, width="100%", height=SIZE_PX, cls="sized", aria_hidden="true")


def swatch(bucket: str) -> Html:
    """A square in the colour of a bucket."""
    return tag(
        "svg", _rect(bucket, 0, 1, SWATCH_PX), width=SWATCH_PX, height=SWATCH_PX, cls="swatch", aria_hidden="true"
    )


def pillar(height: Number, part: Number, pale: bool) -> Html:
    """A column of PILLAR_PX at most; its lower part is avoidable."""
    tall, low = (round(PILLAR_PX * max(Fraction(0), min(Fraction(1), Fraction(one)))) for one in (height, part))
    whole = tag("rect", x="12%", width="76%", y=PILLAR_PX - tall, height=tall, cls="pale" if pale else "size")
    waste = tag("rect", x="12%", width="76%", y=PILLAR_PX - low, height=low, fill=COLOURS[WASTE][0], cls=f"b-{WASTE}")
    return tag("svg", whole, waste if low else None, width="100%", height=PILLAR_PX, aria_hidden="true")


def dark_rules() -> str:
    """The bars' colours for a dark screen, as CSS."""
    rules = [f".b-{name}{{fill:{dark}}}" for name, (_, dark) in COLOURS.items() if name != HATCHED]
    dark = COLOURS[HATCHED][1]
    return "".join([*rules, f".l-{HATCHED}{{stroke:{dark}}}.e-{HATCHED}{{stroke:{dark}}}.ground{{fill:#1B2024}}"])


def _rect(kind: str, start: Number, length: Number, height: int) -> Html:
    place = {"x": _percent(start), "y": "0", "width": _percent(length), "height": str(height)}
    if kind == HATCHED:
        return tag("rect", fill="url(#hatch)", stroke=COLOURS[kind][0], cls=f"e-{kind}", **place)
    if kind == TOTAL:
        return tag("rect", cls="whole", **place)
    return tag("rect", fill=COLOURS[kind][0], stroke=EDGE, stroke_width="0.5", cls=f"b-{kind}", **place)


def _percent(part: Number) -> str:
    return f"{format_quantity(Fraction(part) * 100, 2)}%"
