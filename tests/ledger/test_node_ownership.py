"""Since when the fleet owns a node that no exporter measures: all nodes of one inventory alike."""

from __future__ import annotations

import json

import pytest

from tests.worlds.world import HOUR, Gpu, Sample, World, claim, minutes, node, samples, us

DAY = 24 * HOUR
Owned = dict[str, tuple[float, float]]


def owned(world: World) -> Owned:
    """Start and end of the time in which each device was owned."""
    spans: Owned = {}
    for name, start, end, _, _ in world.book().segments():
        first, last = spans.get(name, (start, end))
        spans[name] = (min(first, start), max(last, end))
    return spans


def test_a_node_whose_first_job_came_late_was_idle_before() -> None:
    """The node list is dated after the jobs; one node was never used."""
    world = World().add(
        claim("1", 0, 10 * HOUR, node="early"),
        claim("2", 8 * HOUR, 10 * HOUR, node="late"),
        *(node(name, {"": 1}, at=12 * HOUR) for name in ("early", "late", "unused")),
    )

    assert dict.fromkeys(("early/gpu0", "late/gpu0", "unused/gpu0"), (0, 12 * HOUR)) == owned(world)


def test_a_node_list_without_a_time_covers_all_evidence() -> None:
    world = World().add(
        claim("1", 0, 10 * HOUR, node="early"),
        claim("2", 8 * HOUR, 9 * HOUR, node="late"),
        *(node(name, {"": 1}) for name in ("early", "late")),
    )

    assert dict.fromkeys(("early/gpu0", "late/gpu0"), (0, 10 * HOUR)) == owned(world)


@pytest.mark.parametrize(
    ("created", "start"),
    [
        pytest.param(-100 * DAY, 0, id="created long before: since the cluster's first evidence"),
        pytest.param(6 * HOUR, 6 * HOUR, id="created later: since then"),
        pytest.param(9 * HOUR, 0, id="booted after its first job: that was not its first boot"),
    ],
)
def test_a_node_is_owned_since_its_creation_at_the_earliest(created: float, start: float) -> None:
    world = World().add(
        claim("1", 0, 10 * HOUR, node="early"),
        claim("2", 8 * HOUR, 10 * HOUR, node="late"),
        node("early", {"": 1}, at=12 * HOUR),
        node("late", {"": 1}, at=12 * HOUR, created_us=us(created)),
    )

    assert {"early/gpu0": (0, 12 * HOUR), "late/gpu0": (start, 12 * HOUR)} == owned(world)


def test_the_first_of_several_boots_counts() -> None:
    world = World().add(
        claim("1", 0, 10 * HOUR, node="early"),
        node("early", {"": 1}, at=12 * HOUR),
        node("late", {"": 1}, at=6 * HOUR, created_us=us(5 * HOUR)),
        node("late", {"": 1}, at=12 * HOUR, created_us=us(11 * HOUR)),
    )

    assert (5 * HOUR, 12 * HOUR) == owned(world)["late/gpu0"]


def test_a_node_that_the_inventory_lists_only_later_was_added() -> None:
    """No boot is known, and earlier lists do not have it."""
    world = World().add(
        claim("1", 0, 10 * HOUR, node="early"),
        *(node("early", {"": 1}, at=at) for at in (0, 3 * DAY)),
        node("added", {"": 1}, at=3 * DAY),
        claim("2", 3 * DAY, 3 * DAY + HOUR, node="added"),
    )

    assert (3 * DAY, 3 * DAY + HOUR) == owned(world)["added/gpu0"]


OUT = "out_of_service"
OFF = json.dumps({"states": "CLOUD,POWERED_DOWN"})


def buckets(world: World, name: str) -> list[tuple[float, float, str]]:
    """The spans of a device with the job or the bucket of each."""
    return [(start, end, who) for gpu, start, end, who, _ in world.segments() if gpu == name]


