"""Where GPUs meet, the slowest pair of a set, and the best set of the free ones: examples and laws."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.hardware.link_graph import (
    Graph,
    Inside,
    Place,
    best_attainable,
    farthest,
    meeting,
    slowest,
)

NVLINK, PIX, SYS, NET = 371.0, 48.0, 22.0, 50.0


def machine(
    node: str,
    gpus: int,
    *,
    leaf: str | None = None,
    spine: str | None = None,
    domain: str | None = None,
    net: float = NET,
) -> list[Place]:
    """GPUs n1/0, n1/1, ... of a node; their pairs are told by `matrix`."""
    outer = [
        Inside(kind, name, speed)
        for kind, name, speed in (("nvlink_domain", domain, 722.0), ("leaf", leaf, net), ("spine", spine, net))
        if name is not None
    ]
    return [Place(f"{node}/{n}", (Inside("node", node, None), *outer)) for n in range(gpus)]  # fmt: skip


def matrix(node: str, gpus: int, near: int, inner: tuple[str, float], outer: tuple[str, float]) -> dict[tuple[str, str], tuple[str, float | None]]:  # fmt: skip
    """Pairs of a node: `inner` within each `near` GPUs in a row, `outer` else."""
    return {
        (f"{node}/{a}", f"{node}/{b}"): inner if a // near == b // near else outer
        for a, b in combinations(range(gpus), 2)
    }


def graph(places: list[Place], *pairs: dict[tuple[str, str], tuple[str, float | None]]) -> Graph:
    return Graph({place.gpu: place for place in places}, {k: v for one in pairs for k, v in one.items()})


HGX = graph(machine("n1", 8), matrix("n1", 8, 8, ("NV18", NVLINK), ("SYS", SYS)))
PCIE = graph(machine("n1", 8), matrix("n1", 8, 2, ("PIX", PIX), ("SYS", SYS)))
CLUSTER = graph(
    machine("n1", 8, leaf="l1", spine="s1") + machine("n2", 8, leaf="l1", spine="s1")
    + machine("n3", 8, leaf="l2", spine="s1"),
    *(matrix(f"n{n}", 8, 8, ("NV18", NVLINK), ("SYS", SYS)) for n in (1, 2, 3)),
)  # fmt: skip
RACK = graph(machine("a", 4, domain="d1", leaf="l1") + machine("b", 4, domain="d1", leaf="l1"))
CUBE = graph(
    machine("n1", 8),
    {
        (f"n1/{a}", f"n1/{b}"): ("NV1", 20.0) if a // 4 == b // 4 or b - a == 4 else ("SYS", 8.0)
        for a, b in combinations(range(8), 2)
    },
)
"""Two full squares and four links between them: near is no equivalence here."""
DARK = graph(machine("n1", 2) + machine("n2", 2))
"""Nobody told of any link."""


def gpus(node: str, *numbers: int) -> list[str]:
    return [f"{node}/{n}" for n in numbers]


@pytest.mark.parametrize(
    ("world", "a", "b"),
    [
        pytest.param(HGX, "n1/0", "x/0", id="a GPU that is not there"),
        pytest.param(DARK, "n1/0", "n2/0", id="nodes that nothing joins"),
    ],
)
def test_what_nothing_joins_does_not_meet(world: Graph, a: str, b: str) -> None:
    assert meeting(world, a, b) is None
    assert farthest(world, [a, b]) is None
    assert slowest(world, [a, b]) is None


def test_a_node_without_a_matrix_has_no_speed() -> None:
    """Not the one of the network round it either: it may have NVLink."""
    world = graph(machine("n1", 2, leaf="l1"))
    found = meeting(world, "n1/0", "n1/1")

    assert found is not None
    assert ("node", None) == (found.level, found.gb_per_s)
    assert slowest(world, gpus("n1", 0, 1)) is None
    assert best_attainable(world, gpus("n1", 0, 1), 2) is None


@pytest.mark.parametrize(
    ("world", "a", "b", "level", "speed"),
    [
        pytest.param(HGX, "n1/0", "n1/7", "NV18", NVLINK, id="NVSwitch"),
        pytest.param(PCIE, "n1/0", "n1/1", "PIX", PIX, id="one switch"),
        pytest.param(PCIE, "n1/1", "n1/2", "SYS", SYS, id="two sockets"),
        pytest.param(CLUSTER, "n1/0", "n2/0", "leaf", NET, id="one leaf"),
        pytest.param(CLUSTER, "n1/0", "n3/0", "spine", NET, id="one spine"),
        pytest.param(RACK, "a/0", "b/0", "nvlink_domain", 722.0, id="NVLink over nodes"),
    ],
)
def test_where_two_gpus_meet(world: Graph, a: str, b: str, level: str, speed: float) -> None:
    found = meeting(world, a, b)

    assert found is not None
    assert (level, speed) == (found.level, found.gb_per_s)


def test_the_slower_way_into_a_container_counts() -> None:
    world = graph(machine("n1", 1, leaf="l1") + machine("n2", 1, leaf="l1", net=12.5))
    found = slowest(world, ["n1/0", "n2/0"])

    assert found is not None
    assert 12.5 == found.gb_per_s


def test_a_domain_of_unknown_speed_is_at_least_its_leaf() -> None:
    slow = [Place(f"{n}/0", (Inside("node", n, None), Inside("nvlink_domain", "d", None), Inside("leaf", "l", NET))) for n in "ab"]  # fmt: skip
    found = meeting(graph(slow), "a/0", "b/0")

    assert found is not None
    assert ("nvlink_domain", NET) == (found.level, found.gb_per_s)


@pytest.mark.parametrize(
    ("world", "free", "k", "level", "chosen"),
    [
        pytest.param(PCIE, gpus("n1", 0, 3, 4, 5), 2, "PIX", gpus("n1", 4, 5), id="the pair below one switch"),
        pytest.param(PCIE, gpus("n1", 0, 2, 4), 2, "SYS", gpus("n1", 0, 2), id="no two below one switch"),
        pytest.param(CLUSTER, [*gpus("n1", 0, 1, 2), *gpus("n3", 4, 5, 6, 7)], 4, "NV18", gpus("n3", 4, 5, 6, 7),
                     id="the node that holds them all"),
        pytest.param(CLUSTER, [*gpus("n1", *range(6)), *gpus("n2", 0, 1), *gpus("n3", *range(5))], 8, "leaf",
                     [*gpus("n1", *range(6)), *gpus("n2", 0, 1)], id="six and two are no eight, but one leaf"),
        pytest.param(CLUSTER, [*gpus("n1", *range(6)), *gpus("n3", *range(5))], 8, "spine",
                     [*gpus("n1", *range(6)), *gpus("n3", 0, 1)], id="two leaves"),
        pytest.param(RACK, [*gpus("a", 0, 1), *gpus("b", 0, 1)], 4, None, None, id="rack whose nodes have no matrix"),
        pytest.param(CUBE, gpus("n1", 1, 2, 3, 4, 5, 6), 3, "NV1", gpus("n1", 1, 2, 3), id="three of a square"),
        pytest.param(CUBE, gpus("n1", 0, 1, 4, 5), 4, "SYS", gpus("n1", 0, 1, 4, 5), id="a square of links is no island"),
        pytest.param(HGX, gpus("n1", 0, 1), 3, None, None, id="too few"),
        pytest.param(HGX, gpus("n1", 0, 1), 1, None, None, id="one GPU exchanges nothing"),
        pytest.param(HGX, ["n1/0", "n1/0", "gone"], 2, None, None, id="twice the same"),
    ],
)  # fmt: skip
def test_the_best_of_the_free(world: Graph, free: list[str], k: int, level: str | None, chosen: list[str] | None) -> None:  # fmt: skip
    found = best_attainable(world, free, k)

    assert (level, chosen) == ((None, None) if found is None else (found.level, list(found.gpus)))


def test_slow_ways_are_left_out_where_others_are_free() -> None:
    world = graph(
        machine("a", 2, leaf="l1", net=12.5) + machine("b", 1, leaf="l1") + machine("c", 1, leaf="l1"),
        matrix("a", 2, 2, ("SYS", 5.0), ("SYS", 5.0)),
    )
    found = best_attainable(world, ["a/0", "a/1", "b/0", "c/0"], 2)

    assert found is not None
    assert (NET, ("b/0", "c/0")) == (found.gb_per_s, found.gpus)


@st.composite
def worlds(draw: st.DrawFn) -> Graph:
    """One to three nodes with any levels between any two of their GPUs, under leaves and a spine."""
    places: list[Place] = []
    pairs: dict[tuple[str, str], tuple[str, float | None]] = {}
    levels = st.sampled_from([("NV18", NVLINK), ("NV4", 80.0), ("PIX", PIX), ("PHB", 36.9), ("SYS", SYS)])
    for node in ["n1", "n2", "n3"][: draw(st.integers(1, 3))]:
        count = draw(st.integers(1, 6))
        net = draw(st.sampled_from([12.5, 25.0, 50.0]))
        places += machine(node, count, leaf=draw(st.sampled_from(["l1", "l2"])), spine="s", net=net)
        pairs |= {(f"{node}/{a}", f"{node}/{b}"): draw(levels) for a, b in combinations(range(count), 2)}
    return graph(places, pairs)


@given(worlds())
def test_meeting_is_symmetric(world: Graph) -> None:
    for a, b in combinations(world.places, 2):
        assert meeting(world, a, b) == meeting(world, b, a)


@given(worlds(), st.data())
def test_more_gpus_are_never_faster(world: Graph, data: st.DataObject) -> None:
    every = sorted(world.places)
    large = data.draw(st.lists(st.sampled_from(every), min_size=2, unique=True)) if len(every) > 1 else every
    small = large[: data.draw(st.integers(0, len(large)))]
    few, many = slowest(world, small), slowest(world, large)
    if few is None or many is None:
        assert len(small) < 2 or few is not None
        return

    assert many.gb_per_s is not None
    assert few.gb_per_s is not None
    assert many.gb_per_s <= few.gb_per_s


@given(worlds(), st.data())
def test_the_slowest_pair_is_the_slowest_of_all_pairs(world: Graph, data: st.DataObject) -> None:
    """However few of them are looked at."""
    chosen = data.draw(st.lists(st.sampled_from(sorted(world.places)), unique=True))
    speeds = [meeting(world, a, b) for a, b in combinations(chosen, 2)]
    found = slowest(world, chosen)

    assert min((one.gb_per_s for one in speeds if one and one.gb_per_s), default=None) == (found and found.gb_per_s)


@settings(deadline=None)
@given(worlds(), st.integers(2, 6))
def test_on_one_node_no_set_beats_the_best(world: Graph, k: int) -> None:
    node = [gpu for gpu in sorted(world.places) if gpu.startswith("n1/")]
    sets = [slowest(world, chosen) for chosen in combinations(node, k)]
    found = best_attainable(Graph({gpu: world.places[gpu] for gpu in node}, world.pairs), node, k)

    assert max((one.gb_per_s for one in sets if one and one.gb_per_s), default=None) == (found and found.gb_per_s)


@settings(deadline=None)
@given(worlds(), st.integers(2, 6))
def test_the_best_set_is_what_it_says(world: Graph, k: int) -> None:
    found = best_attainable(world, list(world.places), k)
    if found is None:
        assert len(world.places) < k
        return
    worst = slowest(world, found.gpus)

    assert worst is not None
    assert (k, worst.gb_per_s, worst.level) == (len(set(found.gpus)), found.gb_per_s, found.level)


@settings(deadline=None)
@given(worlds(), st.integers(2, 6), st.data())
def test_more_free_gpus_of_a_node_are_never_worse(world: Graph, k: int, data: st.DataObject) -> None:
    node = [gpu for gpu in sorted(world.places) if gpu.startswith("n1/")]
    some = data.draw(st.lists(st.sampled_from(node), unique=True))
    few, many = best_attainable(world, some, k), best_attainable(world, node, k)

    assert (few.gb_per_s if few else 0.0) <= (many.gb_per_s if many else 0.0)
