"""What could be placed now: free GPUs by how near they are, the shapes asked for, what is stranded and its price."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from gpuwatch.billing import chargeback
from gpuwatch.capacity import demand as capacity_demand
from gpuwatch.capacity.demand import named_models, shape
from gpuwatch.capacity.fleet import fleet
from gpuwatch.capacity.now import shapes
from gpuwatch.commands.advice import capacity as command
from gpuwatch.core.model import LINK, PENDING, Records
from gpuwatch.core.queue_model import WORKLOAD
from gpuwatch.hardware.fgd import Task
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.topology import derive as topology_derive
from tests.worlds.world import CLUSTER, H100, Gpu, World, claim, minutes, node, pod, samples, us

END = 600
"""Seconds that the tiny fleets are sampled for."""
NOW_US = us(END)
SLOTS = ("node_local", "nvlink_local", "leaf_local", "across")
Row = dict[str, Any]


def gpu(name: str, number: int = 0, **words: Any) -> Gpu:
    return Gpu(f"GPU-{name}-{number}", name, number, **words)


def machine(name: str, gpus: int, held: Sequence[int] = (), at: int | None = None, **words: Any) -> list[Any]:
    """A node, its samples, and a job on each GPU that is held since before the world began."""
    rows: list[Any] = [node(name, {"": gpus}, at, **words)]
    for n in range(gpus):
        rows += samples(gpu(name, n), minutes(0, END))
    return rows + [claim(f"{name}-{n}", 0, None, name, gpus=f"GPU-{name}-{n}", evidence=END, submit_us=1) for n in held]


def asked(job: str, gpus: int = 1, at: int = 0, nodes: int = 1, **words: Any) -> Row:
    """A request of the window that has not started: for so many GPUs in all, on so many nodes."""
    row = {"cluster": CLUSTER, "scheduler": "slurm", "job_id": job, "device_count": gpus, "node_count": nodes}
    return row | {"submit_us": us(at), "evidence_us": us(END), "reason": "Priority"} | words


def ran(job: str, gpus: int = 1, nodes: Sequence[str] = ("n1",), **words: Any) -> list[Row]:
    """A request that was served for a second, with so many GPUs on each node."""
    return [claim(job, 0, 1, name, gpus, submit_us=us(0), **words) for name in nodes]


def linked(name: str, *islands: Sequence[int]) -> list[Row]:
    """A matrix of a node: GPUs of one island are NV18 apart, those of two SYS."""
    of = {n: number for number, island in enumerate(islands) for n in island}
    rows = [(f"GPU{n}", f"GPU{n}", "X") for n in sorted(of)]
    rows += [(f"GPU{a}", f"GPU{b}", "NV18" if of[a] == of[b] else "SYS") for a in of for b in of if a < b]
    return [_link(a, b, level, name) for a, b, level in rows]


def switch(leaf: str, *nodes: str) -> list[Row]:
    return [_link(leaf, name, "SWITCH", name) for name in nodes]


def _link(a: str, b: str, level: str, name: str) -> Row:
    row = {"cluster": CLUSTER, "observed_us": None, "node": name, "a": a, "b": b, "level": level}
    return row | {"detail": json.dumps({"plugin": "tree"} if level == "SWITCH" else {})}


def look(*rows: Any, links: Sequence[Row] = (), rates: Sequence[Rate] = (), at_us: int = NOW_US, **more: Any) -> Row:
    flat = [one for row in rows for one in (row if isinstance(row, list) else [row])]
    waiting = [row for row in flat if isinstance(row, dict) and "reason" in row]
    world = World().add(*[row for row in flat if not (isinstance(row, dict) and "reason" in row)])
    world.store.append(Records("pending", pa.Table.from_pylist(waiting, schema=PENDING)))
    return ask(world, links, rates, at_us, **more)


def ask(world: World, links: Sequence[Row] = (), rates: Sequence[Rate] = (), at_us: int = NOW_US, **more: Any) -> Row:
    with world.store as store:
        world.attribute()
        if links:
            store.append(Records("link", pa.Table.from_pylist(list(links), schema=LINK)))
            topology_derive.derive(store, CLUSTER)
        if rates:
            with State.open("sqlite://") as state:
                replace_rates(state, list(rates), "test", "test", 0)
                chargeback.price_all(store, state)
        return shapes(store, at_us, **more)


class _Undone(Exception):
    """Takes the requests of one test back."""


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[World]:
    """Two nodes of four GPUs, of each of which the first is held; no links, no prices, no requests."""
    world = World().add(machine("n1", 4, held=[0]), machine("n2", 4, held=[0])).attribute()
    with world.store:
        yield world


def requested(world: World, *rows: Row, **more: Any) -> Row:
    """The answer while these requests wait."""
    found: Row = {}
    with suppress(_Undone), world.store.transaction():
        world.store.append(Records("pending", pa.Table.from_pylist(list(rows), schema=PENDING)))
        found |= shapes(world.store, NOW_US, **more)
        raise _Undone
    return found


def price(text: str, currency: str = "USD") -> Rate:
    return Rate(H100, "owned", Decimal(text), 0, None, None, None, None, currency)


def slots(found: Row, name: str = "across") -> dict[str, int | None]:
    """Slots of each shape, of all pools."""
    sums: dict[str, int | None] = {}
    for row in found["items"]:
        sums[row["shape"]] = row[name] if sums.get(row["shape"]) is None else sums[row["shape"]] + row[name]
    return sums


def demand(found: Row) -> dict[str, tuple[Any, ...]]:
    return {
        row["shape"]: (row["requests"], row["level"], row["placeable"], row["starved"])
        for row in found["clusters"][0]["demand"]["shapes"]
    }


def note_counts(found: Row) -> dict[str, int | None]:
    return {note["what"]: note["gpus"] for note in found["clusters"][0]["notes"]}


# What is not there --------------------------------------------------------------------------------------------------


def test_an_empty_store_has_no_shapes() -> None:
    with Store.open(None, threads=1) as store:
        found = shapes(store, NOW_US)

    assert ([], [], [], None) == (found["items"], found["clusters"], found["stranded"], found["next_offset"])
    assert {
        "free_gpus": 0.0,
        "stranded_gpus": 0.0,
        "rate": None,
        "cost_per_hour": [],
        "unpriced_gpus": 0,
    } == found["total"]


def test_a_full_fleet_has_no_slot() -> None:
    found = look(machine("n1", 2, held=[0, 1]))

    assert {"1": 0, "2": 0} == slots(found, "node_local")
    assert (0.0, None) == (found["total"]["free_gpus"], found["total"]["rate"])


@pytest.mark.parametrize(
    "words",
    [
        pytest.param({"state": "drain", "since_us": us(0)}, id="a drained node"),
        pytest.param({"state": "down", "since_us": us(0)}, id="a node that is down"),
    ],
)
def test_what_is_out_of_service_is_not_free(words: Row) -> None:
    found = look(machine("n1", 2, at=END, **words), machine("n2", 1))

    assert {"1": 1, "2": 0} == slots(found)
    assert 1.0 == found["total"]["free_gpus"]


def test_a_gpu_that_nobody_measures_is_free_while_its_scheduler_lists_its_node() -> None:
    """n2 has no exporter; n3 is drained."""
    found = look(
        machine("n1", 1, at=END),
        node("n2", {"": 2}, END, gpu_model="h100"),
        node("n3", {"": 2}, END, gpu_model="h100", state="drain", since_us=us(0)),
        claim("9", 0, 60, "n2", 2, gpu_type="h100", submit_us=us(0)),
        claim("8", 0, 60, "n3", 2, gpu_type="h100", submit_us=us(0)),
    )

    assert 3.0 == found["total"]["free_gpus"]


def test_slices_whose_gpu_is_not_known_are_no_gpus() -> None:
    """Of a node without an exporter: one slice is held, six are free, and one whole GPU is free."""
    dark = [node("dark", {"": 1, "1g.10gb": 7}, at=at, gpu_model=H100) for at in (0, END)]
    held = claim("s", 0, None, "dark", profile="1g.10gb", evidence=END)
    found = look(machine("n1", 1, [0]), *dark, held, asked("pair", 2))

    assert {"free_gpus": 1.0, "stranded_gpus": 1.0} == {k: found["total"][k] for k in ("free_gpus", "stranded_gpus")}


def test_links_that_nobody_tells_are_unknown_and_not_none() -> None:
    found = look(machine("n1", 2), machine("n2", 1))

    assert {"1": (3, 1, None, 3), "2": (1, 0, None, 1)} == {
        row["shape"]: tuple(row[name] for name in SLOTS) for row in found["items"]
    }, "the GPU that is alone on its node needs no links"
    assert {"cpu": None, "requests": None, "links": 2, "network": 3, "price": 3} == note_counts(found)
    assert {"node": 2, "nvlink": 1, "leaf": None, "cluster": 3} == {
        row["level"]: row["gpus"] for row in found["clusters"][0]["gangs"]
    }


def test_a_node_without_nvlink_has_islands_of_one() -> None:
    found = look(machine("n1", 2), links=linked("n1", [0], [1]))

    assert {"1": 2, "2": 0} == slots(found, "nvlink_local")
    assert {"1": 2, "2": 1} == slots(found, "node_local")
    assert "links" not in note_counts(found)


# Slots --------------------------------------------------------------------------------------------------------------


def test_slots_by_how_near_their_gpus_are() -> None:
    """Free: n1 0, 1, 2 (islands of 0-1 and 2-3), n2 and n3 one each; n1 and n2 share a leaf."""
    found = look(
        machine("n1", 4, held=[3]),
        machine("n2", 2, held=[0]),
        machine("n3", 2, held=[1]),
        links=[
            *linked("n1", [0, 1], [2, 3]), *linked("n2", [0, 1]), *linked("n3", [0, 1]),
            *switch("l1", "n1", "n2"), *switch("l2", "n3"),
        ],
    )  # fmt: skip

    assert {"1": (5, 5, 5, 5), "2": (1, 1, 2, 2), "4": (0, 0, 1, 1), "8": (0, 0, 0, 0)} == {
        row["shape"]: tuple(row[name] for name in SLOTS) for row in found["items"]
    }
    assert [("node", 3, "n1", 2), ("nvlink", 2, "n1/nvlink-0", 3), ("leaf", 4, "l1", 1), ("cluster", 5, None, 0)] == [
        (row["level"], row["gpus"], row["domain"], row["availability_gap"]) for row in found["clusters"][0]["gangs"]
    ]


def test_nvlink_over_nodes_is_one_domain() -> None:
    """Two trays of an NVL72, by the clique in their labels; a fleet whose NVLink stays in the node has none."""
    labels = json.dumps({"nvidia.com/gpu.clique": "rack.1"})
    for model, slot in (("NVIDIA GB200", {"1": 4, "2": 2, "4": 1}), (H100, {"1": None, "2": None, "4": None})):
        rows: list[Any] = []
        for name in ("n1", "n2"):
            rows.append(node(name, {"": 2}, scheduler="kubernetes", labels=labels))
            rows += [samples(gpu(name, n, model=model), minutes(0, END)) for n in range(2)]

        assert slot == slots(look(*rows, links=switch("l1", "n1", "n2")), "nvlink_local")


def test_parts_of_a_gpu_are_free_where_replicas_are() -> None:
    """MPS makes four of a GPU; one is bound."""
    found = look(
        node("n1", {"": 1}, scheduler="kubernetes", sharing="mps", replicas=4),
        samples(gpu("n1"), minutes(0, END)),
        pod("a", "ua", 0, None, gpus="GPU-n1-0", evidence=END, submit_us=1),
        ran("r1", fraction=0.5),
    )

    assert 0.75 == found["total"]["free_gpus"]
    assert {"0.5": 1, "1": 0} == slots(found, "node_local")
    assert 0.0 == found["total"]["stranded_gpus"], "a half fits on it"


def test_pools_and_models_are_distinguished_and_paged() -> None:
    world = World().add(machine("n1", 1, at=END, pool="a"), machine("n2", 1, at=END, pool="b")).attribute()
    with world.store as store:
        first, rest = shapes(store, NOW_US, limit=1), shapes(store, NOW_US, limit=5, offset=1)

    assert [("a", "1")] == [(row["pool"], row["shape"]) for row in first["items"]]
    assert 1 == first["next_offset"]
    assert 2.0 == first["total"]["free_gpus"], "the page is of the items only"
    assert [("b", "1")] == [(row["pool"], row["shape"]) for row in rest["items"]]
    assert rest["next_offset"] is None


def test_free_is_what_the_fleet_does_not_hold() -> None:
    world = World().add(machine("n1", 3, held=[0]), machine("n2", 2))
    world.book()
    with State.open("sqlite://") as state:
        chargeback.price_all(world.store, state)
        whole = fleet(world.store, NOW_US)["total"]["gpus"]
        found = shapes(world.store, NOW_US)

    assert whole["total"] - whole["allocated"] == found["total"]["free_gpus"] == 4


def test_an_instant_of_the_past() -> None:
    """The GPU was held for the first five minutes."""
    rows = [machine("n1", 1), claim("1", 0, 300, gpus="GPU-n1-0", submit_us=us(0))]

    assert {"1": 0} == slots(look(*rows, at_us=us(240)))
    assert {"1": 1} == slots(look(*rows))


def test_another_cluster_has_nothing(two_nodes: World) -> None:
    assert [] == requested(two_nodes, cluster="c2")["clusters"]


# Demand -------------------------------------------------------------------------------------------------------------


def test_without_requests_the_usual_stand_for_them(two_nodes: World) -> None:
    found = requested(two_nodes)
    entry = found["clusters"][0]["demand"]

    assert (0, True) == (entry["requests"], entry["usual"])
    assert ["1", "2", "4"] == [row["shape"] for row in entry["shapes"]], "none is larger than the largest node"
    assert [False] * 3 == [row["starved"] for row in entry["shapes"]], "nobody has asked"
    assert 2.0 == found["total"]["stranded_gpus"], "six free GPUs, lost to one of three shapes"


def test_requests_are_counted_by_shape() -> None:
    """Run: a job of two nodes, two of one GPU. Waiting: one GPU, four, an unknown number, and two since last year."""
    found = look(
        machine("n1", 4, held=[0]), machine("n2", 4, held=[0]),
        ran("a", 4, nodes=("n1", "n2")), ran("b"), ran("c"),
        asked("d"), asked("w", 4), asked("u") | {"device_count": None}, asked("old", 2, at=-365 * 86_400),
        links=[*switch("l1", "n1"), *switch("l2", "n2")],
    )  # fmt: skip
    entry = found["clusters"][0]["demand"]

    assert {
        "1": (3, "node", 6, False),
        "2x4": (1, "cluster", 0, True),
        "4": (1, "node", 0, True),
    } == demand(found)
    assert (5, 5, 1, False) == tuple(entry[k] for k in ("requests", "requests_judged", "requests_unsized", "usual"))
    assert "request-size" in note_counts(found)
    assert 6 * 2 / 5 == found["total"]["stranded_gpus"]
    assert [("Q2", 2.4)] == [(cause["case"], cause["gpus"]) for cause in found["clusters"][0]["gpus"]["causes"]]


def test_a_gang_lies_in_the_nearest_domain_that_is_large_enough() -> None:
    rows = [machine("n1", 2), machine("n2", 2, held=[0]), machine("n3", 2), asked("g", 4, nodes=2)]

    assert {"2x2": (1, "leaf", 0, True)} == demand(look(*rows, links=[*switch("l1", "n1", "n2"), *switch("l2", "n3")]))
    assert {"2x2": (1, "leaf", 1, False)} == demand(look(*rows, links=switch("l1", "n1", "n2", "n3")))


def test_more_gpus_than_a_node_has_may_lie_on_several(two_nodes: World) -> None:
    assert {"5x1": (1, "cluster", 1, False)} == demand(requested(two_nodes, asked("g", 5)))


def test_what_does_not_divide_evenly_may_lie_anywhere(two_nodes: World) -> None:
    assert {"3x1": (1, "cluster", 2, False)} == demand(requested(two_nodes, asked("g", 3, nodes=2)))


def test_a_gang_of_pods_counts_once() -> None:
    """Its queue says two pods of two GPUs; the pods are not counted again."""
    pods = [ran("lab/g", 2, run_key=f"pod-{n}", scheduler="kubernetes") for n in range(2)]
    world = World().add(machine("n1", 4), *pods)
    gang = {"cluster": CLUSTER, "scheduler": "kueue", "kind": "Workload", "uid": "u", "name": "g", "job_id": "lab/g"}
    gang |= {"pod_count": 2, "device_count": 4, "submit_us": us(0), "observed_us": us(1), "state": "finished"}
    world.store.append(Records("workload", pa.Table.from_pylist([gang], schema=WORKLOAD)))

    assert {"2x2": (1, "cluster", 1, False)} == demand(ask(world))
    assert {"2": (2, "node", 2, False)} == demand(look(machine("n1", 4), *pods))


def test_the_model_that_is_asked_for(two_nodes: World) -> None:
    found = requested(two_nodes, asked("a", gpu_type="h100"), asked("b", gpu_type="a100"), asked("c"))
    shown_shapes = found["clusters"][0]["demand"]["shapes"]

    assert {"None": (6, False), str([H100]): (6, False), "[]": (0, True)} == {
        str(row["gpu_models"]): (row["placeable"], row["starved"]) for row in shown_shapes
    }
    assert [("NA", 2.0)] == [(cause["case"], cause["gpus"]) for cause in found["clusters"][0]["gpus"]["causes"]]
    assert [0.666667] == [row["requested_ratio"] for row in found["items"] if row["shape"] == "1"]


def test_rare_shapes_are_judged_and_not_shown(two_nodes: World) -> None:
    """One request of a hundred is not more than one per cent."""
    found = requested(two_nodes, *(asked(f"s{n}") for n in range(99)), asked("rare", 4))

    assert {"1": (99, "node", 6, False)} == demand(found)
    assert 0.06 == found["total"]["stranded_gpus"]


def test_only_the_days_asked_about_count(two_nodes: World) -> None:
    rows = [asked("new"), asked("older", 2, at=-10 * 86_400)]

    assert {"1", "2"} == demand(requested(two_nodes, *rows)).keys()
    assert {"1"} == demand(requested(two_nodes, *rows, days=7)).keys()


@pytest.mark.parametrize(
    ("task", "words"),
    [
        pytest.param(Task(1, 8), "8", id="GPUs of one node"),
        pytest.param(Task(1, 8, members=2), "2x8", id="two nodes"),
        pytest.param(Task(1, 1, 125), "0.125", id="a part of a GPU"),
        pytest.param(Task(1, 1, profile="1g.10gb"), "1g.10gb", id="a slice"),
        pytest.param(Task(1, 1, profile="1g.10gb", members=3), "3x1g.10gb", id="three slices"),
    ],
)
def test_names_of_shapes(task: Task, words: str) -> None:
    assert words == shape(task)


def test_names_of_models() -> None:
    assert named_models(None, {H100}) is None
    assert frozenset({H100}) == named_models("nvidia_h100_80gb_hbm3", {H100, "NVIDIA A100-SXM4-80GB"})
    assert frozenset() == named_models("b200", {H100})


# MIG ----------------------------------------------------------------------------------------------------------------


def sliced(*profiles: str, held: Sequence[int] = ()) -> list[Any]:
    """A partitioned GPU of n1; pods hold these of its instances."""
    rows: list[Any] = [node("n1", {name: profiles.count(name) for name in profiles}, scheduler="kubernetes")]
    for n, profile in enumerate(profiles):
        who = {"namespace": "lab", "pod": f"p{n}", "pod_uid": f"u{n}"} if n in held else {}
        rows += samples(gpu("n1", gi=n + 1, profile=profile), minutes(0, END), **who)
        if n in held:
            rows.append(pod(f"p{n}", f"u{n}", 0, None, profile=profile, evidence=END, submit_us=1))
    return rows


def room_of(found: Row) -> dict[str, tuple[int, int, int]]:
    names = ("ready", "creatable", "after_repartition")
    return {row["shape"]: tuple(row[name] for name in names) for row in found["items"] if row["profile"]}


def test_slices_that_could_be_placed() -> None:
    """4g lies at 0 and is held; 3g at 4 is idle."""
    found = look(*sliced("4g.40gb", "3g.40gb", held=[0]), asked("m", profile="3g.40gb"), asked("n", profile="2g.20gb"))

    assert {
        "1g.10gb": (0, 0, 3),
        "1g.20gb": (0, 0, 2),
        "2g.20gb": (0, 0, 1),
        "3g.40gb": (1, 0, 1),
        "4g.40gb": (0, 0, 0),
        "7g.80gb": (0, 0, 0),
    } == room_of(found)
    assert {"3g.40gb": (1, "node", 1, False), "2g.20gb": (1, "node", 0, True)} == demand(found)
    assert {"free_gpus": 0.5, "stranded_gpus": 0.25, "rate": 0.5} == {
        name: found["clusters"][0]["slices"][name] for name in ("free_gpus", "stranded_gpus", "rate")
    }
    assert all(row["exact"] for row in found["items"])


def test_whole_gpus_are_locked_to_who_asks_for_slices_and_the_other_way_round() -> None:
    found = look(
        *sliced("4g.40gb", "3g.40gb", held=[0]),
        machine("n2", 1),
        asked("m", profile="3g.40gb"),
        asked("a"),
    )
    one = found["clusters"][0]

    assert [("ML", 0.5)] == [(cause["case"], cause["gpus"]) for cause in one["gpus"]["causes"]]
    assert [("ML", 0.25)] == [(cause["case"], cause["gpus"]) for cause in one["slices"]["causes"]]


def test_slices_are_not_judged_by_the_usual_requests() -> None:
    assert look(*sliced("3g.40gb"))["clusters"][0]["slices"] is None


def test_a_layout_that_cannot_be_is_shown() -> None:
    found = look(*sliced("4g.40gb", "4g.40gb"))

    assert [] == found["items"]
    assert 1 == note_counts(found)["mig-layout"]


# Money --------------------------------------------------------------------------------------------------------------


def test_what_is_stranded_is_priced() -> None:
    """Four free GPUs, of which requests of eight make up a quarter: one GPU, at 2.50 an hour."""
    rows = [*(asked(f"s{n}") for n in range(3)), asked("big", 8)]
    found = look(machine("n1", 8, held=range(4)), *rows, rates=[price("2.50")])

    assert [{"amount": "2.50", "currency": "USD"}] == found["total"]["cost_per_hour"]
    assert [(4.0, 1.0, 0.25, "2.50", "USD")] == [
        tuple(row[k] for k in ("free_gpus", "stranded_gpus", "rate", "cost_per_hour", "currency"))
        for row in found["stranded"]
    ]
    assert "price" not in note_counts(found)


def test_a_slice_is_stranded_at_its_part_of_the_gpu() -> None:
    """Four memory slices of eight, wholly lost: half of 3 an hour."""
    found = look(*sliced("4g.40gb", "3g.40gb", held=[0]), asked("n", profile="2g.20gb"), rates=[price("3")])

    assert [{"amount": "1.50", "currency": "USD"}] == found["total"]["cost_per_hour"]


def test_no_price_is_no_zero(two_nodes: World) -> None:
    found = requested(two_nodes, asked("a", 4))

    assert [(None, None)] == [(row["cost_per_hour"], row["currency"]) for row in found["stranded"]]
    assert ([], 6.0) == (found["total"]["cost_per_hour"], found["total"]["unpriced_gpus"])
    assert 8 == note_counts(found)["price"]
    assert "rates" in next(n["fix"] for n in found["clusters"][0]["notes"] if n["what"] == "price")


def test_cents_of_rows_add_up() -> None:
    """A third of a dollar an hour in each of three pools."""
    rows = [machine(f"n{n}", 1, at=END, pool=f"p{n}") for n in range(3)]
    found = look(*rows, asked("a", 4), asked("b"), asked("c"), rates=[price("1")])

    assert [{"amount": "1.00", "currency": "USD"}] == found["total"]["cost_per_hour"]
    assert Decimal(1) == sum(Decimal(row["cost_per_hour"]) for row in found["stranded"])


# The command --------------------------------------------------------------------------------------------------------


def test_the_command_asks_for_as_many_days_as_may_be() -> None:
    assert (capacity_demand.DAYS_MIN, capacity_demand.DAYS_MAX) == (command.DAYS_LEAST, command.DAYS_MOST)
    assert capacity_demand.DAYS == command.DAYS_MOST


def test_the_lines_below_the_table() -> None:
    lines = list(command._foot(look(machine("n1", 2, held=[0]), asked("a", 2), rates=[price("2")])))

    assert "c1: 1 GPUs free, 1 stranded (100.0 %): 1 too few free GPUs, or memory slices, together" == lines[0]
    assert f"c1: largest gang of {H100}: node 1, nvlink unknown, leaf unknown, cluster 1" == lines[1]
    assert "c1: requested shapes that do not fit now: 2" == lines[2]
    assert "Stranded: 2.00 USD per hour" == lines[-1]
    assert f"2 of {H100} or h200" == command._request({"shape": "2", "gpu_models": [H100, "h200"]})


@pytest.mark.parametrize(
    ("at", "exact", "why"),
    [
        pytest.param(60, True, None, id="within the books"),
        pytest.param(END + 3600, False, None, id="now, which is behind the books: the newest that is known"),
        pytest.param(-86_400, True, "The ledger begins", id="before the books"),
        pytest.param(-86_400, False, "The ledger begins", id="a clock before the books"),
        pytest.param(END + 3600, True, "The ledger ends", id="behind the books"),
    ],
)
def test_before_and_behind_the_books_nothing_is_known(two_nodes: World, at: int, exact: bool, why: str | None) -> None:
    found = shapes(two_nodes.store, us(at), exact=exact)
    (one,) = found["clusters"]
    assert (why is None) == (one["gpus"] is not None) == (found["total"]["free_gpus"] is not None)
    if why is not None:
        assert ([], [], None, None) == (found["items"], found["stranded"], one["as_of"], one["demand"])
        assert ["books"] == [note["what"] for note in one["notes"]]
        assert one["notes"][0]["fix"].startswith(why)
        assert ["missing: books"] == [line.split(": ", 1)[1].split(". ")[0] for line in command._foot(found)]