@pytest.mark.parametrize("state", ["drain", "down"])
def test_a_node_out_of_service_in_a_list_without_a_time_stays_in_the_books(state: str) -> None:
    """Its list has no time, so the time of the drain is the only one of its record."""
    world = World().add(
        claim("1", 0, 10 * HOUR, node="good"),
        claim("2", HOUR, 2 * HOUR, node="bad"),
        node("good", {"": 1}, created_us=us(-9 * DAY)),
        node("bad", {"": 1}, state=state, since_us=us(4 * HOUR), created_us=us(-9 * DAY)),
    )

    world.book()

    assert [
        (0, HOUR, "schedulable"),
        (HOUR, 2 * HOUR, "2 estimated"),
        (2 * HOUR, 4 * HOUR, "schedulable"),
        (4 * HOUR, 10 * HOUR, OUT),
    ] == buckets(world, "bad/gpu0")
    assert [(0, 10 * HOUR, "1 estimated")] == buckets(world, "good/gpu0")


def test_a_drain_of_long_ago_says_nothing_of_how_long_the_fleet_had_its_nodes() -> None:
    world = World().add(
        claim("1", 0, 10 * HOUR, node="good"),
        node("good", {"": 1}),
        node("bad", {"": 1}, state="drain", since_us=us(-30 * DAY)),
        node("worse", {"": 1}, state="down", since_us=us(-20 * DAY)),
    )

    assert dict.fromkeys(("good/gpu0", "bad/gpu0", "worse/gpu0"), (0, 10 * HOUR)) == owned(world)
    assert [(0, 10 * HOUR, OUT)] == buckets(world, "bad/gpu0") == buckets(world, "worse/gpu0")


def test_a_drain_after_the_last_job_lasts_until_the_list_was_written() -> None:
    world = World().add(
        claim("1", 0, 10 * HOUR, node="good"),
        node("good", {"": 1}, at=20 * HOUR),
        node("bad", {"": 1}, state="drain", since_us=us(12 * HOUR), at=20 * HOUR),
    )

    world.book()

    assert [(0, 12 * HOUR, "schedulable"), (12 * HOUR, 20 * HOUR, OUT)] == buckets(world, "bad/gpu0")


def test_a_measured_node_that_is_drained_is_out_of_service_to_the_last_sample() -> None:
    a, b = Gpu(node="good"), Gpu("GPU-b", node="bad")
    world = World().add(
        samples(a, minutes(0, 2 * HOUR), {"gpu_util_ratio": 0.0}),
        samples(b, minutes(0, HOUR), {"gpu_util_ratio": 0.0}),
        node("bad", {"": 1}, state="drain", since_us=us(1800)),
    )

    world.book()

    assert [(0, 1800, "schedulable"), (1800, 2 * HOUR, OUT)] == buckets(world, "GPU-b")


@pytest.mark.parametrize("at", [None, 10 * HOUR])
def test_a_cloud_node_that_is_powered_down_is_not_paid(at: float | None) -> None:
    """It is owned while jobs prove it, and never where it was not used."""
    off = {"state": "down", "labels": OFF, "at": at}
    world = World().add(
        claim("1", 0, 10 * HOUR, node="own"),
        claim("2", HOUR, 2 * HOUR, node="cloud"),
        node("own", {"": 1}, at=at),
        node("cloud", {"": 1}, **off),
        node("unused", {"": 1}, **off),
    )

    assert {"own/gpu0": (0, 10 * HOUR), "cloud/gpu0": (HOUR, 2 * HOUR)} == owned(world)


def test_a_powered_down_node_of_the_site_s_own_is_out_of_service() -> None:
    world = World().add(
        claim("1", 0, 10 * HOUR, node="good"),
        node("good", {"": 1}, at=10 * HOUR),
        node("saving", {"": 1}, state="down", labels=json.dumps({"states": "POWERED_DOWN"}), at=6 * HOUR),
        node("saving", {"": 1}, state="down", labels=json.dumps({"states": "POWERED_DOWN"}), at=10 * HOUR),
    )

    world.book()

    assert [(0, 6 * HOUR, "schedulable"), (6 * HOUR, 10 * HOUR, OUT)] == buckets(world, "saving/gpu0")


