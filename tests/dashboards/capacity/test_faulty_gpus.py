"""GPUs with faults among the free ones: what is warned of, and what is not."""

from __future__ import annotations

from typing import Any

from gpuwatch.dashboards.components import capacity_now
from gpuwatch.dashboards.fleet import capacity_place, faulty_gpus, topology_cards
from gpuwatch.dashboards.pages import topology
from gpuwatch.dashboards.shell.query import Query
from tests.dashboards import fake_map
from tests.dashboards.laid_out import check_layout, text

FLEET = fake_map.fleet([fake_map.node("n1", "leaf-1", "ffffffsx", fault=[None] * 6 + [0, 0])])
ITEM: dict[str, Any] = {
    "cluster": "c1", "pool": "h100", "gpu_model": "NVIDIA H100 80GB HBM3", "shape": "2", "fits": True, "free_gpus": 7,
    "places": [{"node": "n1", "leaf": "leaf-1", "gpus": ["GPU-n1-1", "GPU-n1-2"]}], "left_out_nodes": 0, "why": None,
    "plan": None, "reclaim": [],
}  # fmt: skip


def finding(gpu: str, ended: str | None, detector: str = "straggler", key: str = "k1", **more: Any) -> dict[str, Any]:
    return {
        "key": key, "detector": detector, "cluster": "c1", "severity": "medium", "devices": [gpu], "nodes": ["n1"],
        "gpu_index": 1, "started_at": "2026-11-20T01:00:00Z", "ended_at": ended,
    } | more  # fmt: skip


def tried(*findings: Any) -> str:
    """The answer of the simulator where there are these findings."""
    data = {"fits": True, "items": [ITEM], "missing": []}
    layout = capacity_place.simulator(
        data, Query.parse("/ui/capacity", "?shape=2"), FLEET, faulty_gpus.by_gpu(findings)
    )
    check_layout(layout)
    return text(layout)


def test_faults_elsewhere_warn_of_nothing() -> None:
    """Of another GPU of the node, of one that is out of service, of one of the same name on another cluster."""
    words = tried(
        finding("GPU-n1-5", "2026-11-21T07:00:00Z"),
        finding("GPU-n1-7", None, key="k2"),
        finding("GPU-n1-1", None, key="k3", cluster="c2"),
    )

    assert "2 GPUs on one node would fit now" in words
    assert "Check the node" not in words and "faults" not in words
    assert "7 free" in words and "with a fault" not in words


def test_a_gpu_that_was_slow_in_its_last_job_is_named_before_it_is_used() -> None:
    words = tried(finding("GPU-n1-1", "2026-11-21T07:29:00Z"))

    assert "2 GPUs on one node would fit now; check the node first" in words
    assert "Check the node before you use it" in words
    assert "GPU 1 on n1 was slower than the others of its job until 21 Nov 07:29 UTC" in words
    assert "with a fault" not in words


def test_broken_gpus_are_counted_among_the_free_ones() -> None:
    words = tried(finding("GPU-n1-6/GI-1", None, "degraded-gpu"))

    assert "7 free, 1 of them with a fault" in words


def test_an_open_finding_hides_an_older_one_of_the_same_gpu() -> None:
    faults = faulty_gpus.by_gpu(
        [
            finding("GPU-1", None, key="open"),
            finding("GPU-1", "2026-11-21T07:29:00Z", started_at="2026-11-21T00:00:00Z"),
        ]
    )

    assert ["open"] == [one["key"] for one in faults.values()]


def test_the_map_says_how_many_free_gpus_have_a_fault() -> None:
    leaf = text(topology_cards.leaves(FLEET, Query()))

    assert (
        "8 GPUs on 1 nodes below 1 leaf switch: 7 free, 1 of them of no use to most requests, 1 with a fault"
        == topology.headline(FLEET)
    )
    assert "7 1 with a fault" in leaf
    assert "faulty" not in text(topology_cards.leaves(fake_map.fleet([fake_map.node("n1", None, "ff")]), Query()))


def test_a_chosen_node_lists_the_faults_of_the_last_days() -> None:
    faults = faulty_gpus.by_gpu([finding("GPU-n1-3", "2026-11-21T07:29:00Z")])
    cards = topology_cards.node_cards(FLEET, FLEET["nodes"][0], None, [], Query(), faults)

    assert "Faults of the last 7 days" in text([one for one in cards if one])
    assert "Faults of the last 7 days" not in text(
        topology_cards.node_cards(FLEET, FLEET["nodes"][0], None, [], Query())
    )


def test_free_gpus_are_whole_ones_and_slices() -> None:
    cluster = {"gpus": {"free_gpus": 97.0}, "slices": {"free_gpus": 5.125}}

    assert "97 whole, and MIG slices worth 5.1" == capacity_now.made_of([cluster])
    assert "in service and unallocated" == capacity_now.made_of([cluster | {"slices": {"free_gpus": 0.0}}, {}])
