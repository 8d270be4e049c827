"""Scenes: every detector has planted cases and decoys, and what they say of the bundle is in the bundle."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from gpuwatch.core.clock import SECOND_US, parse_rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.rules.rule import rules
from gpuwatch.simulate import Truth, simulate
from gpuwatch.simulate.scene import CORE_GPUS_MIN, DEFAULT_FROM_GPUS, ORDER, Scene, choose, scenes
from gpuwatch.simulate.truth import Amount, Case

STEP_S = 240
DAYS = 7.5
DAY_S = 86_400


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """All scenes and a small fleet beside them, at four-minute steps."""
    out = tmp_path_factory.mktemp("scenes")
    gpus = CORE_GPUS_MIN + sum(made.gpus for made in scenes())
    return out, simulate(out, gpus, DAYS, seed=5, step_s=STEP_S, scenes="all")


def digest(folder: Path) -> str:
    """One hash of names and contents."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            whole.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return whole.hexdigest()


def test_every_detector_has_planted_shapes_and_decoys(world: tuple[Path, Truth]) -> None:
    _, truth = world
    planted = {case.detector for case in truth.planted}
    decoys = {case.detector for case in truth.decoys}

    in_other_scenes = {"partial-island"}
    assert {made.detector for made in scenes()} | in_other_scenes == planted == decoys
    assert set(ORDER) <= planted <= set(rules())
    shapes = Counter(detector for detector, _ in {(case.detector, case.shape) for case in truth.planted})
    assert {d: n for d, n in shapes.items() if n < 2 and d not in ONE_SHAPE} == {}


ONE_SHAPE = {"fabric-congestion", "own-vs-cloud"}
"""Detectors with one planted shape."""


def test_a_small_fleet_has_the_first_scenes_and_a_tiny_one_has_none_by_default() -> None:
    first = [made for _, made in choose("all", CORE_GPUS_MIN + 24, 100 * DAY_S)]

    assert [] == choose("default", DEFAULT_FROM_GPUS - 1, 100 * DAY_S)
    assert [] == choose("none", 10_000, 100 * DAY_S)
    assert 1 == first[0].rank
    assert sum(made.gpus for made in first) <= 24
    assert all(made.hours <= 10 for _, made in choose("all", 10_000, 10 * 3600))
    assert {"straggler"} == {made.detector for _, made in choose("straggler", 10_000, 100 * DAY_S)}


def test_an_unknown_detector_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="no scenes of nonsense"):
        choose("straggler,nonsense", 100, DAY_S)


@pytest.mark.parametrize("drop", [-0.1, 0.95])
def test_a_part_that_is_none_is_refused(tmp_path: Path, drop: float) -> None:
    with pytest.raises(UsageError, match="a part of"):
        simulate(tmp_path, drop=drop)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    wanted = "straggler,noisy-neighbour,gang-partial"
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        simulate(tmp_path / name, 60, 0.5, seed, STEP_S, scenes=wanted, drop=0.3)

    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    assert digest(tmp_path / "a") != digest(tmp_path / "c")


def test_gpus_of_scenes_count_within_the_fleet(world: tuple[Path, Truth]) -> None:
    _, truth = world

    assert CORE_GPUS_MIN + sum(made.gpus for made in scenes()) == sum(node.gpu_count for node in truth.fleet.nodes)


def test_held_and_platform_are_the_capacity_exactly(world: tuple[Path, Truth]) -> None:
    _, truth = world
    owned = sum((truth.epoch.window_s - node.from_s) * node.gpu_count for node in truth.fleet.nodes)
    [gone] = [device for device in truth.fleet.devices() if device.until_s is not None]
    [new] = [device for device in truth.fleet.devices() if device.since_s]
    assert gone.until_s is not None
    assert (gone.node, gone.index) == (new.node, new.index)
    owned -= new.since_s - gone.until_s

    assert owned == truth.capacity.gpu_seconds
    for group in truth.held.values():
        assert truth.capacity == sum(group.values(), Amount()) + truth.platform
    assert truth.platform.gpu_seconds > 0
    assert all(amount.gpu_seconds >= 0 for amount in truth.platform_by_model.values())


def test_only_shared_gpus_are_held_twice_at_once(world: tuple[Path, Truth]) -> None:
    _, truth = world
    shared = {node.name for node in truth.fleet.nodes if node.replicas > 1}
    taken: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for run in truth.runs:
        for device in run.devices:
            if device.node not in shared:
                taken[device.id].append((*run.held(truth.epoch.window_s), run.number))

    for device, held in taken.items():
        ordered = sorted(held)
        overlapping = [(a, b) for a, b in pairwise(ordered) if a[1] > b[0]]
        assert [] == overlapping, device


def test_runs_lie_within_the_life_of_their_nodes(world: tuple[Path, Truth]) -> None:
    _, truth = world
    joined = {node.name: node.from_s for node in truth.fleet.nodes}

    for run in truth.runs:
        for device in run.devices:
            start, end = run.held(truth.epoch.window_s)
            assert joined[device.node] <= start < end <= truth.epoch.window_s, run.job_id
            assert run.submit_s <= start, run.job_id