def test_a_measured_cloud_node_ends_with_its_last_sample_once_it_is_powered_down() -> None:
    a, b = Gpu(node="own"), Gpu("GPU-b", node="cloud")
    world = World().add(
        samples(a, minutes(0, 2 * HOUR), {"gpu_util_ratio": 0.0}),
        samples(b, minutes(0, HOUR), {"gpu_util_ratio": 0.0}),
        node("cloud", {"": 1}, state="down", labels=OFF, at=5400),
    )

    assert {"GPU-a": (0, 2 * HOUR), "GPU-b": (0, HOUR)} == owned(world)


def measured(uuid: str, name: str, start: float, end: float, index: int = 0) -> list[Sample]:
    """A busy GPU with samples every five minutes."""
    return samples(Gpu(uuid, node=name, index=index), minutes(start, end, 300))


def test_gpus_whose_samples_begin_late_count_since_their_node_was_there() -> None:
    """Metrics that are added to some nodes do not take the time before them out of the books."""
    world = World().add(
        *measured("GPU-a", "first", 0, 12 * HOUR),
        *measured("GPU-b", "late", 6 * HOUR, 12 * HOUR),
        *measured("GPU-c", "late", 6 * HOUR + 1800, 12 * HOUR, index=1),
        *measured("GPU-d", "created", 6 * HOUR, 12 * HOUR),
        *(node(name, {"": 2}, at=12 * HOUR) for name in ("first", "late")),
        node("created", {"": 1}, at=12 * HOUR, created_us=us(3 * HOUR)),
        claim("1", HOUR, 2 * HOUR, node="late"),
        claim("2", 4 * HOUR, 5 * HOUR, node="created"),
    )

    whole = (0, 12 * HOUR)
    assert {"GPU-a": whole, "GPU-b": whole, "GPU-c": whole, "GPU-d": (3 * HOUR, 12 * HOUR)} == {
        name: span for name, span in owned(world).items() if name.startswith("GPU-")
    }


@pytest.mark.parametrize(
    ("late", "job"),
    [
        pytest.param(1800, 0, id="an exporter that starts within the hour"),
        pytest.param(6 * HOUR, 6 * HOUR, id="no job shows that the node was there"),
    ],
)
def test_gpus_count_since_their_first_sample_otherwise(late: float, job: float) -> None:
    """The job's own GPU counts since it began."""
    world = World().add(
        *measured("GPU-a", "first", 0, 12 * HOUR),
        *(row for index in range(2) for row in measured(f"GPU-{'bc'[index]}", "late", late, 12 * HOUR, index)),
        *(node(name, {"": 1 if name == "first" else 2}, at=12 * HOUR) for name in ("first", "late")),
        claim("1", job, 8 * HOUR, node="late"),
    )

    assert {"GPU-a": (0, 12 * HOUR), "GPU-b": (job, 12 * HOUR), "GPU-c": (late, 12 * HOUR)} == owned(world)


def test_a_gpu_that_was_added_replaced_or_moved_does_not_count_before_its_first_sample() -> None:
    """The node had other GPUs then."""
    world = World().add(
        *measured("GPU-a", "n1", 0, 12 * HOUR),
        *measured("GPU-b", "n2", 4 * HOUR, 12 * HOUR),
        *measured("GPU-added", "n2", 8 * HOUR, 12 * HOUR, index=1),
        *measured("GPU-old", "n3", 4 * HOUR, 5 * HOUR),
        *measured("GPU-new", "n3", 6 * HOUR, 12 * HOUR),
        *measured("GPU-moved", "n4", 4 * HOUR, 6 * HOUR),
        *measured("GPU-moved", "n1", 7 * HOUR, 12 * HOUR, index=1),
        *(node(name, {"": 2}, at=12 * HOUR) for name in ("n1", "n2", "n3", "n4")),
        *(claim(name, HOUR, 2 * HOUR, node=name) for name in ("n2", "n3", "n4")),
    )

    spans = owned(world)
    assert (0, 12 * HOUR) == spans["GPU-b"]
    assert (8 * HOUR, 12 * HOUR) == spans["GPU-added"]
    assert (0, 5 * HOUR) == spans["GPU-old"]
    assert (6 * HOUR, 12 * HOUR) == spans["GPU-new"]
    assert (HOUR, 12 * HOUR) == spans["GPU-moved"], "since its job, not since its node was there"
