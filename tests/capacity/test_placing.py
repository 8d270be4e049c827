"""Where a request fits, why it does not, and what would let it start: moves, and idle GPUs to reclaim."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gpuwatch.capacity.free_nodes import FreeNode, Request, choose
from gpuwatch.capacity.free_state import Gpu as FreeGpu
from gpuwatch.capacity.pending import pending, words
from gpuwatch.capacity.placing import planned_groups
from gpuwatch.capacity.plan import plans
from gpuwatch.capacity.simulator import idle_gpus, place
from gpuwatch.core.clock import MINUTE_US
from gpuwatch.core.errors import UsageError
from gpuwatch.core.model import LINK, Records
from gpuwatch.hardware.defrag import plan
from gpuwatch.hardware.destinations import destinations
from gpuwatch.hardware.rooms import Host, Piece
from gpuwatch.state import State
from gpuwatch.topology import derive as topology_derive
from tests.ledger.test_stranding import DAY, END, machine, world
from tests.worlds.world import CLUSTER, H100, Gpu, World, claim, minutes, node, samples, us

A100 = "NVIDIA A100-SXM4-80GB"


def gang(job: str, *nodes: str) -> list[dict[str, Any]]:
    """A job on the first GPU of several nodes."""
    return [claim(job, DAY, END, name, gpus=f"GPU-{name}-0", submit_us=us(DAY)) for name in nodes]


def waits(job: str, gpus: int, **more: Any) -> dict[str, Any]:
    row = {"cluster": CLUSTER, "scheduler": "slurm", "job_id": job, "device_count": gpus, "node_count": 1}
    return row | {"submit_us": us(DAY), "evidence_us": us(END), "reason": "Resources", "user_name": "ann"} | more


@pytest.fixture(scope="module")
def fleet() -> Iterator[World]:
    """Five nodes of four GPUs: n1 and n2 below l1, n3 and n4 below l2, n5 with a taint of its own; one node of another model.

    One GPU is held on n1 and n2 by jobs that can move; n3 and n4 share the two-node job `gang`; n5 and old are free.
    """
    old = [
        node("old", {"": 2}),
        *(one for n in range(2) for one in samples(Gpu(f"GPU-old-{n}", "old", n, model=A100), minutes(DAY, END))),
    ]
    made = world(
        machine("n1", 4, held=1),
        machine("n2", 4, held=1),
        machine("n3", 4),
        machine("n4", 4),
        gang("gang", "n3", "n4"),
        machine("n5", 4),
        node("n5", {"": 4}, scheduler="kubernetes", at=DAY, taints=json.dumps([["repair", "", "NoSchedule"]])),
        old,
        requests=[
            waits("big", 4, queue=H100),
            waits("lost", 4, submit_us=us(DAY + 1)),
            waits("earlier", 2, queue=H100, submit_us=us(DAY + 3), evidence_us=us(END) - 20 * MINUTE_US),
            waits("late", 1, reason="BeginTime", submit_us=us(DAY + 2)),
        ],
    )
    row = {"cluster": CLUSTER, "observed_us": None, "level": "SWITCH", "detail": json.dumps({"plugin": "tree"})}
    links = [
        row | {"node": host, "a": leaf, "b": host}
        for leaf, hosts in (("l1", "12"), ("l2", "34"))
        for host in (f"n{n}" for n in hosts)
    ]
    made.store.append(Records("link", pa.Table.from_pylist(links, schema=LINK)))
    made.book()
    topology_derive.derive(made.store, CLUSTER)
    yield made
    made.store.close()


def one(fleet: World, shape: str, **more: Any) -> dict[str, Any]:
    """The answer for the pool of H100."""
    found = place(fleet.store, us(END), shape, gpu_model="h100", **more)
    assert {"NVIDIA H100 80GB HBM3"} == {row["gpu_model"] for row in found["items"]}
    return dict(found["items"][0])


def test_a_request_gets_the_fullest_node_and_its_gpus_are_free(fleet: World) -> None:
    found = one(fleet, "3")

    assert (True, None, None) == (found["fits"], found["why"], found["plan"])
    [where] = found["places"]
    assert ("n1", "l1", ["GPU-n1-1", "GPU-n1-2", "GPU-n1-3"]) == (where["node"], where["leaf"], where["gpus"])


def leak(*gpus: str, key: str = "memory-leak-1") -> dict[str, Any]:
    """An open finding about GPUs that are free."""
    return {"detector": "memory-leak", "cluster": CLUSTER, "key": key, "severity": "high", "title": "GPU memory leaked",
            "headline": None, "devices": list(gpus)}  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "faulty", "node_", "got"),
    [
        pytest.param("3", ["GPU-n1-1"], "n2", [], id="another node has enough sound ones"),
        pytest.param("2", ["GPU-n1-1"], "n1", [], id="the sound GPUs of the fullest node"),
        pytest.param("2", ["GPU-n1-1/3"], "n1", [], id="a slice of it is named"),
        pytest.param("3", ["GPU-n1-1", "GPU-n2-1", "GPU-n3-1", "GPU-n4-1"], "n1", ["GPU-n1-1"], id="every node has one"),
        pytest.param("3", ["GPU-n1-1", "GPU-n1-2", "GPU-n2-1", "GPU-n3-1", "GPU-n4-1"], "n2", ["GPU-n2-1"], id="the fewest"),
        pytest.param("3", ["GPU-n5-1"], "n1", [], id="on a node that is left out"),
    ],
)  # fmt: skip
def test_gpus_with_a_fault_are_chosen_last_and_named(
    fleet: World, shape: str, faulty: list[str], node_: str, got: list[str]
) -> None:
    found = one(fleet, shape, findings=[leak(*faulty)])
    [where] = found["places"]

    assert (True, node_, len([gpu for gpu in faulty if "-n5-" not in gpu])) == (
        found["fits"],
        where["node"],
        found["faulty_gpus"],
    )
    assert [(node_, gpu, "memory-leak-1", "GPU memory leaked") for gpu in got] == [
        (row["node"], row["gpu"], row["finding"], row["what"]) for row in found["faults"]
    ]
    assert set(got) <= set(where["gpus"])


def test_the_same_move_for_two_requests_starts_one_of_them() -> None:
    """Both want four GPUs of one node, and the cheapest moves empty n1; a third one fits on it as it is."""
    made = world(
        machine("n1", 4, held=1),
        machine("n2", 4, held=2),
        requests=[
            waits("first", 4, queue=H100),
            waits("second", 4, queue=H100, submit_us=us(DAY + 1)),
            waits("small", 1, queue=H100, submit_us=us(DAY + 2)),
        ],
    ).book()
    with made.store, State.open("sqlite://") as state:
        first, second, small = (row["start"]["words"] for row in pending(made.store, state, us(END))["items"])

    both = "These moves empty n1 for first too: only one of the two can start there."
    assert "It could start if 1 job with 1 GPU moved to other nodes." in first and both not in first
    assert second.endswith(f"moved to other nodes. {both}")
    assert small.startswith("It fits now")


def test_a_node_with_a_taint_of_its_own_is_left_out(fleet: World) -> None:
    found = one(fleet, "4")

    assert (False, 1) == (found["fits"], found["left_out_nodes"])
    assert "12 GPUs are free, but at most 3 on one node." == found["why"]


def test_the_plan_moves_a_job_to_a_free_gpu_and_leaves_the_gang_alone(fleet: World) -> None:
    found = one(fleet, "4")["plan"]

    [move] = found["moves"]
    assert (1, True, False) == (found["moved_gpus"], found["exact"], found["at_once"])
    assert move["job"] in ("n1-0", "n2-0")
    assert move["to"] != move["node"] and move["to"] != "n5"
    assert [move["node"]] == found["places"] == found["drained"]


def test_the_plan_of_requested_shapes_names_the_same_targets(fleet: World) -> None:
    items = plans(fleet.store, us(END), shape="4")["items"]
    [mine] = [item for item in items if item["gpu_model"] == "NVIDIA H100 80GB HBM3"]

    assert mine["moves"] == one(fleet, "4")["plan"]["moves"]


def test_a_gang_below_one_leaf_is_placed_there(fleet: World) -> None:
    found = one(fleet, "2x3", within="leaf")

    assert 1 == len({where["leaf"] for where in found["places"]})
    assert (False, "It needs 16 GPUs, and 12 are free.") == (one(fleet, "4x4")["fits"], one(fleet, "4x4")["why"])
    assert "4 nodes have 3 free GPUs, but at most 2 below one leaf switch." == one(fleet, "3x3", within="leaf")["why"]


def test_no_node_with_room_is_in_words(fleet: World) -> None:
    assert "No node has 4 free GPUs, and 2 are needed." == one(fleet, "2x4")["why"]


def test_moves_for_a_gang_below_one_leaf_leave_it_together(fleet: World) -> None:
    found = one(fleet, "2x4", within="leaf")["plan"]

    assert {"n1", "n2"} == set(found["places"])
    assert {"n3", "n4"} >= {move["to"] for move in found["moves"]}


def test_what_is_not_known_is_not_denied(fleet: World) -> None:
    found = place(fleet.store, us(END), "2x2", within="nvlink", gpu_model="h100")

    assert (None, None) == (found["fits"], found["items"][0]["fits"])
    assert "No source reports the NVLink domain" in found["items"][0]["why"]
    assert any(note["what"] == "links" for note in found["missing"])


def test_another_model_has_its_own_answer(fleet: World) -> None:
    [found] = place(fleet.store, us(END), "2", gpu_model="a100")["items"]

    assert (["old"], A100) == ([where["node"] for where in found["places"]], found["gpu_model"])
    assert (
        "No node has 4 GPUs; the largest has 2."
        == place(fleet.store, us(END), "4", gpu_model="a100")["items"][0]["why"]
    )
    assert [] == place(fleet.store, us(END), "1", gpu_model="v100")["items"]
    with pytest.raises(UsageError, match="expected"):
        place(fleet.store, us(END), "many")


def test_idle_gpus_are_named_with_their_holder(fleet: World) -> None:
    idle = {
        "detector": "idle-hoarding",
        "cluster": CLUSTER,
        "team": "red",
        "key": "k",
        "subject": {"kind": "job", "id": "n1-0"},
        "devices": ["GPU-n1-0", "GPU-n9-0/GI-3"],
    }
    found = one(fleet, "4", findings=[idle, idle | {"detector": "small-batch", "devices": ["GPU-n2-0"]}])

    assert [{"node": "n1", "team": "red", "job": "n1-0", "finding": "k", "gpus": ["GPU-n1-0"]}] == found["reclaim"]
    assert ["GPU-n1-0"] == list(idle_gpus([idle])[CLUSTER])
    assert words(found) == (
        f"Where it may run ({found['pool']}): 12 GPUs are free, but at most 3 on one node. It could start if 1 job with 1 GPU moved to other nodes or if 1 idle "
        "GPU of red was released."
    )


def test_a_waiting_request_has_its_reason_and_a_start(fleet: World) -> None:
    with State.open("sqlite://") as state:
        whole = pending(fleet.store, state, us(END))["items"]
        bound = pending(fleet.store, state, us(END), ["__unallocated__"])["items"]

    found, lost, late, earlier = whole
    assert ("big", "4", "gpus") == (found["job"], found["shape"], found["waits_for"])
    assert "too few free GPUs, or other resources, on the nodes that it may use" == found["why"]
    assert "It could start if 1 job with 1 GPU moved to other nodes." in found["start"]["words"]
    assert ("gpus", "Which pools its queue may use is not known, so no start is planned.") == (
        lost["waits_for"],
        lost["start"]["words"],
    )
    assert (
        "2",
        "It fits now on n1. Its scheduler has not started it: CPU, memory or a rule that is not recorded may keep it away.",
    ) == (
        earlier["shape"],
        earlier["start"]["words"],
    ), "a request that its scheduler recorded 20 minutes ago still waits"
    assert ("other", "asked to start later", None) == (late["waits_for"], late["why"], late["start"])
    assert [(name, None, None) for name in ("big", "lost", "late", "earlier")] == [
        (row["job"], row["waits_for"], row["start"]) for row in bound
    ]


@pytest.mark.parametrize(("cpus", "fits"), [pytest.param(32, True, id="enough"), pytest.param(28, False, id="too few")])
def test_free_gpus_are_a_place_for_a_request_with_the_cpus_that_it_needs(cpus: int, fits: bool) -> None:
    """n1 has four free GPUs and so many free CPUs; n2 three free GPUs and all its CPUs."""
    has = {"scheduler": "slurm", "at": DAY, "cpu_milli": 64_000}
    made = world(
        machine("n1", 4),
        machine("n2", 4, held=1),
        node("n1", {"": 4}, **has, cpu_milli_used=64_000 - cpus * 1000),
        node("n2", {"": 4}, **has),
        requests=[waits("big", 4, queue=H100, cpu_milli=32_000)],
    ).book()
    with State.open("sqlite://") as state:
        (found,) = pending(made.store, state, us(END))["items"]

    best = found["start"]["best"]
    assert fits == best["fits"]
    if not fits:
        assert 6 == best["free_gpus"]
        assert best["why"].endswith(
            "GPUs without the CPUs or memory that it needs beside them (1 node) are not counted."
        )


@pytest.mark.parametrize(
    "needs",
    [
        pytest.param({"cpus": 16, "memory_gib": 10}, id="nobody recorded what the node has"),
        pytest.param({"cpus": 0, "memory_gib": 0}, id="it needs none"),
    ],
)
def test_cpus_and_memory_that_are_not_known_or_not_needed_keep_no_gpu_from_a_shape(needs: dict[str, float]) -> None:
    made = world(machine("n1", 4)).book()
    with made.store:
        (found,) = place(made.store, us(END), "4", **needs)["items"]  # type: ignore[arg-type]

    assert found["fits"]


def test_a_shape_with_cpus_fits_only_beside_these() -> None:
    """n1 has four free GPUs and 28 of 64 CPUs; n2 three free GPUs and 64 CPUs, 8 of them of the job `n2-0`."""
    has = {"scheduler": "slurm", "at": DAY, "cpu_milli": 64_000, "memory_bytes": 2**40, "memory_bytes_used": 0}
    made = world(
        machine("n1", 4),
        machine("n2", 4),
        claim("n2-0", DAY, END, "n2", gpus="GPU-n2-0", submit_us=us(DAY), cpu_milli=8_000, memory_bytes=2**30),
        node("n1", {"": 4}, **has, cpu_milli_used=36_000),
        node("n2", {"": 4}, **has, cpu_milli_used=8_000),
    ).book()

    def tried(**needs: float) -> dict[str, Any]:
        return dict(place(made.store, us(END), "4", **needs)["items"][0])  # type: ignore[arg-type]

    with made.store:
        free, few, many = tried(), tried(cpus=28, memory_gib=10), tried(cpus=64, memory_gib=10)
        beyond = tried(cpus=65, memory_gib=10)
    needs = "what the request needs of CPUs and memory on each node (cpus, memory_gib)"
    assert (True, True, False, False) == (free["fits"], few["fits"], many["fits"], beyond["fits"])
    assert (True, False) == (needs in free["not_known"], needs in few["not_known"])
    assert "reservations (scontrol show reservation)" in few["not_known"]
    assert [("n2-0", "n1")] == [(move["job"], move["to"]) for move in many["plan"]["moves"]]
    assert (["n2"], None) == (many["plan"]["places"], beyond["plan"])
    assert "CPUs" not in many["plan"]["not_known"]


_FLEET = st.lists(
    st.tuples(
        st.sampled_from(["l1", "l2", None]),
        st.integers(0, 4),
        st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=2),
    ),
    min_size=1,
    max_size=6,
)


@hypothesis_settings(max_examples=150, deadline=None)
@given(_FLEET, st.integers(1, 4), st.integers(1, 3), st.sampled_from(["any", "leaf"]))
def test_places_and_plans_keep_the_leaf_and_never_touch_what_stays(
    drawn: list[tuple[str | None, int, list[tuple[int, bool]]]], gpus: int, members: int, within: Any
) -> None:
    """A placement uses free GPUs of as many nodes as asked, in one leaf; after a plan the same holds."""
    request = Request(members, gpus, within)
    nodes, group = [], []
    for n, (leaf, free, held) in enumerate(drawn):
        name = f"n{n}"
        some = tuple(FreeGpu(f"{name}-{k}", None, None, name, None, None, leaf, free_milli=1000) for k in range(free))
        nodes.append(FreeNode(name, leaf, leaf, some, free + sum(size for size, _ in held)))
        group.append(
            Host(
                name,
                free,
                tuple(Piece(name, f"{name}/{m}", size, False, stays) for m, (size, stays) in enumerate(held)),
            )
        )
    free_at = {host.name: host.free for host in group}
    leaf_of = {one.name: one.domain for one in nodes}
    chosen = choose(nodes, request)
    if chosen is not None:
        assert members == len({node.name for node in chosen})
        assert all(free_at[node.name] >= gpus for node in chosen)
        assert within == "any" or members == 1 or 1 == len({node.domain for node in chosen} - {None})
        return
    for some in planned_groups(group, nodes, request):
        moves = plan(some, gpus, members)
        result = None if moves is None else destinations(some, moves, gpus, members)
        if result is None:
            continue
        left = dict(free_at)
        for piece, target in result.moves:
            assert not piece.stays
            left[target] -= piece.gpus
            left[piece.node] += piece.gpus
        for place_ in result.places:
            left[place_] -= gpus
        assert min(left.values()) >= 0
        assert within == "any" or members == 1 or 1 == len({leaf_of[name] for name in result.places})
