"""A report in a real browser: fits a phone, asks for nothing, and prints on both papers with page numbers."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.core.clock import Window, parse_window
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.report.compose import document
from gpuwatch.report.facts import Amount, Charge, Facts, Payer, Quality, Versions
from gpuwatch.report.html.page import page

WEEK: Window = parse_window("2026-W45", 0)
LONG = "x" * 300
PHONE = {"width": 390, "height": 844}


def facts(team: str | None) -> Facts:
    """Two hundred payers with long names, and every bucket."""
    each = Amount(Decimal(360000), (("USD", Decimal("1234.56")),))
    buckets = dict.fromkeys(BUCKET_WORDS, each)
    names = [f"{n}-{LONG}" for n in range(200)]
    total = sum((each for _ in names), start=Amount())
    charges = [Charge(name, None, "c1", "j", "allocated", Decimal(1), None, None, None, "no rate") for name in names]
    payers = tuple(Payer(name, each, each, buckets) for name in names)
    return Facts(
        week="2026-W45",
        window=WEEK,
        covered=WEEK,
        compared=Window(WEEK.start_us - 1, WEEK.start_us),
        team=team,
        total=total,
        total_before=total,
        corrections=Amount(),
        buckets=buckets,
        buckets_before=buckets,
        findings=(),
        slices=(),
        payers=payers,
        jobs=payers if team else (),
        charges=tuple(charges),
        quality=Quality(0.2, 0.1, Decimal(1), (f"no rate for {LONG}",), 3),
        versions=Versions(1, 0),
        ledger_from_us=0,
    )


@pytest.mark.parametrize("team", [None, LONG], ids=["the fleet's", "a team's with a very long name"])
def test_a_page_fits_and_prints(browser: Any, tmp_path: Path, team: str | None) -> None:
    """Nothing hangs over the edge, nothing is fetched, and a long table goes on over pages."""
    file = tmp_path / "report.html"
    file.write_text(page(document(facts(team))), "utf-8")
    asked: list[str] = []
    listed: list[str] = []
    tab = browser.new_page(viewport=PHONE)
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("console", lambda message: listed.append(message.text))
    tab.goto(file.as_uri())

    assert PHONE["width"] == tab.evaluate("document.documentElement.scrollWidth")
    assert ([file.as_uri()], []) == (asked, listed)
    for paper in ("A4", "Letter"):
        pages = len(re.findall(rb"/Type /Page\b", tab.pdf(format=paper)))
        assert 3 < pages < 30
    tab.close()
