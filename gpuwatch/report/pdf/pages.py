"""A report as a PDF: vector bars, repeated table heads, page numbers, the same bytes for the same report."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from reportlab.lib.pagesizes import A4, LETTER  # type: ignore[import-untyped]
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
from gpuwatch.report.pdf.draw import (
    LINE,
    PANEL,
    SEVERITIES,
    WHOLE,
    BarDrawing,
    ChartDrawing,
    Mark,
    NumberedCanvas,
    Swatch,
)
from gpuwatch.report.pdf.fonts import BOLD, REGULAR, fonts
from gpuwatch.report.pdf.styles import CELLS, NESTED, PADDING, TIGHT, text_styles

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
        self._styles = text_styles()

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
                return [Table(rows, colWidths=[self._width], style=TableStyle([*style, *TIGHT])), Spacer(0, 4)]
            case doc.Chart():
                return [ChartDrawing(block, REGULAR), Spacer(0, 6)]
            case doc.Terms(items):
                rows = [[self._text(term, "small bold"), self._text(text, "small")] for term, text in items]
                widths = [self._width * 0.19, self._width * 0.81]
                return [Table(rows, colWidths=widths, style=TableStyle(TIGHT)), Spacer(0, 2)]

    def _numbers(self, numbers: doc.Numbers) -> Flowable:
        """Tiles side by side, with a little room between them."""
        count = len(numbers.items)
        gap = 6.0
        wide = (self._width - gap * (count - 1)) / count
        rows: list[list[Any]] = [[], [], []]
        widths: list[float] = []
        style: list[tuple[Any, ...]] = [*PADDING, ("VALIGN", (0, 0), (-1, -1), "TOP")]
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
        style: list[tuple[Any, ...]] = [*CELLS, ("LINEBELOW", (0, 0), (-1, -1), 0.4, LINE), *(TIGHT if small else ())]
        for row in table.rows:
            if row.kind == "sum":
                style.append(("LINEABOVE", (0, len(rows)), (-1, len(rows)), 1, WHOLE))
            text_style = ("small" if small else "cell") + {"sum": " bold", "other": " soft"}.get(row.kind, "")
            rows.append(
                [
                    self._cell(column, cell, text_style, width)
                    for column, cell, width in zip(table.columns, row.cells, widths, strict=True)
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
        return Table([[Swatch(cell.swatch), text]], colWidths=[12, None], style=TableStyle(NESTED))

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
            *TIGHT,
            ("LEFTPADDING", (0, 0), (-1, -1), 9),
            ("TOPPADDING", (0, 0), (-1, 0), 3),
            ("BOTTOMPADDING", (0, -1), (-1, -1), 4),
        ]
        widths = [self._width * 0.72, self._width * 0.28]
        return KeepTogether([Table(rows, colWidths=widths, style=TableStyle(style))])

    def _text(self, text: str, style: str) -> Flowable:
        chosen = self._styles[style]
        return Paragraph(self._fonts.markup(text, chosen.fontName == BOLD) or "&nbsp;", chosen)


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
