"""The report as one Parquet table."""

from __future__ import annotations

from gpuwatch.report.format_registry import Report, report_format


@report_format("parquet", "parquet", "application/vnd.apache.parquet", order=6)
def parquet(report: Report) -> bytes:
    """Every number of the report, unrounded and typed."""
    from gpuwatch.report import flat_table

    return flat_table.parquet(report.rows)
