"""The report as one self-contained page."""

from __future__ import annotations

from gpuwatch.report.format_registry import Report, report_format


@report_format("html", "html", "text/html; charset=utf-8", order=1, inline=True, label="HTML")
def html(report: Report) -> bytes:
    """A page that opens in any browser."""
    from gpuwatch.report.html.page import page

    return page(report.document).encode("utf-8")
