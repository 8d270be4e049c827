"""The scorecard as a page and a PDF: what the first page answers, hostile names, nothing fetched."""

from __future__ import annotations

import io
import json
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from gpuwatch.audit.scorecard import RULE, scorecard
from gpuwatch.core.clock import DAY_US, HOUR_US, Window, parse_window
from gpuwatch.findings.read import facts_of
from gpuwatch.ledger.month import Basis
from gpuwatch.report.document import Card, Numbers, Table
from gpuwatch.report.html.markup import escape
from gpuwatch.report.html.page import page
from gpuwatch.report.scorecard.document import document, lead
from gpuwatch.report.scorecard.files import files
from gpuwatch.report.scorecard.layers import FINDINGS_MAX, POOLS_MAX
from tests.worlds import alerts
from tests.worlds.measures import measures_of

EVIL = '<script>alert("x")</script>\u202e&"\''
SPAN: Window = parse_window("2026-W45", 0)


def finding(detector: str, cost: str, severity: str = "high", **more: Any) -> dict[str, Any]:
    return {
        "key": f"{detector}-{cost}", "detector": detector, "title": f"{detector} {EVIL}", "severity": severity, "state": "open",
        "cluster": "c1", "subject": {"kind": "job", "id": EVIL, "name": EVIL}, "team": EVIL, "summary": f"It wastes. {EVIL}",
        "remedy": f"Stop it. {EVIL}", "hours": {"hoarded": Fraction(4)}, "costs": {"USD": Fraction(cost)},
        "unpriced_gpu_hours": Fraction(0), "saving": {}, "saving_hours": None, "saving_currency": None,
        "let_be": False, "facts": facts_of(alerts.finding(severity=severity)), "lost": None,
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
    buckets = {
        "compute": {"gpu_hours": Fraction(60), "cost": Decimal(600)},
        "hoarded": {"gpu_hours": Fraction(40), "cost": Decimal(400)},
    }
    by_hand = more.get("buckets", buckets)
    return {
        "window": SPAN,
        "known": SPAN,
        "buckets": buckets,
        "measures": measures_of({name: (one["gpu_hours"], one["cost"] or 0) for name, one in by_hand.items()}),
        "cost": Decimal(1000),
        "currency": "USD",
        "capacity_gpu_hours": Fraction(100),
        "unpriced_gpu_hours": Fraction(0),
        "now_us": SPAN.end_us,
        "mean_price": None,
        "basis": Basis(7 * DAY_US, 7 * DAY_US),
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
    made = document(scorecard(facts()))

    record = lead(scorecard(facts())).replace("\u00a0", " ")
    assert "This fleet wastes $400 of the $1.00 k it costs: 40 % of its cost, $1.74 k a month." in record
    assert "By its findings, scheduling costs the most: $30.00." in record
    (numbers,) = [block for block in made.head if isinstance(block, Numbers)]
    assert ["Avoidable", "Placement", "Partitioning", "Scheduling", "Fabric"] == [item.label for item in numbers.items]
    assert 3 == sum(isinstance(block, Card) for block in made.head)


def test_findings_of_a_sites_own_rules_have_no_layer() -> None:
    found = scorecard(facts())

    assert ("1", "10.00") == (str(found["other"]["findings_count"]), found["other"]["cost"])
    assert "30.00" == found["layers"][2]["cost"]


@pytest.mark.parametrize("known", [facts(), EMPTY], ids=["a fleet", "nothing known"])
def test_the_page_fetches_nothing_and_escapes_every_name(known: dict[str, Any]) -> None:
    html = page(document(scorecard(known), EVIL))

    assert [] == re.findall(r"<script|<link|<img|<iframe|<base|src=|href=|url\((?!#)|@import", html)
    assert "default-src &#x27;none&#x27;" in html or "default-src 'none'" in html
    assert "\u202e" not in html
    assert "&lt;script&gt;" in html
    assert all(escape(rule) in html for rule in RULE)


@pytest.mark.parametrize("paper", ["a4", "letter"])
@pytest.mark.parametrize("known", [facts(), EMPTY], ids=["a fleet", "nothing known"])
def test_the_pdf_opens_and_says_the_same(known: dict[str, Any], paper: str) -> None:
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed: the PDF is not read back")
    made = {file.name: file.content for file in files(scorecard(known), "", paper)}

    pages = [p.extract_text().replace("\u00a0", " ") for p in pypdf.PdfReader(io.BytesIO(made["scorecard.pdf"])).pages]

    assert "GPU authority scorecard" in pages[0]
    assert ("This fleet wastes $400" in pages[0]) == (known["window"] is not None)
    assert "How this was computed" in pages[-1]
    assert json.loads(made["scorecard.json"])["rule"] == list(RULE)


def test_the_table_says_the_waste_that_the_first_sentence_says() -> None:
    """66.4 + 75.4 + 91.4 + 66.4 = 299.6 is $300, whatever the cents of the other buckets are."""
    cents = {"stalled": "66.40", "communication": "75.40", "gap": "91.40", "hoarded": "66.40"}
    cents |= {"compute": "333.90", "memory_roof": "333.90", "below_roof": "333.90"}
    buckets = {name: {"gpu_hours": Fraction(10), "cost": Decimal(cost)} for name, cost in cents.items()}
    known = scorecard(facts(buckets=buckets, cost=Decimal("1301.30"), findings=[]))
    (where,) = [section for section in document(known).sections if section.title.startswith("Where")]
    (table,) = [block for block in where.blocks if isinstance(block, Table)]
    shown = [str(one.cells[2].text) for one in table.rows]

    assert "$300 of the" in lead(known).replace("\u00a0", " ")
    assert "$300" == shown[-1]
    assert 300 == sum(int(each.cells[2].text.strip("$")) for each in table.rows if each.cells[5].text == "avoidable")


def test_what_a_table_leaves_out_is_shown() -> None:
    gang = facts()["gang"][0]
    many = facts(
        gang=[gang | {"authority": f"scheduler {n}"} for n in range(POOLS_MAX + 1)],
        findings=[finding("idle-hoarding", str(cost)) for cost in range(1, FINDINGS_MAX + 3)],
    )
    html = page(document(scorecard(many)))

    assert "1 more kinds of gangs are in scorecard.json." in html
    assert "The most expensive ones are shown; gpuwatch findings lists 2 more." in html
    assert "The most expensive ones are shown" not in page(document(scorecard(facts())))


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        pytest.param(Window(0, HOUR_US), "The ledger has no data for this window.", id="an hour of before"),
        pytest.param(
            Window(HOUR_US + 1, 2 * HOUR_US + 1),
            "This window has no whole hour; only whole hours are graded.",
            id="no whole hour",
        ),
    ],
)
def test_a_window_without_data_names_the_window_that_has_some(asked: Window, what: str) -> None:
    known = scorecard({"window": None, "known": Window(24 * HOUR_US, 48 * HOUR_US), "asked": asked})

    assert [what] == [one["what"] for one in known["unknown"]]
    assert known["unknown"][0]["fix"].endswith("--window 1970-01-02T00:00:00Z,1970-01-03T00:00:00Z")
    assert "There is no data in this window, so no layer has a grade." in lead(known)


def test_several_currencies_and_no_price_are_shown() -> None:
    two = scorecard(
        facts(
            currency=None, cost=None, unpriced_gpu_hours=Fraction(5),
            buckets={"hoarded": {"gpu_hours": Fraction(40), "cost": None}},
        )
    )  # fmt: skip

    assert "Its price is unknown." in lead(two)
    assert page(document(two)).count("no price") >= 1
    assert two["layers"][2]["cost"] is None
