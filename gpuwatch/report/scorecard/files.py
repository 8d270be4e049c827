"""The authority scorecard as files: a page, a PDF, and the record behind both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpuwatch.report.files import ReportFile
from gpuwatch.report.html.page import page
from gpuwatch.report.scorecard.document import document

STEM = "scorecard"


def files(card: Mapping[str, Any], source: str = "", paper: str = "a4") -> list[ReportFile]:
    """scorecard.html, scorecard.pdf and scorecard.json of audit_card.card; `paper` is a4 or letter."""
    from gpuwatch.report.pdf.pages import pdf

    made = document(card, source)
    return [
        ReportFile(f"{STEM}.html", page(made).encode("utf-8")),
        ReportFile(f"{STEM}.pdf", pdf(made, paper)),
        ReportFile(f"{STEM}.json", (json.dumps(card, indent=2, ensure_ascii=False) + "\n").encode("utf-8")),
    ]
