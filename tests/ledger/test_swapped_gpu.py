"""Two GPUs that changed places while jobs ran: each job has the GPU that was on its node, and nothing while there was none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.ledger.test_nesting import FREE, ray, seen
from tests.worlds.town import case
from tests.worlds.world import HOUR, Gpu, Seconds, World, claim, node, pod

LEAVES, COMES = 1200, 1500
A1, A2 = Gpu("GPU-a", "n1", 0, pci="00:1B"), Gpu("GPU-a", "n2", 0, pci="00:1B")
B1, B2 = Gpu("GPU-b", "n1", 0, pci="00:1B"), Gpu("GPU-b", "n2", 0, pci="00:1B")
OTHER_SLOTS = Gpu("GPU-a", "n2", 1, pci="00:43"), Gpu("GPU-b", "n1", 1, pci="00:43")
SWAPPED = {
    "GPU-a": [(0, LEAVES, "1"), (LEAVES, COMES, FREE), (COMES, HOUR, "2")],
    "GPU-b": [(0, LEAVES, "2"), (LEAVES, COMES, FREE), (COMES, HOUR, "1")],
}


def spans(world: World) -> dict[str, list[tuple[Seconds, Seconds, str]]]:
    found: dict[str, list[tuple[Seconds, Seconds, str]]] = {}
    for name, start, end, who, _ in world.segments():
        found.setdefault(name, []).append((start, end, who.removesuffix(" estimated")))
    return found


def swap(world: World, labels: tuple[dict[str, str], dict[str, str]] = ({}, {}), slots: Any = (A2, B1)) -> World:
    """a is on n1 and then on n2, b the other way round; labels are those of the samples on n1 and on n2."""
    first, second = labels
    world.add(seen(A1, 0, LEAVES, **first), seen(slots[0], COMES, HOUR, **second))
    return world.add(seen(B2, 0, LEAVES, **second), seen(slots[1], COMES, HOUR, **first))


@pytest.mark.parametrize("slots", [(A2, B1), OTHER_SLOTS], ids=["same slots", "other slots"])
@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (({"job": "1"}, {"job": "2"}), {}),
        (({}, {}), {}),
        (({}, {}), {"kind": "scontrol", "device_indexes": "0"}),
        (({}, {}), {"gpus": "GPU-a,GPU-b"}),
    ],
    ids=["by labels", "by count", "by index", "by UUIDs"],
)
@case
def test_each_job_has_what_was_on_its_node(world: World, labels: Any, words: Any, slots: Any) -> Iterator[None]:
    if "device_indexes" in words and slots is OTHER_SLOTS:
        words = words | {"device_indexes": "0,1"}
    swap(world, labels, slots).add(claim("1", 0, HOUR, "n1", **words), claim("2", 0, HOUR, "n2", **words))
    yield

    assert SWAPPED == spans(world)


@case
def test_pods_that_samples_name(world: World) -> Iterator[None]:
    labels = [{"namespace": "lab", "pod": name} for name in ("p-1", "p-2")]
    swap(world, (labels[0], labels[1])).add(pod("p-1", "1", 0, HOUR), pod("p-2", "2", 0, HOUR, "n2"))
    yield

    assert SWAPPED == spans(world)


@case
def test_ray_in_the_jobs_has_the_gpus_of_its_node(world: World) -> Iterator[None]:
    swap(world).add(claim("1", 0, HOUR, "n1"), claim("2", 0, HOUR, "n2"))
    world.add(ray("r", "x", 0, HOUR, "n1"), ray("s", "y", 0, HOUR, "n2"))
    yield

    inner = {"1": "r@s1", "2": "s@s1"}
    assert {k: [(a, b, inner.get(who, who)) for a, b, who in v] for k, v in SWAPPED.items()} == spans(world)


@case
def test_slices_of_moved_gpus(world: World) -> Iterator[None]:
    def slices(uuid: str, name: str, start: int, end: int, job: str) -> list[Any]:
        return [
            row
            for gi, owner in ((1, job), (2, None))
            for row in seen(Gpu(uuid, name, 0, gi, "3g.40gb"), start, end, job=owner)
        ]

    world.add(slices("GPU-a", "n1", 0, LEAVES, "1"), slices("GPU-a", "n2", COMES, HOUR, "2"))
    world.add(slices("GPU-b", "n2", 0, LEAVES, "2"), slices("GPU-b", "n1", COMES, HOUR, "1"))
    world.add(claim("1", 0, HOUR, "n1", profile="3g.40gb"), claim("2", 0, HOUR, "n2", profile="3g.40gb"))
    yield

    found = spans(world)
    assert SWAPPED == {name: found[f"{name}/GI-1"] for name in ("GPU-a", "GPU-b")}
    assert {FREE} == {who for name in ("GPU-a/GI-2", "GPU-b/GI-2") for _, _, who in found[name]}


@case
def test_back_again_if_the_jobs_of_the_node_prove_it(world: World) -> Iterator[None]:
    """The records put job 2 on n2, and the samples of a on n2 name job 2."""
    for start, end, first, second in ((0, 900, A1, B2), (1200, 2100, B1, A2), (2400, HOUR, A1, B2)):
        world.add(seen(first, start, end, job="1"), seen(second, start, end, job="2"))
    world.add(claim("1", 0, HOUR, "n1"), claim("2", 0, HOUR, "n2"))
    yield

    def turns(*who: str) -> list[tuple[int, int, str]]:
        return list(zip((0, 900, 1200, 2100, 2400), (900, 1200, 2100, 2400, HOUR), who, strict=True))

    assert {"GPU-a": turns("1", FREE, "2", FREE, "1"), "GPU-b": turns("2", FREE, "1", FREE, "2")} == spans(world)


@case
def test_between_two_slots_of_one_node(world: World) -> Iterator[None]:
    """The same number of GPUs, the same node: the addresses were exchanged, and the job of each slot stays in it."""
    world.add(seen(A1, 0, LEAVES, job="1"), seen(OTHER_SLOTS[1], 0, LEAVES, job="2"))
    world.add(
        seen(Gpu("GPU-a", "n1", 1, pci="00:43"), COMES, HOUR, job="2"),
        seen(Gpu("GPU-b", "n1", 0, pci="00:1B"), COMES, HOUR, job="1"),
    )
    world.add(claim("1", 0, HOUR, "n1"), claim("2", 0, HOUR, "n1"))
    yield

    assert SWAPPED == spans(world)


@pytest.mark.parametrize("how", [{"job": "1"}, {}], ids=["labels", "count"])
@case
def test_a_new_gpu_in_the_slot_of_a_moved_one_begins_with_its_first_sample(world: World, how: Any) -> Iterator[None]:
    """The moved one is free on its new node."""
    world.add(
        seen(A1, 0, LEAVES, **how), seen(A2, COMES, HOUR), seen(Gpu("GPU-c", "n1", pci="00:1B"), 1800, HOUR, **how)
    )
    world.add(claim("1", 0, HOUR, "n1"), node("n2", {"": 1}))
    yield

    assert {"GPU-a": [(0, LEAVES, "1"), (LEAVES, HOUR, FREE)], "GPU-c": [(1800, HOUR, "1")]} == spans(world)


@case
def test_a_gpu_whose_slot_a_moved_one_took_ends_with_its_last_sample(world: World) -> Iterator[None]:
    world.add(seen(Gpu("GPU-c", "n2", pci="00:1B"), 0, 900), seen(A1, 0, LEAVES), seen(A2, COMES, HOUR))
    world.add(claim("2", 0, HOUR, "n2"), node("n1", {"": 1}, at=0))
    yield

    assert {"GPU-a": [(0, COMES, FREE), (COMES, HOUR, "2")], "GPU-c": [(0, 900, "2")]} == {
        name: rows for name, rows in spans(world).items() if name.startswith("GPU")
    }


@case
def test_a_gpu_is_out_of_service_with_the_node_that_it_is_on(world: World) -> Iterator[None]:
    """n2 is down while a is still on n1, and again when it is there."""
    world.add(seen(A1, 0, LEAVES), seen(A2, COMES, HOUR))
    for at, state in ((300, "down"), (600, "up"), (2400, "down"), (3000, "up")):
        world.add(node("n2", {"": 1}, at=at, state=state))
    world.add(node("n1", {"": 1}, at=0))
    yield

    rows = [row for row in spans(world)["GPU-a"] if row[2] == "out_of_service"]
    assert [(2400, 3000, "out_of_service")] == rows


@case
def test_another_spelling_of_an_address_moves_nothing(world: World) -> Iterator[None]:
    """A new exporter prints addresses in another way; while it starts, the job keeps its GPU."""
    world.add(seen(A1, 0, LEAVES, job="1"), seen(Gpu("GPU-a", "n1", 0, pci="0000:1B"), COMES, HOUR, job="1"))
    world.add(claim("1", 0, HOUR, "n1"))
    yield

    assert {"GPU-a": [(0, HOUR, "1")]} == spans(world)
