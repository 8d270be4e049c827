"""GPUs that several owners share: by what they are divided, and that nothing is counted twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.core.clock import DAY_US
from gpuwatch.ledger import hours as ledger_hours
from tests.worlds.retention import retain_all
from tests.worlds.steady import steady
from tests.worlds.town import case
from tests.worlds.world import (
    BUSY,
    CLUSTER,
    HOUR,
    IDLE,
    SETTINGS,
    T0_US,
    Gpu,
    Sample,
    Seconds,
    World,
    claim,
    minutes,
    node,
    pod,
    samples,
)

A = Gpu()
BY_PROCESS = TOWN = replace(SETTINGS, sharing_split="process")


def sliced(replicas: int = 4, sharing: str = "time-slicing") -> dict[str, Any]:
    """A node whose one GPU is shared."""
    return node(devices={"": 1}, scheduler="kubernetes", sharing=sharing, replicas=replicas)


def used(name: str, start: Seconds, end: Seconds, util: float, device: float | None = None) -> list[Sample]:
    """An exporter's rows for one pod: profiling of the device, utilisation of the pod's own processes."""
    return samples(A, minutes(start, end), BUSY | {"gpu_util_ratio": util}, namespace="lab", pod=name)


def whole(start: Seconds, end: Seconds, util: float) -> list[Sample]:
    """The exporter's row for the device beside those of its pods."""
    return samples(A, minutes(start, end), BUSY | {"gpu_util_ratio": util})


def pods(*names: str, end: Seconds = HOUR) -> list[dict[str, Any]]:
    return [pod(name, f"u-{name}", 0, end) for name in names]


def splits(world: World) -> list[tuple[Seconds, Seconds, str, str, str | None]]:
    """Start, end, owner, share and what it was divided by."""
    how = {(row["start_us"], row["run_id"]): row["split"] for row in world.rows("segment")}
    runs = {row["run_id"]: row["run_key"] for row in world.rows("run")}
    by_name = {(start, runs.get(run, "")): split for (start, run), split in how.items()}
    return [
        (a, b, who, share, by_name.get((T0_US + int(a * 1_000_000), who if who in runs.values() else "")))
        for _, a, b, who, share in world.segments()
    ]


def close(world: World) -> None:
    """The shares of a device add up to one at every instant, and so do the books of every hour."""
    at: dict[Any, Fraction] = defaultdict(Fraction)
    for row in world.rows("segment"):
        assert row["share_num"] >= 0
        at[row["device_id"], row["start_us"], row["end_us"]] += Fraction(row["share_num"], row["share_den"])
    assert {Fraction(1)} == set(at.values())
    world.check()


# What must not divide.


@pytest.mark.parametrize(
    ("rows", "how"),
    [
        pytest.param([used("x", 0, HOUR, 0.8), used("y", 0, HOUR, 0.8)], "bound", id="each row repeats the device's value"),
        pytest.param([used("x", 0, HOUR, 0.8), used("y", 0, HOUR, 0.8), whole(0, HOUR, 0.8)], "bound",
                     id="a second exporter's row beside rows that repeat the device's value"),
        pytest.param([used("x", 0, HOUR, 0.0), used("y", 0, HOUR, 0.0), whole(0, HOUR, 0.0)], "bound",
                     id="nobody used anything"),
        pytest.param([samples(A, minutes(0, HOUR), BUSY, namespace="lab", pod="x"),
                      samples(A, minutes(0, HOUR), BUSY, namespace="lab", pod="y")], "bound",
                     id="nobody read utilisation"),
    ],
)  # fmt: skip
@case
def test_what_is_no_reading_of_processes_divides_equally(
    world: World, rows: list[list[Sample]], how: str
) -> Iterator[None]:
    world.add(*rows, *pods("x", "y"), sliced())
    yield

    assert [(0, HOUR, "u-x", "1/2", how), (0, HOUR, "u-y", "1/2", how)] == splits(world)
    close(world)


def test_without_the_setting_process_readings_divide_nothing() -> None:
    world = World().add(used("x", 0, HOUR, 0.6), used("y", 0, HOUR, 0.2), *pods("x", "y"), sliced()).book()

    assert [(0, HOUR, "u-x", "1/2", "bound"), (0, HOUR, "u-y", "1/2", "bound")] == splits(world)
    assert [] == world.rows("process_use")


@case
def test_the_only_pod_of_a_shared_gpu_pays_all_of_it(world: World) -> Iterator[None]:
    world.add(used("x", 0, HOUR, 0.1), whole(0, HOUR, 0.1), *pods("x"), sliced())
    yield

    assert [(0, HOUR, "u-x", "1", None)] == splits(world)


# What divides.


@case
def test_processes_divide_a_time_sliced_gpu(world: World) -> Iterator[None]:
    world.add(used("x", 0, HOUR, 0.6), used("y", 0, HOUR, 0.2), whole(0, HOUR, 0.8), *pods("x", "y"), sliced())
    yield

    assert [(0, HOUR, "u-x", "3/4", "process"), (0, HOUR, "u-y", "1/4", "process")] == splits(world)
    close(world)


