"""Room on partitioned GPUs: the table of what still fits, idle instances, and layouts whose places nobody tells."""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.hardware import shares as hardware_shares
from gpuwatch.hardware.fgd import Task
from gpuwatch.hardware.mig_packing import Slice, SliceCapacity, expected, own_name, packings, slice_capacity
from gpuwatch.hardware.mig_profiles import GEOMETRIES
from tests.worlds.world import H100

KEY = "H100-80GB"
A30 = "NVIDIA A30"
PLAIN = ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
SLICES = st.lists(st.tuples(st.sampled_from(PLAIN), st.booleans()), max_size=7).map(tuple)


def known(*layout: Slice, model: str = H100) -> SliceCapacity:
    found = slice_capacity(model, layout)
    assert found is not None
    return found


def plain(counts: dict[str, int]) -> list[int]:
    return [counts[name] for name in PLAIN]


@pytest.mark.parametrize(
    ("model", "layout"),
    [
        pytest.param(None, (), id="no model"),
        pytest.param("NVIDIA L4", (), id="a model without MIG"),
        pytest.param(H100, (("gpu", True),), id="a slice that is no profile"),
        pytest.param(H100, (("3g.40gb", False),) * 3, id="more than fits"),
    ],
)
def test_of_these_nothing_is_reported(model: str | None, layout: tuple[Slice, ...]) -> None:
    assert slice_capacity(model, layout) is None


def test_an_empty_gpu() -> None:
    found = known()

    assert (8, True) == (found.free_slices, found.certain)
    assert [7, 4, 3, 2, 1, 1] == plain(dict(found.creatable)) == plain(dict(found.reachable))


@pytest.mark.parametrize(
    ("held", "left"),
    [
        pytest.param([("1g.10gb", (0, 1, 2, 3))], [6, 3, 2, 1, 0, 0], id="1g at 0 to 3"),
        pytest.param([("1g.10gb", (4, 5))], [6, 3, 2, 1, 1, 0], id="1g at 4 or 5"),
        pytest.param([("1g.10gb", (6,))], [6, 3, 3, 1, 1, 0], id="1g at 6"),
        pytest.param([("1g.20gb", (6,))], [6, 3, 3, 1, 1, 0], id="1g with double memory at 6"),
        pytest.param([("2g.20gb", (0, 2))], [5, 3, 2, 1, 0, 0], id="2g at 0 or 2"),
        pytest.param([("2g.20gb", (4,))], [5, 3, 2, 1, 1, 0], id="2g at 4"),
        pytest.param([("3g.40gb", (0,))], [3, 2, 1, 1, 0, 0], id="3g at 0"),
        pytest.param([("3g.40gb", (4,))], [4, 2, 2, 1, 1, 0], id="3g at 4"),
        pytest.param([("3g.40gb", (0,)), ("1g.10gb", (4,))], [2, 1, 0, 0, 0, 0], id="3g at 0 and 1g at 4"),
    ],
)
def test_what_is_reported_holds_wherever_the_instances_lie(
    held: list[tuple[str, tuple[int, ...]]], left: list[int]
) -> None:
    """The table is of known places; without them the least of all places is told, which is never more."""
    found = known(*((name, False) for name, _ in held))
    for n in range(len(held[0][1])):
        placed = [(name, starts[n]) for name, starts in held]

        assert left == [hardware_shares.free_profiles(KEY, placed)[name] for name in PLAIN]
        assert placed in list(packings(KEY, [name for name, _ in held]))
    assert all(entry <= exact for entry, exact in zip(plain(dict(found.creatable)), left, strict=True))
    assert dict(found.creatable) == dict(found.reachable), "nothing is idle"


def test_every_row_of_the_published_table(shared: Path) -> None:
    path = shared / "data" / "mig_free_profiles_h100.csv"
    if not path.is_file():
        pytest.skip(f"{path} is absent: set GPUWATCH_SHARED")
    with path.open() as file:
        for row in csv.DictReader(file):
            names = [part.partition("@")[0] for part in row["existing"].split(";") if part]
            found = known(*((name, False) for name in names))

            assert all(found.hosts(name) <= int(row[f"free_{name}"]) for name in PLAIN), row
            if found.certain:
                assert [int(row[f"free_{name}"]) for name in PLAIN] == plain(dict(found.creatable)), row


