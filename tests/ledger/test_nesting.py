"""Schedulers inside of schedulers: a GPU-second is counted once, and is the innermost run's."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gpuwatch.core.model import Records
from gpuwatch.core.queue_model import WORKLOAD
from gpuwatch.ledger.device_slots import Slot
from gpuwatch.ledger.placement_estimate import Node, Wanted, place
from tests.worlds.town import case
from tests.worlds.world import BUSY, CLUSTER, HOUR, Gpu, Sample, Seconds, World, claim, minutes, node, pod, samples, us

FREE = "schedulable"
A, B = Gpu("GPU-a"), Gpu("GPU-b", index=1)
FOUR = [Gpu(f"GPU-{letter}", index=index) for index, letter in enumerate("abcd")]


def seen(gpu: Gpu, start: float = 0, end: float = HOUR, **labels: str | None) -> list[Sample]:
    return samples(gpu, minutes(start, end), BUSY, **labels)


def ray(
    job: str, unit: str, start: Seconds, end: Seconds | None, node: str = "worker-0", size: float = 1, **words: Any
) -> dict[str, Any]:
    """A Ray actor's claim on some GPUs of a node."""
    row = {"run_key": f"{job}@s1", "pod_uid": unit, "kind": "ray", **words}
    if size % 1:
        row["fraction"] = size
    return claim(job, start, end, node, -int(-size // 1), scheduler="ray", **row)


def worker(
    uid: str = "u1", start: Seconds = 0, end: Seconds | None = HOUR, name: str = "worker-0", **words: Any
) -> dict[str, Any]:
    """A pod that is a node of Ray or Slurm inside, with its GPUs listed."""
    gpus = words.pop("gpus", "GPU-a")
    return pod(name, uid, start, end, count=gpus.count("GPU-"), gpus=gpus, **words)


def of(world: World, device: str = "GPU-a") -> list[tuple[Seconds, Seconds, str, str]]:
    """Start, end, owner and share of the segments of one device."""
    return [(a, b, who, share) for name, a, b, who, share in world.segments() if name == device]


def devices(world: World) -> list[str]:
    return sorted({name for name, *_ in world.segments()})


# What is not nested.


@case
def test_a_slurm_node_named_like_a_pod_without_gpus_is_a_machine(world: World) -> Iterator[None]:
    world.add(seen(A, job="7"), claim("7", 0, HOUR), node(devices={"": 1}))
    yield

    assert [(0, 3600, "7", "1")] == of(world)


@case
def test_a_slurm_node_with_measured_gpus_is_no_pod_of_its_name(world: World) -> Iterator[None]:
    world.add(
        seen(A, job="7"),
        seen(Gpu("GPU-k", "k1")),
        claim("7", 0, HOUR, node="n1"),
        pod("n1", "u1", 0, HOUR, node="k1", gpus="GPU-k"),
    )
    yield

    assert [(0, 3600, "7", "1")] == of(world)
    assert [(0, 3600, "u1", "1")] == of(world, "GPU-k")


@case
def test_a_pod_of_the_same_name_at_another_time_is_another(world: World) -> Iterator[None]:
    world.add(
        seen(A), worker(start=0, end=1200), ray("j", "a1", 1800, 2400), node("n1", {"": 1}, scheduler="kubernetes")
    )
    yield

    assert [(0, 1200, "u1", "1"), (1200, 3600, FREE, "1")] == of(world)


@case
def test_pods_of_another_cluster_hold_nothing_here(world: World) -> Iterator[None]:
    world.add(seen(A), ray("j", "a1", 600, 1200, node="n1"), {**worker(name="n1"), "cluster": "c2"})
    yield

    assert [(0, 600, FREE, "1"), (600, 1200, "j@s1 estimated", "1"), (1200, 3600, FREE, "1")] == of(world)


@case
def test_ray_on_its_own_machines_holds_by_itself(world: World) -> Iterator[None]:
    world.add(
        seen(A),
        seen(B),
        ray("j", "a1", 600, 1200, node="n1", device_indexes="1"),
        node("n1", {"": 2}, scheduler="ray"),
    )
    yield

    assert [(0, 3600, FREE, "1")] == of(world)
    assert [(0, 600, FREE, "1"), (600, 1200, "j@s1", "1"), (1200, 3600, FREE, "1")] == of(world, "GPU-b")


@case
def test_indexes_of_a_ray_node_that_was_given_part_of_a_machine_are_not_the_machines(world: World) -> Iterator[None]:
    world.add(
        [s for gpu in FOUR for s in seen(gpu)],
        ray("j", "a1", 600, 1200, node="n1", device_indexes="1"),
        node("n1", {"": 2}, scheduler="ray"),
        node("n1", {"": 4}),
    )
    yield

    held = [who for _, _, _, who, _ in world.segments() if who != FREE]
    assert ["j@s1 estimated"] == held


# Ray in a pod.


@case
def test_a_ray_job_owns_its_pods_gpu_while_it_runs_and_the_pod_owns_the_rest(world: World) -> Iterator[None]:
    world.add(seen(A), worker(), ray("j", "a1", 600, 1200))
    yield

    assert [(0, 600, "u1", "1"), (600, 1200, "j@s1", "1"), (1200, 3600, "u1", "1")] == of(world)


def test_what_ray_tells_of_a_pod_adds_no_devices() -> None:
    world = World().add(
        seen(A), worker(), ray("j", "a1", 600, 1200), node("worker-0", {"": 1}, at=600, scheduler="ray")
    )
    world.book()

    assert ["GPU-a"] == devices(world)
    assert [(1,)] == world.store.sql("select count(*) from capacity")


@case
def test_nothing_is_held_beyond_what_the_pod_holds(world: World) -> Iterator[None]:
    world.add(seen(A), worker(start=900, end=1800), ray("j", "a1", 600, 2400))
    yield

    assert [(0, 900, FREE, "1"), (900, 1800, "j@s1", "1"), (1800, 3600, FREE, "1")] == of(world)


@case
def test_a_ray_job_on_some_of_a_pods_gpus_takes_them_in_order_and_is_marked(world: World) -> Iterator[None]:
    world.add(seen(A), seen(B), worker(gpus="GPU-a,GPU-b"), ray("j", "a1", 600, 1200))
    yield

    assert [(0, 600, "u1", "1"), (600, 1200, "j@s1 estimated", "1"), (1200, 3600, "u1", "1")] == of(world)
    assert [(0, 3600, "u1", "1")] == of(world, "GPU-b")


@case
def test_indexes_count_among_the_gpus_of_the_pod(world: World) -> Iterator[None]:
    c, d = FOUR[2:]
    world.add(seen(c), seen(d), worker(gpus="GPU-c,GPU-d"), ray("j", "a1", 600, 1200, device_indexes="1"))
    yield

    assert [(0, 3600, "u1", "1")] == of(world, "GPU-c")
    assert [(0, 600, "u1", "1"), (600, 1200, "j@s1", "1"), (1200, 3600, "u1", "1")] == of(world, "GPU-d")


@case
def test_uuids_that_ray_tells_name_the_device(world: World) -> Iterator[None]:
    world.add(seen(A), seen(B), worker(gpus="GPU-a,GPU-b"), ray("j", "a1", 600, 1200, gpus="GPU-b"))
    yield

    assert (600, 1200, "j@s1", "1") in of(world, "GPU-b")


@case
def test_halves_gather_on_one_gpu_and_the_pod_keeps_what_they_leave(world: World) -> Iterator[None]:
    world.add(
        seen(A),
        seen(B),
        worker(gpus="GPU-a,GPU-b"),
        ray("j", "a1", 0, 1800, size=0.5),
        ray("k", "a2", 0, 1200, size=0.5),
    )
    yield

    expected = [
        (0, 1200, "j@s1 estimated", "1/2"),
        (0, 1200, "k@s1 estimated", "1/2"),
        (1200, 1800, "j@s1 estimated", "1/2"),
        (1200, 1800, "u1 estimated", "1/2"),
        (1800, 3600, "u1", "1"),
    ]
    assert expected == of(world)
    assert [(0, 3600, "u1", "1")] == of(world, "GPU-b")


def test_a_long_pod_name_is_cut_as_its_host_name_is() -> None:
    name = "x" * 62 + "-worker"
    world = World().add(seen(A), worker(name=name), ray("j", "a1", 0, HOUR, node="x" * 62))

    assert [(0, 3600, "j@s1", "1")] == of(world.book())


@case
def test_a_ray_pod_on_the_network_of_its_host_is_known_by_its_label(world: World) -> Iterator[None]:
    labels = json.dumps({"ray.io/cluster": "rc"}, separators=(",", ":"))
    world.add(seen(A), worker(labels=labels), ray("j", "a1", 600, 1200, node="n1"))
    yield

    assert [(0, 600, "u1", "1"), (600, 1200, "j@s1", "1"), (1200, 3600, "u1", "1")] == of(world)


@case
def test_a_pod_that_only_labels_of_samples_tell_of_is_an_outer_run_too(world: World) -> Iterator[None]:
    world.add(seen(A, pod="worker-0", namespace="lab"), ray("j", "a1", 600, 1200))
    yield

    assert ["GPU-a"] == devices(world)
    assert [(0, 600, "lab/worker-0", "1"), (600, 1200, "j@s1", "1"), (1200, 3600, "lab/worker-0", "1")] == of(world)


def test_the_inner_run_has_the_namespace_labels_and_queue_of_the_outer_one() -> None:
    outer: dict[str, Any] = {"labels": '{"gpuwatch.io/team":"vision","tier":"a"}', "queue": "q1", "user_name": "bob"}
    world = World().add(seen(A), worker(**outer), ray("j", "a1", 600, 1200, labels='{"tier":"b"}', user_name="alice"))
    world.book()

    [(namespace, labels, queue, user)] = world.store.sql(
        "select namespace, labels, queue, user_name from run where scheduler = 'ray'"
    )
    assert ("lab", "q1", "alice") == (namespace, queue, user)
    assert {"gpuwatch.io/team": "vision", "tier": "b"} == json.loads(labels)


def test_ray_inherits_from_the_slurm_job_whose_gpus_it_has_and_not_from_a_longer_one_beside_it() -> None:
    world = World().add(
        [s for gpu in FOUR[:3] for s in seen(gpu)],
        claim("long", 0, HOUR, account="one", device_indexes="0"),
        claim("pair", 600, 1800, count=2, account="two", device_indexes="1,2"),
        ray("j", "a1", 900, 1500, node="n1", size=2),
    )
    world.book()

    assert [("two",)] == world.store.sql("select account from run where scheduler = 'ray'")


def test_ray_in_a_slurm_job_in_a_pod_has_the_jobs_words_before_the_pods() -> None:
    world = World().add(
        seen(A),
        worker(namespace="lab", labels='{"nodeset.slinky.slurm.net/pod-name":"worker-0"}'),
        claim("7", 0, HOUR, node="worker-0", account="physics"),
        ray("j", "a1", 600, 1200, user_name="ann"),
    )
    world.book()

    [(account, namespace, own)] = world.store.sql("select account, namespace, own from run where scheduler = 'ray'")
    layers = json.loads(own)
    assert ("physics", "lab", "ann") == (account, namespace, layers["user_name"])
    assert ("physics", None) == (json.loads(layers["outer"])["account"], json.loads(layers["outer"])["namespace"])


# Ray in Slurm, Slurm in pods, Ray in Slurm in pods.


@case
def test_ray_in_a_slurm_job_takes_its_gpus(world: World) -> Iterator[None]:
    world.add(
        seen(A, job="7"), seen(B), claim("7", 0, 2400), ray("j", "a1", 600, 1200, node="n1"), node(devices={"": 2})
    )
    yield

    expected = [(0, 600, "7", "1"), (600, 1200, "j@s1", "1"), (1200, 2400, "7", "1"), (2400, 3600, FREE, "1")]
    assert expected == of(world)
    assert [(0, 3600, FREE, "1")] == of(world, "GPU-b")


@case
def test_of_two_slurm_jobs_on_a_node_ray_is_in_one(world: World) -> Iterator[None]:
    world.add(
        [s for gpu in FOUR[:2] for s in seen(gpu, job="7")],
        [s for gpu in FOUR[2:] for s in seen(gpu, job="8")],
        claim("7", 0, HOUR, count=2),
        claim("8", 300, HOUR, count=2),
        ray("j", "a1", 600, 1200, node="n1", size=2),
    )
    yield

    held = sum(b - a for name in "abcd" for a, b, who, _ in of(world, f"GPU-{name}") if who.startswith("j@s1"))
    assert 2 * 600 == held
    assert (600, 1200, "j@s1 estimated", "1") in of(world, "GPU-c")


@case
def test_a_slurm_job_on_a_pod_owns_the_pods_gpus_while_it_runs(world: World) -> Iterator[None]:
    world.add(
        seen(A),
        worker(name="slurmd-0"),
        claim("7", 600, 1200, node="slurmd-0"),
        node("slurmd-0", {"": 1}, at=600),
        node("n1", {"": 1}, scheduler="kubernetes"),
    )
    yield

    assert ["GPU-a"] == devices(world)
    assert [(0, 600, "u1", "1"), (600, 1200, "7", "1"), (1200, 3600, "u1", "1")] == of(world)


@case
def test_labels_name_the_devices_of_a_slurm_job_in_a_pod(world: World) -> Iterator[None]:
    world.add(
        seen(A, pod="slurmd-0", namespace="lab"),
        seen(B, pod="slurmd-0", namespace="lab", job="7"),
        worker(name="slurmd-0", gpus="GPU-a,GPU-b"),
        claim("7", 0, HOUR, node="slurmd-0"),
    )
    yield

    assert [(0, 3600, "u1", "1")] == of(world)
    assert [(0, 3600, "7", "1")] == of(world, "GPU-b")


def test_the_innermost_of_three_wins() -> None:
    world = World().add(
        seen(A),
        worker(name="slurmd-0", namespace="lab"),
        claim("7", 600, 2400, node="slurmd-0", account="phys"),
        ray("j", "a1", 1200, 1800, node="slurmd-0"),
    )
    world.book()

    expected = [
        (0, 600, "u1", "1"),
        (600, 1200, "7", "1"),
        (1200, 1800, "j@s1", "1"),
        (1800, 2400, "7", "1"),
        (2400, 3600, "u1", "1"),
    ]
    assert expected == of(world)
    assert [("phys", "lab")] == world.store.sql("select account, namespace from run where scheduler = 'ray'")


# Second-hand claims, queues, resource claims.


@case
def test_a_pod_that_kube_state_metrics_and_the_api_tell_is_held_once(world: World) -> Iterator[None]:
    world.add(
        seen(A), seen(B), pod("p", "u1", 0, HOUR, gpus="GPU-a"), pod("p", "u1", 0, HOUR, kind="ksm", run_key="ksm-u1")
    )
    yield

    assert [(0, 3600, "u1", "1")] == of(world)
    assert [(0, 3600, FREE, "1")] == of(world, "GPU-b")


SECOND_HAND = {
    "another pod of that name at another time counts": (1800, 2400, [(600, 1200, "u1"), (1800, 2400, "y estimated")]),
    "the same pod at that time is left out": (900, 2400, [(600, 1200, "u1")]),
}


@pytest.mark.parametrize(("start", "end", "expected"), SECOND_HAND.values(), ids=SECOND_HAND)
@case
def test_a_pod_without_uid_is_known_by_its_name_and_time(
    world: World, start: float, end: float, expected: list[Any]
) -> Iterator[None]:
    second = pod("p", "y", start, end, kind="yunikorn") | {"pod_uid": None}
    world.add(seen(A), pod("p", "u1", 600, 1200, gpus="GPU-a"), second)
    yield

    assert expected == [(a, b, who) for a, b, who, _ in of(world) if who != FREE]


def test_the_queue_of_a_run_is_that_of_its_jobs_newest_workload() -> None:
    world = World().add(seen(A), pod("p", "u1", 0, HOUR, gpus="GPU-a"))
    rows = [
        {"cluster": CLUSTER, "scheduler": "kueue", "job_id": "lab/p", "queue": name, "observed_us": us(at)}
        for name, at in (("old", 0), ("new", 60))
    ]
    rows.append({"cluster": "c2", "scheduler": "kueue", "job_id": "lab/p", "queue": "other", "observed_us": us(99)})
    with world.store.transaction():
        world.store.append(Records("workload", pa.Table.from_pylist(rows, schema=WORKLOAD)))

    assert [("new",)] == world.book().store.sql("select queue from run")


SLICES = [Gpu("GPU-m", gi=gi, profile="1g.10gb") for gi in (7, 8)]


@case
def test_pods_of_one_resource_claim_share_its_device_equally(world: World) -> Iterator[None]:
    gpus = {"gpus": "GPU-a", "kind": "dra"}
    world.add(seen(A), pod("p", "u1", 0, 1800, **gpus), pod("q", "u2", 600, 1800, **gpus))
    yield

    expected = [(0, 600, "u1", "1"), (600, 1800, "u1", "1/2"), (600, 1800, "u2", "1/2"), (1800, 3600, FREE, "1")]
    assert expected == of(world)


@case
def test_the_only_slice_of_a_profile_on_a_named_gpu_is_sure(world: World) -> Iterator[None]:
    world.add(
        seen(SLICES[0]),
        seen(Gpu("GPU-m", gi=1, profile="3g.40gb")),
        pod("p", "u1", 0, HOUR, gpus="GPU-m", profile="1g.10gb", kind="dra"),
    )
    yield

    assert ["u1"] == [who for _, _, who, _ in of(world, "GPU-m/GI-7")]


@case
def test_of_two_slices_the_first_is_estimated_and_the_free_one_is_sure(world: World) -> Iterator[None]:
    world.add(
        seen(SLICES[0]),
        seen(SLICES[1]),
        pod("p", "u1", 0, HOUR, gpus="GPU-m", profile="1g.10gb"),
        pod("q", "u2", 600, 1200, gpus="GPU-m", profile="1g.10gb"),
    )
    yield

    assert ["u1 estimated"] == [who for _, _, who, _ in of(world, "GPU-m/GI-7")]
    assert [FREE, "u2", FREE] == [who for _, _, who, _ in of(world, "GPU-m/GI-8")]


def test_who_names_the_same_slice_gets_the_same_slice() -> None:
    slots = [Slot(i, "GPU-m", i, "1g.10gb", measured=True) for i in (1, 2, 3)]
    wanted = [
        Wanted(run, f"u{run}", "n1", "1g.10gb", 1, 0, 100, gpus=(name,))
        for run, name in ((1, "MIG-x"), (2, "MIG-y"), (3, "MIG-x"))
    ]

    assert [1, 2, 1] == [p.device_id for p in place({"n1": Node("c1", "n1", None, slots)}, wanted)]


# Fractions.


def hours_of(world: World) -> dict[str, Fraction]:
    """GPU-hours by job."""
    total: dict[str, Fraction] = defaultdict(Fraction)
    for job, start, end, num, den in world.store.sql(
        "select r.job_id, s.start_us, s.end_us, s.share_num, s.share_den from segment s join run r using (run_id)"
    ):
        total[job] += Fraction(num, den) * Fraction(end - start, 3_600_000_000)
    return dict(total)


def test_four_quarters_make_one_gpu_hour_on_one_gpu() -> None:
    world = World().add(seen(A), seen(B), *(ray(f"j{i}", f"a{i}", 0, HOUR, node="n1", size=0.25) for i in range(4)))
    world.book()

    assert {f"j{i}": Fraction(1, 4) for i in range(4)} == hours_of(world)
    assert [(0, 3600, f"j{i}@s1 estimated", "1/4") for i in range(4)] == of(world)
    assert [(0, 3600, FREE, "1")] == of(world, "GPU-b")


@case
def test_what_a_fraction_leaves_is_free(world: World) -> Iterator[None]:
    world.add(seen(A), ray("j", "a1", 0, HOUR, node="n1", size=0.3, device_indexes="0"))
    yield

    assert [(0, 3600, "j@s1", "3/10"), (0, 3600, FREE, "7/10")] == of(world)


def test_fractions_without_room_on_one_gpu_take_another() -> None:
    world = World().add(
        seen(A),
        seen(B),
        ray("j", "a1", 0, HOUR, node="n1", size=0.6),
        ray("k", "a2", 0, HOUR, node="n1", size=0.6),
        ray("l", "a3", 0, HOUR, node="n1", size=0.4),
    )
    world.book()

    assert {"j": Fraction(3, 5), "k": Fraction(3, 5), "l": Fraction(2, 5)} == hours_of(world)


@case
def test_two_halves_of_one_job_are_one_owner_of_one_gpu(world: World) -> Iterator[None]:
    world.add(
        seen(A),
        ray("j", "a1", 0, HOUR, node="n1", size=0.5, device_indexes="0"),
        ray("j", "a2", 0, HOUR, node="n1", size=0.5, device_indexes="0"),
    )
    yield

    assert [(0, 3600, "j@s1", "1")] == of(world)


# Heads of Ray.


def test_a_head_that_is_heard_no_longer_holds_up_to_its_last_word() -> None:
    world = World().add(
        seen(A),
        seen(B),
        ray("j", "a1", 0, None, node="n1", device_indexes="0", evidence=600),
        ray("j", "a2", 0, None, node="n1", device_indexes="1", evidence=1800, run_key="j@s2"),
    )
    world.book()

    assert [(0, 600, "j@s1", "1"), (600, 3600, FREE, "1")] == of(world)
    assert [(0, 1800, "j@s2", "1"), (1800, 3600, FREE, "1")] == of(world, "GPU-b")


# Whatever runs inside, the books are those of what runs outside.

SPAN = st.tuples(st.integers(0, 59), st.integers(1, 40)).map(lambda s: (60 * s[0], 60 * min(60, s[0] + s[1])))
INNER = st.tuples(SPAN, st.sampled_from([0.25, 0.5, 1, 2]), st.sampled_from(["ray", "slurm"]), st.booleans())


@settings(
    max_examples=7,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)
@given(
    outer=SPAN,
    count=st.integers(1, 3),
    inners=st.lists(INNER, max_size=5),
    measured=st.booleans(),
    order=st.randoms(use_true_random=False),
)
def test_inner_runs_neither_add_nor_take_time(
    outer: tuple[int, int], count: int, inners: list[Any], measured: bool, order: Random
) -> None:
    gpus = FOUR[:3]
    pods = worker(start=outer[0], end=outer[1], gpus=",".join(gpu.uuid for gpu in gpus[:count]))
    # Without samples the scheduler's count of the node is all that is known.
    words: dict[str, Any] = {} if measured else {"gpus": None}
    machine = [node("n1", {"": 3}, scheduler="kubernetes")]
    rows = [pods | words]
    for number, ((start, end), size, scheduler, indexed) in enumerate(inners):
        indexes: dict[str, Any] = {"device_indexes": "0"} if indexed and size <= 1 else {}
        if scheduler == "ray":
            rows.append(ray(f"j{number}", f"a{number}", start, end, size=size, **indexes))
        else:
            rows.append(claim(str(number), start, end, "worker-0", max(1, int(size)), **indexes))
    shuffled = order.sample(rows, len(rows))
    of_samples = [s for gpu in gpus for s in seen(gpu)] if measured else seen(Gpu("GPU-z", "n9"))
    plain, nested, other = (World().add(of_samples, *machine, *given) for given in (rows[:1], rows, shuffled))
    for world in (plain, nested, other):
        world.attribute()

    assert plain.rows("capacity") == nested.rows("capacity")
    assert nested.segments() == other.segments()
    assert shares(plain).keys() == shares(nested).keys()
    for instants in shares(nested).values():
        assert {Fraction(1)} == set(instants.values())
    # Whoever is inside holds what the pod alone would hold: no other device, no minute more or less.
    theirs = held_at(plain)
    assert len(theirs) == count * (outer[1] - outer[0]) // 60
    assert theirs == held_at(nested)
    spans = {f"j{n}@s1" if inner[2] == "ray" else str(n): inner[0] for n, inner in enumerate(inners)}
    for _, start, end, who, _ in nested.segments():
        first, last = spans.get(who.split()[0], (start, end))
        assert first <= start
        assert end <= last


def held_at(world: World) -> dict[tuple[int, int], Fraction]:
    """Share of a device that runs hold in a minute."""
    found: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for device, start, end, num, den in world.store.sql(
        "select device_id, start_us, end_us, share_num, share_den from segment where run_id is not null"
    ):
        for minute in range(start, end, 60_000_000):
            found[device, minute] += Fraction(num, den)
    return dict(found)


def shares(world: World) -> dict[int, dict[int, Fraction]]:
    """Sum of the shares of each minute, by device: every edge of these worlds is a whole minute."""
    found: dict[int, dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for device, start, end, num, den in world.store.sql(
        "select device_id, start_us, end_us, share_num, share_den from segment"
    ):
        for minute in range(start, end, 60_000_000):
            found[device][minute] += Fraction(num, den)
    return found


def test_a_pod_that_kube_state_metrics_tells_no_more_of_is_held_up_to_its_last_word() -> None:
    gone = pod("p", "u1", 0, None, kind="ksm", evidence=600)
    reported = pod("q", "u2", 0, 6 * HOUR, node="n9", kind="ksm", evidence=6 * HOUR)
    world = World().add(seen(A, 0, 6 * HOUR), gone, reported).book()

    assert [("GPU-a", 0, 600, "u1 estimated", "1")] == [s for s in world.segments() if s[3].startswith("u1")]


def test_a_recently_reported_pod_runs_on() -> None:
    runs = pod("p", "u1", 0, None, kind="ksm", evidence=5 * HOUR)
    reported = pod("q", "u2", 0, 6 * HOUR, node="n9", kind="ksm", evidence=6 * HOUR)
    world = World().add(seen(A, 0, 6 * HOUR), runs, reported).book()

    assert [("GPU-a", 0, 6 * HOUR, "u1 estimated", "1")] == [s for s in world.segments() if s[3].startswith("u1")]