def test_cases_name_what_is_in_the_bundle(world: tuple[Path, Truth]) -> None:
    out, truth = world
    devices = {device.id for device in truth.fleet.devices()}
    known = {
        "job": {run.job_id for run in truth.runs} | waiting_jobs(out),
        "gpu": {device.gpu for device in truth.fleet.devices()},
        "slice": {device.id for device in truth.fleet.devices() if device.profile},
        "node": {node.name for node in truth.fleet.nodes},
        "pool": {node.pool for node in truth.fleet.nodes} | leaves(out),
        "queue": queues(out),
    }

    for case in (*truth.planted, *truth.decoys):
        subject = case.subject_id or case.job_id
        assert subject in known[case.subject_kind], (case.detector, case.shape)
        assert set(case.devices) <= devices, (case.detector, case.shape)
    for allowed in truth.allowed:
        assert allowed.subject_id in known[allowed.subject_kind], allowed


def waiting_jobs(out: Path) -> set[str]:
    """Jobs of which only their Workload exists."""
    items = json.loads((out / "k8s/queues.json").read_text())["items"]
    return {
        f"{item['metadata']['namespace']}/{item['metadata']['ownerReferences'][0]['name']}"
        for item in items
        if item["kind"] == "Workload"
    }


def queues(out: Path) -> set[str]:
    items = json.loads((out / "k8s/queues.json").read_text())["items"]
    return {item["metadata"]["name"] for item in items if item["kind"] in ("ClusterQueue", "Queue")}


def leaves(out: Path) -> set[str]:
    lines = (out / "slurm/topology.conf").read_text().splitlines()
    return {line.split()[0].removeprefix("SwitchName=") for line in lines}


def test_intervals_lie_in_the_window_and_in_the_run(world: tuple[Path, Truth]) -> None:
    _, truth = world
    runs: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for run in truth.runs:
        if run.start_s is not None:
            runs[run.job_id].append(run.held(truth.epoch.window_s))

    for case in (*truth.planted, *truth.decoys):
        for low, high in seconds(case, truth):
            assert 0 <= low < high <= truth.epoch.window_s, (case.detector, case.shape)
            held = runs.get(case.job_id, [])
            if held and case.subject_kind == "job":
                assert min(start for start, _ in held) <= low, (case.detector, case.shape)
                assert high <= max(end for _, end in held), (case.detector, case.shape)


def seconds(case: Case, truth: Truth) -> list[tuple[int, int]]:
    """The intervals of a case in seconds of the window."""
    return [(second(low, truth), second(high, truth)) for low, high in case.intervals]


def second(text: str, truth: Truth) -> int:
    return (parse_rfc3339(text) - truth.epoch.start_us) // SECOND_US


def test_no_subject_is_planted_and_a_decoy_of_one_detector(world: tuple[Path, Truth]) -> None:
    _, truth = world
    planted = {(c.detector, c.subject_kind, c.subject_id or c.job_id) for c in truth.planted}
    decoys = {(c.detector, c.subject_kind, c.subject_id or c.job_id) for c in truth.decoys}

    assert set() == planted & decoys


def test_truth_file_has_subjects_and_what_is_allowed(world: tuple[Path, Truth]) -> None:
    out, truth = world
    document = json.loads((out / "truth.json").read_text())

    assert truth.plain() == document
    assert {"kind", "id"} == set(document["planted"][0]["subject"])
    assert {"detector", "subject", "why"} == set(document["allowed"][0])


def test_a_waiting_pod_whose_events_are_gone_says_why_in_its_condition(world: tuple[Path, Truth]) -> None:
    out, _ = world
    items = json.loads((out / "k8s/pods.json").read_text())["items"]
    events = {item["involvedObject"]["uid"] for item in json.loads((out / "k8s/events.json").read_text())["items"]}
    [pod] = [item for item in items if item["metadata"]["name"].rpartition("-")[0].endswith("-either")]
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]

    assert pod["metadata"]["uid"] not in events
    assert 2 == len(required["nodeSelectorTerms"][0]["matchExpressions"][0]["values"])
    assert "3 Insufficient nvidia.com/gpu" in pod["status"]["conditions"][0]["message"]


def test_a_field_can_be_left_out_and_samples_lost(tmp_path: Path) -> None:
    whole = simulate(tmp_path / "whole", 16, 0.5, 1, STEP_S)
    less = simulate(tmp_path / "less", 16, 0.5, 1, STEP_S, without=("SM_ACTIVE",), drop=0.3)
    text = b"".join(gzip.decompress(path.read_bytes()) for path in (tmp_path / "less/metrics").iterdir())

    assert b"SM_ACTIVE" not in text
    assert b"DCGM_FI_PROF_SM_OCCUPANCY" in text
    assert Fraction(60, 100) < Fraction(less.samples, whole.samples) < Fraction(72, 100)
    assert less.capacity == whole.capacity


def test_a_shared_gpu_is_reported_once_a_pod_and_once_for_all(world: tuple[Path, Truth]) -> None:
    out, truth = world
    node = next(node for node in truth.fleet.nodes if node.replicas > 1)
    gpu = node.devices[0].gpu
    text = gzip.decompress(max((out / "metrics").glob(f"{node.name}-*")).read_bytes()).decode()
    last = defaultdict(set)
    for line in text.splitlines():
        if line.startswith("DCGM_FI_DEV_GPU_UTIL") and gpu in line:
            series, value, stamp = line.rsplit(" ", 2)
            last[stamp].add(("pod=" in series, int(value)))
    newest = last[max(last)]

    assert {True, False} == {owned for owned, _ in newest}
    assert max(value for owned, value in newest if owned) <= max(value for owned, value in newest if not owned)


def test_ranks_and_sizes_are_what_they_say() -> None:
    order: list[Scene] = scenes()

    assert sorted(order, key=lambda made: made.rank) == order
    assert all(1 <= made.rank <= 4 and made.gpus > 0 and made.hours > 0 for made in order)
