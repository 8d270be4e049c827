"""Gangs below one switch that exchange less: what may be their own doing first, then a fabric that is slow for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.detectors.fabric_congestion import FABRIC_CONGESTION
from tests.worlds.detectors import level, page_rows, printed_thresholds, us, without
from tests.worlds.placement import LinkedWorld, talk

RULE = "fabric-congestion"
STEP_S = 300
BEFORE, AFTER = 540, 180
"""Minutes before and after the fabric becomes slow, of jobs that began 15 minutes after their GPUs."""
USUAL = level(0.98, 0.80, 0.45, 0.40, 550) | talk(0.10, 6)
SLOW = level(0.98, 0.60, 0.34, 0.30, 480) | talk(0.07, 4)
"""30 % less over the links, a fifth of the time more in which engines hold no work."""
BATCH = level(0.98, 0.80, 0.45, 0.40, 550) | talk(0.07, 4)
"""Less to exchange, and no more waiting: another batch size."""
SPREAD = {"1": ("n1", "n2"), "2": ("n3", "n4")}

Scene = Callable[[LinkedWorld], object]


def fleet(
    w: LinkedWorld,
    after: Mapping[str, Mapping[str, Any]],
    *,
    usual: Mapping[str, Any] = USUAL,
    gangs: Mapping[str, tuple[str, ...]] = SPREAD,
    leaves: Mapping[str, str | None] | None = None,
    before: float = BEFORE,
    lasts: float = AFTER,
    **job: Any,
) -> None:
    """Gangs of two nodes of two GPUs each below one switch; from some minute on each reads what `after` has, if anything."""
    for job_id, nodes in gangs.items():
        phases = [(before, usual), (lasts, after.get(job_id, usual)), (AFTER - lasts, usual)]
        for node in nodes:
            w.host(node, 2, leaf="l1" if leaves is None else leaves[node])
            w.reading(node, "01", *((length, reads) for length, reads in phases if length), step_s=STEP_S)
        w.gang(job_id, dict.fromkeys(nodes, "01"), 15, before + AFTER, **job)


BOTH = {"1": SLOW, "2": SLOW}
MUST_NOT_FIRE: dict[str, Scene] = {
    "nothing changed": lambda w: fleet(w, {}),
    "one gang alone may have changed its work": lambda w: fleet(w, {"1": SLOW}),
    "both exchange less and wait no longer": lambda w: fleet(w, {"1": BATCH, "2": BATCH}),
    "both wait longer and exchange as much": lambda w: fleet(
        w, dict.fromkeys(SPREAD, level(0.98, 0.6, 0.34, 0.3, 480) | talk(0.10, 6))
    ),
    "a tenth less": lambda w: fleet(w, dict.fromkeys(SPREAD, level(0.98, 0.6, 0.34, 0.3, 480) | talk(0.09, 5.4))),
    "traffic went over PCIe instead": lambda w: fleet(
        w, dict.fromkeys(SPREAD, level(0.98, 0.6, 0.34, 0.3, 480) | talk(0.07, 12))
    ),
    "below two switches": lambda w: fleet(w, BOTH, leaves={"n1": "l1", "n2": "l1", "n3": "l2", "n4": "l2"}),
    "the network is unknown": lambda w: fleet(w, BOTH, leaves=dict.fromkeys(("n1", "n2", "n3", "n4"))),
    "gangs of one node": lambda w: fleet(w, BOTH, gangs={"1": ("n1",), "2": ("n2",)}),
    "five hours before are no baseline": lambda w: fleet(w, BOTH, before=330),
    "one hour": lambda w: fleet(w, BOTH, lasts=60),
    "two of five gangs": lambda w: fleet(
        w, BOTH, gangs={str(n): (f"n{2 * n}", f"n{2 * n + 1}") for n in range(1, 6)}
    ),
    "links that were quiet before": lambda w: fleet(
        w, dict.fromkeys(SPREAD, SLOW | talk(0.001, 0.1)), usual=USUAL | talk(0.005, 0.5)
    ),
    "exempt labels that have not expired": lambda w: fleet(
        w, BOTH, labels={"gpuwatch.io/exempt-until": "2026-12-31"}
    ),
}  # fmt: skip

MUST_FIRE: dict[str, Scene] = {
    "two gangs of one switch": lambda w: fleet(w, BOTH),
    "PCIe tells where there is no NVLink traffic": lambda w: fleet(
        w, dict.fromkeys(SPREAD, SLOW | talk(0, 4)), usual=USUAL | talk(0, 6)
    ),
    "no SM_ACTIVE: engines that stop tell": lambda w: fleet(
        w,
        dict.fromkeys(SPREAD, without(SLOW, "sm_active_ratio") | {"gr_engine_ratio": 0.8}),
        usual=without(USUAL, "sm_active_ratio"),
    ),
    "links make errors as well": lambda w: fleet(w, {"1": SLOW, "2": SLOW | {"fabric_health_summary": 2}}),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinkedWorld]:
    """Every scene below switches of its own, judged at once."""
    world = LinkedWorld(tmp_path_factory.mktemp("world"))
    for number, scene in enumerate([*MUST_NOT_FIRE.values(), *MUST_FIRE.values()]):
        world.scene = f"s{number}-"
        scene(world)
    assert [] == world.analyze(now=BEFORE + AFTER, detectors=[RULE]).failed_rules
    yield world
    world.store.close()


Judged = dict[str, list[Any]]


@pytest.fixture(scope="module")
def judged(world: LinkedWorld) -> Judged:
    rows = world.store.sql(
        "select subject_kind, subject_id, started_us, wasted_units, wasted_den, key from finding where detector = $d",
        d=RULE,
    )
    found = {one.key: one for one in world.findings(RULE)}
    return {
        name: [(row, found[row[5]]) for row in rows if row[1].startswith(f"s{number}-")]
        for number, name in enumerate([*MUST_NOT_FIRE, *MUST_FIRE])
    }


@pytest.mark.parametrize("name", MUST_NOT_FIRE)
def test_no_fault_of_the_fabric(judged: Judged, name: str) -> None:
    assert [] == judged[name]


@pytest.mark.parametrize("name", MUST_FIRE)
def test_the_switch_is_named(judged: Judged, name: str) -> None:
    ((row, found),) = judged[name]

    assert ("pool", "l1") == (row[0], row[1].split("-", 1)[1])
    assert 8 == len(found.devices)
    assert (540.0, 2, 2) == (found.started, found.evidence["gangs"], found.evidence["fallen_gangs"])


def test_evidence_and_waste(world: LinkedWorld, judged: Judged) -> None:
    """Stalled rises from .18 to .38 of the engines' time, less what bytes show as communication, which falls: .17 in all."""
    ((_, found),) = judged["two gangs of one switch"]
    result: Mapping[str, Any] = found.evidence

    assert (0.3, 0.1, 0.07) == tuple(
        round(result[name], 3) for name in ("fall_ratio", "usual_nvlink_ratio", "nvlink_ratio")
    )
    assert pytest.approx(result["rise_ratio"] * 8 * 3 * 3600, rel=0.01) == float(found.wasted_s)
    assert (
        0
        < found.wasted_s
        <= sum(
            (
                world.booked_s(
                    "communication", "stalled", "gap", job=found.evidence["leaf"].replace("l1", job), start=BEFORE
                )
            )
            for job in SPREAD
        )
    )
    assert (0.6, 0.8) == (found.confidence, judged["links make errors as well"][0][1].confidence)


