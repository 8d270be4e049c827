"""Neighbours on a shared GPU: who shares without harm, then who takes the other's time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch.detectors.noisy_neighbour import NOISY_NEIGHBOUR
from tests.worlds.cases import Cases, Scene
from tests.worlds.detectors import (
    PAGE_HEADINGS,
    WORK,
    Found,
    Phase,
    World,
    level,
    page_headings,
    page_rows,
    printed_thresholds,
)

RULE = "noisy-neighbour"
LOUD = (0.15, 0.7, 0.2, 0.85, 0.1, 0.65, 0.3, 0.8)
"""What the neighbour's processes use, ten minutes each."""


def using(*ratios: float, each: float = 10) -> tuple[Phase, ...]:
    """Process readings of one pod, the rest as the device says."""
    return tuple((each, level(0.97, 0.6, 0.3, 0.3, 500, gpu_util_ratio=ratio)) for ratio in ratios)


def both(first: tuple[Phase, ...], second: tuple[Phase, ...], **more: object) -> Scene:
    """Two pods on one GPU."""
    return lambda w, n: w.gpu(n, *first, pod=f"{n}-a", **more).gpu(n, *second, pod=f"{n}-b", **more)  # type: ignore[arg-type]


SHARED = tuple(0.97 - ratio for ratio in LOUD)
"""What is left of the GPU."""

MUST_NOT_FIRE: dict[str, Scene] = {
    "one pod alone": lambda w, n: w.gpu(n, (180, WORK), pod=f"{n}-a"),
    "rows that repeat the device's reading": both(((180, WORK),), ((180, WORK),)),
    "both steady": both(using(*[0.4] * 18), using(*[0.5] * 18)),
    "they never fill the GPU": both(using(*(r / 2 for r in LOUD * 2)), using(*(r / 2 for r in SHARED * 2))),
    "both rise together": both(using(*(r / 2 for r in LOUD * 2)), using(*(r / 2 for r in LOUD * 2))),
    "a fifth less is not a third": both(using(*(0.5, 0.6) * 8), using(*(0.5, 0.4) * 8)),
    "40 minutes": both(using(*LOUD[:4]), using(*SHARED[:4])),
    "two slices of one GPU": lambda w, n: w.gpu(n, *using(*LOUD * 2), pod=f"{n}-a", gi=1, profile="1g.10gb").gpu(
        n, *using(*SHARED * 2), pod=f"{n}-b", gi=2, profile="1g.10gb"
    ),
}

MUST_FIRE: dict[str, Scene] = {"one takes what the other has": both(using(*LOUD * 2), using(*SHARED * 2))}


CASES = Cases(MUST_NOT_FIRE, MUST_FIRE)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world of all cases."""
    with CASES.analyzed(tmp_path_factory.mktemp("fleet"), detectors=[RULE]) as world:
        yield world


def found(world: World, case: str) -> list[Found]:
    """Findings of a case."""
    return [f for f in world.findings(RULE) if f.devices == (CASES.name(case),)]


@pytest.mark.parametrize("case", MUST_NOT_FIRE)
def test_it_does_not_accuse(fleet: World, case: str) -> None:
    """A false accusation costs more than a miss."""
    assert [] == found(fleet, case)


def test_it_finds_who_loses_to_whom(fleet: World) -> None:
    """Of two pods each loses what the other takes: low confidence, since no application says which of them suffers."""
    findings = found(fleet, "one takes what the other has")
    name = CASES.name("one takes what the other has")

    assert [f"ml/{name}-a", f"ml/{name}-b"] == sorted(f.job for f in findings)
    for finding in findings:
        assert finding.evidence["spearman"] < -0.9 and 0.5 == finding.confidence
        assert finding.evidence["lost_ratio"] > 0.3
        assert {f"ml/{name}-a", f"ml/{name}-b"} == {finding.job, finding.evidence["neighbour"]}


def test_waste_stays_within_the_bucket(fleet: World) -> None:
    """What the victim's own hours have as stalled."""
    for finding in fleet.findings(RULE):
        assert finding.wasted_s <= fleet.booked_s("stalled", job=finding.job)


def test_it_says_so_in_words(fleet: World) -> None:
    """Both numbers, and who."""
    finding = found(fleet, "one takes what the other has")[0]

    assert NOISY_NEIGHBOUR.summary(finding.evidence).startswith("Its processes fall from ")
    assert finding.evidence["neighbour"] in NOISY_NEIGHBOUR.remedy(finding.evidence)


def test_the_page_is_true(checkout: Path) -> None:
    """Every threshold and default of the module stands on the page, and nothing else."""
    page = checkout / "docs/detectors/noisy-neighbour.md"

    assert printed_thresholds(NOISY_NEIGHBOUR) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
