"""A report in each of its formats."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpuwatch.core.errors import UsageError
from gpuwatch.report.compose import document
from gpuwatch.report.document import Document
from gpuwatch.report.facts import Facts
from gpuwatch.report.files import ReportFile
from gpuwatch.report.flat_table import Row, parquet, rows, sheet
from gpuwatch.report.html.page import page

SUFFIXES = {
    "html": "html",
    "pdf": "pdf",
    "xlsx": "xlsx",
    "csv": "csv",
    "focus": "focus.csv",
    "parquet": "parquet",
}
FORMATS = tuple(SUFFIXES)
"""What a report is written as."""
MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "pdf": "application/pdf",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "csv": "text/csv; charset=utf-8",
    "focus": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "zip": "application/zip",
}
_BYTE_ORDER_MARK = "\ufeff"
"""Spreadsheets take a CSV file without it for their own code page."""


def check_formats(formats: Collection[str]) -> None:
    """Raises UsageError naming the first that is not one of FORMATS."""
    for form in formats:
        if form not in SUFFIXES:
            raise UsageError(f"report: format {form!r} is not known; known: {', '.join(FORMATS)}")


def rendered(facts: Facts, stem: str, formats: Collection[str], paper: str) -> list[ReportFile]:
    """The files of one report, named `stem` and their suffix: all but FOCUS, which the store writes."""
    report = _Report(facts, paper)
    return [ReportFile(f"{stem}.{SUFFIXES[form]}", report.content(form)) for form in SUFFIXES if form in formats]


@dataclass
class _Report:
    """A report, and what several of its formats are made of."""

    facts: Facts
    paper: str

    def content(self, form: str) -> bytes:
        """The heavy libraries are imported where they are used."""
        if form == "html":
            return page(self._document).encode("utf-8")
        if form == "pdf":
            from gpuwatch.report.pdf.pages import pdf

            return pdf(self._document, self.paper)
        if form == "xlsx":
            from gpuwatch.report.xlsx.workbook import book

            return book(self.facts)
        if form == "parquet":
            return parquet(self._rows)
        return f"{_BYTE_ORDER_MARK}{sheet(self._rows)}".encode()

    @cached_property
    def _document(self) -> Document:
        return document(self.facts)

    @cached_property
    def _rows(self) -> Sequence[Row]:
        return rows(self.facts)
