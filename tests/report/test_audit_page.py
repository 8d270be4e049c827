"""The scorecard as a page and a PDF: what the first page answers, hostile names, nothing fetched."""

from __future__ import annotations

import io
import json
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from gpuwatch.audit_card import RULE, card
from gpuwatch.clock import Window, parse_window
from gpuwatch.report.audit_files import files
from gpuwatch.report.audit_page import document, lead
from gpuwatch.report.document import Card, Numbers
from gpuwatch.report.markup import escape
from gpuwatch.report.page import page

EVIL = '<script>alert("x")</script>\u202e&"\''
SPAN: Window = parse_window("2026-W45", 0)


def finding(detector: str, cost: str, severity: str = "high", **more: Any) -> dict[str, Any]:
    return {
        "key": f"{detector}-{cost}", "detector": detector, "title": f"{detector} {EVIL}", "severity": severity, "state": "open",
        "cluster": "c1", "subject": {"kind": "job", "id": EVIL, "name": EVIL}, "team": EVIL, "summary": f"It wastes. {EVIL}",
        "remedy": f"Stop it. {EVIL}", "hours": {"hoarded": Fraction(4)}, "costs": {"USD": Fraction(cost)},
        "unpriced_gpu_hours": Fraction(0), "saving": {}, "saving_hours": None, "saving_currency": None,
    } | more  # fmt: skip


def facts(**more: Any) -> dict[str, Any]:
    """A week of a fleet whose every name is hostile."""
    gang = {
        "cluster": "c1", "scheduler": "kubernetes", "authority": EVIL, "gate": EVIL, "told": True, "whole": False,
        "topology": "none", "known": True, "runs": 2, "gpu_hours": 10.0, "jobs": [EVIL],
    }  # fmt: skip
    mig = {
        "cluster": "c1", "pool": EVIL, "model": "NVIDIA A100-SXM4-80GB", "scheduler": "kubernetes", "strategy": "mixed", "set_by": EVIL,
        "gpus": 4, "cut_gpus": 2, "slices": 6,
    }  # fmt: skip
    place = {
        "cluster": "c1", "nodes": 2, "linkable_nodes": 2, "linked_nodes": 1, "networked_nodes": 0, "link_sources": [EVIL],
        "network_sources": None, "nics": 0, "kueue_topologies": 0, "hypernodes": 0, "switches": 0, "flavors": None,
        "flavors_with_topology": 0,
    }  # fmt: skip
    writer = {
        "cluster": "c1",
        "pool": EVIL,
        "authority": EVIL,
        "gate": None,
        "gpu_hours": 10.0,
        "ratio": 1.0,
        "nodes": 1,
    }
    return {
        "window": SPAN,
        "known": SPAN,
        "buckets": {
            "compute": {"gpu_hours": Fraction(60), "cost": Decimal(600)},
            "hoarded": {"gpu_hours": Fraction(40), "cost": Decimal(400)},
        },
        "cost": Decimal(1000),
        "currency": "USD",
        "capacity_gpu_hours": Fraction(100),
        "unpriced_gpu_hours": Fraction(0),
        "findings": [finding("idle-hoarding", "30"), finding("mig-mismatch", "20"), finding("site-own", "10")],
        "binder": [writer],
        "shared_pool": [],
        "gang": [gang],
        "mig": [mig],
        "topology": [place],
        "fabric": [],
        "queues": [],
        "conflicts": [],
        "missing": [],
    } | more


EMPTY = {"window": None, "known": None}


def test_the_first_page_answers_three_questions() -> None:
    """What is wasted, which layer costs most, what to do first."""
    made = document(card(facts()))

    said = lead(card(facts())).replace("\u00a0", " ")
    assert "This fleet wastes $400 of the $1.00 k paid: 40 % of its GPU time, $1.71 k a month." in said
    assert "Scheduling costs most: its findings name $30.00 of it." in said
    (numbers,) = [block for block in made.head if isinstance(block, Numbers)]
    assert ["Wasted", "Placement", "Partitioning", "Scheduling", "Fabric"] == [item.label for item in numbers.items]
    assert 3 == sum(isinstance(block, Card) for block in made.head)


def test_findings_of_a_sites_own_rules_have_no_layer() -> None:
    found = card(facts())

    assert ("1", "10.00") == (str(found["other"]["findings_count"]), found["other"]["cost"])
    assert "30.00" == found["layers"][2]["cost"]


@pytest.mark.parametrize("known", [facts(), EMPTY], ids=["a fleet", "nothing known"])
def test_the_page_fetches_nothing_and_escapes_every_name(known: dict[str, Any]) -> None:
    html = page(document(card(known), EVIL))

    assert [] == re.findall(r"<script|<link|<img|<iframe|<base|src=|href=|url\((?!#)|@import", html)
    assert "default-src &#x27;none&#x27;" in html or "default-src 'none'" in html
    assert "\u202e" not in html
    assert "&lt;script&gt;" in html
    assert all(escape(rule) in html for rule in RULE)


@pytest.mark.parametrize("paper", ["a4", "letter"])
@pytest.mark.parametrize("known", [facts(), EMPTY], ids=["a fleet", "nothing known"])
def test_the_pdf_opens_and_says_the_same(known: dict[str, Any], paper: str) -> None:
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed: the PDF is not read back")
    made = {file.name: file.content for file in files(card(known), "", paper)}

    pages = [p.extract_text().replace("\u00a0", " ") for p in pypdf.PdfReader(io.BytesIO(made["scorecard.pdf"])).pages]

    assert "GPU authority scorecard" in pages[0]
    assert ("This fleet wastes $400" in pages[0]) == (known["window"] is not None)
    assert "How this was computed" in pages[-1]
    assert json.loads(made["scorecard.json"])["rule"] == list(RULE)


def test_several_currencies_and_no_price_are_said() -> None:
    two = card(
        facts(
            currency=None, cost=None, unpriced_gpu_hours=Fraction(5),
            buckets={"hoarded": {"gpu_hours": Fraction(40), "cost": None}},
        )
    )  # fmt: skip

    assert "Its price is not known." in lead(two)
    assert page(document(two)).count("no price") >= 1
    assert two["layers"][2]["cost"] is None
