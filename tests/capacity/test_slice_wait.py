"""What would let a request for MIG slices start, and why free ones do not serve it."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.capacity.pending import pending
from gpuwatch.capacity.slice_wait import words
from gpuwatch.capacity.waiting_requests import Wait
from gpuwatch.state import State
from tests.capacity.test_plan import waiting
from tests.ledger.test_stranding import DAY, asked
from tests.worlds.world import HOUR, Gpu, World, minutes, node, samples, us

H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
Row = dict[str, Any]


def part(profile: str = "1g.10gb", held: bool = False, node: str = "n1", **more: Any) -> Row:
    """An instance on a GPU of pool `mig`."""
    row = {"pool": "mig", "model": H100, "node": node, "gpu": f"GPU-{node}", "gi": 1, "profile": profile, "held": held}
    return row | {"out_of_service": False} | more


def wait(members: int = 1, **more: Any) -> Wait:
    known: Row = {"pools": ("mig",), "models": None, "profile": "1g.10gb", "members": members, "gpus": 1}
    return Wait("lab/p", 0, 1, 0, **(known | more))


@pytest.mark.parametrize(
    ("devices", "request_", "expected"),
    [
        pytest.param([], wait(), "No GPU that it may use has an instance of 1g.10gb.", id="no slices at all"),
        pytest.param(
            [part(gi=-1, profile=None), part("2g.20gb", held=True)],
            wait(),
            "No GPU that it may use has an instance of 1g.10gb.",
            id="whole GPUs and held ones of another size",
        ),
        pytest.param(
            [part(held=True)],
            wait(),
            "The only instance of 1g.10gb that it may use is in use.",
            id="the only one is held",
        ),
        pytest.param(
            [part(held=True), part(held=True, gi=2), part("3g.40gb", gi=3)],
            wait(),
            "All 2 instances of 1g.10gb that it may use are in use. 1 larger instance is free on n1, but schedulers give out only "
            "the size that was asked for: another layout would serve it.",
            id="a larger one is free",
        ),
        pytest.param(
            [part(held=True), part("1g.20gb", out_of_service=True, gi=2)],
            wait(),
            "The only instance of 1g.10gb that it may use is in use.",
            id="a larger one is out of service",
        ),
        pytest.param(
            [part(), part(held=True, gi=2)],
            wait(members=3),
            "It needs 3 instances of 1g.10gb. 1 instance of 1g.10gb is free on nodes that it may use.",
            id="too few",
        ),
        pytest.param(
            [part(), part(gi=2)],
            wait(),
            "It fits now: 2 instances of 1g.10gb are free on n1. Its scheduler has not started it: CPU, memory or a rule that is not recorded may keep it away.",
            id="it fits",
        ),
        pytest.param(
            [part(model=A100)],
            wait(models=[H100]),
            "1 instance of 1g.10gb is free on n1, which it may not use: it asks for another model.",
            id="free ones of another model",
        ),
        pytest.param(
            [part(), part(held=True, node="n2")],
            wait(places=frozenset({"n2"})),
            "1 instance of 1g.10gb is free on n1, which it may not use: it belongs to another scheduler, or its partitions, "
            "selectors, affinity or tolerations do not fit.",
            id="free ones on other nodes",
        ),
        pytest.param(
            [part(pool="other")],
            wait(),
            "1 instance of 1g.10gb is free on n1, which it may not use: its queue is that of another pool.",
            id="free ones of another pool",
        ),
    ],
)
def test_what_free_instances_mean_for_a_request(devices: list[Row], request_: Wait, expected: str) -> None:
    assert expected == words(request_, devices)


FEW = (
    "Its scheduler looked at 1 node; by what is recorded, 2 could take it. What keeps it from the others is not recorded, so no "
    "start is suggested."
)


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        pytest.param(
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
            "It fits now on k1. Its scheduler has not started it: CPU, memory or a rule that is not recorded may keep it away.",
            id="all nodes",
        ),
        pytest.param(
            "0/9 nodes are available: 2 Insufficient nvidia.com/gpu, 7 node(s) didn't match Pod's node affinity/selector.",
            "It fits now on k1. Its scheduler has not started it: CPU, memory or a rule that is not recorded may keep it away.",
            id="nodes without GPUs too",
        ),
        pytest.param("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", FEW, id="only some of them"),
    ],
)
def test_a_pod_is_not_promised_nodes_that_its_scheduler_does_not_count(counted: str, expected: str) -> None:
    """A node of Slurm has GPUs too, which no pod can use."""
    made, end = World(), DAY + 2 * HOUR
    for name in ("k1", "k2", "s1"):
        made.add(samples(Gpu(f"GPU-{name}", name), minutes(DAY, end)))
        made.add(node(name, {H100: 1}, scheduler="slurm" if name == "s1" else "kubernetes"))
    row = asked("lab/p", 1, at=DAY, scheduler="kubernetes", namespace="lab", reason="Unschedulable")
    waiting(made, [row | {"evidence_us": us(end), "message": counted}])
    with made.book().store as store, State.open("sqlite://") as state:
        [found] = pending(store, state, us(end))["items"]

    assert expected == found["start"]["words"]


def test_a_pod_is_not_promised_a_free_slice_of_another_scheduler() -> None:
    """The records of nodes are newer than the instant that is asked about: the first record reaches back."""
    made, end = World(), DAY + 2 * HOUR
    for name in ("k1", "s1"):
        made.add(samples(Gpu(f"GPU-{name}", name, 0, 1, "1g.10gb"), minutes(DAY, end)))
    made.add(node("k1", {"1g.10gb": 1}, scheduler="kubernetes", at=end + 60), node("s1", {"1g.10gb": 1}))
    row = asked("lab/p", 1, at=DAY, profile="1g.10gb", scheduler="kubernetes", namespace="lab", reason="Unschedulable")
    message = "0/1 nodes are available: 1 Insufficient nvidia.com/mig-1g.10gb."
    waiting(made, [row | {"evidence_us": us(end), "message": message}])
    with made.book().store as store, State.open("sqlite://") as state:
        [found] = pending(store, state, us(end))["items"]

    assert (
        "It fits now: 1 instance of 1g.10gb is free on k1. Its scheduler has not started it: CPU, memory or a rule that is not recorded may keep it away."
        == (found["start"]["words"])
    )