@case
def test_ray_in_a_pod_has_the_part_that_the_processes_of_the_pod_used(world: World) -> Iterator[None]:
    inside = claim("j", 0, HOUR, "x", scheduler="ray", run_key="j@s1", pod_uid="a1", kind="ray")
    world.add(used("x", 0, HOUR, 0.6), used("y", 0, HOUR, 0.2), whole(0, HOUR, 0.8), *pods("x", "y"), sliced(), inside)
    yield

    assert [("j@s1", "3/4"), ("u-y", "1/4")] == [
        (who.removesuffix(" estimated"), share) for _, _, who, share, _ in splits(world)
    ]
    close(world)


@case
def test_a_pod_without_work_beside_one_at_work_pays_nothing(world: World) -> Iterator[None]:
    world.add(used("x", 0, HOUR, 0.9), used("y", 0, HOUR, 0.0), *pods("x", "y"), sliced())
    yield

    assert [(0, HOUR, "u-x", "1", "process"), (0, HOUR, "u-y", "0", "process")] == splits(world)
    close(world)


def test_each_hour_has_its_own_shares_and_who_comes_later_is_divided_from_then_on() -> None:
    world = World(BY_PROCESS).add(
        used("x", 0, HOUR, 0.5),
        used("y", 1800, HOUR, 0.3),
        used("x", HOUR, 2 * HOUR, 0.1),
        used("y", HOUR, 2 * HOUR, 0.3),
        pod("x", "u-x", 0, 2 * HOUR),
        pod("y", "u-y", 1800, 2 * HOUR),
        sliced(),
    )

    assert [
        (0, 1800, "u-x", "1", None),
        (1800, HOUR, "u-x", "5/8", "process"),
        (1800, HOUR, "u-y", "3/8", "process"),
        (HOUR, 2 * HOUR, "u-x", "1/4", "process"),
        (HOUR, 2 * HOUR, "u-y", "3/4", "process"),
    ] == splits(world.book())
    close(world)


@case
def test_replicas_that_nobody_bound_stay_free_under_mps(world: World) -> Iterator[None]:
    world.add(used("x", 0, HOUR, 0.6), used("y", 0, HOUR, 0.2), *pods("x", "y"), sliced(sharing="mps"))
    yield

    assert [
        (0, HOUR, "schedulable", "1/2", "replica"),
        (0, HOUR, "u-x", "3/8", "process"),
        (0, HOUR, "u-y", "1/8", "process"),
    ] == splits(world)
    close(world)


@pytest.mark.parametrize("labelled", [True, False], ids=["the exporter names its pods", "no source names the device"])
def test_two_replicas_of_one_gpu_are_no_second_gpu(labelled: bool) -> None:
    """The node has one GPU: a pod that asks for two replicas has both of it, and counts once."""
    half = HOUR // 2
    readings = used("b", half, HOUR, 0.5) + used("a", 0, HOUR, 0.5) if labelled else whole(0, HOUR, 0.5)
    world = World().add(readings, sliced(), pod("a", "u-a", 0, HOUR), pod("b", "u-b", half, HOUR, count=2)).book()
    with world.store:
        rows = [(name, a, b, who.removesuffix(" estimated"), share) for name, a, b, who, share in world.segments()]

        assert [
            ("GPU-a", 0, half, "u-a", "1"), ("GPU-a", half, HOUR, "u-a", "1/2"), ("GPU-a", half, HOUR, "u-b", "1/2"),
        ] == rows  # fmt: skip


def test_under_mps_each_bound_replica_pays_one_of_them() -> None:
    world = World().add(used("x", 0, HOUR, 0.6), used("y", 0, HOUR, 0.2), *pods("x", "y"), sliced(sharing="mps")).book()

    assert [
        (0, HOUR, "schedulable", "1/2", "replica"),
        (0, HOUR, "u-x", "1/4", "replica"),
        (0, HOUR, "u-y", "1/4", "replica"),
    ] == splits(world)


@case
def test_consumers_of_one_resource_claim_pay_equally_whatever_they_use(world: World) -> Iterator[None]:
    drawn = {"kind": "dra", "gpus": "GPU-a"}
    world.add(
        used("x", 0, HOUR, 0.6),
        used("y", 0, HOUR, 0.2),
        pod("x", "u-x", 0, HOUR, **drawn),
        pod("y", "u-y", 0, HOUR, **drawn),
    )
    yield

    assert [(0, HOUR, "u-x", "1/2", "claim"), (0, HOUR, "u-y", "1/2", "claim")] == splits(world)


@case
def test_pods_of_one_gang_are_divided_as_one_owner(world: World) -> Iterator[None]:
    world.add(
        used("x", 0, HOUR, 0.3),
        used("y", 0, HOUR, 0.3),
        used("z", 0, HOUR, 0.2),
        *(pod(name, f"u-{name}", 0, HOUR, run_key="gang") | {"job_id": "lab/gang"} for name in "xy"),
        pod("z", "u-z", 0, HOUR),
        sliced(),
    )
    yield

    assert [(0, HOUR, "gang", "3/4", "process"), (0, HOUR, "u-z", "1/4", "process")] == splits(world)


