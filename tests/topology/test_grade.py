"""How near a gang is beside what was free: cases without a grade first, then grades, facts and laws."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.hardware.link_graph import Graph, Inside, Place
from gpuwatch.hardware.links import link_gb_per_s, network_gb_per_s
from gpuwatch.topology.grade import Placement, grade_placement
from gpuwatch.topology.seats import Seat, Where, nearest, seats, where

H100, L40S, GB200 = "NVIDIA H100 80GB HBM3", "NVIDIA L40S", "NVIDIA GB200"


def machine(
    node: str,
    *,
    gpus: int = 8,
    island: int = 8,
    model: str = H100,
    links: bool = True,
    **outer: str,
) -> Graph:
    """GPUs n1/0, n1/1, ... of a node: islands of NVLink of so many each (0: none), two a PCIe switch, half a socket."""
    nvlink = "NV18"
    places, pairs = {}, {}
    for n in range(gpus):
        path = []
        if links and island:
            path.append(Inside("nvlink", f"{node}/nvlink-{n // island}", link_gb_per_s(model, nvlink)))
        if links:
            path.append(Inside("pcie", f"{node}/pcie-{n // 2}", link_gb_per_s(model, "PIX")))
            path.append(Inside("numa", f"{node}/numa-{2 * n // gpus}", link_gb_per_s(model, "NODE")))
        path.append(Inside("node", node, link_gb_per_s(model, "SYS") if links else None))
        path += [Inside(kind, name, network_gb_per_s(model)) for kind, name in outer.items()]
        places[f"{node}/{n}"] = Place(f"{node}/{n}", tuple(path))
    for a, b in combinations(range(gpus), 2) if links else ():
        near = "PIX" if a // 2 == b // 2 else "NODE" if 2 * a // gpus == 2 * b // gpus else "SYS"
        level = nvlink if island and a // island == b // island else near
        pairs[f"{node}/{a}", f"{node}/{b}"] = level, link_gb_per_s(model, level)
    return Graph(places, pairs)


def fleet(*machines: Graph) -> Graph:
    return Graph(
        {k: v for m in machines for k, v in m.places.items()}, {k: v for m in machines for k, v in m.pairs.items()}
    )


def gpus(text: str) -> list[str]:
    """ "n1:012 n2:3" as names."""
    return [f"{node}/{n}" for node, numbers in (part.split(":") for part in text.split()) for n in numbers]


def judged(graph: Graph, held: str, free: str = "", model: str = H100) -> Placement:
    return grade_placement(graph, gpus(held), gpus(free), list(graph.places), model)


HGX = fleet(*(machine(f"n{n}", leaf=f"l{(n + 1) // 2}", spine="s1") for n in (1, 2, 3, 4)))
PCIE = fleet(*(machine(f"n{n}", island=0, model=L40S, leaf="l1") for n in (1, 2)))
PCIE_LEAVES = fleet(*(machine(f"n{n}", island=0, model=L40S, leaf=f"l{(n + 1) // 2}") for n in (1, 2, 3)))
NO_NETWORK = fleet(machine("n1"), machine("n2"), machine("n3"))
DARK = fleet(machine("n1", links=False), machine("n2", links=False))
RACKS = fleet(
    *(
        machine(f"{rack}{n}", gpus=4, island=4, model=GB200, nvlink_domain=rack, leaf="l1")
        for rack in "ab"
        for n in "12"
    )
)
NO_CLIQUE = fleet(
    machine("a1", gpus=4, island=4, model=GB200, leaf="l1"), machine("a2", gpus=4, model=GB200, leaf="l1")
)
ALL = "01234567"


@pytest.mark.parametrize(
    ("graph", "held", "free", "model", "expected"),
    [
        pytest.param(HGX, "n1:0123", "", H100, ("A", None), id="one NVLink domain is as near as can be"),
        pytest.param(HGX, "n1:01 n2:01", "", H100, ("A", None), id="spanning was unavoidable: nothing else was free"),
        pytest.param(HGX, "n1:01 n2:01", "n3:01 n4:0", H100, ("A", None), id="nowhere were enough free together"),
        pytest.param(HGX, f"n1:{ALL} n2:{ALL}", "", H100, ("A", None), id="larger than every domain and packed"),
        pytest.param(
            HGX, f"n1:{ALL} n3:0123", "n2:012", H100, ("A", None), id="larger than a domain: nowhere were 12 free together"
        ),
        pytest.param(
            HGX, "n1:0123 n2:0123 n3:0123", f"n1:{ALL} n2:{ALL}", H100, ("B", None), id="larger, over leaves, beside a free leaf"
        ),
        pytest.param(
            HGX, "n1:01234 n2:01234 n3:01", f"n2:{ALL} n1:{ALL}", H100, ("B", None), id="larger, on more nodes than it needed"
        ),
        pytest.param(
            PCIE_LEAVES, f"n1:{ALL} n3:{ALL}", f"n2:{ALL}", L40S, ("B", None), id="larger, over leaves, of unknown speed"
        ),
        pytest.param(DARK, "n1:0123", f"n2:{ALL}", H100, (None, "links"), id="the links of its node are unknown"),
        pytest.param(DARK, "n1:01 n2:01", "n1:2345", H100, ("B", None), id="one node is nearer than two, whatever its links"),
        pytest.param(NO_NETWORK, "n1:01 n2:01", "n3:0", H100, (None, "network"), id="over an unknown network"),
        pytest.param(NO_CLIQUE, "a1:01 a2:01", "a1:23", GB200, (None, "domain"), id="maybe one NVLink domain over nodes"),
        pytest.param(RACKS, "a1:0123 a2:0123", "", GB200, ("A", None), id="two nodes of one NVLink domain"),
        pytest.param(HGX, "n1:01 n2:01", "n1:23", H100, ("D", None), id="a domain was free: 7.4 times faster"),
        pytest.param(NO_NETWORK, "n1:01 n2:01", "n3:0123", H100, ("D", None), id="of nodes apart more need not be known"),
        pytest.param(HGX, "n1:0 n3:0 n4:0", "n1:12", H100, ("D", None), id="over leaves, beside free GPUs of its node"),
        pytest.param(RACKS, "a1:01 b1:01", "a2:0123", GB200, ("F", None), id="two NVLink domains: 14 times slower"),
        pytest.param(PCIE, "n1:04", "n2:01", L40S, ("C", None), id="over sockets, where one switch was free"),
        pytest.param(PCIE, "n1:02", "n2:01", L40S, ("B", None), id="over switches of a socket"),
        pytest.param(PCIE, "n1:0 n2:0", "n2:1", L40S, ("D", None), id="a network of unknown speed: three kinds farther"),
    ],
)  # fmt: skip
def test_grades(graph: Graph, held: str, free: str, model: str, expected: tuple[str | None, str | None]) -> None:
    found = judged(graph, held, free, model)

    assert expected == (found.grade, found.reason)


def test_own_unknown_places_may_be_as_near() -> None:
    known = fleet(machine("n1", leaf="l1"), machine("n2", leaf="l1"))
    dark = fleet(machine("n3", zone="z"), machine("n4", zone="z"), known)
    found = grade_placement(dark, gpus("n3:0123 n4:0123"), gpus("n1:0123 n2:0123"), list(dark.places), H100)

    assert (None, "network") == (found.grade, found.reason)


def test_free_gpus_of_a_node_without_links_are_no_better_place_than_another_node() -> None:
    found = judged(fleet(PCIE, machine("n9", links=False, model=L40S, leaf="l1")), "n1:04", f"n9:{ALL}", L40S)

    assert "A" == found.grade


def test_free_gpus_of_a_node_without_links_are_nearer_than_two_nodes() -> None:
    found = judged(fleet(HGX, machine("n9", links=False, leaf="l1", spine="s1")), "n1:01 n2:01", f"n9:{ALL}")

    assert ("B", None) == (found.grade, found.slowdown)
    assert found.best is not None
    assert ("node", "n9") == (found.best.where.kind, found.best.where.name)


def test_facts_of_a_gang_over_two_leaves() -> None:
    found = judged(HGX, "n1:01 n3:45", "n1:23")

    assert Where("spine", "s1", 2) == found.where
    assert (2, 2, 2, 2, 2) == tuple(vars(found.spread).values())
    assert {"spine": 0.6667, "NV18": 0.3333} == found.levels
    assert ("spine", 50.0) == (found.worst, found.gb_per_s)
    assert found.best is not None
    assert (Where("nvlink", "n1/nvlink-0", 1), 4, 370.8) == (
        found.best.where,
        found.best.free,
        pytest.approx(found.best.gb_per_s),
    )


def test_slowdown_is_a_band_of_the_exposed_share() -> None:
    found = judged(HGX, "n1:01 n2:01", "n1:23").slowdown
    ratio = 18 * 20.6 / 50

    assert found is not None
    assert pytest.approx(ratio, abs=1e-4) == found.bandwidth_ratio
    assert pytest.approx((1 + 0.029 * (ratio - 1), 1 + 0.111 * (ratio - 1)), abs=1e-4) == found.slow
    assert pytest.approx((0.1570, 0.4161), abs=1e-3) == found.lost


def test_no_slowdown_where_a_bandwidth_is_not_known() -> None:
    assert judged(PCIE, "n1:0 n2:0", "n2:1", L40S).slowdown is None


def test_a_model_without_nvlink_crosses_no_domains() -> None:
    spread = judged(PCIE, "n1:04", "", L40S).spread

    assert (None, 2, 2, 1, 1) == tuple(vars(spread).values())


# Laws ---------------------------------------------------------------------------------------------------------------

MIXED = fleet(
    machine("n1", leaf="l1", spine="s1"),
    machine("n2", island=4, leaf="l1", spine="s1"),
    machine("n3", island=2, leaf="l2", spine="s1"),
    machine("n4", island=0, leaf="l3"),
    machine("n5", links=False),
)
SEATS = seats(MIXED, MIXED.places, H100)
NAMES = sorted(MIXED.places)
some = st.lists(st.sampled_from(NAMES), min_size=2, max_size=12, unique=True)
rest = st.lists(st.sampled_from(NAMES), max_size=30, unique=True)


def chosen(names: list[str]) -> list[Seat]:
    return [SEATS[name] for name in names]


@settings(max_examples=60, deadline=None)
@given(some, rest)
def test_the_attainable_is_never_worse_than_the_actual(held: list[str], free: list[str]) -> None:
    found = grade_placement(MIXED, held, free, NAMES, H100)

    assert found.best is not None
    assert found.best.where.rank <= found.where.rank
    assert len(held) == len(found.best.gpus) <= found.best.free
    assert found.best.where.rank == where(chosen(list(found.best.gpus))).rank
    assert {*found.best.gpus} <= {*held, *free}


@settings(max_examples=60, deadline=None)
@given(some, rest, rest)
def test_more_free_gpus_never_make_the_attainable_worse(held: list[str], free: list[str], more: list[str]) -> None:
    few = nearest(chosen(sorted({*held, *free})), len(held))
    many = nearest(chosen(sorted({*held, *free, *more})), len(held))

    assert few is not None
    assert many is not None
    assert many[0].rank <= few[0].rank


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(NAMES), min_size=2, max_size=9, unique=True), st.data())
def test_the_attainable_is_that_of_all_sets(free: list[str], data: st.DataObject) -> None:
    k = data.draw(st.integers(2, len(free)))
    found = nearest(chosen(free), k)

    assert found is not None
    assert found[0].rank == min(where(one).rank for one in combinations(chosen(free), k))


@settings(max_examples=40, deadline=None)
@given(some, rest, st.randoms())
def test_the_order_of_devices_changes_nothing(held: list[str], free: list[str], random: Random) -> None:
    before = grade_placement(MIXED, held, free, NAMES, H100)
    others, rests = [*held], [*free]
    random.shuffle(others)
    random.shuffle(rests)

    assert before == grade_placement(MIXED, others, rests, NAMES, H100)
