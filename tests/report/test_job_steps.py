"""Which jobs a team changes first; shares of costs; nodes without readings; how many GPUs the hours are."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from gpuwatch.ledger.measures import Measure, Measures
from gpuwatch.report.actions import actions
from gpuwatch.report.compose import lead
from gpuwatch.report.data_quality import quality
from gpuwatch.report.document import Card, Table, Text
from gpuwatch.report.facts import Amount, Facts, Payer
from gpuwatch.report.headlines import avoidable_part
from gpuwatch.report.sections.job_steps import job_steps
from gpuwatch.report.sections.where_it_went import average_gpus
from tests.report.test_actions import facts, finding


def job(ident: str, cost: str, **buckets: int) -> Payer:
    """A job of ann with so many GPU-seconds in each bucket."""
    held = {name: Amount(Decimal(size)) for name, size in buckets.items()}
    return Payer(ident, Amount(Decimal(100), (("USD", Decimal(cost)),)), None, held, "allocated", "ann", "c1")


def of_team(*jobs: Payer) -> Facts:
    return replace(facts(), team="ants", jobs=jobs)


def test_the_jobs_with_the_most_avoidable_cost_come_first_with_what_to_change() -> None:
    """The most expensive job wastes little; one that was hardly measured, and one below 5 %, are not asked for anything."""
    large = job("1", "500.00", compute=99, gap=1)
    dark = job("2", "400.00", unobserved=80, hoarded=20)
    idle = job("7", "50.00", compute=20, hoarded=80)
    slow = job("8", "100.00", compute=70, communication=20, gap=10)
    section = job_steps(of_team(large, dark, idle, slow))

    assert section is not None
    table = next(block for block in section.blocks if isinstance(block, Table))
    assert [
        ["llama-pretrain (7)", "ann", "$40", "Held idle: end it when its work is done, or release GPUs that it does not use."],
        ["8", "ann", "$30", "Waiting on network: overlap communication with computing; if it ran on several nodes, use fewer."],
    ] == [[cell.text.replace("\u00a0", " ").removesuffix(".00") for cell in row.cells] for row in table.rows]  # fmt: skip
    assert "Which jobs to change: llama-pretrain (7) first" == section.title


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(facts(), id="the fleet"),
        pytest.param(of_team(), id="no jobs"),
        pytest.param(of_team(job("7", "50.00", compute=100)), id="nothing was avoidable"),
        pytest.param(of_team(replace(job("7", "0", hoarded=100), amount=Amount(Decimal(100)))), id="no price"),
    ],
)
def test_no_job_is_asked_for_nothing(known: Facts) -> None:
    assert job_steps(known) is None


def measured(lost: str, seconds: int, ratio: float) -> dict[str, Any]:
    nothing = Measures.nothing()
    return {
        "measures": replace(nothing, avoidable=Measure(Decimal(seconds), (("USD", Decimal(lost)),), Decimal(0), ratio))
    }


def test_the_avoidable_share_is_of_the_cost_as_on_the_pages() -> None:
    """A tenth of the time, and a quarter of the cost: it is on expensive GPUs."""
    known = replace(facts(compute="75", hoarded="25"), **measured("25", 720, 0.1))

    assert (Fraction(1, 4), "of the cost") == avoidable_part(known)
    assert "$25.00 of it was avoidable (25 % of the cost)" in lead(known).replace("\u00a0", " ")
    unpriced = replace(known, measures=replace(known.measures, avoidable=Measure(Decimal(720), (), Decimal(720), 0.1)))
    assert (Fraction(1, 10), "of the GPU time") == avoidable_part(unpriced)


def test_hours_are_given_as_gpus_too() -> None:
    """Two in a week of 168 hours are less than a GPU."""
    few = average_gpus(facts(compute="1", gap="1")).replace("\u00a0", " ")
    assert " On average, 2 GPU-h in 168 hours are < 0.1 GPUs at a time." == few
    many = replace(facts(), buckets={"compute": Amount(Decimal(168 * 3600 * 40))})
    assert " On average, 6,720 GPU-h in 168 hours are 40 GPUs at a time." == average_gpus(many).replace("\u00a0", " ")
    assert "" == average_gpus(replace(facts(), buckets={}))


def test_nodes_without_readings_are_named() -> None:
    dark = replace(facts(), quality=replace(facts().quality, unobserved_ratio=0.2))
    nodes = tuple(f"n{number}" for number in range(1, 8))

    def text(*names: str) -> str:
        return " ".join(str(block) for block in quality(replace(dark, unmeasured=names)).blocks)

    assert "n1, n2 must run dcgm-exporter and be scraped." in text("n1", "n2")
    assert "n1, n2, n3, n4 and 3 more nodes must run" in text(*nodes)
    assert "n4 and one more node must run" in text(*nodes[:5])
    assert "gpuwatch doctor names what lacks" in text()


def test_actions_come_before_how_they_are_counted() -> None:
    section = actions(facts(finding("7", "7.00")))

    assert section is not None
    kinds = [type(block) for block in section.blocks if isinstance(block, Card | Text)]
    assert [Card, Text] == [kinds[0], kinds[-1]]
