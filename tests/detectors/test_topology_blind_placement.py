"""Gangs farther apart than they had to be: what is no fault of the placement first, then what is, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.detectors.topology_blind_placement import TOPOLOGY_BLIND_PLACEMENT
from tests.detectors.detector_world import (
    IDLE,
    WORK,
    Found,
    Level,
    World,
    level,
    page_rows,
    printed_thresholds,
    without,
)
from tests.detectors.placement_world import LinkedWorld, talk

RULE = "topology-blind-placement"
L40S = "NVIDIA L40S"
TALKING = WORK | talk(0.05, 4)
SILENT = WORK | talk(0.005, 0.5)
SPREAD = {"n1": "0123", "n2": "0123"}
ALL = "01234567"
MINUTES = 125

Scene = Callable[[LinkedWorld], object]


def fleet(
    w: LinkedWorld,
    gang: Mapping[str, str] | None = None,
    busy: Level = TALKING,
    *,
    nodes: int = 3,
    leaf: str | None = "l1",
    links: bool = True,
    start: float = 5,
    end: float | None = 120,
    nvlink: str | None = "NV18",
    models: Mapping[str, str] | None = None,
    **job: Any,
) -> LinkedWorld:
    """Nodes of eight GPUs; one job on GPUs of some (SPREAD), which read `busy`; everything else idles, held by nobody."""
    gang = SPREAD if gang is None else gang
    for n in range(1, nodes + 1):
        node = f"n{n}"
        model = {} if models is None else {"model": models[node]}
        own = gang.get(node, "")
        w.host(node, leaf=leaf, links=links, level=nvlink)
        w.reading(node, own, (MINUTES, busy), **model)
        w.reading(node, "".join(sorted(set(ALL) - set(own))), (MINUTES, IDLE), **model)
    return w.gang("1", gang, start, end, **job)


def labelled(**labels: str) -> Scene:
    return lambda w: fleet(
        w, labels={name.replace("__", "/").replace("_", "-"): value for name, value in labels.items()}
    )


def others(w: LinkedWorld, start: float = 0, end: float = 120, *, free: str = "") -> LinkedWorld:
    """Jobs on every GPU that job 1 does not hold, but those of n3 named `free`: nothing else is there."""
    w.gang("8", {"n1": "4567", "n2": "4567"}, start, end)
    rest = "".join(sorted(set(ALL) - set(free)))
    return w.gang("9", {"n3": rest}, start, end) if rest else w


MUST_NOT_FIRE: dict[str, Scene] = {
    "one NVLink domain": lambda w: fleet(w, {"n1": "0123"}),
    "spanning was unavoidable: everything else was held": lambda w: others(fleet(w)),
    "seven of eight were free": lambda w: others(fleet(w), free="0123456"),
    "the free ones were given to others in the same instant": lambda w: others(fleet(w), 5),
    "larger than every NVLink domain": lambda w: fleet(w, {"n1": "0123456", "n2": "0123456"}),
    "links are quiet": lambda w: fleet(w, busy=SILENT),
    "quiet but for twenty minutes": lambda w: fleet(w, busy=SILENT, nodes=3).reading(
        "n1", "0123", (20, TALKING), start=200
    ),
    "nobody measured the links": lambda w: fleet(w, busy=WORK),
    "nobody told any link": lambda w: fleet(w, links=False, leaf=None),
    "devices are estimated": lambda w: fleet(w, {"n1": "", "n2": ""}, busy=IDLE)
    .job("2", 4, 5, 120, node="n1")
    .job("2", 4, 5, 120, node="n2"),
    "elastic": labelled(gpuwatch_io__elastic="true"),
    "a pipeline": labelled(parallelism="Pipeline"),
    "parameter servers": labelled(parallelism="parameter-server"),
    "trials of a hyperparameter search": labelled(workload_class="hpo"),
    "inference": lambda w: fleet(w, labels={"gpuwatch.io/workload-class": "inference"}),
    "a trial of Katib": lambda w: fleet(w, labels={"katib.kubeflow.org/experiment": "e1"}),
    "an exempt label that has not expired": lambda w: fleet(w, labels={"gpuwatch.io/exempt-until": "2026-12-31"}),
    "free GPUs of another model": lambda w: others(fleet(w, nodes=3)).reading("n4", ALL, (MINUTES, IDLE), model=L40S).host("n4"),
    "grew after half an hour: elastic": lambda w: fleet(w, {"n1": "0123"}).gang("1", {"n2": "0123"}, 40, 120),
    "half an hour in all": lambda w: fleet(w, end=40),
    "over sockets, at the same speed": lambda w: fleet(w, {"n1": "0246"}),
    "PCIe: a socket that is full": lambda w: fleet(
        w, {"n1": "0145"}, nvlink=None, nodes=1, models={"n1": L40S}, busy=WORK | talk(0, 6)
    ).gang("2", {"n1": "2367"}, 0, 120),
    "PCIe: over switches of one socket, a third slower": lambda w: fleet(
        w, {"n1": "02"}, nvlink=None, nodes=1, models={"n1": L40S}, busy=WORK | talk(0, 6)
    ),
}  # fmt: skip

MUST_FIRE: dict[str, Scene] = {
    "over two nodes beside a free one": lambda w: fleet(w),
    "but for others it had been free": lambda w: others(fleet(w), free=ALL),
    "the links of a gang that is still there": lambda w: fleet(w, end=None, heard=MINUTES),
    "PCIe alone tells": lambda w: fleet(w, busy=WORK | talk(0.0, 4)),
    "PCIe: over sockets beside a free switch": lambda w: fleet(
        w, {"n1": "04"}, nvlink=None, nodes=1, models={"n1": L40S}, busy=WORK | talk(0, 6)
    ),
    "over a network that nobody told": lambda w: fleet(w, leaf=None),
    "its links are busy half of the time": lambda w: fleet(w, busy=level(0.98, 0.35, 0.12, 0.15, 400) | talk(0.05, 50)),
    "no SM_ACTIVE: the published share": lambda w: fleet(w, busy=without(TALKING, "sm_active_ratio")),
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[World, list[Found]]]]:
    """Every scene in a cluster of its own, judged at once."""
    whole = LinkedWorld(tmp_path_factory.mktemp("world"))
    worlds: dict[str, World] = {}
    for number, (name, scene) in enumerate({**MUST_NOT_FIRE, **MUST_FIRE}.items()):
        world = LinkedWorld(tmp_path_factory.mktemp(f"w{number}"))
        world.store, world.cluster = whole.store, f"c{number}"
        scene(world)
        worlds[name] = world
    report = whole.analyze(now=MINUTES, detectors=[RULE])
    assert [] == report.failed_rules
    yield {name: (world, world.findings(RULE)) for name, world in worlds.items()}
    whole.store.close()


Judged = dict[str, tuple[World, list[Found]]]


@pytest.mark.parametrize("name", MUST_NOT_FIRE)
def test_no_fault_of_the_placement(judged: Judged, name: str) -> None:
    assert [] == judged[name][1]


@pytest.mark.parametrize("name", MUST_FIRE)
def test_a_nearer_place_was_free(judged: Judged, name: str) -> None:
    assert ["1"] == [found.job for found in judged[name][1]]


def test_evidence_says_both_places(judged: Judged) -> None:
    (found,) = judged["but for others it had been free"][1]
    told = found.evidence

    assert (15.0, 115.0, "resolved") == (found.started, found.ended, found.state)
    assert ("leaf", "nvlink", "leaf", "NV18", "D") == tuple(
        told[name] for name in ("kind", "best_kind", "worst_level", "best_level", "grade")
    )
    assert (50.0, 370.8, 7.416, 8) == tuple(
        told[name] for name in ("gb_per_s", "best_gb_per_s", "bandwidth_ratio", "free_gpus")
    )
    assert (2, 2, 1) == (told["nvlink_domains"], told["nodes"], told["leaves"])
    assert ("n3", " ".join(f"n3/{n}" for n in ALL)) == (told["best_nodes"], told["best_gpus"])
    assert (0.05, 4) == (round(told["nvlink_ratio"], 4), told["pcie_gb_per_s"])


def test_without_a_measured_share_the_published_range_is_told(judged: Judged) -> None:
    """phi 2.9 % to 11.1 % at r = 7.416: a step takes 1.186 to 1.712 times as long; waste takes the lower end."""
    (found,) = judged["no SM_ACTIVE: the published share"][1]
    told = found.evidence

    assert (0.029, 0.111, 0.5) == (told["exposed_ratio_low"], told["exposed_ratio_high"], found.confidence)
    assert (1.1861, 1.7122) == (round(told["slowdown_low"], 4), round(told["slowdown_high"], 4))


def test_measured_waiting_is_graver(judged: Judged) -> None:
    """Half of the time the port is busy while engines do no work: c = .5 on these links, 1 / (1 - c (1 - 1/r)) = 1.76."""
    (found,) = judged["its links are busy half of the time"][1]
    told = found.evidence

    assert (0.5, 0.7) == (round(told["measured_exposed_ratio"], 3), found.confidence)
    assert 1.7619 == round(told["slowdown_low"], 4)
    assert "high" == TOPOLOGY_BLIND_PLACEMENT.severity and TOPOLOGY_BLIND_PLACEMENT.severity(told, 2)


def test_waste_is_taken_from_communication_first_and_never_exceeds_the_books(judged: Judged) -> None:
    world, (found,) = judged["over two nodes beside a free one"]
    claimed = dict(
        world.store.sql(
            "select bucket, sum(us) from granted_claim where cluster = $c and detector = $d group by 1",
            c=world.cluster,
            d=RULE,
        )
    )

    assert Fraction(sum(claimed.values()), 1_000_000) == found.wasted_s
    assert round(found.evidence["lost_gpu_hours_low"] * 3600) == round(found.wasted_s)
    for bucket, us in claimed.items():
        assert us <= world.booked_s(bucket, job="1") * 1_000_000
    assert claimed["communication"] > 0


def test_judging_again_changes_nothing(judged: Judged) -> None:
    world, before = judged["over two nodes beside a free one"]
    world.store.sql("update rule_state set owed_from_us = 0")
    world.analyze(now=MINUTES, detectors=[RULE])

    assert before == world.findings(RULE)


def test_words() -> None:
    told = {
        "spans": "Spans 2 NVLink domains on 2 nodes",
        "best": "one NVLink domain (n3/nvlink-0)",
        "at": "2026-01-05T00:05:00Z",
        "free_gpus": 8,
        "nodes": 2,
        "best_kind": "nvlink",
        "bandwidth_ratio": 7.416,
        "slowdown_low": 1.186,
        "slowdown_high": 1.712,
    }

    assert (
        "Spans 2 NVLink domains on 2 nodes; one NVLink domain (n3/nvlink-0) with 8 free GPUs was there at "
        "2026-01-05T00:05:00Z: a step takes 1.19 to 1.71 times as long on links that are 7.4 times slower."
    ) == TOPOLOGY_BLIND_PLACEMENT.summary(told)
    assert "Kueue" in TOPOLOGY_BLIND_PLACEMENT.remedy(told)
    assert "--nodes=1" in TOPOLOGY_BLIND_PLACEMENT.remedy(told | {"scheduler": "slurm"})
    assert "single-numa-node" in TOPOLOGY_BLIND_PLACEMENT.remedy(told | {"nodes": 1, "best_kind": "numa"})
    assert "not known" in TOPOLOGY_BLIND_PLACEMENT.summary(told | {"slowdown_low": None})


def test_the_page_prints_the_thresholds() -> None:
    page = Path(__file__).parents[2] / "docs/detectors" / f"{RULE}.md"

    assert printed_thresholds(TOPOLOGY_BLIND_PLACEMENT) == page_rows(page)
