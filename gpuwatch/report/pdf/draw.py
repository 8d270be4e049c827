"""Bars and running heads of the PDF, drawn as vectors in the house colours."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from reportlab.lib.colors import HexColor, white  # type: ignore[import-untyped]
from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]
from reportlab.platypus import Flowable  # type: ignore[import-untyped]

from gpuwatch.report.document import SIZE, TOTAL, Bar, Chart
from gpuwatch.report.html.chart import COLOURS, EDGE, HATCHED, LEAST, WASTE

INK, SOFT, LINE, PANEL = HexColor("#1C2326"), HexColor("#566067"), HexColor("#D9DEE1"), HexColor("#F5F7F8")
WHOLE, OF_SIZE = HexColor("#566067"), HexColor("#8FA3AD")
SEVERITIES = {
    "critical": HexColor("#9B1C31"),
    "high": HexColor("#C0392B"),
    "medium": HexColor("#A35E12"),
    "low": HexColor("#7A6A17"),
    "info": HexColor("#4F6374"),
}
BAR_PT, SIZE_PT, SWATCH_PT = 10.0, 5.0, 7.0
PILLAR_PT, LABEL_PT = 64.0, 11.0
HATCH_PT = 3.0
"""Between two lines of the hatching."""


def rectangle(canvas: Any, kind: str, x: float, y: float, width: float, height: float) -> None:
    """A bar's rectangle: hatched for unmeasured time, so that it does not look idle, even in greyscale."""
    canvas.saveState()
    canvas.setLineWidth(0.4)
    if kind == HATCHED:
        colour = HexColor(COLOURS[kind][0])
        canvas.setStrokeColor(colour)
        canvas.setFillColor(white)
        canvas.rect(x, y, width, height, stroke=1, fill=1)
        path = canvas.beginPath()
        path.rect(x, y, width, height)
        canvas.clipPath(path, stroke=0, fill=0)
        at = x - height
        while at < x + width:
            canvas.line(at, y, at + height, y + height)
            at += HATCH_PT
    elif kind in (TOTAL, SIZE):
        canvas.setFillColor(WHOLE if kind == TOTAL else OF_SIZE)
        canvas.rect(x, y, width, height, stroke=0, fill=1)
    else:
        canvas.setFillColor(HexColor(COLOURS[kind][0]))
        canvas.setStrokeColor(HexColor(EDGE))
        canvas.rect(x, y, width, height, stroke=1, fill=1)
    canvas.restoreState()


class BarDrawing(Flowable):  # type: ignore[misc]
    """A bar as wide as its cell."""

    def __init__(self, bar: Bar) -> None:
        super().__init__()
        self._bar = bar
        self._height = SIZE_PT if bar.kind == SIZE else BAR_PT

    def wrap(self, width: float, height: float) -> tuple[float, float]:
        """As wide as there is room."""
        self._width = width
        return width, self._height

    def draw(self) -> None:
        """The axis, and the part from start on; what is there is never too narrow to see."""
        low = max(Fraction(0), min(Fraction(1), self._bar.start))
        long = min(Fraction(1) - low, self._bar.length)
        if self._bar.kind != SIZE:
            self.canv.setStrokeColor(LINE)
            self.canv.setLineWidth(0.5)
            self.canv.line(0, 0, 0, self._height)
        if long > 0:
            long = max(long, LEAST)
            low = min(low, 1 - long)
            rectangle(self.canv, self._bar.kind, float(low) * self._width, 0, float(long) * self._width, self._height)


class ChartDrawing(Flowable):  # type: ignore[misc]
    """Columns side by side, each with its value above and its name below."""

    def __init__(self, chart: Chart, font: str) -> None:
        super().__init__()
        self._chart, self._font = chart, font

    def wrap(self, width: float, height: float) -> tuple[float, float]:
        """As wide as there is room."""
        self._width = width
        return width, PILLAR_PT + 2 * LABEL_PT

    def draw(self) -> None:
        """The columns on their axis; their lower part is avoidable."""
        canvas, step = self.canv, self._width / max(len(self._chart.pillars), 1)
        canvas.setFont(self._font, LABEL_PT - 3)
        for number, pillar in enumerate(self._chart.pillars):
            left, wide = (number + 0.14) * step, 0.72 * step
            tall = PILLAR_PT * float(pillar.height)
            canvas.setFillColor(LINE if pillar.pale else OF_SIZE)
            canvas.rect(left, LABEL_PT, wide, tall, stroke=0, fill=1)
            if pillar.part:
                rectangle(canvas, WASTE, left, LABEL_PT, wide, PILLAR_PT * float(pillar.part))
            canvas.setFillColor(SOFT)
            canvas.drawCentredString(left + wide / 2, LABEL_PT + tall + 3, pillar.value)
            canvas.drawCentredString(left + wide / 2, 2, pillar.label)
        canvas.setStrokeColor(WHOLE)
        canvas.setLineWidth(0.6)
        canvas.line(0, LABEL_PT, self._width, LABEL_PT)


class Swatch(Flowable):  # type: ignore[misc]
    """A square in a bucket's colour."""

    def __init__(self, bucket: str) -> None:
        super().__init__()
        self._bucket = bucket

    def wrap(self, width: float, height: float) -> tuple[float, float]:
        """Always the same."""
        return SWATCH_PT, SWATCH_PT

    def draw(self) -> None:
        """The square."""
        rectangle(self.canv, self._bucket, 0, -0.5, SWATCH_PT, SWATCH_PT)


class Mark(Flowable):  # type: ignore[misc]
    """An entry of the outline, where a section begins."""

    def __init__(self, key: str, title: str) -> None:
        super().__init__()
        self._key, self._title = key, title

    def wrap(self, width: float, height: float) -> tuple[float, float]:
        """Nothing to see."""
        return 0, 0

    def draw(self) -> None:
        """The bookmark and its entry."""
        self.canv.bookmarkHorizontal(self._key, 0, 12)
        self.canv.addOutlineEntry(self._title, self._key, 0, False)


class NumberedCanvas(Canvas):  # type: ignore[misc]
    """A canvas that knows at the end how many pages there are, and writes `3 / 7` on each."""

    footer = ""
    header = ""
    font = "Helvetica"
    margin = 40.0

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._pages: list[dict[str, Any]] = []
        self.setViewerPreference("DisplayDocTitle", "true")

    def showPage(self) -> None:
        """Keeps the page for later."""
        self._pages.append(dict(self.__dict__))
        self._startPage()

    def save(self) -> None:
        """Writes every page with its number."""
        for number, page in enumerate(self._pages, 1):
            self.__dict__.update(page)
            self._running(number, len(self._pages))
            super().showPage()
        super().save()

    def _running(self, number: int, count: int) -> None:
        width, height = self._pagesize
        self.setFont(self.font, 7.5)
        self.setFillColor(SOFT)
        self.setStrokeColor(LINE)
        self.setLineWidth(0.5)
        self.line(self.margin, 34, width - self.margin, 34)
        self.drawString(self.margin, 22, self.footer)
        self.drawRightString(width - self.margin, 22, f"{number} / {count}")
        if number > 1:
            self.drawString(self.margin, height - 28, self.header)
            self.drawRightString(width - self.margin, height - 28, "gpuwatch")
            self.line(self.margin, height - 34, width - self.margin, height - 34)
