"""The report as one CSV table."""

from __future__ import annotations

from gpuwatch.report.format_registry import Report, report_format

BYTE_ORDER_MARK = "\ufeff"
"""Without it, spreadsheets read a UTF-8 file in the local code page."""


@report_format("csv", "csv", "text/csv; charset=utf-8", order=4)
def csv(report: Report) -> bytes:
    """Every number of the report, unrounded."""
    from gpuwatch.report.flat_table import sheet

    return f"{BYTE_ORDER_MARK}{sheet(report.rows)}".encode()
