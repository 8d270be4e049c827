"""Report formats: a decorator and a file in report/formats/. Each module there imports its heavy libraries when it writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gpuwatch.core.errors import UsageError
from gpuwatch.core.registry import discover

if TYPE_CHECKING:
    from gpuwatch.core.clock import Window
    from gpuwatch.report.document import Document
    from gpuwatch.report.facts import Facts
    from gpuwatch.report.flat_table import Row
    from gpuwatch.state import State
    from gpuwatch.store.database import Store

ORDER_LAST = 100


@dataclass
class Report:
    """The report of the fleet or of one team, with what several formats make of it."""

    facts: Facts
    paper: str
    """The paper size of a PDF: a4 or letter."""

    @cached_property
    def document(self) -> Document:
        """Headings, tables and bars, ready to lay out."""
        from gpuwatch.report.compose import document

        return document(self.facts)

    @cached_property
    def rows(self) -> Sequence[Row]:
        """Every number of the report, as one flat table."""
        from gpuwatch.report.flat_table import rows

        return rows(self.facts)


Render = Callable[[Report], bytes]
"""Writes one report."""

Export = Callable[["Store", "State", "Window", Collection[str | None]], Mapping[str | None, bytes]]
"""Writes the files of several teams in one pass over the store; None stands for the fleet."""


@dataclass(frozen=True)
class ReportFormat:
    """One file format of the weekly report. It has either `render` or `export`."""

    name: str
    """As the API and `--formats` name it."""
    suffix: str
    media_type: str
    render: Render | None
    export: Export | None
    order: int = ORDER_LAST
    """Position in lists of formats; equal positions are sorted by name."""
    inline: bool = False
    """Browsers display it; other formats are downloaded."""
    mailed: bool = False
    """Attached to report e-mails."""
    label: str = ""
    """As pages name it; empty: its name."""

    @property
    def about(self) -> str:
        """What its files hold: the first sentence of its function's docstring."""
        text = " ".join(((self.render or self.export).__doc__ or "").split())
        return text.partition(". ")[0].removesuffix(".")

    @property
    def is_text(self) -> bool:
        """Whether a reader of the API may show it as text."""
        return self.media_type.startswith("text/")


_formats: dict[str, ReportFormat] = {}


def report_format(
    name: str,
    suffix: str,
    media_type: str,
    *,
    order: int = ORDER_LAST,
    inline: bool = False,
    mailed: bool = False,
    label: str = "",
) -> Callable[[Render], Render]:
    """Registers a function that writes one report in this format."""

    def register(render: Render) -> Render:
        _add(ReportFormat(name, suffix, media_type, render, None, order, inline, mailed, label))
        return render

    return register


def store_format(
    name: str, suffix: str, media_type: str, *, order: int = ORDER_LAST, label: str = ""
) -> Callable[[Export], Export]:
    """Registers a function that writes the files of all teams at once, straight from the store."""

    def register(export: Export) -> Export:
        _add(ReportFormat(name, suffix, media_type, None, export, order, label=label))
        return export

    return register


def _add(form: ReportFormat) -> None:
    if form.name in _formats:
        raise ValueError(f"report format {form.name!r} is registered twice: {_formats[form.name]} and {form}")
    _formats[form.name] = form


def report_formats() -> dict[str, ReportFormat]:
    """All formats by name, in the order in which they are listed."""
    discover("gpuwatch.report.formats")
    return {form.name: form for form in sorted(_formats.values(), key=lambda form: (form.order, form.name))}


def format_names() -> tuple[str, ...]:
    """The names of all formats, in the order in which they are listed."""
    return tuple(report_formats())


def chosen_formats(names: Collection[str] | None) -> list[ReportFormat]:
    """The formats of these names (None: all) in listed order. Raises UsageError naming the first unknown one."""
    known = report_formats()
    for name in names or ():
        if name not in known:
            raise UsageError(f"report: unknown format {name!r}; known formats: {', '.join(known)}")
    return [form for form in known.values() if names is None or form.name in names]
