"""A report as a PDF: vector bars, repeated table heads, page numbers, the same bytes for the same report."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from reportlab.lib.pagesizes import A4, LETTER  # type: ignore[import-untyped]
from reportlab.lib.styles import ParagraphStyle  # type: ignore[import-untyped]
from reportlab.pdfbase.pdfmetrics import stringWidth  # type: ignore[import-untyped]
from reportlab.platypus import (  # type: ignore[import-untyped]
    BaseDocTemplate,
    CondPageBreak,
    Flowable,
    Frame,
    KeepTogether,
    PageTemplate,
    Paragraph,
    Spacer,
    Table,
    TableStyle,
)

from gpuwatch.report import document as doc
from gpuwatch.report.pdf.draw import INK, LINE, PANEL, SEVERITIES, SOFT, WHOLE, BarDrawing, Mark, NumberedCanvas, Swatch
from gpuwatch.report.pdf.fonts import BOLD, REGULAR, Fonts, fonts

SIZES = {"a4": A4, "letter": LETTER}
MARGIN, TOP, BOTTOM = 40.0, 42.0, 40.0
"""Points round what is printed."""
SHORT = 14
"""Rows of a table that is not torn by a page break."""
TILE_PADDING, CELL_PADDING, NUMBER_PT_MIN = 11.0, 6.5, 5.0
"""Room at the sides of a number, and the smallest that its letters may become: it is never broken."""
HEADING_ROOM = 90.0
"""A section does not begin below this height of a page."""
LAST_ROOM = 470.0
"""Height that keeps data quality and the method on one page."""


def pdf(document: doc.Document, paper: str = "a4") -> bytes:
    """The document as a file of A4 or Letter pages. Text in any script is drawn, or shown as character codes with a note."""
    return _Printer(document, paper).print()


class _Printer:
    """One document being printed."""

    def __init__(self, document: doc.Document, paper: str) -> None:
        self._document = document
        self._size = SIZES[paper]
        self._width = self._size[0] - 2 * MARGIN
        self._fonts = fonts()
        self._styles = _styles()

    def print(self) -> bytes:
        """The bytes of the file."""
        story: list[Flowable] = [self._text(self._document.title, "title"), *self._flow(self._document.head)]
        for number, section in enumerate(self._document.sections):
            story += self._section(section, f"s{number}")
        stream = io.BytesIO()
        template = BaseDocTemplate(
            stream,
            pagesize=self._size,
            invariant=1,
            title=_cut(self._document.title),
            author="gpuwatch",
            subject=self._document.window,
            keywords=list(self._document.keywords),
            creator="gpuwatch",
            lang="en",
        )
        left, right, bottom, top = MARGIN, self._width, BOTTOM, self._size[1] - TOP - BOTTOM
        frame = Frame(left, bottom, right, top, leftPadding=0, rightPadding=0, topPadding=0, bottomPadding=0)
        template.addPageTemplates([PageTemplate("page", [frame])])
        template.build(story, canvasmaker=self._canvas())
        return stream.getvalue()

    def _canvas(self) -> type[NumberedCanvas]:
        shown = self._fonts.plain
        words = {
            "footer": shown(f"{self._document.window}"),
            "header": shown(_cut(self._document.title)),
            "font": REGULAR,
            "margin": MARGIN,
        }
        return type("ReportCanvas", (NumberedCanvas,), words)

    def _section(self, section: doc.Section, key: str) -> list[Flowable]:
        last = section.name == "how"
        # How far to trust it, and how it was computed, are the last page.
        begin: list[Flowable] = [CondPageBreak(LAST_ROOM if section.name == "quality" else HEADING_ROOM)]
        begin.append(Mark(key, _cut(section.title)))
        content = self._flow(section.blocks, small=last)
        heading = self._text(section.title, "h2")
        # The heading stays with what it is about: all of a short section, else down to its first table or card.
        kept = len(content) if section.name == "quality" else self._first(section)
        found = [*begin, KeepTogether([heading, *_flat(content[:kept])]), *content[kept:]]
        if last:
            found += [self._text(note, "small") for note in self._fonts.notes()]
        return found

    def _first(self, section: doc.Section) -> int:
        """How many of the flowables of a section stay with its heading."""
        count = 0
        for block in section.blocks:
            if isinstance(block, doc.Table):
                return count + 1 if _whole(block) else count
            count += len(self._block(block, False))
            if isinstance(block, doc.Card):
                return count
        return count

    def _flow(self, blocks: Iterable[doc.Block], small: bool = False) -> list[Flowable]:
        return [flowable for block in blocks for flowable in self._block(block, small)]

    def _block(self, block: doc.Block, small: bool) -> list[Flowable]:
        match block:
            case doc.Text(text, kind):
                return [self._text(text, kind or "body")]
            case doc.Heading(text):
                return [CondPageBreak(HEADING_ROOM), self._text(text, "h3")]
            case doc.Numbers():
                return [self._numbers(block), Spacer(0, 1)]
            case doc.Table():
                return [self._table(block, small), Spacer(0, 4)]
            case doc.Card():
                return [self._card(block), Spacer(0, 4)]
            case doc.Notice(title, points):
                rows = [[self._text(title, "bold")], *([self._text(f"• {point}", "body")] for point in points)]
                style = [("BOX", (0, 0), (-1, -1), 0.5, LINE), ("LINEBEFORE", (0, 0), (0, -1), 3, SEVERITIES["medium"])]
                return [Table(rows, colWidths=[self._width], style=TableStyle([*style, *_TIGHT])), Spacer(0, 4)]
            case doc.Terms(items):
                rows = [[self._text(term, "small bold"), self._text(text, "small")] for term, text in items]
                widths = [self._width * 0.19, self._width * 0.81]
                return [Table(rows, colWidths=widths, style=TableStyle(_TIGHT)), Spacer(0, 2)]

    def _numbers(self, numbers: doc.Numbers) -> Flowable:
        """Tiles side by side, with a little room between them."""
        count = len(numbers.items)
        gap = 6.0
        wide = (self._width - gap * (count - 1)) / count
        rows: list[list[Any]] = [[], [], []]
        widths: list[float] = []
        style: list[tuple[Any, ...]] = [*_PADDING, ("VALIGN", (0, 0), (-1, -1), "TOP")]
        for number, item in enumerate(numbers.items):
            if number:
                for row in rows:
                    row.append("")
                widths.append(gap)
            at = len(widths)
            for row, text, kind in zip(
                rows, (item.label, item.value, item.change), ("tile", "value", "tile"), strict=True
            ):
                row.append(self._text(text, kind) if kind == "tile" else self._value(text, wide - TILE_PADDING))
            widths.append(wide)
            style += [("BACKGROUND", (at, 0), (at, -1), PANEL), ("LINEABOVE", (at, 0), (at, 0), 2, WHOLE)]
        if not any(item.change for item in numbers.items):
            rows.pop()
        return Table(rows, colWidths=widths, style=TableStyle(style))

    def _value(self, text: str, width: float) -> Flowable:
        """A headline number; several currencies get a line each."""
        return self._text(text, "bold") if " " in text else self._fitted(text, "value", width)

    def _fitted(self, text: str, style: str, width: float) -> Flowable:
        """A number on one line: a long one is set smaller."""
        chosen = self._styles[style]
        bold = chosen.fontName == BOLD
        needed = stringWidth(self._fonts.plain(text), chosen.fontName, chosen.fontSize)
        if needed > width:
            chosen = chosen.clone("fitted", fontSize=max(chosen.fontSize * width / needed, NUMBER_PT_MIN))
        return Paragraph(self._fonts.markup(text, bold) or "&nbsp;", chosen)

    def _table(self, table: doc.Table, small: bool) -> Flowable:
        parts = sum(column.part for column in table.columns)
        widths = [self._width * column.part / parts for column in table.columns]
        headed = any(column.head for column in table.columns)
        rows = [[self._text(c.head, "head right" if c.number else "head") for c in table.columns]] if headed else []
        style: list[tuple[Any, ...]] = [*_CELLS, ("LINEBELOW", (0, 0), (-1, -1), 0.4, LINE)]
        if small:
            style += _TIGHT
        for row in table.rows:
            bold = row.kind == "sum"
            if bold:
                at = len(rows)
                style.append(("LINEABOVE", (0, at), (-1, at), 1, WHOLE))
            kinds = ("small" if small else "cell", "bold" if bold else "soft" if row.kind == "other" else "")
            rows.append(
                [
                    self._cell(c, cell, " ".join(k for k in kinds if k), width)
                    for c, cell, width in zip(table.columns, row.cells, widths, strict=True)
                ]
            )
        drawn = Table(rows, colWidths=widths, repeatRows=1 if headed else 0, style=TableStyle(style))
        return KeepTogether([drawn]) if _whole(table) else drawn

    def _cell(self, column: doc.Column, cell: doc.Cell, style: str, width: float) -> Any:
        if cell.bar is not None:
            return BarDrawing(cell.bar)
        if column.number and " " not in cell.text:
            return self._fitted(cell.text, f"{style} right", width - CELL_PADDING) if cell.text else ""
        text = self._text(cell.text, f"{style} right" if column.number else style)
        if cell.swatch is None:
            return text if cell.text else ""
        return Table([[Swatch(cell.swatch), text]], colWidths=[12, None], style=TableStyle(_NESTED))

    def _card(self, card: doc.Card) -> Flowable:
        colour = SEVERITIES.get(card.severity, SEVERITIES["info"])
        severity = f'<font color="#{colour.hexval()[2:]}">{self._fonts.markup(card.severity.upper(), True)}</font>'
        title = Paragraph(f"{severity}&nbsp; {self._fonts.markup(card.title, True)}", self._styles["bold"])
        rows: list[list[Any]] = [[title, self._text(card.lost, "bold right")]]
        rows += [[self._text(card.summary, "cell"), ""], [self._text(card.about, "cell soft"), ""]]
        if card.remedy:
            do = f"{self._fonts.markup('Do: ', True)}{self._fonts.markup(card.remedy)}"
            rows.append(
                [Paragraph(f'<font name="{BOLD}">Do:</font> {do.partition("Do: ")[2]}', self._styles["cell"]), ""]
            )
        spans = [("SPAN", (0, at), (1, at)) for at in range(1, len(rows))]
        style = [
            ("BOX", (0, 0), (-1, -1), 0.5, LINE),
            ("LINEBEFORE", (0, 0), (0, -1), 3.5, colour),
            *spans,
            *_TIGHT,
            ("LEFTPADDING", (0, 0), (-1, -1), 9),
            ("TOPPADDING", (0, 0), (-1, 0), 3),
            ("BOTTOMPADDING", (0, -1), (-1, -1), 4),
        ]
        widths = [self._width * 0.78, self._width * 0.22]
        return KeepTogether([Table(rows, colWidths=widths, style=TableStyle(style))])

    def _text(self, text: str, style: str) -> Flowable:
        chosen = self._styles[style]
        return Paragraph(self._fonts.markup(text, chosen.fontName == BOLD) or "&nbsp;", chosen)


_PADDING = [
    ("LEFTPADDING", (0, 0), (-1, -1), 6),
    ("RIGHTPADDING", (0, 0), (-1, -1), 4),
    ("TOPPADDING", (0, 0), (-1, -1), 1),
    ("BOTTOMPADDING", (0, 0), (-1, -1), 1),
    ("TOPPADDING", (0, 0), (-1, 0), 5),
    ("BOTTOMPADDING", (0, -1), (-1, -1), 6),
]
_CELLS = [
    ("LEFTPADDING", (0, 0), (-1, -1), 3),
    ("RIGHTPADDING", (0, 0), (-1, -1), 3),
    ("TOPPADDING", (0, 0), (-1, -1), 1.6),
    ("BOTTOMPADDING", (0, 0), (-1, -1), 2.2),
    ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
]
_TIGHT = [
    ("LEFTPADDING", (0, 0), (-1, -1), 6),
    ("RIGHTPADDING", (0, 0), (-1, -1), 4),
    ("TOPPADDING", (0, 0), (-1, -1), 0.7),
    ("BOTTOMPADDING", (0, 0), (-1, -1), 0.9),
    ("VALIGN", (0, 0), (-1, -1), "TOP"),
]
_NESTED = [
    ("LEFTPADDING", (0, 0), (-1, -1), 0),
    ("RIGHTPADDING", (0, 0), (-1, -1), 0),
    ("TOPPADDING", (0, 0), (-1, -1), 0),
    ("BOTTOMPADDING", (0, 0), (-1, -1), 0),
    ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
]


def _styles() -> dict[str, ParagraphStyle]:
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


def _flat(flowables: Iterable[Flowable]) -> Iterable[Flowable]:
    """Without groups within: the library breaks the page before a group that holds another. What stays together has no
    page break of its own.
    """
    for flowable in flowables:
        if isinstance(flowable, KeepTogether):
            yield from flowable._content
        elif not isinstance(flowable, CondPageBreak):
            yield flowable


def _whole(table: doc.Table) -> bool:
    """Whether a table is not torn by a page break."""
    return table.name in ("fall", "meanings") or len(table.rows) <= SHORT


def _cut(text: str) -> str:
    """Text for where there is no room for more, of characters that can be encoded."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= 100 else f"{text[:99]}…"


__all__ = ["SIZES", "Fonts", "pdf"]
