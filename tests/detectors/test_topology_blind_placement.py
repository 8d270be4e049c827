"""Gangs farther apart than they had to be: what is no fault of the placement first, then what is, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.detectors.topology_blind_placement import TOPOLOGY_BLIND_PLACEMENT
from gpuwatch.findings.prices import main_bucket
from tests.worlds.detectors import IDLE, WORK, Found, Level, level, page_rows, printed_thresholds, us, without
from tests.worlds.placement import LinkedWorld, talk
from tests.worlds.subjects import offer

RULE = "topology-blind-placement"
L40S = "NVIDIA L40S"
TALKING = WORK | talk(0.05, 4)
SILENT = WORK | talk(0.005, 0.5)
SPREAD = {"n1": "0123", "n2": "0123"}
ALL = "01234567"
MINUTES = 125
STEP_S = 300

GIB = 1 << 30
LABELS = {"slurm": '{"partitions":"p","features":"ib,h100"}', "kubernetes": '{"zone":"a"}'}
ZONE_A = {"terms": [[["zone", "In", ["a"]]]]}

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
        w.reading(node, own, (MINUTES, busy), step_s=STEP_S, **model)
        w.reading(node, "".join(sorted(set(ALL) - set(own))), (MINUTES, IDLE), step_s=STEP_S, **model)
    return w.gang("1", gang, start, end, **job)


def labelled(name: str, value: str) -> Scene:
    return lambda w: fleet(w, labels={name: value})


def others(w: LinkedWorld, start: float = 0, end: float = 120, *, free: str = "") -> LinkedWorld:
    """Jobs on every GPU that job 1 does not hold, but those of n3 named `free`: nothing else is there."""
    w.gang("8", {"n1": "4567", "n2": "4567"}, start, end)
    rest = "".join(sorted(set(ALL) - set(free)))
    return w.gang("9", {"n3": rest}, start, end) if rest else w


def tainted(w: LinkedWorld, node: str, key: str = "team", at: float = 1) -> LinkedWorld:
    """A Kubernetes record of a node with a taint, from a minute on."""
    for minute, taints in ((0, None), (at, [[key, "a", "NoSchedule"]])):
        offer(
            w, w.scene + node, w.scene, {}, None, observed_us=us(minute), taints=json.dumps(taints) if taints else None
        )
    return w


def fitted(
    w: LinkedWorld, n3: Mapping[str, object], scheduler: str = "slurm", rule: Mapping[str, object] | None = None
) -> LinkedWorld:
    """A job with 64 CPUs and 512 GiB on each of its two nodes, beside a free one, of which records say what they have."""
    others(fleet(w), free=ALL)
    for node in ("n1", "n2", "n3"):
        has = {"labels": LABELS[scheduler], "cpu_milli": 256_000, "memory_bytes": 2048 * GIB}
        more = has | ({} if node != "n3" else dict(n3))
        offer(w, w.scene + node, w.scene, {}, None, scheduler=scheduler, observed_us=us(1), **more)
    w.store.sql(
        "update claim set scheduler = $scheduler, kind = $kind, cpu_milli = 64000, memory_bytes = $memory, node_rule = $rule"
        " where job_id = $job",
        scheduler=scheduler,
        kind="sacct" if scheduler == "slurm" else "k8s-json",
        memory=512 * GIB,
        rule=rule and json.dumps(rule),
        job=f"{w.scene}1",
    )
    return w


def grown(w: LinkedWorld) -> None:
    """A job of two pods, the second of which begins 35 minutes after the first."""
    fleet(w, {"n1": "0123", "n2": "0123"}).store.sql("delete from claim where job_id = $job", job=f"{w.scene}1")
    for start, node in ((5, "n1"), (40, "n2")):
        w.claim(
            scheduler="kubernetes",
            kind="k8s-json",
            job_id=f"{w.scene}1",
            run_key=f"{w.scene}1",
            pod=node,
            pod_uid=f"{w.scene}{node}",
            namespace="ml",
            node=w.scene + node,
            device_count=4,
            gpus=",".join(f"{w.scene}{node}/{n}" for n in "0123"),
            start_us=us(start),
            end_us=us(120),
            state="Succeeded",
        )


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
    "one node whose links are unknown": lambda w: fleet(w, {"n1": "0145"}, links=False, leaf=None),
    "the free node has a taint": lambda w: tainted(others(fleet(w), free=ALL), "n3"),
    "the free node has a taint of its own": lambda w: tainted(
        tainted(others(fleet(w), free=ALL), "n1", "gpu"), "n3"
    ),
    "the free node has no CPUs left": lambda w: fitted(w, {"cpu_milli_used": 140_000}),
    "the free node has too little memory": lambda w: fitted(w, {"memory_bytes": 1000 * GIB}),
    "the free node lacks the feature that the job needs": lambda w: fitted(
        w, {"labels": '{"partitions":"p","features":"eth"}'}, rule={"constraint": "ib&h100"}
    ),
    "the selector of its pods does not fit the free node": lambda w: fitted(
        w, {"labels": '{"zone":"b"}'}, "kubernetes", ZONE_A
    ),
    "devices are estimated": lambda w: fleet(w, {"n1": "", "n2": ""}, busy=IDLE)
    .job("2", 4, 5, 120, node="n1")
    .job("2", 4, 5, 120, node="n2"),
    "elastic": labelled("gpuwatch.io/elastic", "true"),
    "a pipeline": labelled("parallelism", "Pipeline"),
    "parameter servers": labelled("gpuwatch.io/parallelism", "parameter-server"),
    "trials of a hyperparameter search": labelled("workload-class", "hpo"),
    "inference": labelled("gpuwatch.io/workload-class", "inference"),
    "a trial of Katib": labelled("katib.kubeflow.org/experiment", "e1"),
    "an exempt label that has not expired": labelled("gpuwatch.io/exempt-until", "2026-12-31"),
    "free GPUs of another model": lambda w: others(fleet(w, nodes=3)).reading("n4", ALL, (MINUTES, IDLE), step_s=STEP_S, model=L40S).host("n4"),
    "grew after half an hour: elastic": lambda w: grown(w),
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
    "node labels alone: one node beside two": lambda w: fleet(w, links=False, leaf=None),
    "the taint of the free node is that of its own nodes": lambda w: tainted(
        tainted(others(fleet(w), free=ALL), "n1"), "n3"
    ),
    "the free node has what it needs": lambda w: fitted(w, {"cpu_milli_used": 128_000}, rule={"constraint": "h100"}),
    "the selector of its pods fits the free node": lambda w: fitted(w, {}, "kubernetes", ZONE_A),
    "the taint came later": lambda w: tainted(others(fleet(w), free=ALL), "n3", at=60),
    "PCIe alone tells": lambda w: fleet(w, busy=WORK | talk(0.0, 4)),
    "PCIe: over sockets beside a free switch": lambda w: fleet(
        w, {"n1": "04"}, nvlink=None, nodes=1, models={"n1": L40S}, busy=WORK | talk(0, 6)
    ),
    "over an unknown network": lambda w: fleet(w, leaf=None),
    "its links are busy half of the time": lambda w: fleet(w, busy=level(0.98, 0.35, 0.12, 0.15, 400) | talk(0.05, 50)),
    "no SM_ACTIVE: the published share": lambda w: fleet(w, busy=without(TALKING, "sm_active_ratio")),
}


Judged = dict[str, list[Found]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinkedWorld]:
    """Every scene in a pool of its own, judged at once."""
    world = LinkedWorld(tmp_path_factory.mktemp("world"))
    for number, scene in enumerate([*MUST_NOT_FIRE.values(), *MUST_FIRE.values()]):
        with world.store.transaction():
            world.scene = f"s{number}-"
            scene(world)
    assert [] == world.analyze(now=MINUTES, detectors=[RULE]).failed_rules
    yield world
    world.store.close()


@pytest.fixture(scope="module")
def judged(world: LinkedWorld) -> Judged:
    found = world.findings(RULE)
    return {
        name: [one for one in found if one.job.startswith(f"s{number}-")]
        for number, name in enumerate([*MUST_NOT_FIRE, *MUST_FIRE])
    }


@pytest.mark.parametrize("name", MUST_NOT_FIRE)
def test_no_fault_of_the_placement(judged: Judged, name: str) -> None:
    assert [] == judged[name]


@pytest.mark.parametrize("name", MUST_FIRE)
def test_a_nearer_place_was_free(judged: Judged, name: str) -> None:
    assert 1 == len(judged[name])


def test_evidence_says_both_places(judged: Judged) -> None:
    (found,) = judged["but for others it had been free"]
    result = found.evidence

    assert (15.0, 115.0, "resolved") == (found.started, found.ended, found.state)
    assert ("leaf", "nvlink", "leaf", "NV18", "D") == tuple(
        result[name] for name in ("kind", "best_kind", "worst_level", "best_level", "grade")
    )
    assert (50.0, 370.8, 7.416, 8) == tuple(
        result[name] for name in ("gb_per_s", "best_gb_per_s", "bandwidth_ratio", "free_gpus")
    )
    assert (2, 2, 1) == (result["nvlink_domains"], result["nodes"], result["leaves"])
    node = found.job.replace("-1", "-n3")
    assert (node, " ".join(f"{node}/{n}" for n in ALL)) == (result["best_nodes"], result["best_gpus"])
    assert (0.05, 4) == (round(result["nvlink_ratio"], 4), result["pcie_gb_per_s"])


def test_places_without_nvlink_are_not_counted_in_nvlink_domains(judged: Judged) -> None:
    (found,) = judged["PCIe: over sockets beside a free switch"]

    assert ("Spans 2 sockets on 1 node", "one PCIe switch") == (
        found.evidence["spans"],
        found.evidence["best"].split(" (")[0],
    )


def test_without_a_measured_share_the_published_range_is_reported(judged: Judged) -> None:
    """phi 2.9 % to 11.1 % at r = 7.416: a step takes 1.186 to 1.712 times as long; waste takes the lower end."""
    (found,) = judged["no SM_ACTIVE: the published share"]
    result = found.evidence

    assert (0.029, 0.111, 0.5) == (result["exposed_ratio_low"], result["exposed_ratio_high"], found.confidence)
    assert (1.1861, 1.7122) == (round(result["slowdown_low"], 4), round(result["slowdown_high"], 4))


def test_measured_waiting_is_graver(judged: Judged) -> None:
    """Half of the time the port is busy while engines do no work: c = .5 on these links, 1 / (1 - c (1 - 1/r)) = 1.762."""
    (found,) = judged["its links are busy half of the time"]
    result = found.evidence

    assert (0.5, 0.7) == (round(result["measured_exposed_ratio"], 3), found.confidence)
    assert 1.7624 == round(result["slowdown_low"], 4)
    assert "high" == severity(result)


def test_waste_is_taken_from_communication_first_and_never_exceeds_the_books(
    world: LinkedWorld, judged: Judged
) -> None:
    (found,) = judged["over two nodes beside a free one"]
    claimed = dict(
        world.store.sql(
            "select bucket, sum(us)::bigint from granted_claim where subject_id = $job group by 1", job=found.job
        )
    )

    assert Fraction(sum(claimed.values()), 1_000_000) == found.wasted_s
    assert round(found.evidence["lost_gpu_hours_low"] * 3600) == round(found.wasted_s)
    for bucket, amount in claimed.items():
        assert amount <= world.booked_s(bucket, job=found.job) * 1_000_000
    assert claimed["communication"] > 0


def test_judging_again_changes_nothing(world: LinkedWorld, judged: Judged) -> None:
    world.analyze(now=MINUTES, detectors=[RULE], since_us=us(60), until_us=us(120))

    assert [one for found in judged.values() for one in found] == world.findings(RULE)


def test_node_labels_alone_claim_nothing(judged: Judged) -> None:
    """How much slower two nodes are than one is not known."""
    (found,) = judged["node labels alone: one node beside two"]

    assert (0, 0.4, "low") == (found.wasted_s, found.confidence, severity(found.evidence))
    assert "not known" in TOPOLOGY_BLIND_PLACEMENT.summary(found.evidence)


@pytest.mark.parametrize(
    ("claimed", "bucket"),
    [
        pytest.param({}, "communication", id="nothing was granted"),
        pytest.param({"communication": 3, "stalled": 60, "below_roof": 37}, "stalled", id="most of it is stalled"),
        pytest.param({"communication": 50, "stalled": 50}, "communication", id="as much of its own"),
    ],
)
def test_the_bucket_is_the_one_with_most_of_the_claim(claimed: dict[str, int], bucket: str) -> None:
    assert bucket == main_bucket("communication", {name: Fraction(us) for name, us in claimed.items()})


def severity(evidence: Mapping[str, Any]) -> str:
    assert TOPOLOGY_BLIND_PLACEMENT.severity is not None
    return TOPOLOGY_BLIND_PLACEMENT.severity(evidence, 2)


def test_words() -> None:
    record = {
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
        "Spans 2 NVLink domains on 2 nodes, while one NVLink domain (n3/nvlink-0) had 8 free GPUs at "
        "2026-01-05T00:05:00Z: a step takes 1.19 to 1.71 times as long on links that are 7.4 times slower."
    ) == TOPOLOGY_BLIND_PLACEMENT.summary(record)
    assert "takes 1.19 times" in TOPOLOGY_BLIND_PLACEMENT.summary(record | {"slowdown_high": 1.19})
    assert "Kueue" in TOPOLOGY_BLIND_PLACEMENT.remedy(record)
    assert "--nodes=1" in TOPOLOGY_BLIND_PLACEMENT.remedy(record | {"scheduler": "slurm"})
    assert "single-numa-node" in TOPOLOGY_BLIND_PLACEMENT.remedy(record | {"nodes": 1, "best_kind": "numa"})
    assert "not known" in TOPOLOGY_BLIND_PLACEMENT.summary(record | {"slowdown_low": None})


def test_evidence_names_what_is_not_known_of_the_nodes(judged: Judged) -> None:
    bare, known = (
        judged[case][0].evidence["not_known"]
        for case in ("over two nodes beside a free one", "the selector of its pods fits the free node")
    )

    assert "its own CPUs and memory (AllocTRES)" in bare
    assert "CPUs and memory of its pods" not in known
    assert "CPUs and memory of nodes (kubectl get nodes)" in known, "those of other scenes"


def test_the_page_prints_the_thresholds() -> None:
    page = Path(__file__).parents[2] / "docs/detectors" / f"{RULE}.md"

    assert printed_thresholds(TOPOLOGY_BLIND_PLACEMENT) == page_rows(page)
