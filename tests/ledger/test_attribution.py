"""Who held which device, and when: each case of the domain's edge cases in a world of a few devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpuwatch.billing.chargeback import chargeback
from gpuwatch.core.clock import Window
from gpuwatch.core.model import RUN_US_MAX
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds.templates import computed_once
from tests.worlds.town import case
from tests.worlds.world import BUSY, H100, HOUR, Gpu, Sample, Seconds, World, claim, minutes, node, pod, samples, us

A = Gpu(pci="00000000:1B:00.0")
B = Gpu("GPU-b", index=1, pci="00000000:43:00.0")
POD = {"pod": "p-0", "namespace": "lab"}
FREE = "schedulable"
OUT = "out_of_service"


def seen(gpu: Gpu, start: float, end: float, **labels: str | None) -> list[Sample]:
    """A busy device, sampled each minute so that it is owned from start to end."""
    return samples(gpu, minutes(start, end), BUSY, **labels)


def of(world: World, device: str) -> list[tuple[Seconds, Seconds, str]]:
    """Start, end and owner of the segments of one device."""
    return [(a, b, who) for name, a, b, who, _ in world.segments() if name == device]


# What nobody holds.


@case
def test_a_gpu_that_nobody_holds_is_schedulable_from_first_to_last_evidence(world: World) -> Iterator[None]:
    world.add(seen(A, 0, HOUR))
    yield

    assert [("GPU-a", 0, 3600, FREE, "1")] == world.segments()


@case
def test_a_job_without_gpus_or_time_holds_nothing(world: World) -> Iterator[None]:
    world.add(seen(A, 0, HOUR), claim("1", 600, 600), claim("2", None, None))
    yield

    assert [("GPU-a", 0, 3600, FREE, "1")] == world.segments()


def test_an_end_in_the_year_9999_does_not_fill_the_books() -> None:
    """Nor do other jobs of that scheduler hold their devices until then."""
    wild = claim("1", 0, HOUR, "node-a") | {"end_us": 253_402_300_799_000_000}
    world = World().add(seen(A, 0, 2 * HOUR), wild, claim("2", HOUR, None, "node-a", evidence=2 * HOUR)).attribute()

    spans = world.store.sql("select job_id, end_us - start_us, ended from run order by 1")
    assert [("1", RUN_US_MAX, True), ("2", us(2 * HOUR) - us(HOUR), False)] == spans


@case
def test_a_silence_in_the_middle_never_ends_ownership(world: World) -> Iterator[None]:
    world.add(seen(A, 0, 600), seen(A, 3000, HOUR), seen(B, 0, HOUR))
    yield

    assert [(0, 3600, FREE)] == of(world, "GPU-a")


# Kubernetes, whole GPUs.


@case
def test_a_pod_restarted_in_place_keeps_its_device(world: World) -> Iterator[None]:
    world.add(
        seen(A, 0, 1800, **POD, container="main"),
        seen(A, 1920, HOUR, **POD, container="main"),
        pod("p-0", "u1", 0, HOUR, kind="k8s-json"),
        pod("p-0", "u1", 0, HOUR, kind="k8s-json", state="Running"),
    )
    yield

    assert [("GPU-a", 0, 3600, "u1", "1")] == world.segments()


@pytest.mark.parametrize("uid", [True, False], ids=["exporter prints the UID", "exporter prints no UID"])
@case
def test_a_pod_recreated_under_its_name_is_a_new_owner(world: World, uid: bool) -> Iterator[None]:
    first, second = ({"pod_uid": "u1"}, {"pod_uid": "u2"}) if uid else ({}, {})
    world.add(
        seen(A, 0, 1800, **POD, **first),
        seen(A, 1800, HOUR, **POD, **second),
        pod("p-0", "u1", 0, 1790),
        pod("p-0", "u2", 1850, HOUR),
    )
    yield

    assert [(0, 1790, "u1"), (1790, 1850, FREE), (1850, 3600, "u2")] == of(world, "GPU-a")


@case
def test_a_pod_recreated_on_another_gpu_does_not_hold_the_old_one(world: World) -> Iterator[None]:
    world.add(
        seen(A, 0, 1800, **POD),
        seen(A, 1800, HOUR),
        seen(B, 0, 1800),
        seen(B, 1800, HOUR, **POD),
        pod("p-0", "u1", 0, 1790),
        pod("p-0", "u2", 1810, HOUR),
    )
    yield

    assert [(0, 1790, "u1"), (1790, 3600, FREE)] == of(world, "GPU-a")
    assert [(0, 1810, FREE), (1810, 3600, "u2")] == of(world, "GPU-b")


@case
def test_on_overlap_of_an_exclusive_gpu_the_newest_bind_wins_and_is_marked(world: World) -> Iterator[None]:
    world.add(
        seen(A, 0, 1800, pod="old", namespace="lab"),
        seen(A, 1800, HOUR, pod="new", namespace="lab"),
        pod("old", "u1", 0, 2400),
        pod("new", "u2", 1800, HOUR),
    )
    yield

    assert [(0, 1800, "u1"), (1800, 2400, "u2 conflict"), (2400, 3600, "u2")] == of(world, "GPU-a")


@case
def test_labels_that_vanish_for_a_scrape_do_not_end_the_hold_of_a_known_pod(world: World) -> Iterator[None]:
    instants = minutes(0, HOUR)
    world.add(
        samples(A, instants[:30], BUSY, **POD),
        samples(A, instants[30:31], BUSY),
        samples(A, instants[31:], BUSY, **POD),
        pod("p-0", "u1", 0, HOUR),
    )
    yield

    assert [(0, 3600, "u1")] == of(world, "GPU-a")


VANISH = {
    "one scrape: the owner before holds": (1, [(0, 3600, "lab/p-0")]),
    "ten scrapes: nobody is known": (10, [(0, 1800, "lab/p-0"), (1800, 2400, FREE), (2400, 3600, "lab/p-0")]),
}


@pytest.mark.parametrize(("lost", "expected"), VANISH.values(), ids=VANISH)
def test_observed_pods_without_a_scheduler_record(lost: int, expected: list[Any]) -> None:
    instants = minutes(0, HOUR)
    world = World().add(
        samples(A, instants[:30], BUSY, **POD),
        samples(A, instants[30 : 30 + lost], BUSY),
        samples(A, instants[30 + lost :], BUSY, **POD),
    )

    assert expected == of(world.book(), "GPU-a")
    assert [(False,)] == world.store.sql("select declared from run")


@case
def test_declared_owners_stand_before_observed_ones(world: World) -> Iterator[None]:
    world.add(
        seen(A, 0, HOUR, pod="stranger", namespace="lab"),
        pod("p-0", "u1", 600, 1200, gpus="GPU-a"),
    )
    yield

    assert [(0, 600, "lab/stranger"), (600, 1200, "u1"), (1200, 3600, "lab/stranger")] == of(world, "GPU-a")


@case
def test_a_running_pod_is_held_to_the_last_sample_of_its_cluster(world: World) -> Iterator[None]:
    world.add(seen(A, 0, HOUR, **POD), pod("p-0", "u1", 600, None, evidence=1200))
    yield

    assert [(0, 600, FREE), (600, 3600, "u1")] == of(world, "GPU-a")


# Time-slicing.


def shared_rows() -> list[Sample]:
    return seen(A, 0, HOUR, pod="x", namespace="lab") + seen(A, 1800, HOUR, pod="y", namespace="lab")


@case
def test_two_pods_on_a_time_sliced_gpu_pay_equal_shares(world: World) -> Iterator[None]:
    world.add(
        shared_rows(),
        pod("x", "ux", 0, HOUR),
        pod("y", "uy", 1800, HOUR),
        node(devices={"": 1}, scheduler="kubernetes", sharing="time-slicing", replicas=4),
    )
    yield

    expected = [
        ("GPU-a", 0, 1800, "ux", "1"),
        ("GPU-a", 1800, 3600, "ux", "1/2"),
        ("GPU-a", 1800, 3600, "uy", "1/2"),
    ]
    assert expected == world.segments()
    assert 2 * 3_600_000_000 - 1_800_000_000 == sum(world.buckets(A).values())


@case
def test_pods_of_one_gang_on_a_shared_gpu_count_each(world: World) -> Iterator[None]:
    world.add(
        seen(A, 0, HOUR, pod="x", namespace="lab")
        + seen(A, 0, HOUR, pod="y", namespace="lab")
        + seen(A, 0, HOUR, pod="z", namespace="lab"),
        pod("x", "ux", 0, HOUR, run_key="gang") | {"job_id": "lab/gang"},
        pod("y", "uy", 0, HOUR, run_key="gang") | {"job_id": "lab/gang"},
        pod("z", "uz", 0, HOUR),
        node(devices={"": 1}, scheduler="kubernetes", sharing="time-slicing", replicas=4),
    )
    yield

    assert [("GPU-a", 0, 3600, "gang", "2/3"), ("GPU-a", 0, 3600, "uz", "1/3")] == world.segments()


@case
def test_a_time_sliced_gpu_without_a_pod_is_schedulable(world: World) -> Iterator[None]:
    world.add(seen(A, 0, HOUR), node(devices={"": 1}, scheduler="kubernetes", sharing="time-slicing", replicas=4))
    yield

    assert [("GPU-a", 0, 3600, FREE, "1")] == world.segments()


@case
def test_a_pod_of_an_mps_gpu_pays_its_replica_and_the_others_are_free(world: World) -> Iterator[None]:
    world.add(
        seen(A, 0, HOUR, **POD),
        pod("p-0", "u1", 0, HOUR),
        node(devices={"": 1}, scheduler="kubernetes", sharing="mps", replicas=4),
    )
    yield

    assert [("GPU-a", 0, 3600, FREE, "3/4"), ("GPU-a", 0, 3600, "u1", "1/4")] == world.segments()


@case
def test_a_second_exporter_without_labels_does_not_make_a_gpu_shared(world: World) -> Iterator[None]:
    world.add(
        seen(A, 0, HOUR, pod="old", namespace="lab") + seen(A, 0, HOUR, driver="550.54"),
        pod("old", "u1", 0, 2400),
        pod("new", "u2", 1800, HOUR, gpus="GPU-a"),
    )
    yield

    assert [(0, 1800, "u1"), (1800, 2400, "u2 conflict"), (2400, 3600, "u2")] == of(world, "GPU-a")


@case
def test_a_job_and_a_pod_on_one_gpu_are_a_conflict_that_the_newest_wins(world: World) -> Iterator[None]:
    world.add(seen(A, 0, HOUR, **POD), pod("p-0", "u1", 0, HOUR), claim("7", 1200, 1800, gpus="GPU-a"))
    yield

    assert [(0, 1200, "u1"), (1200, 1800, "7 conflict"), (1800, 3600, "u1")] == of(world, "GPU-a")


# Slurm.


@case
def test_two_jobs_of_hpc_job_on_one_gpu_share_it(world: World) -> Iterator[None]:
    world.add(seen(A, 0, HOUR, job="1"), seen(A, 0, HOUR, job="2"), claim("1", 0, HOUR), claim("2", 0, HOUR))
    yield

    assert [("GPU-a", 0, 3600, "1", "1/2"), ("GPU-a", 0, 3600, "2", "1/2")] == world.segments()


@case
def test_labels_tell_the_device_and_the_scheduler_the_times(world: World) -> Iterator[None]:
    world.add(seen(A, 0, 660), seen(A, 660, 1800, job="7"), seen(A, 1800, HOUR), claim("7", 605, 1790))
    yield

    assert [(0, 605, FREE), (605, 1790, "7"), (1790, 3600, FREE)] == of(world, "GPU-a")


def test_a_job_without_an_end_is_held_to_the_last_evidence_of_its_scheduler() -> None:
    world = World().add(
        seen(A, 0, 2 * HOUR, job="7"), claim("7", 0, None, evidence=3000), claim("8", 0, 4000, node="n2", count=0)
    )

    assert [(0, 4000, "7"), (4000, 7200, FREE)] == of(world.book(), "GPU-a")


@case
def test_indexes_of_scontrol_name_the_devices(world: World) -> Iterator[None]:
    world.add(
        seen(A, 0, HOUR),
        seen(B, 0, HOUR),
        claim("7", 0, HOUR, kind="scontrol", device_indexes="1"),
        claim("7", 0, HOUR),
    )
    yield

    assert [("GPU-a", 0, 3600, FREE, "1"), ("GPU-b", 0, 3600, "7", "1")] == world.segments()


@case
def test_with_neither_label_nor_index_free_devices_are_taken_in_order_and_marked(world: World) -> Iterator[None]:
    gpus = [Gpu(f"GPU-{i}", index=i) for i in range(3)]
    world.add(
        *(seen(g, 0, HOUR) for g in gpus),
        claim("7", 0, HOUR),
        claim("8", 600, HOUR),
        claim("9", 0, HOUR, device_indexes="1", kind="scontrol"),
    )
    yield

    assert [(0, 3600, "7 estimated")] == of(world, "GPU-0")
    assert [(0, 3600, "9")] == of(world, "GPU-1")
    assert [(0, 600, FREE), (600, 3600, "8 estimated")] == of(world, "GPU-2")


@case
def test_the_gpu_that_the_exporter_leaves_out_of_eight_is_held_unobserved(world: World) -> Iterator[None]:
    gpus = [Gpu(f"GPU-{i}", index=i) for i in range(8) if i != 5]
    world.add(*(seen(g, 0, HOUR, job="7") for g in gpus), claim("7", 0, HOUR, count=8), node(devices={"": 8}))
    yield

    assert [(0, 3600, "7 estimated")] == of(world, "n1/gpu5")
    assert {"7"} == {who for name, _, _, who, _ in world.segments() if name != "n1/gpu5"}
    assert 3600.0 == world.held()["unobserved"]


@case
def test_a_node_that_was_never_exported_is_owned_from_its_scheduler_s_words(world: World) -> Iterator[None]:
    world.add(
        seen(A, 0, HOUR),
        claim("7", 600, 3000, node="dark", count=1),
        node("dark", {"": 2}, at=0),
        node("dark", {"": 2}, at=HOUR),
    )
    yield

    assert [(0, 600, FREE), (600, 3000, "7 estimated"), (3000, 3600, FREE)] == of(world, "dark/gpu0")
    assert [(0, 3600, FREE)] == of(world, "dark/gpu1")


@case
def test_a_drained_node_is_out_of_service_where_nobody_holds_it(world: World) -> Iterator[None]:
    world.add(
        seen(A, 0, HOUR, job="7"),
        seen(B, 0, HOUR),
        claim("7", 0, 1800),
        node(state="drain", since_us=us(1200), at=1300),
        node(state="up", at=3000),
    )
    yield

    assert [(0, 1800, "7"), (1800, 3000, OUT), (3000, 3600, FREE)] == of(world, "GPU-a")
    assert [(0, 1200, FREE), (1200, 3000, OUT), (3000, 3600, FREE)] == of(world, "GPU-b")


@case
def test_array_tasks_are_jobs_of_their_own(world: World) -> Iterator[None]:
    world.add(
        seen(A, 0, HOUR, job="42_1"),
        seen(B, 0, HOUR, job="42_2"),
        claim("42_1", 0, HOUR, run_key="43@0"),
        claim("42_2", 0, HOUR, run_key="44@0"),
    )
    yield

    assert [("GPU-a", 0, 3600, "43@0", "1"), ("GPU-b", 0, 3600, "44@0", "1")] == world.segments()


@case
def test_array_tasks_labelled_with_their_raw_job_id_are_found(world: World) -> Iterator[None]:
    world.add(
        seen(A, 0, HOUR, job="43"),
        seen(B, 0, HOUR, job="44"),
        claim("42_1", 0, HOUR, run_key="43@0"),
        claim("42_2", 0, HOUR, run_key="44@0"),
    )
    yield

    assert [("GPU-a", 0, 3600, "43@0", "1"), ("GPU-b", 0, 3600, "44@0", "1")] == world.segments()


@case
def test_a_requeued_job_is_two_runs(world: World) -> Iterator[None]:
    world.add(seen(A, 0, HOUR, job="7"), claim("7", 0, 1700, run_key="7@0"), claim("7", 1760, HOUR, run_key="7@1760"))
    yield

    assert [(0, 1700, "7@0"), (1700, 1760, FREE), (1760, 3600, "7@1760")] == of(world, "GPU-a")


@case
def test_a_job_requeued_to_another_gpu_does_not_hold_the_old_one(world: World) -> Iterator[None]:
    world.add(
        seen(A, 0, 1800, job="7"),
        seen(A, 1800, HOUR),
        seen(B, 0, 1800),
        seen(B, 1800, HOUR, job="7"),
        claim("7", 0, 1790, run_key="7@0"),
        claim("7", 1810, HOUR, run_key="7@1810"),
    )
    yield

    assert [(0, 1790, "7@0"), (1790, 3600, FREE)] == of(world, "GPU-a")
    assert [(0, 1810, FREE), (1810, 3600, "7@1810")] == of(world, "GPU-b")


@case
def test_back_to_back_jobs_change_owner_at_the_scheduler_s_instant(world: World) -> Iterator[None]:
    world.add(seen(A, 0, 1860, job="7"), seen(A, 1860, HOUR, job="8"), claim("7", 0, 1800), claim("8", 1800, HOUR))
    yield

    assert [(0, 1800, "7"), (1800, 3600, "8")] == of(world, "GPU-a")


# Devices that come and go.


@case
def test_a_gpu_replaced_in_its_slot_closes_at_its_own_last_sample(world: World) -> Iterator[None]:
    new = Gpu("GPU-new", pci=A.pci)
    world.add(seen(A, 0, 1800), seen(new, 2400, HOUR), seen(B, 0, HOUR))
    yield

    assert [(0, 1800, FREE)] == of(world, "GPU-a")
    assert [(2400, 3600, FREE)] == of(world, "GPU-new")


@case
def test_a_gpu_that_vanished_is_out_of_service_and_not_idle(world: World) -> Iterator[None]:
    world.add(seen(A, 0, 1800), seen(B, 0, HOUR))
    yield

    assert [(0, 1800, FREE), (1800, 3600, OUT)] == of(world, "GPU-a")


@case
def test_a_gpu_that_vanished_under_a_job_is_held_to_the_job_s_end(world: World) -> Iterator[None]:
    world.add(seen(A, 0, 1800, job="7"), seen(B, 0, HOUR), claim("7", 0, 2400))
    yield

    assert [(0, 2400, "7"), (2400, 3600, OUT)] == of(world, "GPU-a")
    assert 600.0 == world.held()["unobserved"]


# MIG.


def gi(number: int, profile: str, uuid: str = "GPU-a") -> Gpu:
    return Gpu(uuid, gi=number, profile=profile)


def shares(world: World, at: float) -> dict[str, str]:
    """Share of the GPU by device at an instant."""
    return {name: share for name, a, b, _, share in world.segments() if a <= at < b}


LAYOUTS = {
    "seven slices are the whole GPU": (["1g.10gb"] * 7, ["1/7"] * 7, None),
    "3g leaves a half": (["3g.40gb"], ["1/2"], "1/2"),
    "3g with 2g and 1g leaves a fourteenth": (["3g.40gb", "2g.20gb", "1g.10gb"], ["1/2", "2/7", "1/7"], "1/14"),
    "4g with 3g is scaled to one GPU": (["4g.40gb", "3g.40gb"], ["8/15", "7/15"], None),
    "3g, 2g and two 1g are scaled to one GPU": (
        ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"],
        ["7/15", "4/15", "2/15", "2/15"],
        None,
    ),
    "four slices of double memory are the whole GPU": (["1g.20gb"] * 4, ["1/4"] * 4, None),
    "a slice of all is the whole GPU": (["7g.80gb"], ["1"], None),
}


@pytest.mark.parametrize(("profiles", "expected", "remainder"), LAYOUTS.values(), ids=LAYOUTS)
@case
def test_shares_of_a_layout(
    world: World, profiles: list[str], expected: list[str], remainder: str | None
) -> Iterator[None]:
    slices = [gi(i + 1, profile) for i, profile in enumerate(profiles)]
    world.add(*(seen(s, 0, HOUR) for s in slices))
    yield

    parts = {f"GPU-a/GI-{i + 1}": share for i, share in enumerate(expected)}
    assert parts | ({"GPU-a": remainder} if remainder else {}) == shares(world, 0)
    assert {"mig_remainder"} == {s[3] for s in world.segments() if s[0] == "GPU-a"} or remainder is None


@case
def test_a_pod_on_a_slice_of_a_mixed_node_pays_its_share(world: World) -> Iterator[None]:
    small, large = gi(7, "1g.10gb"), gi(1, "3g.40gb")
    world.add(
        seen(small, 0, HOUR, **POD),
        seen(large, 0, HOUR),
        seen(B, 0, HOUR),
        pod("p-0", "u1", 0, HOUR, profile="1g.10gb"),
        node(devices={"": 1, "1g.10gb": 1, "3g.40gb": 1}, scheduler="kubernetes", mig_strategy="mixed"),
    )
    yield

    expected = [
        ("GPU-a", 0, 3600, "mig_remainder", "5/14"),
        ("GPU-a/GI-1", 0, 3600, FREE, "1/2"),
        ("GPU-a/GI-7", 0, 3600, "u1", "1/7"),
        ("GPU-b", 0, 3600, FREE, "1"),
    ]
    assert expected == world.segments()


@case
def test_under_the_single_strategy_a_gpu_request_is_a_slice(world: World) -> Iterator[None]:
    slices = [gi(7 + i, "1g.10gb") for i in range(7)]
    world.add(
        *(seen(s, 0, HOUR) for s in slices),
        pod("p-0", "u1", 0, HOUR),
        node(devices={"1g.10gb": 7}, scheduler="kubernetes", mig_strategy="single"),
    )
    yield

    held = [s for s in world.segments() if s[3] != FREE]
    assert [("GPU-a/GI-7", 0, 3600, "u1 estimated", "1/7")] == held


@case
def test_slices_of_an_unexported_node_weigh_their_share(world: World) -> Iterator[None]:
    world.add(
        seen(Gpu(node="n0"), 0, HOUR),
        claim("7", 0, HOUR, node="dark", profile="1g.10gb"),
        node("dark", {"1g.10gb": 7}, gpu_model=H100),
    )
    yield

    assert [("dark/1g.10gb/0", 0, 3600, "7 estimated", "1/7")] == [s for s in world.segments() if "7" in s[3]]


@computed_once
def repartitioned() -> World:
    """3g + 1g (GI ids 2 and 1) for half an hour, then seven 1g of which one is GI 2 again."""
    before = [gi(1, "1g.10gb"), gi(2, "3g.40gb")]
    after = [gi(2 + i, "1g.10gb") for i in range(7)]
    return World().add(
        *(seen(s, 0, 1800, pod=f"old-{s.gi}", namespace="lab") for s in before),
        *(seen(s, 1920, HOUR) for s in after),
        pod("old-2", "u1", 0, 1800, profile="3g.40gb"),
    )


def test_after_a_repartition_gi_ids_mean_other_slices() -> None:
    world = repartitioned().book()

    assert {"GPU-a": "5/14", "GPU-a/GI-1": "1/7", "GPU-a/GI-2": "1/2"} == shares(world, 900)
    assert {f"GPU-a/GI-{i}": "1/7" for i in range(2, 9)} == shares(world, 2700)
    assert [(0, 1800, "u1")] == [s for s in of(world, "GPU-a/GI-2") if s[2] == "u1"]


def test_the_seconds_of_an_old_layout_are_charged_under_its_own_profile() -> None:
    world = repartitioned().book()
    state = State.open("sqlite://")
    book = chargeback(world.store, state, Window(us(0), us(HOUR)), ["mig_profile"])

    assert ["3g.40gb"] == [i.group["mig_profile"] for i in book.items if i.kind == "allocated" and i.gpu_seconds == 900]


@case
def test_mig_switched_on_turns_the_gpu_into_its_slices(world: World) -> Iterator[None]:
    slices = [gi(7 + i, "1g.10gb") for i in range(7)]
    world.add(seen(A, 0, 1800, job="7"), *(seen(s, 1860, HOUR) for s in slices), claim("7", 0, 1800))
    yield

    assert (0, 1800, "7") == of(world, "GPU-a")[0]
    assert {f"GPU-a/GI-{7 + i}": "1/7" for i in range(7)} == shares(world, 2700)


# Whatever the order, the answer is the same.


def test_attributing_again_changes_nothing_and_dirties_nothing() -> None:
    world = repartitioned().book()
    before = world.derived()

    world.attribute()

    assert before == world.derived()
    assert [(0,)] == world.store.sql("select count(*) from dirty_hour")


def test_a_later_record_dirties_only_its_hours_and_their_neighbours() -> None:
    world = World().add(seen(A, 0, 10 * HOUR, job="7"), claim("7", 0, None, evidence=5 * HOUR)).book()
    world.add(claim("7", 0, 5 * HOUR + 600)).attribute()

    hours = [(h - us(0)) // 3_600_000_000 for (h,) in world.store.sql("select hour_us from dirty_hour order by 1")]
    assert [4, 5, 6] == hours


def test_an_attribution_that_is_interrupted_leaves_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World().add(seen(A, 0, HOUR, job="7"), claim("7", 0, HOUR)).book()
    before, run = world.derived(), Store.run

    def torn(own: Store, name: str, /, **parameters: object) -> int:
        changed = run(own, name, **parameters)
        if name == "ledger/attribution/50_replace":
            raise KeyboardInterrupt
        return changed

    world.add(claim("8", 600, 1200, gpus="GPU-a"))
    with monkeypatch.context() as patch:
        patch.setattr(Store, "run", torn)
        with pytest.raises(KeyboardInterrupt):
            world.attribute()

    assert before == world.derived()
    assert [(0, 600, "7"), (600, 1200, "8 conflict"), (1200, 3600, "7")] == of(world.attribute(), "GPU-a")


# Nodes by other names.

NODE_NAMES = {
    "with its domain": "n1.cluster.local",
    "in capitals": "N1",
    "as the exporter's own pod": "dcgm-exporter-x7k2p",
}


@pytest.mark.parametrize("name", NODE_NAMES.values(), ids=NODE_NAMES)
@case
def test_a_node_that_the_exporter_names_otherwise_is_counted_once(world: World, name: str) -> Iterator[None]:
    world.add(seen(Gpu(node=name), 0, HOUR, job="7"), claim("7", 0, HOUR), node(devices={"": 1}))
    yield

    assert [("GPU-a", 0, 3600, "7", "1")] == world.segments()


@case
def test_the_dark_node_of_a_job_on_two_nodes_is_held_too(world: World) -> Iterator[None]:
    world.add(seen(A, 0, HOUR, job="7"), claim("7", 0, HOUR), claim("7", 0, HOUR, node="n2"), node("n2", {"": 1}))
    yield

    expected = [("GPU-a", 0, 3600, "7", "1"), ("n2/gpu0", 0, 3600, "7 estimated", "1")]
    assert expected == world.segments()


@case
def test_a_job_too_short_to_be_seen_is_placed_and_marked(world: World) -> Iterator[None]:
    world.add(seen(A, 0, HOUR), seen(B, 0, HOUR), claim("7", 1800, 1820), node(devices={"": 2}))
    yield

    assert [(0, 1800, FREE), (1800, 1820, "7 estimated"), (1820, 3600, FREE)] == of(world, "GPU-a")


@case
def test_indexes_that_are_no_numbers_name_nothing(world: World) -> Iterator[None]:
    world.add(seen(A, 0, HOUR), claim("7", 0, HOUR, device_indexes="", kind="scontrol"), node(devices={"": 1}))
    yield

    assert [(0, 3600, "7 estimated")] == of(world, "GPU-a")


def test_totals_and_nodes_of_one_run_are_not_held_twice() -> None:
    """sacct spreads 4 GPUs evenly, scontrol knows 3 and 1: the run has 4."""
    world = World()
    gpus = [Gpu(f"GPU-{node}{index}", node, index) for node in ("n1", "n2") for index in range(4)]
    for gpu in gpus:
        world.add(samples(gpu, minutes(0, HOUR), BUSY))
    world.add(
        claim("7", 0, HOUR, "n1", 2),
        claim("7", 0, HOUR, "n2", 2),
        claim("7", 0, None, "n1", 3, evidence=HOUR / 2, kind="scontrol", device_indexes="0,1,2"),
        claim("7", 0, None, "n2", 1, evidence=HOUR / 2, kind="scontrol", device_indexes="0"),
    )
    world.attribute()

    assert [("n1", 3, 3 * HOUR * 10**6), ("n2", 1, HOUR * 10**6)] == world.store.sql(
        """select d.node, count(distinct s.device_id), sum(s.end_us - s.start_us)::bigint
        from segment s join device d using (device_id) where s.run_id is not null group by 1 order by 1"""
    )
