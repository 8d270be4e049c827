"""A GPU that was replaced in its slot: whoever held the slot has the old one up to its last sample, then the new one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.worlds.town import case
from tests.worlds.world import BUSY, HOUR, Gpu, Sample, World, claim, minutes, node, samples, us

PCI = "00000000:1B:00.0"
OLD, NEW, THIRD = Gpu("GPU-old", pci=PCI), Gpu("GPU-new", pci=PCI), Gpu("GPU-third", pci=PCI)
OTHER = Gpu("GPU-other", index=1, pci="00000000:43:00.0")
FREE, OUT = "schedulable", "out_of_service"


def seen(gpu: Gpu, start: float, end: float, **labels: str | None) -> list[Sample]:
    return samples(gpu, minutes(start, end), BUSY, **labels)


def replaced(world: World, job: str | None = None, old: Gpu = OLD, new: Gpu = NEW) -> World:
    """The old GPU up to 1800 s, the new one from 2400 s, another GPU all the time."""
    world.add(seen(old, 0, 1800, job=job), seen(new, 2400, HOUR, job=job), seen(OTHER, 0, HOUR, job=job))
    return world.add(node(devices={"": 2}))


def spans(world: World) -> list[tuple[str, float, float, str]]:
    """Device, start, end and owner of all segments."""
    return [(name, start, end, owner) for name, start, end, owner, _ in world.segments()]


JOB = {"count": 2}
CLAIMS = {
    "by index": {"device_indexes": "0,1", "kind": "scontrol", **JOB},
    "by UUIDs": {"gpus": "GPU-old,GPU-other", **JOB},
    "by count": JOB,
}


@pytest.mark.parametrize("how", CLAIMS.values(), ids=CLAIMS)
@case
def test_a_running_job_has_the_old_gpu_then_the_new_one(world: World, how: dict[str, object]) -> Iterator[None]:
    """Never three GPUs at once, and nothing between the old one's last and the new one's first sample."""
    mark = " estimated" if how is JOB else ""
    replaced(world).add(claim("7", 0, HOUR, **how))
    yield

    assert [
        ("GPU-new", 2400, 3600, f"7{mark}"),
        ("GPU-old", 0, 1800, f"7{mark}"),
        ("GPU-other", 0, 3600, f"7{mark}"),
    ] == sorted(spans(world))


@case
def test_a_job_that_the_samples_name_has_both_in_turn(world: World) -> Iterator[None]:
    replaced(world, "7").add(claim("7", 0, HOUR, count=2))
    yield

    assert [
        ("GPU-new", 2400, 3600, "7"),
        ("GPU-old", 0, 1800, "7"),
        ("GPU-other", 0, 3600, "7"),
    ] == sorted(spans(world))


@case
def test_a_job_that_ended_before_the_new_gpu_came_has_only_the_old_one(world: World) -> Iterator[None]:
    replaced(world).add(claim("7", 0, 2100, device_indexes="0,1", kind="scontrol", count=2))
    yield

    assert [
        ("GPU-new", 2400, 3600, FREE),
        ("GPU-old", 0, 1800, "7"),
        ("GPU-other", 0, 2100, "7"),
        ("GPU-other", 2100, 3600, FREE),
    ] == sorted(spans(world))


@case
def test_a_later_job_has_only_the_new_one(world: World) -> Iterator[None]:
    replaced(world).add(claim("7", 2460, HOUR, device_indexes="0", kind="scontrol", count=1))
    yield

    assert [("GPU-new", 2400, 2460, FREE), ("GPU-new", 2460, 3600, "7")] == [
        s for s in spans(world) if s[0] == "GPU-new"
    ]
    assert [("GPU-old", 0, 1800, FREE)] == [s for s in spans(world) if s[0] == "GPU-old"]


@case
def test_two_replacements_in_one_slot(world: World) -> Iterator[None]:
    world.add(seen(OLD, 0, 1200), seen(NEW, 1500, 2100), seen(THIRD, 2400, HOUR))
    world.add(claim("7", 0, HOUR, device_indexes="0", kind="scontrol", count=1))
    yield

    assert [
        ("GPU-new", 1500, 2100, "7"),
        ("GPU-old", 0, 1200, "7"),
        ("GPU-third", 2400, 3600, "7"),
    ] == sorted(spans(world))


@case
def test_without_pci_addresses_the_index_names_the_slot(world: World) -> Iterator[None]:
    replaced(world, old=Gpu("GPU-old"), new=Gpu("GPU-new"))
    world.add(claim("7", 0, HOUR, device_indexes="0,1", kind="scontrol", count=2))
    yield

    assert [("GPU-new", 2400, 3600, "7"), ("GPU-old", 0, 1800, "7")] == sorted(spans(world))[:2]


@case
def test_an_index_that_moved_to_another_gpu_names_the_gpu_of_its_time(world: World) -> Iterator[None]:
    """GPU 0 died and the driver renumbered: from then on the former GPU 1 is number 0."""
    moved = Gpu("GPU-other", index=0, pci=OTHER.pci)
    world.add(seen(OLD, 0, 1800), seen(OTHER, 0, 1800), seen(moved, 1860, HOUR))
    world.add(
        claim("first", 0, 1500, device_indexes="0", kind="scontrol"),
        claim("second", 2400, HOUR, device_indexes="0", kind="scontrol"),
    )
    yield

    assert [
        ("GPU-old", 0, 1500, "first"),
        ("GPU-old", 1500, 1800, FREE),
        ("GPU-old", 1800, 3600, OUT),
        ("GPU-other", 0, 2400, FREE),
        ("GPU-other", 2400, 3600, "second"),
    ] == sorted(spans(world))


@case
def test_a_silent_gpu_that_comes_back_was_not_replaced(world: World) -> Iterator[None]:
    """Its slot is its own: nothing was seen there meanwhile, and the job keeps it."""
    world.add(seen(OLD, 0, 900), seen(OLD, 2700, HOUR), seen(OTHER, 0, HOUR))
    world.add(claim("7", 0, HOUR, device_indexes="0,1", kind="scontrol", count=2))
    yield

    assert [("GPU-old", 0, 3600, "7"), ("GPU-other", 0, 3600, "7")] == sorted(spans(world))


@case
def test_two_gpus_that_report_one_slot_at_once_were_not_replaced(world: World) -> Iterator[None]:
    """An exporter with wrong addresses: neither closes."""
    world.add(seen(OLD, 0, 2400), seen(NEW, 1200, HOUR))
    yield

    assert [
        ("GPU-new", 1200, 3600, FREE),
        ("GPU-old", 0, 2400, FREE),
        ("GPU-old", 2400, 3600, OUT),
    ] == sorted(spans(world))


# A GPU that came back to its slot: the two do not share an hour, which keeps only the first and the last sample of a device.


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ("7", JOB),
        (None, {"device_indexes": "0,1", "kind": "scontrol", **JOB}),
        (None, JOB),
    ],
    ids=["by labels", "by index", "by count"],
)
def test_a_gpu_that_came_back_after_another_one_is_held_twice_and_not_owned_between(
    labels: str | None, words: dict[str, object]
) -> None:
    """It was taken out for a test, and another one put in its place for an hour."""
    world = World().add(
        seen(OLD, 0, 1800, job=labels),
        seen(NEW, 2400, 4200, job=labels),
        seen(OLD, 4800, 2 * HOUR, job=labels),
        seen(OTHER, 0, 2 * HOUR, job=labels),
        node(devices={"": 2}),
        claim("7", 0, 2 * HOUR, **words),
    )
    world.book()

    assert [
        ("GPU-new", 2400, 4200, "7"),
        ("GPU-old", 0, 1800, "7"),
        ("GPU-old", 4800, 7200, "7"),
        ("GPU-other", 0, 7200, "7"),
    ] == sorted((gpu, start, end, who.removesuffix(" estimated")) for gpu, start, end, who in spans(world))
    assert {(0, 1800), (2400, 4200), (4800, 7200), (0, 7200)} == {
        ((start - us(0)) // 1_000_000, (end - us(0)) // 1_000_000)
        for start, end in world.store.sql("select start_us, end_us from capacity")
    }


def test_a_gpu_that_is_measured_all_the_time_did_not_leave_its_slot() -> None:
    """Another exporter names the slot for its own GPU for half an hour."""
    world = World().add(seen(OLD, 0, 2 * HOUR), seen(NEW, 2400, 4200))
    world.book()

    assert [("GPU-new", 2400, 4200, FREE), ("GPU-new", 4200, 7200, OUT), ("GPU-old", 0, 7200, FREE)] == sorted(
        spans(world)
    )


def test_slices_of_a_gpu_that_came_back_are_held_twice() -> None:
    first, second = (Gpu("GPU-old", gi=gi, profile="3g.40gb", pci=PCI) for gi in (1, 2))
    world = World().add(
        *(seen(first, a, b, job="7") for a, b in ((0, 1800), (7260, 3 * HOUR))),
        *(seen(second, a, b) for a, b in ((0, 1800), (7260, 3 * HOUR))),
        seen(NEW, 3660, 5400),
        claim("7", 0, 3 * HOUR),
    )
    world.book()

    assert [
        ("GPU-new", 3660, 5400, FREE),
        ("GPU-old/GI-1", 0, 1800, "7"),
        ("GPU-old/GI-1", 7260, 10800, "7"),
        ("GPU-old/GI-2", 0, 1800, FREE),
        ("GPU-old/GI-2", 7260, 10800, FREE),
    ] == sorted(spans(world))


def test_a_gpu_whose_slot_another_one_took_may_come_into_another_slot() -> None:
    """Its job went on with the other one."""
    elsewhere = Gpu("GPU-old", index=1, pci=OTHER.pci)
    world = World().add(
        seen(OLD, 0, 1800, job="7"), seen(NEW, 2400, 3 * HOUR, job="7"), seen(elsewhere, 7260, 3 * HOUR), claim("7", 0, 3 * HOUR)
    )  # fmt: skip
    world.book()

    assert [
        ("GPU-new", 2400, 10800, "7"),
        ("GPU-old", 0, 1800, "7"),
        ("GPU-old", 1800, 10800, FREE),
    ] == sorted(spans(world))


def test_another_spelling_of_all_addresses_moves_nothing() -> None:
    short = [Gpu("GPU-old", pci="0000:1b:00.0"), Gpu("GPU-other", index=1, pci="0000:43:00.0")]
    world = World().add(
        *(seen(gpu, 0, HOUR) for gpu in (OLD, OTHER)), *(seen(gpu, HOUR, 2 * HOUR) for gpu in short), claim("7", 0, 2 * HOUR, count=2)
    )  # fmt: skip
    world.book()

    assert [("GPU-old", 0, 7200, "7 estimated"), ("GPU-other", 0, 7200, "7 estimated")] == sorted(spans(world))
