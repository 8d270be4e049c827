"""The report as a PDF."""

from __future__ import annotations

from gpuwatch.report.format_registry import Report, report_format


@report_format("pdf", "pdf", "application/pdf", order=2, inline=True, mailed=True, label="PDF")
def pdf(report: Report) -> bytes:
    """Pages to forward and to print."""
    from gpuwatch.report.pdf.pages import pdf as pages

    return pages(report.document, report.paper)