def test_judging_some_hours_again_changes_nothing(world: LinkedWorld, judged: Judged) -> None:
    """The episode keeps its start, and so its key, when only its later hours are judged anew."""
    before = {found.key: found for rows in judged.values() for _, found in rows}
    world.analyze(now=BEFORE + AFTER, detectors=[RULE], since_us=us(BEFORE + 60), until_us=us(BEFORE + 120))

    assert before == {found.key: found for found in world.findings(RULE)}


def test_words() -> None:
    record = {
        "leaf": "l1", "gangs": 3, "fallen_gangs": 2, "fall_ratio": 0.3, "rise_ratio": 0.2, "devices": 16, "nvlink_errors": 4,
    }  # fmt: skip

    assert (
        "Leaf l1: 2 of 3 gangs exchange 30 % less than in the week before and wait 20 % of the time more, on 16 GPUs."
    ) == FABRIC_CONGESTION.summary(record)
    assert "Replace the links" in FABRIC_CONGESTION.remedy(record)
    assert "Look for link errors" in FABRIC_CONGESTION.remedy(record | {"nvlink_errors": 0})


def test_the_page_prints_the_thresholds() -> None:
    page = Path(__file__).parents[2] / "docs/detectors" / f"{RULE}.md"

    assert printed_thresholds(FABRIC_CONGESTION) == page_rows(page)
