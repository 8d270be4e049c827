"""Jobs for which something smaller would do: those that need what they have, then those that do not."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from gpuwatch.advisor.right_size import Size, Used, smaller
from gpuwatch.detectors.right_sizing import RIGHT_SIZING
from tests.worlds.cases import Cases, Scene
from tests.worlds.detectors import (
    H100,
    IDLE,
    PAGE_HEADINGS,
    Found,
    Level,
    World,
    level,
    page_headings,
    page_rows,
    printed_thresholds,
    without,
)

RULE = "right-sizing"
GIB = 2**30
DAY = 26 * 60.0
LITTLE = level(0.3, 0.09, 0.02, 0.05, 150, fb_used_bytes=6 * GIB, fb_total_bytes=80 * GIB)
L40S, L4, A30 = "NVIDIA L40S", "NVIDIA L4", "NVIDIA A30"


def held(readings: Level, minutes: float = DAY, **job: object) -> Scene:
    """One GPU that reads the same all the time, in one job."""
    return lambda w, n: w.gpu(n, (minutes, readings), step_s=300).job(n, [n], 0, minutes, **job)  # type: ignore[arg-type]


MUST_NOT_FIRE: dict[str, Scene] = {
    "no sample at all": lambda w, n: w.job(n, 1, 0, DAY, node=f"node-{n}"),
    "23 hours": held(LITTLE, 23 * 60),
    "idle: it is released, not resized": held(IDLE | {"fb_used_bytes": 6 * GIB}),
    "most of the memory": held(LITTLE | {"fb_used_bytes": 70 * GIB}),
    "most of the SMs": held(LITTLE | {"sm_active_ratio": 0.85, "gr_engine_ratio": 0.95}),
    "all of the memory for five minutes": lambda w, n: w.gpu(
        n, (300, LITTLE), (5, LITTLE | {"fb_used_bytes": 70 * GIB}), (DAY - 305, LITTLE), step_s=300
    ).job(n, [n], 0, DAY),
    "nobody read the memory": held(without(LITTLE, "fb_used_bytes")),
    "SM_ACTIVE missing": held(without(LITTLE, "sm_active_ratio")),
    "half of it was never measured": lambda w, n: w.gpu(n, (DAY, None), (DAY, LITTLE), step_s=300).job(
        n, [n], 0, 2 * DAY
    ),
    "two GPUs": lambda w, n: (
        w.gpu(f"{n}-0", (DAY, LITTLE), step_s=300)
        .gpu(f"{n}-1", (DAY, LITTLE), step_s=300)
        .job(n, [f"{n}-0", f"{n}-1"], 0, DAY)
    ),
    "a slice already": lambda w, n: w.gpu(n, (DAY, LITTLE), step_s=300, gi=1, profile="1g.10gb", job=n).job(
        n, 1, 0, DAY, profile="1g.10gb"
    ),
    "hours of which false-utilization speaks": held(
        LITTLE | {"gr_engine_ratio": 0.95, "gpu_util_ratio": 0.95, "sm_active_ratio": 0.2, "power_watts": 200}
    ),
    "label latency-critical": held(LITTLE, labels={"latency-critical": "true"}),
    "an exempt label that has not expired": held(LITTLE, labels={"gpuwatch.io/exempt-until": "2026-12-31"}),
    "a model without slices, and none cheaper": lambda w, n: w.gpu(
        n, (DAY, LITTLE), step_s=300, model="NVIDIA V100"
    ).job(n, [n], 0, DAY),
}

MUST_FIRE: dict[str, Scene] = {
    "a day of little": held(LITTLE),
    "a sixth of the SMs": held(LITTLE | {"sm_active_ratio": 0.18}),
    "then it needs more": lambda w, n: w.gpu(
        n, (DAY, LITTLE), (120, LITTLE | {"fb_used_bytes": 70 * GIB}), step_s=300
    ).job(n, [n], 0, DAY + 120),
}


CASES = Cases(MUST_NOT_FIRE, MUST_FIRE)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world of all cases."""
    with CASES.analyzed(tmp_path_factory.mktemp("fleet"), detectors=[RULE, "false-utilization"]) as world:
        yield world


