"""GPUs that are cut otherwise in the course of time: jobs without a label or an index hold what there was at their time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.worlds.town import case
from tests.worlds.world import HOUR, Gpu, Sample, World, claim, minutes, node, pod, samples

HALF = HOUR // 2
SMALL, LARGE = "1g.10gb", "3g.40gb"


def whole(start: int = 0, end: int = HOUR) -> list[Sample]:
    return samples(Gpu("GPU-a", "n1"), minutes(start, end))


def cut(profile: str, *numbers: int, start: int = 0, end: int = HOUR) -> list[Sample]:
    """Slices of one profile on the GPU of the node."""
    return [
        one
        for gi in numbers
        for one in samples(Gpu("GPU-a", "n1", gi=gi, profile=profile), minutes(start, end))
    ]  # fmt: skip


def held(world: World) -> list[tuple[str, float, float, str, str]]:
    rows = [(name, a, b, who.removesuffix(" estimated"), share) for name, a, b, who, share in world.segments()]
    return [row for row in rows if row[3] in ("1", "2", "u1", "u2")]


def owned(world: World) -> float:
    """GPU-seconds of all owners."""
    total = 0.0
    for _, start, end, _, share in world.segments():
        number, _, of = share.partition("/")
        total += (end - start) * int(number) / int(of or 1)
    return round(total, 6)


# What stays as it is.


@case
def test_a_gpu_that_was_always_cut_gives_slices(world: World) -> Iterator[None]:
    world.add(cut(SMALL, 7, 8), whole(), claim("1", 0, HALF, profile=SMALL), claim("2", HALF, HOUR))
    yield

    assert [("GPU-a/GI-7", 0, HALF, "1", "1/7"), ("GPU-a/GI-7", HALF, HOUR, "2", "1/7")] == held(world)


@case
def test_a_gpu_that_was_never_cut_gives_itself(world: World) -> Iterator[None]:
    world.add(whole(), claim("1", 0, HALF), claim("2", HALF, HOUR))
    yield

    assert [("GPU-a", 0, HALF, "1", "1"), ("GPU-a", HALF, HOUR, "2", "1")] == held(world)


@case
def test_a_label_decides_whatever_the_layout(world: World) -> Iterator[None]:
    labelled = samples(Gpu("GPU-a", "n1", gi=2, profile=LARGE), minutes(HALF, HOUR), job="1")
    world.add(cut(SMALL, 7, end=HALF), cut(LARGE, 1, start=HALF), labelled, claim("1", HALF, HOUR, profile=LARGE))
    yield

    assert [("GPU-a/GI-2", HALF, HOUR, "1", "1/2")] == held(world)


# What is found by its time.


@case
def test_a_job_that_ended_before_the_gpu_was_cut_held_it_whole(world: World) -> Iterator[None]:
    world.add(whole(end=HALF), cut(SMALL, 7, 8, start=HALF), claim("1", 0, 1200), claim("2", 2400, HOUR, profile=SMALL))
    yield

    assert [("GPU-a", 0, 1200, "1", "1"), ("GPU-a/GI-7", 2400, HOUR, "2", "1/7")] == held(world)
    assert HOUR == owned(world)


@case
def test_a_job_that_began_after_the_gpu_was_joined_again_held_it_whole(world: World) -> Iterator[None]:
    """The inventory of today counts it once."""
    world.add(
        node("n1", {"": 1}),
        cut(SMALL, 7, 8, end=HALF),
        whole(start=HALF),
        claim("1", 0, 1200, profile=SMALL),
        claim("2", 2400, HOUR),
    )
    yield

    assert [("GPU-a", 2400, HOUR, "2", "1"), ("GPU-a/GI-7", 0, 1200, "1", "1/7")] == held(world)
    assert HOUR == owned(world)


@case
def test_a_slice_beside_another_that_goes_on_stays_though_the_whole_gpu_is_sampled_all_the_time(
    world: World,
) -> Iterator[None]:
    world.add(
        whole(), cut(SMALL, 7, start=600, end=1200), cut(SMALL, 8, start=600), claim("1", 600, HOUR, profile=SMALL)
    )
    yield

    assert [("GPU-a/GI-8", 600, HOUR, "1", "1/7")] == held(world)
    assert ("GPU-a/GI-7", 1200, HOUR, "out_of_service", "1/7") in world.segments()
    assert HOUR == owned(world)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        pytest.param(1200, 2400, id="within an hour"),
        pytest.param(600, 900, id="for five minutes"),
        pytest.param(3480, 3840, id="over the end of an hour"),
        pytest.param(3000, 2 * HOUR + 1200, id="for hours"),
    ],
)
def test_a_gpu_that_was_cut_for_a_while_is_whole_again_and_counts_once(start: int, end: int) -> None:
    """The jobs before, on a slice and after it have what they held, and nothing is out of service."""
    until, world = 3 * HOUR, World()
    world.add(node("n1", {"": 1}), whole(end=start), cut(LARGE, 1, 2, start=start, end=end), whole(end, until))
    world.add(claim("1", 0, start), claim("2", start, end, profile=LARGE), claim("u1", end + 60, until))
    world.book()

    assert [
        ("GPU-a", 0, start, "1", "1"),
        ("GPU-a", end + 60, until, "u1", "1"),
        ("GPU-a/GI-1", start, end, "2", "1/2"),
    ] == sorted(held(world))
    assert "out_of_service" not in {who for *_, who, _ in world.segments()}
    assert until == owned(world)


@case
def test_a_job_keeps_the_time_on_a_slice_before_mig_was_switched_off(world: World) -> Iterator[None]:
    """Accounting calls the slice a GPU. The GPU is whole afterwards, and the job goes on."""
    world.add(cut(SMALL, 7, 8, end=HALF), whole(start=HALF), claim("1", 600, 3000))
    yield

    assert [("GPU-a", HALF, 3000, "1", "1"), ("GPU-a/GI-7", 600, HALF, "1", "1/7")] == held(world)
    assert HOUR == owned(world)


@case
def test_a_job_that_names_its_profile_keeps_the_time_up_to_the_switch_and_no_more(world: World) -> Iterator[None]:
    world.add(cut(SMALL, 7, 8, end=HALF), whole(start=HALF), claim("1", 600, 3000, profile=SMALL))
    yield

    assert [("GPU-a/GI-7", 600, HALF, "1", "1/7")] == held(world)


@case
def test_a_job_of_two_slices_has_the_whole_gpu_once_after_the_switch(world: World) -> Iterator[None]:
    world.add(cut(SMALL, 7, 8, end=HALF), whole(start=HALF), claim("1", 600, 3000, count=2))
    yield

    assert [
        ("GPU-a", HALF, 3000, "1", "1"),
        ("GPU-a/GI-7", 600, HALF, "1", "1/7"),
        ("GPU-a/GI-8", 600, HALF, "1", "1/7"),
    ] == held(world)


@case
def test_a_job_on_a_whole_gpu_keeps_its_time_before_mig_was_switched_on(world: World) -> Iterator[None]:
    world.add(whole(end=HALF), cut(SMALL, 7, 8, start=HALF), claim("1", 600, 3000))
    yield

    assert [("GPU-a", 600, HALF, "1", "1")] == held(world)


@case
def test_a_pod_holds_a_slice_of_the_layout_of_its_time(world: World) -> Iterator[None]:
    """The first two slices of that profile were gone when the second pod started."""
    world.add(
        cut(LARGE, 1, 2, end=1200),
        cut(SMALL, 7, 8, start=1200, end=2400),
        cut(LARGE, 3, 4, start=2400),
        pod("a", "u1", 0, 600, profile=LARGE),
        pod("b", "u2", 2700, HOUR, profile=LARGE),
    )
    yield

    assert [("GPU-a/GI-1", 0, 600, "u1", "1/2"), ("GPU-a/GI-3", 2700, HOUR, "u2", "1/2")] == held(world)


@case
def test_a_number_that_was_another_slice_is_held_as_that(world: World) -> Iterator[None]:
    world.add(
        cut(LARGE, 1, 2, end=HALF),
        cut("4g.40gb", 1, start=HALF),
        cut(LARGE, 2, start=HALF),
        pod("a", "u1", 0, 1200, profile=LARGE, count=2),
        pod("b", "u2", 2400, HOUR, profile="4g.40gb"),
    )
    yield

    assert [
        ("GPU-a/GI-1", 0, 1200, "u1", "1/2"),
        ("GPU-a/GI-1", 2400, HOUR, "u2", "8/15"),
        ("GPU-a/GI-2", 0, 1200, "u1", "1/2"),
    ] == held(world)
    assert HOUR == owned(world)


# Cut twice within an hour.

A, B = 1200, 2400
"""Seconds of the hour at which a GPU is cut anew: jobs begin and end within its three parts."""


def three_jobs(*profiles: str | None) -> list[dict[str, Any]]:
    """One job in each part of the hour, two minutes after its beginning and before its end."""
    parts = ((0, A), (A, B), (B, HOUR))
    return [
        claim(str(number), start + 120, end - 120, profile=profile)
        for number, ((start, end), profile) in enumerate(zip(parts, profiles, strict=True), 1)
    ]


@pytest.mark.parametrize(
    ("layouts", "profiles", "expected"),
    [
        pytest.param(
            (whole(end=A), cut(SMALL, 7, start=A, end=B), whole(B)), (None, SMALL, None),
            [("GPU-a", "1"), ("GPU-a/GI-7", "1/7"), ("GPU-a", "1")], id="whole, cut and whole again",
        ),
        pytest.param(
            (cut(SMALL, 7, end=A), whole(A, B), cut(SMALL, 7, start=B)), (SMALL, None, SMALL),
            [("GPU-a/GI-7", "1/7"), ("GPU-a", "1"), ("GPU-a/GI-7", "1/7")], id="cut, whole and cut again",
        ),
        pytest.param(
            (cut(SMALL, 7, end=A), cut(LARGE, 1, start=A, end=B), cut(SMALL, 8, start=B)), (SMALL, LARGE, SMALL),
            [("GPU-a/GI-7", "1/7"), ("GPU-a/GI-1", "1/2"), ("GPU-a/GI-8", "1/7")], id="three layouts",
        ),
        pytest.param(
            (cut(LARGE, 1, end=A), cut(SMALL, 1, start=A, end=B), cut(LARGE, 1, start=B)), (LARGE, SMALL, LARGE),
            [("GPU-a/GI-1", "1/2"), ("GPU-a/GI-1", "1/7"), ("GPU-a/GI-1", "1/2")], id="one number for two profiles",
        ),
        pytest.param(
            (whole(end=A), cut(LARGE, 1, 2, start=A, end=B), cut(SMALL, 7, start=B)), (None, LARGE, SMALL),
            [("GPU-a", "1"), ("GPU-a/GI-1", "1/2"), ("GPU-a/GI-7", "1/7")], id="whole, halves and a small slice",
        ),
    ],
)  # fmt: skip
def test_a_gpu_that_is_cut_twice_in_an_hour_counts_once(
    layouts: tuple[list[Sample], ...], profiles: tuple[str | None, ...], expected: list[tuple[str, str]]
) -> None:
    world = World().add(*layouts, *three_jobs(*profiles)).book()
    with world.store:
        rows = [
            (name, a, b, who.removesuffix(" estimated"), share)
            for name, a, b, who, share in world.segments()
            if who.removesuffix(" estimated") in ("1", "2", "3")
        ]
        spans = ((120, A - 120), (A + 120, B - 120), (B + 120, HOUR - 120))

        assert [
            (name, *span, str(n), share) for n, ((name, share), span) in enumerate(zip(expected, spans, strict=True), 1)
        ] == sorted(rows, key=lambda row: row[1])
        assert HOUR == owned(world)


@pytest.mark.parametrize("long", [pytest.param(1, id="within an hour"), pytest.param(9, id="for three hours each")])
def test_a_node_list_of_the_time_between_makes_no_other_gpu(long: int) -> None:
    """A GPU that is cut, whole and cut again, on a node that says it has one whole GPU."""
    parts = [(start * long, end * long) for start, end in ((0, A), (A, B), (B, HOUR))]
    layouts = [cut(SMALL, 7, start=a, end=b) if turn != 1 else whole(a, b) for turn, (a, b) in enumerate(parts)]
    jobs = [
        claim(str(turn), a + 120, b - 120, profile=None if turn == 1 else SMALL) for turn, (a, b) in enumerate(parts)
    ]
    world = World().add(*layouts, node("n1", {"": 1}, at=HOUR * long // 2), *jobs).book()
    with world.store:
        rows = [(name, a, b, who[:1], share) for name, a, b, who, share in world.segments() if who[:1] in "012"]

        assert sorted(
            ("GPU-a" if turn == 1 else "GPU-a/GI-7", a + 120, b - 120, str(turn), "1" if turn == 1 else "1/7")
            for turn, (a, b) in enumerate(parts)
        ) == sorted(rows)
        assert HOUR * long == owned(world)
