"""Slurm nodes that are pods of Slinky: named by the pod's host name, not by the pod."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from gpuwatch.collectors.slurm.shares import SHARES_LABEL
from tests.worlds.world import BUSY, HOUR, Gpu, Sample, World, claim, minutes, node, pod, samples, us

GPUS = [Gpu(f"GPU-{letter}", "k1", index) for index, letter in enumerate("abcd")]
SLINKY = {"nodeset.slinky.slurm.net/pod-name": "slurm-worker-slinky-0"}


def machine() -> list[Sample]:
    return [sample for gpu in GPUS for sample in samples(gpu, minutes(0, HOUR), BUSY)]


def slurmd(start: float = 0, end: float = HOUR, **labels: str) -> dict[str, Any]:
    """A Slinky pod with the first two GPUs of k1."""
    text = json.dumps(SLINKY | labels, separators=(",", ":"))
    name = "slurm-worker-slinky-0"
    return pod(name, "u1", start, end, "k1", count=2, gpus="GPU-a,GPU-b", labels=text)


def other() -> dict[str, Any]:
    """Another pod, with the third GPU."""
    return pod("notebook", "u2", 0, HOUR, "k1", gpus="GPU-c")


def owners(world: World) -> dict[str, list[str]]:
    """Who held each GPU, in order of time."""
    found: dict[str, list[str]] = {}
    for device, _, _, who, _ in world.segments():
        found.setdefault(device, []).append(who)
    return found


NAMES = {
    "the pod's host name": ("slinky-0", {"gpuwatch.io/hostname": "slinky-0"}),
    "the label of an older record": ("slinky-0", {"nodeset.slinky.slurm.net/pod-hostname": "slinky-0"}),
    "the machine, on its network": ("k1", {"gpuwatch.io/hostname": "k1"}),
    "the name of the pod": ("slurm-worker-slinky-0", {}),
    "with a domain": ("slinky-0.slurm.svc", {"gpuwatch.io/hostname": "slinky-0"}),
}


@pytest.mark.parametrize(("name", "labels"), NAMES.values(), ids=NAMES)
def test_a_slurm_job_in_a_slinky_pod_takes_that_pods_gpus_and_adds_none(name: str, labels: dict[str, str]) -> None:
    world = World().add(
        machine(),
        node("k1", {"": 4}, scheduler="kubernetes"),
        node(name, {"": 2}, at=600),
        slurmd(**labels),
        other(),
        claim("7", 600, 1200, node=name, count=2),
    )
    world.book()

    expected = {"GPU-a": ["u1", "7", "u1"], "GPU-b": ["u1", "7", "u1"], "GPU-c": ["u2"], "GPU-d": ["schedulable"]}
    assert expected == owners(world)
    assert [(4,)] == world.store.sql("select count(*) from capacity")
    assert [("k1",)] == world.store.sql("select distinct node from device")


@pytest.mark.parametrize("words", [{"count": 4}, {"count": 1, "device_indexes": "3"}], ids=["too many", "by index"])
def test_a_slurm_job_on_a_machine_never_takes_gpus_that_its_slinky_pod_lacks(words: dict[str, Any]) -> None:
    world = World().add(
        machine(), slurmd(**{"gpuwatch.io/hostname": "k1"}), other(), claim("7", 0, HOUR, node="k1", **words)
    )
    world.book()

    found = owners(world)
    assert (["u2"], ["schedulable"]) == (found["GPU-c"], found["GPU-d"])
    assert any(who.startswith("7") for who in found["GPU-a"] + found["GPU-b"])


def test_an_unmeasured_machine_has_the_gpus_that_kubernetes_lists() -> None:
    world = World().add(
        samples(Gpu("GPU-z", "k9"), minutes(0, HOUR), BUSY),
        node("k1", {"": 4}, at=0, scheduler="kubernetes"),
        node("k1", {"": 2}, at=1800),
        slurmd(**{"gpuwatch.io/hostname": "k1"}) | {"gpus": None},
        claim("7", 600, 1200, node="k1", count=2),
    )
    world.book()

    assert [(4,)] == world.store.sql("select count(*) from device where node = 'k1'")


def test_a_machine_named_with_its_domain_in_kubernetes_is_one_machine() -> None:
    pods = [row | {"node": "k1.lab.example"} for row in (slurmd(**{"gpuwatch.io/hostname": "k1"}), other())]
    world = World().add(
        machine(),
        node("k1.lab.example", {"": 4}, scheduler="kubernetes"),
        node("k1", {"": 2}, at=600),
        *pods,
        claim("7", 600, 1200, node="k1", count=2),
    )
    world.book()

    assert [(4,)] == world.store.sql("select count(*) from device")
    assert ["u1", "7", "u1"] == owners(world)["GPU-a"]


def test_before_slinky_came_to_a_machine_its_slurm_jobs_hold_its_gpus() -> None:
    world = World().add(
        machine(),
        node("k1", {"": 4}, at=0),
        slurmd(1800, HOUR, **{"gpuwatch.io/hostname": "k1"}),
        claim("7", 0, 1200, node="k1", count=4),
    )
    world.book()

    found = [[who.removesuffix(" estimated") for who in whos] for whos in owners(world).values()]
    assert [["7", "schedulable", "u1"]] * 2 + [["7", "schedulable"]] * 2 == found


def test_another_pod_with_a_slurm_nodes_host_name_is_no_machine() -> None:
    plain = pod("notebook", "u2", 0, HOUR, "k1", gpus="GPU-c", labels='{"gpuwatch.io/hostname":"k1"}')
    world = World().add(machine(), plain, claim("7", 0, HOUR, node="k1", count=3))
    world.book()

    found = owners(world)
    assert ["u2"] == found["GPU-c"]
    assert 3 == sum(who.startswith("7") for whos in found.values() for who in whos)


def test_shares_of_a_slurm_job_in_a_slinky_pod_refine_that_pods_gpus() -> None:
    """Two jobs share a GPU of the pod by shards, a third holds the other one; the pod holds the rest of the time."""
    shares = {"count": 1, "device_indexes": "0"}
    world = World().add(
        machine(),
        node("k1", {"": 4}, scheduler="kubernetes"),
        node("slinky-0", {"": 2}, at=0, sharing="time-slicing", replicas=4),
        slurmd(**{"gpuwatch.io/hostname": "slinky-0"}),
        other(),
        claim("7", 600, 1200, node="slinky-0", labels=f'{{"{SHARES_LABEL}":1}}', **shares),
        claim("8", 900, 1200, node="slinky-0", labels=f'{{"{SHARES_LABEL}":3}}', **shares),
        claim("9", 600, 1200, node="slinky-0", count=1, device_indexes="1"),
    )
    world.book()

    held = world.store.sql(
        """select d.gpu, (s.start_us - $t0) // 1000000, (s.end_us - $t0) // 1000000, coalesce(r.run_key, s.free_bucket),
            s.share_num, s.share_den
        from segment s join device d using (device_id) left join run r using (run_id) where s.end_us > $t0 order by all""",
        t0=us(0),
    )
    on_a = [
        (start, end, who.partition("@")[0], Fraction(num, den))
        for gpu, start, end, who, num, den in held
        if gpu == "GPU-a"
    ]
    assert [
        (0, 600, "u1", 1),
        (600, 900, "7", 1),
        (900, 1200, "7", Fraction(1, 4)),
        (900, 1200, "8", Fraction(3, 4)),
        (1200, 3600, "u1", 1),
    ] == [row for row in on_a if row[1] <= 3600 and row[0] >= 0]
    assert ["u1", "9", "u1"] == owners(world)["GPU-b"]
    assert ["u2"] == owners(world)["GPU-c"]
    assert [(4,)] == world.store.sql("select count(*) from device")
    assert whole(world)


def whole(world: World) -> bool:
    """Whether the parts of every device add up to it at each moment."""
    seconds = world.store.sql(
        """select device_id, sum((end_us - start_us)::hugeint * share_num * 5040 // share_den), max(end_us) - min(start_us)
        from segment group by device_id"""
    )
    return all(held == 5040 * span for _, held, span in seconds)


def test_with_mps_the_slinky_pod_keeps_the_shares_that_no_job_asked_for() -> None:
    world = World().add(
        machine(),
        node("slinky-0", {"": 2}, at=0, sharing="mps", replicas=100),
        slurmd(**{"gpuwatch.io/hostname": "slinky-0"}),
        claim("7", 0, HOUR, node="slinky-0", count=1, device_indexes="0", labels=f'{{"{SHARES_LABEL}":25}}'),
    )
    world.book()

    parts = world.store.sql(
        """select r.run_key, s.share_num / s.share_den::double, s.split
        from segment s join device d using (device_id) join run r using (run_id)
        where d.gpu = 'GPU-a' and s.start_us = $start order by all""",
        start=us(0),
    )
    assert [("7", 0.25, "replica"), ("u1", 0.75, "fraction")] == [
        (who.partition("@")[0], *rest) for who, *rest in parts
    ]
    assert whole(world)


def test_shares_of_a_slinky_pod_without_indexes_stay_in_the_pod() -> None:
    world = World().add(
        machine(),
        node("k1", {"": 4}, scheduler="kubernetes"),
        node("slinky-0", {"": 2}, at=0, sharing="time-slicing", replicas=4),
        slurmd(**{"gpuwatch.io/hostname": "slinky-0"}),
        other(),
        *(claim(f"{n}", 600, 1200, node="slinky-0", labels=f'{{"{SHARES_LABEL}":{n}}}') for n in (3, 4, 9)),
    )
    world.book()

    found = owners(world)
    assert (["u2"], ["schedulable"]) == (found["GPU-c"], found["GPU-d"])
    assert {"3", "4", "9"} <= {who.split()[0] for gpu in ("GPU-a", "GPU-b") for who in found[gpu]}
    assert [(4,)] == world.store.sql("select count(*) from device")


def test_a_total_over_two_slinky_pods_leaves_another_job_its_gpu() -> None:
    """Accounting divides three GPUs as 2 + 1; the first pod has one free beside a job whose index is known."""
    second = {"nodeset.slinky.slurm.net/pod-name": "slurm-worker-slinky-1", "gpuwatch.io/hostname": "slinky-1"}
    text = json.dumps(second, separators=(",", ":"))
    world = World().add(
        machine(),
        node("k1", {"": 4}, scheduler="kubernetes"),
        slurmd(**{"gpuwatch.io/hostname": "slinky-0"}),
        pod("slurm-worker-slinky-1", "u3", 0, HOUR, "k1", count=2, gpus="GPU-c,GPU-d", labels=text),
        *(claim("7", 0, HOUR, node=f"slinky-{number}", count=count) for number, count in ((0, 2), (1, 1))),
        claim("8", 0, HOUR, node="slinky-0", kind="scontrol", device_indexes="0", evidence=HOUR),
    )
    world.book()

    held = {device: (who.split()[0], share) for device, _, _, who, share in world.segments()}
    assert {"GPU-a": ("8", "1"), "GPU-b": ("7", "1"), "GPU-c": ("7", "1"), "GPU-d": ("7", "1")} == held


# A GPU of the pod that is replaced on the same day: GPU-b is gone at 1800 s, GPU-e is in its slot from 2400 s.

LONG = 2 * HOUR
HOST = {"gpuwatch.io/hostname": "slinky-0"}


def with_replaced_gpu(*records: dict[str, Any]) -> World:
    """A machine with four GPUs. Within the Slinky pod job 7 has both GPUs; later 8 has the second by its index and 9 one more."""
    world = World().add(
        *(
            samples(Gpu(name, "k1", index, pci=f"00000000:{index + 1}B:00.0"), minutes(start, end), BUSY)
            for name, index, start, end in (
                ("GPU-a", 0, 0, LONG), ("GPU-b", 1, 0, 1800), ("GPU-e", 1, 2400, LONG), ("GPU-c", 2, 0, LONG), ("GPU-d", 3, 0, LONG)
            )
        ),
        node("k1", {"": 4}, scheduler="kubernetes"),
        node("slinky-0", {"": 2}, at=600),
        pod("notebook", "u2", 0, LONG, "k1", gpus="GPU-c"),
        claim("7", 0, 1500, node="slinky-0", count=2),
        claim("8", 2500, 5000, node="slinky-0", device_indexes="1", kind="scontrol"),
        claim("9", 2500, 5000, node="slinky-0"),
        *records,
    )  # fmt: skip
    world.book()
    return world


def slinky_pod(uid: str, start: float, end: float, gpus: str) -> dict[str, Any]:
    labels = json.dumps(SLINKY | HOST, separators=(",", ":"))
    return pod("slurm-worker-slinky-0", uid, start, end, "k1", count=2, gpus=gpus, labels=labels)


RESTARTED = [("u1", 0, 1800, "GPU-a,GPU-b"), ("u3", 2400, LONG, "GPU-a,GPU-e")]
GOES_ON = [("u1", 0, LONG, "GPU-a,GPU-b")]


@pytest.mark.parametrize(
    ("pods", "first"),
    [
        pytest.param(RESTARTED, ["7", "u1", "schedulable", "u3", "9 estimated", "u3"], id="the pod starts again"),
        pytest.param(GOES_ON, ["7", "u1", "9 estimated", "u1"], id="the pod goes on and names the old GPU"),
    ],
)
def test_a_replaced_gpu_of_a_slinky_pod_is_the_pods_and_its_jobs_in_turn(
    pods: list[tuple[str, float, float, str]], first: list[str]
) -> None:
    world = with_replaced_gpu(*(slinky_pod(*one) for one in pods))
    found, last = owners(world), pods[-1][0]

    assert first == found["GPU-a"]
    assert (["7", "u1"], [last, "8", last]) == (found["GPU-b"], found["GPU-e"])
    assert (["u2"], ["schedulable"]) == (found["GPU-c"], found["GPU-d"])
    assert ["GPU-a", "GPU-b", "GPU-c", "GPU-d", "GPU-e"] == sorted(found)
    [(seconds,)] = world.store.sql("select sum(end_us - start_us) / 1e6 from segment where share_num = share_den")
    assert 3 * LONG + 1800 + (LONG - 2400) == seconds, "the slot is empty for ten minutes, and nothing counts twice"
