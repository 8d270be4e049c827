"""A fleet that a scheduler describes and no exporter measures: its report, findings and scorecard state no use."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.core.clock import DAY_US
from gpuwatch.findings import read
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.report.headlines import USE_BUCKETS
from gpuwatch.report.report_window import week_window
from gpuwatch.report.sections.unmeasured import _most, unmeasured_nodes
from gpuwatch.report.weekly import weekly
from gpuwatch.state import State
from tests.report.test_weekly import Read
from tests.worlds.world import HOUR, SETTINGS, T0_US, World, claim, node

WEEK = "2026-W45"


@pytest.fixture(scope="module")
def unmeasured(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, State]:
    """Two nodes of four GPUs, and twelve jobs of two hours each that hold a whole node."""
    where: Path = tmp_path_factory.mktemp("unmeasured")
    world, state = World(), State.open(where)
    replace_rates(state, (Rate("*", "on_demand", Decimal(2), 0),), "test", "test", 0)
    for name in ("n1", "n2"):
        world.add(node(name, {"": 4}))
        world.add(*(claim(f"{name}-{i}", 2 * i * HOUR, (2 * i + 2) * HOUR, name, count=4) for i in range(6)))
    analyze(world.store, state, SETTINGS, now_us=T0_US + 9 * DAY_US)
    return world, state


def test_its_jobs_are_one_finding_about_the_cluster(unmeasured: tuple[World, State]) -> None:
    """It claims no money."""
    found = read.read(unmeasured[0].store)

    assert [("blind-spot", "cluster", "low", "0.000000")] == [
        (f.detector, f.subject["kind"], f.severity, f.wasted_gpu_seconds) for f in found
    ]


def test_its_report_lists_no_waste_and_does_not_claim_that_no_gpu_was_held(unmeasured: tuple[World, State]) -> None:
    """96 GPU-hours were held, by no team that is known."""
    (file,) = weekly(unmeasured[0].store, unmeasured[1], WEEK, formats=("html",))
    page = Read(file.content.decode())

    assert "Largest waste: not measured" in page.headings
    assert "Where it went: 100\u00a0% of the GPU time held was not measured" in page.headings
    assert "Who pays: the held GPU time has no team" in page.headings
    for bucket in USE_BUCKETS:
        at = page.cells.index(BUCKET_WORDS[bucket])
        assert ["unknown"] * 3 == [cell for cell in page.cells[at + 1 : at + 8] if cell.strip()][:3], bucket
    assert "no GPU was held" not in page.text
    assert "0 % of the held GPU time was measured" in page.text


def test_the_nodes_that_were_not_measured_are_named_by_team_and_for_the_fleet(
    unmeasured: tuple[World, State],
) -> None:
    """Each node held 48 GPU-hours; nobody's team is known."""
    found = unmeasured_nodes(unmeasured[0].store, week_window(WEEK))

    expected = [("n1", Decimal(48 * 3600)), ("n2", Decimal(48 * 3600))]
    assert {None: expected, "__unallocated__": expected} == {owner: list(nodes) for owner, nodes in found.items()}
    assert [("n1", Decimal(100))] == _most({"n1": Decimal(100), "n2": Decimal(4)})