def found(world: World, case: str) -> list[Found]:
    """Findings of a case."""
    return world.findings(RULE, CASES.name(case))


@pytest.mark.parametrize("case", MUST_NOT_FIRE)
def test_it_does_not_accuse(fleet: World, case: str) -> None:
    """A false accusation costs more than a miss."""
    assert [] == found(fleet, case)


@pytest.mark.parametrize(
    ("case", "fits"),
    [("a day of little", "1g.10gb"), ("a sixth of the SMs", "2g.20gb"), ("then it needs more", "1g.10gb")],
)
def test_it_names_what_would_do(fleet: World, case: str, fits: str) -> None:
    """The smallest slice; nothing is wasted, and no price is known here."""
    (finding,) = found(fleet, case)

    assert (fits, None, 0) == (finding.evidence["fits"], finding.evidence.get("saving_per_hour"), finding.wasted_s)


def test_it_ends_when_the_job_needs_more(fleet: World) -> None:
    """What it did in the hours before still would have fitted."""
    (finding,) = found(fleet, "then it needs more")

    assert ("resolved", 24 * 60, DAY) == (finding.state, finding.started, finding.ended)


def test_it_says_so_in_words(fleet: World) -> None:
    """What was measured and what would hold it."""
    (finding,) = found(fleet, "a day of little")

    assert (
        f"In 1 day 2 h it used at most 6.0 GiB and 9 % of the SMs of {H100}: 1g.10gb would be enough."
        == RIGHT_SIZING.summary(finding.evidence)
    )


# What fits, without a fleet -------------------------------------------------------------------------------------------

PRICES = {H100: Fraction(4), L40S: Fraction(1), L4: Fraction(4), A30: Fraction(3, 5)}
QUARTER = Fraction(1, 4)


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        pytest.param(
            Used(H100, 6 * GIB, 0.09, 0.02, 0.05), Size("1g.10gb", Fraction(6, 7)), id="the slice is cheapest"
        ),
        pytest.param(
            Used(H100, 30 * GIB, 0.6, 0.1, 0.1),
            Size(L40S, Fraction(3, 4)),
            id="another model is cheaper than its slice",
        ),
        pytest.param(Used(H100, 40 * GIB, 0.7, 0.1, 0.1), None, id="48 GB hold 40 GiB, not with a quarter more"),
        pytest.param(Used(H100, 30 * GIB, 0.7, 0.1, 0.3), None, id="a third of this memory's speed is too much"),
        pytest.param(Used(H100, 30 * GIB, 0.7, 0.4, 0.1), None, id="and so is two fifths of these tensor cores"),
        pytest.param(
            Used(L4, 15 * GIB, 0.79, 0.1, 0.3), Size(L40S, Fraction(3, 4)), id="an A30 has a third of an L4's FP32 math"
        ),
        pytest.param(
            Used(L4, 15 * GIB, 0.2, 0.1, 0.3), Size(A30, Fraction(17, 20)), id="it is enough for a fifth of the SMs"
        ),
        pytest.param(Used("Future 9000", 6 * GIB, 0.1, 0.1, 0.1), None, id="of an unknown model nobody knows"),
    ],
)
def test_the_cheapest_that_holds_it(used: Used, expected: Size | None) -> None:
    """Memory, SMs of a slice, and of another model its tensor cores and the speed of its memory."""
    assert expected == smaller(used, QUARTER, PRICES, Fraction(4), PRICES)


def test_without_prices_the_smallest_slice_is_reported() -> None:
    """How much less it costs is not."""
    assert Size("1g.10gb", None) == smaller(Used(H100, 6 * GIB, 0.09, 0.02, 0.05), QUARTER, {}, None, ())


def test_the_page_is_true(checkout: Path) -> None:
    """Every threshold and default of the module stands on the page, and nothing else."""
    page = checkout / "docs/detectors/right-sizing.md"

    assert printed_thresholds(RIGHT_SIZING) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
