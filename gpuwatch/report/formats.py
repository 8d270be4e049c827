"""A report in each of its formats."""

from __future__ import annotations

from collections.abc import Collection

from gpuwatch.errors import UsageError
from gpuwatch.report.adapters import focus_file
from gpuwatch.report.compose import document
from gpuwatch.report.facts import Facts
from gpuwatch.report.files import ReportFile
from gpuwatch.report.page import page
from gpuwatch.report.sheet import parquet, sheet
from gpuwatch.state import State
from gpuwatch.store import Store

SUFFIXES = {
    "html": "html",
    "pdf": "pdf",
    "xlsx": "xlsx",
    "csv": "csv",
    "focus": "focus.csv",
    "parquet": "parquet",
}
FORMATS = tuple(SUFFIXES)
"""What a report is written as. `focus` is there only where this version writes FOCUS."""
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


def rendered(
    store: Store, state: State, facts: Facts, stem: str, formats: Collection[str], paper: str
) -> list[ReportFile]:
    """The files of one report, named `stem` and their suffix; a format that this version lacks is left out."""
    files = []
    for form, suffix in SUFFIXES.items():
        if form in formats and (content := _content(store, state, facts, form, paper)) is not None:
            files.append(ReportFile(f"{stem}.{suffix}", content))
    return files


def _content(store: Store, state: State, facts: Facts, form: str, paper: str) -> bytes | None:
    """The heavy libraries are imported where they are used."""
    if form == "html":
        return page(document(facts)).encode("utf-8")
    if form == "pdf":
        from gpuwatch.report.pdf import pdf

        return pdf(document(facts), paper)
    if form == "xlsx":
        from gpuwatch.report.book import book

        return book(facts)
    if form == "parquet":
        return parquet(facts)
    if form == "focus":
        return focus_file(store, state, facts.window, None if facts.team is None else [facts.team])
    return f"{_BYTE_ORDER_MARK}{sheet(facts)}".encode()
