"""A report as an XLSX workbook: real numbers, filters, a frozen header, one sheet for each level."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from gpuwatch.core.clock import rfc3339
from gpuwatch.output.listing import BUCKET_WORDS, visible
from gpuwatch.output.render import CREATED, XLSX_ROWS_MAX, XLSX_TEXT_MAX
from gpuwatch.report.compose import lead, title
from gpuwatch.report.facts import HOUR_S, Facts
from gpuwatch.report.headlines import headlines
from gpuwatch.report.html import chart
from gpuwatch.report.sections.budgets import budgeted
from gpuwatch.report.xlsx.sheets import HOURS, MONEY, RATIO, WHOLE, Cells, Columns, sheets

_FORMATS = {MONEY: "#,##0.00", HOURS: "#,##0.000", RATIO: "0.0%", WHOLE: "#,##0"}
WIDTH_MIN, WIDTH_MAX = 9, 60
WIDTH_ROWS = 1000
"""Rows that set the width of a column."""
INK, PANEL, SIZE = "#1C2326", "#F5F7F8", "#8FA3AD"
TREND, TREND_WEEKS_MIN = "Trend", 2

_SPACES = {ord("\u00a0"): " ", ord("\u202f"): " "}


def build_workbook(facts: Facts) -> bytes:
    """The workbook. The currency follows each cost; a missing price is an empty cell, never zero."""
    from xlsxwriter import Workbook  # type: ignore[import-untyped]

    stream = io.BytesIO()
    workbook = Workbook(stream, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False})
    workbook.set_properties({"created": CREATED, "title": title(facts), "company": "gpuwatch"})
    writer = _Writer(workbook)
    writer.summary(facts)
    writer.trend(facts)
    for name, columns, rows in sheets(facts):
        writer.sheet(name, columns, rows, swatches=list(BUCKET_WORDS) if name == "Buckets" else ())
    workbook.close()
    return stream.getvalue()


class _Writer:
    """A workbook and its formats."""

    def __init__(self, workbook: Any) -> None:
        self._book = workbook
        self._head = workbook.add_format({"bold": True, "bottom": 1, "bg_color": PANEL, "font_color": INK})
        self._title = workbook.add_format({"bold": True, "font_size": 14})
        self._bold = workbook.add_format({"bold": True})
        self._wrap = workbook.add_format({"text_wrap": True, "valign": "top"})
        self._number = {kind: workbook.add_format({"num_format": text}) for kind, text in _FORMATS.items()}

    def summary(self, facts: Facts) -> None:
        """The first sheet: the opening sentence, and the total by currency as a number."""
        sheet = self._book.add_worksheet("Summary")
        sheet.set_column(0, 0, 28)
        sheet.set_column(1, 3, 22)
        sheet.write_string(0, 0, _shown(title(facts)), self._title)
        window = f"{rfc3339(facts.window.start_us)} to {rfc3339(facts.window.end_us)}, UTC (end excluded)"
        lines = [lead(facts), budgeted(facts), window]
        for line, text in enumerate(lines, 1):
            sheet.write_string(line, 0, _shown(text))
        line = len(lines) + 2
        for column, text in enumerate(("Total", "Cost", "Currency", "Cost one week earlier")):
            sheet.write_string(line, column, text, self._head)
        before = dict(facts.total_before.costs) if facts.total_before is not None else {}
        for currency, cost in facts.total.costs:
            line += 1
            sheet.write_string(line, 0, "Everything charged", self._bold)
            sheet.write_number(line, 1, float(cost), self._number[MONEY])
            sheet.write_string(line, 2, currency)
            if currency in before:
                sheet.write_number(line, 3, float(before[currency]), self._number[MONEY])
        if facts.total.unpriced_gpu_seconds:
            line += 1
            sheet.write_string(line, 0, "GPU-hours without a price", self._bold)
            sheet.write_number(line, 1, float(facts.total.unpriced_gpu_seconds / HOUR_S), self._number[HOURS])
        line += 2
        for column, text in enumerate(("Key numbers", "Value", "Change", "Exact")):
            sheet.write_string(line, column, text, self._head)
        for headline in headlines(facts):
            line += 1
            for column, text in enumerate((headline.label, headline.value, headline.change, headline.exact)):
                sheet.write_string(line, column, _shown(text))

    def trend(self, facts: Facts) -> None:
        """The weeks as numbers and as a chart, which the first sheet shows too."""
        weeks = [past for past in facts.history if past.cost is not None and past.currency == facts.currency]
        if len(weeks) < TREND_WEEKS_MIN:
            return
        sheet = self._book.add_worksheet(TREND)
        for column, text in enumerate(("Week", "Cost", "Avoidable", "Other", "Currency", "Hours with data")):
            sheet.write_string(0, column, text, self._head)
        for line, past in enumerate(weeks, 1):
            sheet.write_string(line, 0, past.week)
            sheet.write_number(line, 1, float(past.cost or 0), self._number[MONEY])
            if past.avoidable is not None:
                sheet.write_number(line, 2, float(past.avoidable), self._number[MONEY])
            sheet.write_number(line, 3, float((past.cost or 0) - (past.avoidable or 0)), self._number[MONEY])
            sheet.write_string(line, 4, past.currency or "")
            sheet.write_number(line, 5, past.hours, self._number[WHOLE])
        sheet.set_column(0, 5, 16)
        sheet.freeze_panes(1, 0)
        sheet.autofilter(0, 0, len(weeks), 5)
        for place, cell in ((sheet, "H2"), (self._book.get_worksheet_by_name("Summary"), "F2")):
            place.insert_chart(cell, self._chart(len(weeks), facts.currency or ""))

    def _chart(self, weeks: int, currency: str) -> Any:
        made = self._book.add_chart({"type": "column", "subtype": "stacked"})
        for column, colour in ((2, chart.COLOURS[chart.WASTE][0]), (3, SIZE)):
            made.add_series(
                {
                    "name": [TREND, 0, column],
                    "categories": [TREND, 1, 0, weeks, 0],
                    "values": [TREND, 1, column, weeks, column],
                    "fill": {"color": colour},
                    "gap": 60,
                }
            )
        made.set_title({"name": f"Cost by week, {currency}", "name_font": {"size": 11}})
        made.set_legend({"position": "bottom"})
        made.set_y_axis(
            {"num_format": "#,##0", "min": 0, "major_gridlines": {"visible": True, "line": {"color": "#D9DEE1"}}}
        )
        return made

    def sheet(self, name: str, columns: Columns, rows: Iterable[Cells], swatches: Sequence[str] = ()) -> None:
        """A sheet of records; more rows than it can hold are in the CSV, and the last one says so."""
        sheet = self._book.add_worksheet(name)
        sheet.freeze_panes(1, 0)
        listed = list(rows)
        if len(listed) > XLSX_ROWS_MAX:
            listed = [*listed[: XLSX_ROWS_MAX - 1], ["more rows are in the CSV file"]]
        for column, (head, _) in enumerate(columns):
            sheet.write_string(0, column, head, self._head)
            texts = (_text(row[column]) for row in listed[:WIDTH_ROWS] if len(row) > column)
            width = max([len(head) + 3, *(len(text) + 1 for text in texts)])
            wide = min(max(width, WIDTH_MIN), WIDTH_MAX)
            sheet.set_column(column, column, wide, self._wrap if wide == WIDTH_MAX else None)
        sheet.autofilter(0, 0, max(len(listed), 1), len(columns) - 1)
        for line, row in enumerate(listed, 1):
            for column, (value, (_, kind)) in enumerate(zip(row, columns, strict=False)):
                if value is not None:
                    self._cell(sheet, line, column, kind, value)
        for line, bucket in enumerate(swatches[: len(listed)], 1):
            colour = self._book.add_format({"left": 5, "left_color": chart.COLOURS[bucket][0]})
            sheet.write_string(line, 0, BUCKET_WORDS[bucket], colour)

    def _cell(self, sheet: Any, line: int, column: int, kind: str, value: object) -> None:
        if kind and isinstance(value, int | float | Decimal):
            sheet.write_number(line, column, float(value), self._number[kind])
        else:
            sheet.write_string(line, column, _shown(str(value)))


def _text(value: object) -> str:
    """Text about as wide as what the cell shows."""
    return f"{value:,.3f}" if isinstance(value, float | Decimal) else _shown(str(value))


def _shown(text: str) -> str:
    """Text of one line, with plain spaces instead of non-breaking ones."""
    text = text.translate(_SPACES)
    plain = text.isascii() and text.isprintable()
    return (text if plain else visible(text))[:XLSX_TEXT_MAX]