def test_a_layout_that_lies_in_one_way_only_is_certain() -> None:
    assert known(("4g.40gb", False)).certain
    assert not known(("3g.40gb", False)).certain


def test_idle_instances_are_ready_and_make_room_when_they_are_removed() -> None:
    """Seven 1g of which the odd ones are held: memory slices 1, 3 and 5; slice 7 is beyond 1g."""
    found = known(*(("1g.10gb", n % 2 == 0) for n in range(7)))

    assert 5 == found.free_slices
    assert 4 == found.hosts("1g.10gb") == found.reachable["1g.10gb"]
    assert (0, 1) == (found.hosts("1g.20gb"), found.reachable["1g.20gb"])
    assert 1 == found.uncovered("1g.10gb")
    assert 5 == found.uncovered("1g.20gb") == found.uncovered("7g.80gb") == found.uncovered("1g.5gb")


@pytest.mark.parametrize(
    ("profile", "name"),
    [
        pytest.param("1g.12gb", "1g.12gb", id="its own"),
        pytest.param("1g.11gb", "1g.12gb", id="as older exporters print it"),
        pytest.param("1g.5gb", None, id="one of another model"),
        pytest.param("5g.60gb", None, id="one that no model has"),
        pytest.param("gpu", None, id="no profile"),
    ],
)
def test_names_of_profiles(profile: str, name: str | None) -> None:
    assert name == own_name(GEOMETRIES["H100-94GB"], profile)


def test_fragmentation_in_memory_slices() -> None:
    """Of the five free slices one is lost to 1g, all to 2g, to another model's profile and to who asks for whole GPUs."""
    one = known(*(("1g.10gb", n % 2 == 0) for n in range(7)))
    tasks = [
        Task(4, 1, profile="1g.10gb"),
        Task(3, 1, profile="2g.20gb"),
        Task(1, 1, profile="1g.5gb", models=frozenset({"T4"})),
        Task(2, 1),
    ]
    found = expected([one], tasks, [H100])

    assert 5 * 125 == found.free, "an eighth of a GPU is 125 thousandths"
    assert {"Q2": 1.5, "Q3": 0.4, "NA": 0.5, "ML": 1.0} == {
        case: float(amount / 125) for case, amount in found.by_case().items()
    }
    assert ((3.4 * 125 * 10,),) == found.by_gpu


def test_slices_of_an_a30_are_quarters() -> None:
    found = expected([known(("1g.6gb", False), model=A30)], [Task(1, 1, profile="4g.24gb")], [A30])

    assert (750, 750) == (found.free, found.amount)


def test_cpu_only_tasks_use_no_slice() -> None:
    assert {"XL": 1000} == expected([known()], [Task(1, 0)], [H100]).by_case()


@settings(max_examples=60, deadline=None)
@given(SLICES)
def test_what_could_be_placed_lies_in_what_is_free(layout: tuple[Slice, ...]) -> None:
    found = slice_capacity(H100, layout)
    if found is None:
        return
    held = sum(GEOMETRIES[KEY].profiles[name].memory_slices for name, idle in layout if not idle)

    assert 8 - held == found.free_slices
    for name in PLAIN:
        assert 0 <= found.uncovered(name) <= found.free_slices
        assert found.hosts(name) <= found.reachable[name], "removing idle instances never takes room away"
        assert 0 <= expected([found], [Task(1, 1, profile=name)], [H100]).amount <= Fraction(1000)


@settings(max_examples=40, deadline=None)
@given(SLICES, st.integers(0, 6))
def test_a_slice_that_is_given_back_never_leaves_less_room(layout: tuple[Slice, ...], at: int) -> None:
    before = slice_capacity(H100, layout)
    if before is None or not layout:
        return
    at %= len(layout)
    after = slice_capacity(H100, (*layout[:at], (layout[at][0], True), *layout[at + 1 :]))

    assert after is not None
    assert all(before.hosts(name) <= after.hosts(name) for name in PLAIN)
    assert all(before.reachable[name] <= after.reachable[name] for name in PLAIN)
