"""The report as an Excel workbook."""

from __future__ import annotations

from gpuwatch.report.format_registry import Report, report_format

MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


@report_format("xlsx", "xlsx", MEDIA_TYPE, order=3, mailed=True, label="Excel")
def xlsx(report: Report) -> bytes:
    """Numbers with filters, one sheet for each level of detail."""
    from gpuwatch.report.xlsx.workbook import build_workbook

    return build_workbook(report.facts)
