"""Text styles and table spacing of the PDF."""

from __future__ import annotations

from typing import Any

from reportlab.lib.styles import ParagraphStyle  # type: ignore[import-untyped]

from gpuwatch.report.pdf.draw import INK, SOFT
from gpuwatch.report.pdf.fonts import BOLD, REGULAR

PADDING = [
    ("LEFTPADDING", (0, 0), (-1, -1), 6),
    ("RIGHTPADDING", (0, 0), (-1, -1), 4),
    ("TOPPADDING", (0, 0), (-1, -1), 1),
    ("BOTTOMPADDING", (0, 0), (-1, -1), 1),
    ("TOPPADDING", (0, 0), (-1, 0), 5),
    ("BOTTOMPADDING", (0, -1), (-1, -1), 6),
]
CELLS = [
    ("LEFTPADDING", (0, 0), (-1, -1), 3),
    ("RIGHTPADDING", (0, 0), (-1, -1), 3),
    ("TOPPADDING", (0, 0), (-1, -1), 1.6),
    ("BOTTOMPADDING", (0, 0), (-1, -1), 2.2),
    ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
]
TIGHT = [
    ("LEFTPADDING", (0, 0), (-1, -1), 6),
    ("RIGHTPADDING", (0, 0), (-1, -1), 4),
    ("TOPPADDING", (0, 0), (-1, -1), 0.7),
    ("BOTTOMPADDING", (0, 0), (-1, -1), 0.9),
    ("VALIGN", (0, 0), (-1, -1), "TOP"),
]
NESTED = [
    ("LEFTPADDING", (0, 0), (-1, -1), 0),
    ("RIGHTPADDING", (0, 0), (-1, -1), 0),
    ("TOPPADDING", (0, 0), (-1, -1), 0),
    ("BOTTOMPADDING", (0, 0), (-1, -1), 0),
    ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
]


def text_styles() -> dict[str, ParagraphStyle]:
    """Every style by name; `right` and `bold` and `soft` come after the size they change."""
    sizes = {"body": (9, 12), "cell": (8.3, 10.4), "small": (7.4, 9.2)}
    made = {
        "title": _style("title", 17, 20, bold=True, after=1),
        "h2": _style("h2", 11.5, 14.5, bold=True, before=9, after=3, keep=True),
        "h3": _style("h3", 9.5, 12, bold=True, before=6, after=2),
        "lead": _style("lead", 11, 14.5, before=4, after=6),
        "soft": _style("soft", 8.3, 10.8, colour=SOFT, after=3),
        "bold": _style("bold", 9, 12, bold=True),
        "bold right": _style("bold right", 9, 12, bold=True, right=True),
        "head": _style("head", 7.6, 9.4, bold=True, colour=SOFT),
        "head right": _style("head right", 7.6, 9.4, bold=True, colour=SOFT, right=True),
        "tile": _style("tile", 7.6, 9.6, colour=SOFT),
        "value": _style("value", 13, 17, bold=True),
    }
    for name, (size, leading) in sizes.items():
        made[name] = _style(name, size, leading, after=3 if name == "body" else 0)
        for extra in ("bold", "soft", ""):
            for right in ("right", ""):
                full = " ".join(word for word in (name, extra, right) if word)
                if full not in made:
                    colour = SOFT if extra == "soft" else INK
                    made[full] = _style(full, size, leading, bold=extra == "bold", right=bool(right), colour=colour)
    return made


def _style(
    name: str,
    size: float,
    leading: float,
    *,
    bold: bool = False,
    right: bool = False,
    colour: Any = INK,
    before: float = 0,
    after: float = 0,
    keep: bool = False,
) -> ParagraphStyle:
    return ParagraphStyle(
        name,
        fontName=BOLD if bold else REGULAR,
        fontSize=size,
        leading=leading,
        textColor=colour,
        alignment=2 if right else 0,
        spaceBefore=before,
        spaceAfter=after,
        keepWithNext=1 if keep else 0,
        splitLongWords=1,
    )