def test_owners_that_only_labels_tell_are_divided_too() -> None:
    world = World(BY_PROCESS).add(used("x", 0, HOUR, 0.6), used("y", 0, HOUR, 0.2)).book()

    assert [(0, HOUR, "lab/x", "3/4", "process"), (0, HOUR, "lab/y", "1/4", "process")] == splits(world)


def test_the_value_of_the_device_counts_once_whatever_its_owners_rows_say() -> None:
    world = (
        World(BY_PROCESS)
        .add(used("x", 0, HOUR, 0.6), used("y", 0, HOUR, 0.2), whole(0, HOUR, 0.8), *pods("x", "y"), sliced())
        .book()
    )

    windows = [row for row in world.rows("device_window")]
    assert {0.8} == {round(row["gpu_util_ratio"], 6) for row in windows}
    assert {0.8} == {round(row["sm_active_ratio"], 6) for row in windows}
    one = World().add(whole(0, HOUR, 0.8), *pods("x"), sliced()).book()
    halves: dict[str, Fraction] = defaultdict(Fraction)
    for row in world.rows("ledger_hour"):
        for bucket in ledger_hours.HELD_BUCKETS:
            halves[bucket] += Fraction(row[f"{bucket}_us"] * row["share_num"], row["share_den"])
    assert one.buckets() == {bucket: amount for bucket, amount in halves.items() if amount}


def test_an_idle_run_goes_on_where_only_the_shares_change() -> None:
    """Ten idle minutes before an hour's edge and ten after it, in hours with other shares: hoarded by both all the time."""
    idle = IDLE | {"gpu_util_ratio": 0.0, "power_watts": 70.0}

    def rows(name: str, early: float, late: float) -> list[Sample]:
        labels = {"namespace": "lab", "pod": name}
        return (
            used(name, 0, 3000, early)
            + samples(A, minutes(3000, 4200), idle, **labels)
            + used(name, 4200, 2 * HOUR, late)
        )

    world = World(BY_PROCESS).add(rows("x", 0.6, 0.1), rows("y", 0.2, 0.3), *pods("x", "y", end=2 * HOUR), sliced())

    assert 2 * 1200 == world.book().held()["hoarded"]


# It is computed once.


def test_a_changed_split_is_booked_again_once() -> None:
    world = World().add(used("x", 0, HOUR, 0.6), used("y", 0, HOUR, 0.2), *pods("x", "y"), sliced()).book()
    world.settings = BY_PROCESS
    world.attribute()
    assert [] != world.rows("dirty_hour")
    ledger_hours.recompute_dirty(world.store, CLUSTER, world.settings)
    world.check()

    assert ["3/4", "1/4"] == [share for *_, share, _ in splits(world)]
    world.attribute()
    assert [] == world.rows("dirty_hour")
    world.settings = SETTINGS
    world.book()
    assert ["1/2", "1/2"] == [share for *_, share, _ in splits(world)]
    assert [] == world.rows("process_use")


def test_shares_stay_when_the_samples_they_follow_from_are_gone() -> None:
    late = 30 * 24 * HOUR
    world = World(BY_PROCESS).add(
        used("x", 0, HOUR, 0.6),
        used("y", 0, HOUR, 0.2),
        *pods("x", "y"),
        samples(A, minutes(late - 24 * HOUR, late - 23 * HOUR)),
        samples(A, minutes(late, late + HOUR)),
        sliced(),
    )
    world.book()
    before = splits(world)
    retain_all(world.store, replace(world.settings, raw_retention_days=1), T0_US + 40 * DAY_US)
    world.attribute()
    assert [] == world.rows("dirty_hour")
    world.settings = SETTINGS
    world.attribute()

    assert before == splits(world)
    assert [] == world.rows("dirty_hour")


# Whatever is used, all of it adds up.


@settings(steady, max_examples=4)
@given(
    st.integers(0, 14),
    st.lists(st.lists(st.floats(0, 0.3), min_size=3, max_size=3), min_size=3, max_size=5),
    st.sampled_from(["time-slicing", "mps"]),
)
def test_any_use_of_any_pods_adds_up_to_the_gpu(seed: int, use: list[list[float]], sharing: str) -> None:
    rows = []
    for hour, ratios in enumerate(use):
        start = hour * HOUR
        rows += [used(f"p{n}", start + 600 * (seed % 3) * n, start + HOUR, ratio) for n, ratio in enumerate(ratios)]
    end = len(use) * HOUR
    claims = [pod(f"p{n}", f"u{n}", 600 * (seed % 5) * n, end - 300 * n) for n in range(3)]
    world = World(BY_PROCESS).add(*rows, *claims, sliced(3, sharing)).book()

    close(world)
    again = world.rows("segment")
    world.attribute()
    assert again == world.rows("segment")
    assert [] == world.rows("dirty_hour")
