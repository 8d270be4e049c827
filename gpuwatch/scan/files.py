"""A scan as files: a page to forward, a PDF, and the record behind both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpuwatch.report.files import ReportFile
from gpuwatch.report.html.page import page
from gpuwatch.scan.document import document
from gpuwatch.scan.facts import Source

STEM = "scan"


def files(card: Mapping[str, Any], source: Source, paper: str = "a4") -> list[ReportFile]:
    """scan.html, scan.pdf and scan.json of scan.facts.read_scan; `paper` is a4 or letter."""
    from gpuwatch.report.pdf.pages import pdf

    made = document(card, source)
    return [
        ReportFile(f"{STEM}.html", page(made).encode("utf-8")),
        ReportFile(f"{STEM}.pdf", pdf(made, paper)),
        ReportFile(f"{STEM}.json", (json.dumps(card, indent=2, ensure_ascii=False) + "\n").encode("utf-8")),
    ]
