"""The report as one CSV table."""

from __future__ import annotations

import csv as csv_files
import io
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from gpuwatch.output.render import FORMULA_STARTS
from gpuwatch.report.format_registry import Report, report_format

if TYPE_CHECKING:
    from gpuwatch.report.flat_table import Row

BYTE_ORDER_MARK = "\ufeff"
"""Without it, spreadsheets read a UTF-8 file in the local code page."""
TEXTS = frozenset(
    {"team", "user", "cluster", "job", "slice", "mig_profile", "gpu_model", "finding", "text", "remedy", "currency"}
)


@report_format("csv", "csv", "text/csv; charset=utf-8", order=4, label="CSV")
def csv(report: Report) -> bytes:
    """Every number of the report, unrounded."""
    return f"{BYTE_ORDER_MARK}{_table_text(report.rows)}".encode()


def _table_text(table: Sequence[Row]) -> str:
    """The table as CSV text with a header; unknown is empty."""
    from gpuwatch.report.flat_table import COLUMNS, column_texts

    stream = io.StringIO()
    writer = csv_files.writer(stream, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    columns = (column_texts([row.get(name) for row in table], partial(_cell, name)) for name in COLUMNS)
    writer.writerows(zip(*columns, strict=True))
    return stream.getvalue()


def _cell(name: str, value: object) -> str:
    from gpuwatch.report.flat_table import plain_text

    if value is None:
        return ""
    text = plain_text(value)
    return f"'{text}" if name in TEXTS and text.startswith(FORMULA_STARTS) and not isinstance(value, Decimal) else text
