"""The fleet now: what is there, reports, is held and works; silence is not rest, and silence does not end ownership."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.billing import chargeback
from gpuwatch.capacity.fleet import fleet
from gpuwatch.core.clock import MINUTE_US, rfc3339
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds.facts import fleet_of_three
from tests.worlds.world import BUSY, HOUR, IDLE, T0_US, Gpu, World, claim, minutes, node, pod, samples, us

NOW_US = us(HOUR)
NONE = {"total": 0, "reporting": 0, "allocated": 0, "active": 0, "effective": 0, "effective_known": 0}
FULL = {"total": 1, "reporting": 1, "allocated": 1, "active": 1, "effective": 0.5, "effective_known": 1}
"""One held GPU that is BUSY."""
NO_PROF = {"gpu_util_ratio": 0.97, "fb_used_bytes": 60e9, "power_watts": 612.0}
"""What an exporter gives whose profiling fields are commented out."""
AS_OF = rfc3339(NOW_US - 2 * MINUTE_US)
"""The last sample lies half a minute before the hour; an interval before that the books are sure of every device."""


def look(world: World, now_us: int = NOW_US, **asked: Any) -> dict[str, Any]:
    with world.book().store as store, State.open("sqlite://") as state:
        chargeback.price_all(store, state)
        return fleet(store, now_us, **asked)


def gpus(world: World, now_us: int = NOW_US, **asked: Any) -> dict[str, Any]:
    found: dict[str, Any] = look(world, now_us, **asked)["total"]["gpus"]
    return found


def test_an_empty_store_has_no_fleet() -> None:
    with Store.open(None, threads=1) as store:
        found = fleet(store, NOW_US)

    assert {
        "at": rfc3339(NOW_US),
        "as_of": None,
        "items": [],
        "total": {"gpus": NONE, "slices": NONE, "partitioned": 0},
    } == found


def test_a_held_gpu_that_works() -> None:
    """BUSY works at half of the tensor roof."""
    world = World().add(node("n1", {"": 1}), claim("1", 0, None, evidence=HOUR), samples(Gpu(), minutes(0, HOUR)))
    found = look(world)

    assert AS_OF == found["as_of"]
    assert FULL == found["total"]["gpus"]
    assert NONE == found["total"]["slices"]


def test_a_free_gpu_is_there_and_rests() -> None:
    world = World().add(node("n1", {"": 1}), samples(Gpu(), minutes(0, HOUR)))

    assert NONE | {"total": 1, "reporting": 1} == gpus(world)


def test_a_hoarded_gpu_is_allocated_and_not_active() -> None:
    world = World().add(node("n1", {"": 1}), claim("1", 0, None, evidence=HOUR), samples(Gpu(), minutes(0, HOUR), IDLE))

    assert {"total": 1, "reporting": 1, "allocated": 1, "active": 0, "effective": 0, "effective_known": 1} == gpus(
        world
    )


def test_half_of_the_last_minutes_is_half_a_gpu() -> None:
    """Busy at 00:56:30, which covers the minute before: half of the five minutes to 00:58."""
    turn = 56 * 60
    world = World().add(
        node("n1", {"": 1}),
        claim("1", 0, None, evidence=HOUR),
        samples(Gpu(), minutes(0, turn), IDLE),
        samples(Gpu(), minutes(turn, HOUR), BUSY),
    )

    assert {"total": 1, "reporting": 1, "allocated": 1, "active": 0.5, "effective": 0.25, "effective_known": 1} == gpus(
        world
    )


def test_a_job_that_ended_holds_nothing_now() -> None:
    world = World().add(node("n1", {"": 1}), claim("1", 0, HOUR // 2), samples(Gpu(), minutes(0, HOUR)))

    assert NONE | {"total": 1, "reporting": 1} == gpus(world)


def test_a_scheduler_that_spoke_minutes_ago_still_holds() -> None:
    """Polled at 00:50, sampled until 01:00: the books are sure until 00:50."""
    world = World().add(node("n1", {"": 1}), claim("1", 0, None, evidence=3000), samples(Gpu(), minutes(0, HOUR)))
    found = look(world)

    assert rfc3339(us(3000)) == found["as_of"]
    assert (1, 1) == (found["total"]["gpus"]["allocated"], found["total"]["gpus"]["active"])


def test_a_scheduler_that_spoke_long_ago_says_nothing_of_now() -> None:
    world = World().add(node("n1", {"": 1}), claim("1", 0, None, evidence=1800), samples(Gpu(), minutes(0, HOUR)))
    found = look(world)

    assert AS_OF == found["as_of"]
    assert 0 == found["total"]["gpus"]["allocated"]


def test_a_silent_gpu_is_there_and_does_not_report() -> None:
    a, b = Gpu("GPU-a"), Gpu("GPU-b", index=1)
    world = World().add(node("n1", {"": 2}), samples(a, minutes(0, HOUR)), samples(b, minutes(0, HOUR - 600)))

    assert NONE | {"total": 2, "reporting": 1} == gpus(world)


@pytest.mark.parametrize(
    ("later_us", "expected"),
    [
        pytest.param(4 * MINUTE_US, 1, id="four minutes without a sample"),
        pytest.param(6 * MINUTE_US, 0, id="six minutes: the whole cluster is silent"),
    ],
)
def test_a_silent_cluster_does_not_report(later_us: int, expected: int) -> None:
    world = World().add(node("n1", {"": 1}), samples(Gpu(), minutes(0, HOUR)))

    assert expected == gpus(world, NOW_US + later_us)["reporting"]


def test_a_sample_that_is_not_booked_yet_reports() -> None:
    """The books end at 01:00; a sample came at 01:09."""
    world = World().add(node("n1", {"": 1}), samples(Gpu(), minutes(0, HOUR))).book()
    world.add(samples(Gpu(), [HOUR + 540]))
    with world.store:
        assert 1 == fleet(world.store, us(HOUR + 600))["total"]["gpus"]["reporting"]


def test_a_replaced_gpu_is_gone() -> None:
    """Another UUID in the same slot half an hour later."""
    old, new = Gpu("GPU-old", pci="00000000:01:00.0"), Gpu("GPU-new", pci="00000000:01:00.0")
    world = World().add(samples(old, minutes(0, HOUR // 2)), samples(new, minutes(HOUR // 2, HOUR)))

    assert NONE | {"total": 1, "reporting": 1} == gpus(world)


def test_a_gpu_that_only_the_scheduler_knows_is_there() -> None:
    world = World().add(node("n1", {"": 2}, at=HOUR), samples(Gpu(), minutes(0, HOUR)))

    assert NONE | {"total": 2, "reporting": 1} == gpus(world)


def test_a_held_gpu_that_nobody_measures_is_not_known_to_work() -> None:
    world = World().add(node("n1", {"": 1}, at=HOUR), claim("1", 0, None, evidence=HOUR))

    assert NONE | {"total": 1, "allocated": 1, "active": None, "effective": None} == gpus(world)


def test_a_busy_gpu_without_sm_activity_is_not_known_to_work() -> None:
    """An exporter without DCGM_FI_PROF_*: busy by name, at 97 %."""
    world = World().add(
        node("n1", {"": 1}), claim("1", 0, None, evidence=HOUR), samples(Gpu(), minutes(0, HOUR), NO_PROF)
    )
    found = look(world)
    expected = NONE | {"total": 1, "reporting": 1, "allocated": 1, "active": None, "effective": None}

    assert expected == found["total"]["gpus"]
    assert expected == found["items"][0]["gpus"]


def test_a_gpu_at_rest_by_name_is_known_not_to_work() -> None:
    world = World().add(
        node("n1", {"": 1}),
        claim("1", 0, None, evidence=HOUR),
        samples(Gpu(), minutes(0, HOUR), NO_PROF | {"gpu_util_ratio": 0.0}),
    )

    assert 0 == gpus(world)["effective"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"sm_active_ratio": 0.6}, {"active": 1, "effective": None}, id="SM activity, no pipe and no DRAM"),
        pytest.param(
            {"sm_active_ratio": 0.8, "dram_active_ratio": 0.2},
            {"active": 1, "effective_known": 1},
            id="SM and DRAM activity",
        ),
    ],
)
def test_what_the_sms_do_is_known_by_parts(fields: dict[str, float], expected: dict[str, Any]) -> None:
    world = World().add(
        node("n1", {"": 1}),
        claim("1", 0, None, evidence=HOUR),
        samples(Gpu(), minutes(0, HOUR), {"gr_engine_ratio": 1.0} | fields),
    )
    found = gpus(world)

    assert expected == {name: found[name] for name in expected}


def test_effective_counts_the_gpus_that_are_measured_and_says_how_many() -> None:
    world = World().add(
        node("n1", {"": 2}),
        claim("1", 0, None, evidence=HOUR, count=2),
        samples(Gpu(), minutes(0, HOUR)),
        samples(Gpu("GPU-b", index=1), minutes(0, HOUR), NO_PROF),
    )

    assert FULL | {"total": 2, "reporting": 2, "allocated": 2} == gpus(world)


def test_slices_are_counted_apart_from_whole_gpus() -> None:
    """Two slices of one GPU, one held by a pod; a whole GPU beside it."""
    slices = [Gpu("GPU-a", gi=gi, profile="3g.40gb") for gi in (1, 2)]
    world = World().add(
        pod("one", "u1", 0, None, profile="3g.40gb"),
        samples(slices[0], minutes(0, HOUR), BUSY, pod="one", namespace="lab"),
        samples(slices[1], minutes(0, HOUR), IDLE),
        samples(Gpu("GPU-b", index=1), minutes(0, HOUR), IDLE),
    )
    found = look(world)

    assert FULL | {"total": 2, "reporting": 2} == found["total"]["slices"]
    assert NONE | {"total": 1, "reporting": 1} == found["total"]["gpus"]
    assert 1 == found["total"]["partitioned"]


def test_slices_that_only_the_scheduler_reports_are_no_whole_gpus() -> None:
    """Seven slices and two whole GPUs of a node without an exporter; which GPU the slices are on is not known."""
    world = World().add(
        node("n1", {"": 1}),
        samples(Gpu(), minutes(0, HOUR)),
        node("dark", {"": 2, "1g.10gb": 7}, at=0),
        node("dark", {"": 2, "1g.10gb": 7}, at=HOUR),
    )
    total = look(world)["total"]

    assert (3, 7, 0) == (total["gpus"]["total"], total["slices"]["total"], total["partitioned"])


def test_a_gpu_that_two_share_is_one_gpu() -> None:
    """Time slices: two pods on one GPU."""
    world = World().add(
        node("n1", {"": 1}, sharing="time-slicing", replicas=2),
        pod("one", "u1", 0, None, gpus="GPU-a"),
        pod("two", "u2", 0, None, gpus="GPU-a"),
        samples(Gpu(), minutes(0, HOUR), BUSY, pod="one", namespace="lab"),
    )

    assert FULL == gpus(world)


@pytest.mark.parametrize(
    ("teams", "expected"),
    [
        pytest.param([], NONE, id="no team"),
        pytest.param(["__platform__"], NONE, id="what nobody holds is nobody's"),
        pytest.param(["search"], FULL | {"active": 0, "effective": 0}, id="one idle GPU"),
        pytest.param(
            ["search", "__unallocated__"],
            FULL | {"total": 2, "reporting": 2, "allocated": 2, "effective_known": 2},
            id="and the one whose team is not known",
        ),
    ],
)
def test_a_team_sees_what_it_holds(teams: list[str], expected: dict[str, Any]) -> None:
    world, state = fleet_of_three()
    with world.store, state:
        found = fleet(world.store, T0_US + 2 * HOUR * 1_000_000, teams)

    assert expected == found["total"]["gpus"]


def test_items_are_clusters_pools_and_models() -> None:
    other = Gpu("GPU-b", "n2", model="NVIDIA A100-SXM4-80GB")
    world = World().add(
        node("n1", {"": 1}, pool="train"), samples(Gpu(), minutes(0, HOUR)), samples(other, minutes(0, HOUR))
    )

    assert [
        ("c1", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", 1, AS_OF),
        ("c1", "train", "NVIDIA H100 80GB HBM3", 1, AS_OF),
    ] == [(i["cluster"], i["pool"], i["gpu_model"], i["gpus"]["total"], i["as_of"]) for i in look(world)["items"]]
