"""The topology in the store: sources and their order of trust, versions over time, what is missing, and the same answer
whatever order records came in.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.collectors.kubernetes.changes import ClusterChanges
from gpuwatch.collectors.kubernetes.kinds import kinds
from gpuwatch.collectors.kubernetes.topology import hypernode_rows, topology_rows
from gpuwatch.collectors.nvml.topo_matrix import read_topo
from gpuwatch.collectors.slurm.files import read_topology
from gpuwatch.core.model import CLAIM, LINK, NODE, Records, Rejects, Source
from gpuwatch.core.registry import importers
from gpuwatch.hardware.link_graph import best_attainable, meeting
from gpuwatch.output.fix_hints import Advice
from gpuwatch.topology import derive as topology_derive
from gpuwatch.topology import gaps
from tests.worlds.world import CLUSTER, HOUR, Gpu, World, claim, minutes, node, samples, us

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[3] / "shared"))
CLIQUE = "nvidia.com/gpu.clique"
TIER = "fabric.topograph.run/tier-"

Link = dict[str, Any]
Row = dict[str, Any]


def link(a: str, b: str, level: str, host: str | None = None, at: int | None = None, **detail: Any) -> Link:
    return {
        "cluster": CLUSTER,
        "observed_us": None if at is None else us(at),
        "node": host,
        "a": a,
        "b": b,
        "level": level,
        "detail": json.dumps(detail),
    }


def matrix(host: str, pairs: str, at: int | None = None, numa: str = "") -> list[Link]:
    """Links of a node: "01:NV4 12:SYS" for pairs of GPU numbers, "0011" for the NUMA node of each GPU."""
    named = [pair.split(":") for pair in pairs.split()]
    gpus = sorted({digit for digits, _ in named for digit in digits})
    rows = [
        link(f"GPU{a}", f"GPU{a}", "X", host, at, **({"numa_affinity": numa[int(a)]} if numa else {})) for a in gpus
    ]
    return rows + [link(f"GPU{digits[0]}", f"GPU{digits[1]}", level, host, at) for digits, level in named]


def tree(text: str, at: int | None = None) -> list[Link]:
    """Switches: "l1:n1,n2 s1:l1" with nodes that begin with n."""
    return [
        link(a, b, "SWITCH", b if b.startswith("n") else None, at, plugin="tree")
        for a, below in (part.split(":") for part in text.split())
        for b in below.split(",")
    ]


def labelled(host: str, at: int | None = None, **words: Any) -> Row:
    """What Kubernetes says of a node; labels by name."""
    labels = words.pop("labels", {})
    return node(host, {"": 2}, at, scheduler="kubernetes", labels=json.dumps(labels), **words)


def fill(*rows: Any) -> World:
    """A world with links, nodes and samples, its topology derived."""
    world = World()
    flat = [one for row in rows for one in (row if isinstance(row, list) else [row])]
    links = [row for row in flat if isinstance(row, dict) and "level" in row]
    world.add(*[row for row in flat if not (isinstance(row, dict) and "level" in row)])
    tell(world, links)
    return world


def tell(world: World, links: list[Link]) -> None:
    """Adds links and derives."""
    if links:
        world.store.append(Records("link", pa.Table.from_pylist(links, schema=LINK)))
    world.seal()
    topology_derive.derive(world.store, CLUSTER)


def edges(world: World, child_kind: str, parent_kind: str | None = None, *, now: bool = True) -> dict[str, str]:
    """Parent by child, those of now."""
    return {
        row["child"]: row["parent"]
        for row in world.rows("topology_edge")
        if row["child_kind"] == child_kind
        and (parent_kind is None or row["parent_kind"] == parent_kind)
        and (not now or row["valid_until_us"] is None)
    }


def versions(world: World, child: str, parent_kind: str) -> list[tuple[str, Any, Any]]:
    """(parent, from, until) of a thing by time, in seconds of the world; None is open."""
    rows = [r for r in world.rows("topology_edge") if (r["child"], r["parent_kind"]) == (child, parent_kind)]
    rows.sort(key=lambda row: row["valid_from_us"] or 0)
    return [(row["parent"], _seconds(row["valid_from_us"]), _seconds(row["valid_until_us"])) for row in rows]


def _seconds(at_us: int | None) -> int | None:
    return None if at_us is None else (at_us - us(0)) // 1_000_000


def pairs(world: World) -> dict[tuple[str, str], tuple[str, float | None]]:
    return {(r["a"], r["b"]): (r["level"], r["bandwidth_gb_per_s"]) for r in world.rows("topology_pair")}


def sampled(uuid: str, host: str, index: int, start: int = 0, end: int = HOUR) -> list[Any]:
    return samples(Gpu(uuid, host, index), minutes(start, end))


# What must not be there ---------------------------------------------------------------------------------------------


def test_nothing_is_assumed_of_an_unreported_node() -> None:
    world = fill(sampled("GPU-a", "n1", 0), sampled("GPU-b", "n1", 1), sampled("GPU-c", "n2", 0))

    assert {"GPU-a": "n1", "GPU-b": "n1", "GPU-c": "n2"} == edges(world, "gpu")
    assert {None} == {row["bandwidth_gb_per_s"] for row in world.rows("topology_edge")}
    assert {} == edges(world, "node")
    assert {} == pairs(world)
    assert [("n1", "links"), ("n1", "network"), ("n2", "network")] == [
        (row["node"], row["what"]) for row in gaps.missing(world.attribute().store)
    ]


def test_a_single_gpu_and_a_single_node_lack_nothing() -> None:
    assert [] == gaps.missing(fill(sampled("GPU-a", "n1", 0)).attribute().store)


def test_a_fix_on_files_is_commands_with_the_cluster_and_the_data_directory() -> None:
    world = fill(sampled("GPU-a", "n1", 0), sampled("GPU-b", "n1", 1), sampled("GPU-c", "n2", 0)).attribute()
    rows = gaps.missing(world.store, advice=Advice(data="my data"))
    found = {(row["node"], row["what"]): row["fix"].splitlines() for row in rows}

    assert [
        "gpuwatch import topo n1.txt --cluster c1 --data 'my data'",
        "gpuwatch analyze --data 'my data'",
    ] == found["n1", "links"][1:]
    assert [
        "(date -u +'# observed %FT%TZ'; scontrol show topology) > topology.conf",
        "gpuwatch import slurm-topology topology.conf --cluster c1 --data 'my data'",
        "gpuwatch analyze --data 'my data'",
    ] == found["n2", "network"]


def test_a_fix_beside_a_server_imports_while_it_is_stopped() -> None:
    world = fill(sampled("GPU-a", "n1", 0), sampled("GPU-b", "n1", 1), sampled("GPU-c", "n2", 0)).attribute()
    found = {(row["node"], row["what"]): row["fix"].splitlines() for row in gaps.missing(world.store)}
    stopped = "While the server is stopped, with its data directory for DIR:"

    assert "Run gpuwatch agent --host 0.0.0.0 on n1" in found["n1", "links"][0]
    assert [stopped, "gpuwatch import topo n1.txt --cluster c1 --data DIR"] == found["n1", "links"][-2:]
    assert "[[slurm]] does not ask for it" in found["n2", "network"][0]
    assert [stopped, "gpuwatch import slurm-topology topology.conf --cluster c1 --data DIR"] == found["n2", "network"][
        -2:
    ]


@pytest.mark.parametrize(
    ("advice", "last"),
    [
        pytest.param(gaps.SERVED, "kubectl label node n1", id="a server reads labels by itself"),
        pytest.param(Advice(), "gpuwatch analyze", id="files are written and imported again"),
    ],
)
def test_a_node_of_kubernetes_is_labelled(advice: Advice, last: str) -> None:
    lines = gaps.network_fix("c1", "n1", True, advice).splitlines()

    assert "kubectl label node n1" in lines[0]
    assert last in lines[-1]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(labelled("n1", labels={"topology.kubernetes.io/zone": ""}), id="an empty label"),
        pytest.param(labelled("n1", labels={"nvidia.com/gpu.count": "8"}), id="labels of something else"),
        pytest.param(node("n1", {"": 2}, scheduler="kubernetes", labels="{torn"), id="labels that are no JSON"),
        pytest.param(link("s1", "n1", "SWITCH", "n1"), id="a switch of no plug-in"),
        pytest.param({**link("s1", "n1", "SWITCH", "n1"), "detail": "{torn"}, id="a switch whose detail is no JSON"),
        pytest.param({**link("h1", "", "HYPERNODE"), "detail": "[1]"}, id="a HyperNode that is none"),
        pytest.param(
            link("h1", "", "HYPERNODE", tier=1, members=[{"type": "Node", "regex": "("}]), id="a broken pattern"
        ),
        pytest.param(link("h1", "", "HYPERNODE", tier=1, members=[]), id="a HyperNode without members"),
        pytest.param(
            link("h1", "", "HYPERNODE", tier=1, members=[{"type": "HyperNode", "name": "h1"}]), id="a ring of one"
        ),
        pytest.param(link("s1", "s1", "SWITCH", plugin="tree"), id="a switch below itself"),
        pytest.param(link("GPU0", "GPU1", "FOO", "n1"), id="a level nobody knows"),
        pytest.param(link("t", "topology.example/rack", "LEVEL", order=0), id="a Topology whose labels no node has"),
    ],
)
def test_what_cannot_be_used_changes_nothing(row: Row) -> None:
    world = fill(sampled("GPU-a", "n1", 0), row)

    assert {} == edges(world, "node")
    assert {"GPU-a": "n1"} == edges(world, "gpu")


def test_names_that_differ_are_no_conflict() -> None:
    """Two sources group nodes alike under other names."""
    hosts = [f"n{i}" for i in range(4)]
    world = fill(
        tree("l1:n0,n1 l2:n2,n3"),
        [labelled(h, labels={TIER + "0": "A" if i < 2 else "B"}) for i, h in enumerate(hosts)],
    )

    assert {"n0": "A", "n1": "A", "n2": "B", "n3": "B"} == edges(world, "node", "leaf")
    assert [] == gaps.conflicts(world.store)


def test_a_coarser_grouping_is_no_conflict() -> None:
    hosts = [f"n{i}" for i in range(4)]
    world = fill(tree("l1:n0,n1 l2:n2,n3"), [labelled(h, labels={TIER + "0": "all"}) for h in hosts])

    assert [] == gaps.conflicts(world.store)


# Sources ------------------------------------------------------------------------------------------------------------


def test_the_whole_way_of_a_gpu() -> None:
    world = fill(
        sampled("GPU-a", "n1", 0),
        sampled("GPU-b", "n1", 1),
        sampled("GPU-c", "n2", 0),
        matrix("n1", "01:NV18", numa="01") + [link("GPU0", "NIC0", "PXB", "n1"), link("GPU1", "NIC0", "PXB", "n1")],
        tree("l1:n1,n2 s1:l1"),
        labelled("n1", labels={"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"}),
    )
    graph = topology_derive.graph(world.store, CLUSTER, us(HOUR))

    assert [
        ("nvlink", "n1/nvlink-0", pytest.approx(370.8)),
        ("pcie", "n1/pcie-0", pytest.approx(48 * 12 / 13)),
        ("numa", "n1/numa-0", pytest.approx(48 * 9 / 13)),
        ("node", "n1", 22.0),
        ("leaf", "l1", 25.0),
        ("spine", "s1", 25.0),
        ("zone", "z1", None),
        ("region", "r1", None),
    ] == [(one.kind, one.name, one.gb_per_s) for one in graph.places["GPU-a"].path]
    found = meeting(graph, "GPU-a", "GPU-c")
    assert found is not None
    assert ("leaf", 25.0) == (found.level, found.gb_per_s)
    assert {("GPU-a", "GPU-b"): ("NV18", pytest.approx(370.8))} == pairs(world)
    assert {"n1/NIC0": "n1/pcie-0"} == edges(world, "nic", "pcie")


def test_containers_lie_in_each_other() -> None:
    """`nearest` edges are a tree: a switch in two NUMA nodes is below their node."""
    world = fill(
        matrix("n1", "01:PIX 12:SYS 23:PIX", numa="0011"),
        matrix("n2", "01:PIX", numa="01"),
        tree("l1:n1,n2 s1:l1"),
        [labelled(h, labels={"topology.kubernetes.io/zone": "z1"}) for h in ("n1", "n2")],
    )
    nearest = {
        (r["child"], r["parent"]) for r in world.rows("topology_edge") if r["nearest"] and "GPU" not in r["child"]
    }

    assert {
        ("n1/pcie-0", "n1/numa-0"), ("n1/pcie-2", "n1/numa-1"), ("n1/numa-0", "n1"), ("n1/numa-1", "n1"),
        ("n2/pcie-0", "n2/numa-0"), ("n2/numa-0", "n2"), ("n2/numa-1", "n2"),
        ("n1", "l1"), ("n2", "l1"), ("l1", "s1"), ("s1", "z1"),
    } == nearest  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({CLIQUE: "cl-1.7"}, {"nvlink_domain": "cl-1.7"}, id="GFD: the clique"),
        pytest.param(
            {"accelerator.topograph.run/domain": "d", "accelerator.topograph.run/sub-domain": "p",
             TIER + "0": "a", TIER + "1": "b", TIER + "2": "c", TIER + "3": "d4"},
            {"nvlink_domain": "d", "nvlink_part": "p", "leaf": "a", "spine": "b", "core": "c", "tier-3": "d4"},
            id="Topograph now",
        ),
        pytest.param(
            {f"network.topology.nvidia.com/{k}": k for k in ("accelerator", "leaf", "spine", "core")},
            {"nvlink_domain": "accelerator", "leaf": "leaf", "spine": "spine", "core": "core"}, id="Topograph before",
        ),
        pytest.param(
            {f"network.topology.nvidia.com/{k}": k for k in ("accelerator", "block", "spine", "datacenter")},
            {"nvlink_domain": "accelerator", "leaf": "block", "spine": "spine", "core": "datacenter"},
            id="Topograph before that",
        ),
        pytest.param(
            {f"topology.k8s.aws/network-node-layer-{n}": f"nn-{n}" for n in (1, 2, 3)}
            | {"topology.k8s.aws/capacity-block-id": "cb"},
            {"leaf": "nn-3", "spine": "nn-2", "core": "nn-1", "capacity_block": "cb"}, id="AWS: layer 3 is the leaf",
        ),
        pytest.param(
            {"oci.oraclecloud.com/host.rack_id": "r", "oci.oraclecloud.com/host.network_block_id": "b"},
            {"leaf": "r", "spine": "b"}, id="OCI",
        ),
        pytest.param(
            {f"cloud.google.com/gce-topology-{k}": k for k in ("block", "subblock", "host")},
            {"host": "host", "leaf": "subblock", "spine": "block"}, id="GKE",
        ),
        pytest.param(
            {CLIQUE: "real", "network.topology.nvidia.com/accelerator": "reported", "topology.kubernetes.io/zone": "z"},
            {"nvlink_domain": "real", "zone": "z"}, id="what NVML saw goes before what Topograph says",
        ),
        pytest.param(
            {TIER + "0": "now", "network.topology.nvidia.com/leaf": "then", "network.topology.nvidia.com/block": "old"},
            {"leaf": "now"}, id="the newest generation goes before older ones",
        ),
    ],
)  # fmt: skip
def test_node_labels(labels: dict[str, str], expected: dict[str, str]) -> None:
    world = fill(labelled("n1", labels=labels))

    assert expected == {r["parent_kind"]: r["parent"] for r in world.rows("topology_edge") if r["child"] == "n1"}


def test_nvlink_over_nodes_is_fast_only_where_the_model_has_it() -> None:
    speeds = {}
    for model in ("NVIDIA GB200", "NVIDIA H100 80GB HBM3"):
        world = fill(
            samples(Gpu("GPU-a", "n1", 0, model=model), minutes(0, HOUR)),
            samples(Gpu("GPU-b", "n2", 0, model=model), minutes(0, HOUR)),
            [labelled(host, labels={CLIQUE: "cl-1.7"}) for host in ("n1", "n2")],
        )
        found = meeting(topology_derive.graph(world.store, CLUSTER, us(HOUR)), "GPU-a", "GPU-b")
        assert found is not None
        assert "nvlink_domain" == found.level
        speeds[model] = found.gb_per_s

    assert {"NVIDIA GB200": pytest.approx(721.8), "NVIDIA H100 80GB HBM3": None} == speeds


def test_the_free_ones_of_a_rack() -> None:
    """36 and 36 free in two NVLink domains are no 40."""
    hosts = [(f"n{i:02}", f"d{i // 9}") for i in range(18)]
    rows: list[Any] = []
    for host, domain in hosts:
        rows += [samples(Gpu(f"{host}-{g}", host, g, model="NVIDIA GB200"), [30]) for g in range(4)]
        rows += [matrix(host, "01:NV18 02:NV18 03:NV18 12:NV18 13:NV18 23:NV18"), labelled(host, labels={CLIQUE: domain, TIER + "0": "leaf"})]  # fmt: skip
    world = fill(*rows)
    graph = topology_derive.graph(world.store, CLUSTER, us(HOUR))
    fits, spans = (best_attainable(graph, list(graph.places), k) for k in (36, 40))

    assert fits is not None
    assert spans is not None
    assert [("nvlink_domain", pytest.approx(721.8)), ("leaf", 50.0)] == [
        (one.level, one.gb_per_s) for one in (fits, spans)
    ]


def test_blocks_of_slurm() -> None:
    rows = [link("b1", f"n{i}", "BLOCK", f"n{i}", plugin="block", block_sizes=[2, 4]) for i in range(2)]
    world = fill(rows, tree("l1:n0,n1"))

    assert {"n0": "b1", "n1": "b1"} == edges(world, "node", "block")
    assert {"b1": "l1"} == edges(world, "block")


def test_a_spine_with_nodes_of_its_own_stays_a_spine() -> None:
    world = fill(tree("l1:n0,n1 s1:l1,n2"))

    assert {"n0": "l1", "n1": "l1"} == edges(world, "node", "leaf")
    assert {"n0": "s1", "n1": "s1", "n2": "s1"} == edges(world, "node", "spine")


def test_the_default_topology_of_a_partition_goes_first() -> None:
    """topology.conf is not read where there is a topology.yaml."""
    rows = [("conf", None, None), ("other", "b", False), ("default", "c", True)]
    rows = [
        link(name, "n1", "SWITCH", "n1", **({"plugin": "tree"} | ({} if t is None else {"topology": t, "default": d})))
        for name, t, d in rows
    ]

    assert {"n1": "default"} == edges(fill(rows), "node", "leaf")
    assert {"n1": "other"} == edges(fill(rows[:2]), "node", "leaf")


def test_kueue_explains_labels_that_no_other_source_does() -> None:
    """Innermost first; a rack is one of its block."""
    levels = [{"nodeLabel": f"cloud.provider.com/topology-{k}"} for k in ("block", "rack")]
    item = {"metadata": {"name": "t"}, "spec": {"levels": [*levels, {"nodeLabel": "kubernetes.io/hostname"}]}}
    rows = [{"cluster": CLUSTER, **row} for _, row in topology_rows(item, None)]
    place = {"n1": ("b1", "r1"), "n2": ("b1", "r1"), "n3": ("b2", "r1")}
    nodes = [
        labelled(host, labels={"cloud.provider.com/topology-block": b, "cloud.provider.com/topology-rack": r})
        for host, (b, r) in place.items()
    ]
    world = fill(rows, nodes, labelled("n4", labels={"cloud.provider.com/topology-rack": "r9"}))

    assert {"n1": "b1/r1", "n2": "b1/r1", "n3": "b2/r1"} == edges(world, "node", "leaf")
    assert {"n1": "b1", "n2": "b1", "n3": "b2"} == edges(world, "node", "spine")
    assert {"b1/r1": "b1", "b2/r1": "b2"} == edges(world, "leaf")


def hyper(name: str, tier: int, *members: Row, at: int | None = None) -> Link:
    item = {"metadata": {"name": name}, "spec": {"tier": tier, "members": list(members)}}
    (_, row), *_ = hypernode_rows(item, None if at is None else us(at))
    return {"cluster": CLUSTER, **row}


def chosen(kind: str, **selector: Any) -> Row:
    return {"type": kind, "selector": selector}


def test_hypernodes_by_name_pattern_and_label() -> None:
    """Tiers 1, 2 and 5 are leaf, spine and core: their order counts."""
    world = fill(
        hyper("h1", 1, chosen("Node", exactMatch={"name": "n1"}), chosen("Node", regexMatch={"pattern": "^n[23]$"})),
        hyper("h2", 1, chosen("Node", labelMatch={
            "matchLabels": {"topology.example/row": "r1"},
            "matchExpressions": [
                {"key": "topology.example/bad", "operator": "DoesNotExist"},
                {"key": "topology.example/row", "operator": "NotIn", "values": ["r2"]},
                {"key": "topology.example/row", "operator": "Exists"},
            ],
        })),
        hyper("top", 2, chosen("HyperNode", regexMatch={"pattern": "h"})),
        hyper("all", 5, chosen("HyperNode", exactMatch={"name": "top"})),
        [labelled(f"n{i}", labels={"topology.example/row": "r2" if i < 4 else "r1"}) for i in range(1, 7)],
        labelled("n7", labels={"topology.example/row": "r1", "topology.example/bad": "1"}),
    )  # fmt: skip

    assert {"n1": "h1", "n2": "h1", "n3": "h1", "n4": "h2", "n5": "h2", "n6": "h2"} == edges(world, "node", "leaf")
    assert {"h1": "top", "h2": "top"} == edges(world, "leaf")
    assert {"top": "all"} == edges(world, "spine")


def test_a_hypernode_that_was_deleted_holds_nothing_from_then_on() -> None:
    changes, kind = ClusterChanges(), kinds()["topology.volcano.sh", "HyperNode"]
    links = []
    item = {
        "metadata": {"name": "h1", "uid": "h"},
        "spec": {"tier": 1, "members": [chosen("Node", exactMatch={"name": "n1"})]},
    }
    changes.object(kind, item, us(0))
    links += changes.take(us(0))["link"]
    changes.object_deleted(kind, "h", us(600), us(600))
    links += changes.take(us(600))["link"]
    world = fill([{"cluster": CLUSTER, **row} for row in links], labelled("n1"))

    assert [("h1", None, 600)] == versions(world, "n1", "leaf")


def test_what_was_seen_goes_before_labels_and_labels_before_configuration() -> None:
    world = fill(tree("l1:n1 s1:l1"), labelled("n1", labels={TIER + "0": "A"}), sampled("GPU-a", "n1", 0))
    sources = {r["parent_kind"]: (r["parent"], r["source"]) for r in world.rows("topology_edge") if r["child"] == "n1"}

    assert {"leaf": ("A", "topograph"), "spine": ("s1", "slurm")} == sources


def test_a_node_that_sources_place_differently_is_a_conflict() -> None:
    hosts = [f"n{i}" for i in range(6)]
    labels = ["A", "A", "A", "B", "B", "B"]
    world = fill(
        tree("l1:n0,n1 l2:n2,n3,n4,n5"),
        [labelled(h, labels={TIER + "0": name}) for h, name in zip(hosts, labels, strict=True)],
    )

    assert [("n2", "leaf", "A", "topograph", "l2", "slurm")] == [
        (r["child"], r["parent_kind"], r["parent"], r["source"], r["told"], r["told_source"])
        for r in gaps.conflicts(world.store)
    ]


def test_names_of_nodes_with_a_domain_or_in_other_case() -> None:
    """The scheduler's name stands."""
    world = fill(
        node("n1", {"": 2}),
        sampled("GPU-a", "n1.cluster.local", 0),
        sampled("GPU-b", "n1.cluster.local", 1),
        matrix("N1.cluster.local", "01:NV4"),
        tree("l1:n1"),
    )

    assert {"GPU-a": "n1", "GPU-b": "n1"} == edges(world, "gpu", "node")
    assert {("GPU-a", "GPU-b")} == set(pairs(world))
    assert {"n1": "l1"} == edges(world, "node")


def test_names_that_two_nodes_share_are_left_alone() -> None:
    world = fill(node("n1.a"), node("n1.b"), matrix("n1", "01:NV4"))

    assert {"n1/GPU0", "n1/GPU1"} == set(edges(world, "gpu"))


def test_without_samples_a_gpu_is_called_by_its_number() -> None:
    assert {("n1/GPU0", "n1/GPU1"): ("PIX", None)} == pairs(fill(matrix("n1", "01:PIX")))


def test_a_model_that_only_the_scheduler_names_has_speeds() -> None:
    assert {("n1/GPU0", "n1/GPU1"): ("PIX", 24.0)} == pairs(
        fill(matrix("n1", "01:PIX"), node("n1", {"": 2}, gpu_model="a100"))
    )


def test_a_uuid_in_the_matrix_goes_before_the_index() -> None:
    rows = [link(f"GPU{i}", f"GPU{i}", "X", "n1", uuid=f"GPU-x{i}", source="nvml") for i in range(2)]
    world = fill(sampled("GPU-a", "n1", 0), rows, link("GPU0", "GPU1", "NV4", "n1"))

    assert {("GPU-x0", "GPU-x1")} == set(pairs(world))
    assert {"nvml"} == {r["source"] for r in world.rows("topology_pair")}


# Versions -----------------------------------------------------------------------------------------------------------


def test_a_node_that_was_moved() -> None:
    world = fill(tree("l1:n1,n2 l2:n3 s1:l1,l2", at=0), tree("l1:n1 l2:n2,n3 s1:l1,l2", at=HOUR))

    assert [("l1", None, HOUR), ("l2", HOUR, None)] == versions(world, "n2", "leaf")
    assert [("l1", None, None)] == versions(world, "n1", "leaf")
    assert [("s1", None, None)] == versions(world, "n2", "spine")
    graphs = [topology_derive.graph(world.store, CLUSTER, us(at)) for at in (HOUR - 1, HOUR)]
    assert [{}, {}] == [graph.places for graph in graphs]


def test_a_node_that_was_taken_out() -> None:
    world = fill(tree("l1:n1,n2", at=0), tree("l1:n1", at=HOUR), tree("l1:n1,n2", at=2 * HOUR))

    assert [("l1", None, HOUR), ("l1", 2 * HOUR, None)] == versions(world, "n2", "leaf")


def test_a_label_that_changed_and_went() -> None:
    world = fill(
        labelled("n1", 0, labels={CLIQUE: "c.1"}),
        labelled("n1", 60, labels={CLIQUE: "c.1"}),
        labelled("n1", HOUR, labels={CLIQUE: "c.2"}),
        labelled("n1", 2 * HOUR, labels={"topology.kubernetes.io/zone": "z"}),
    )

    assert [("c.1", None, HOUR), ("c.2", HOUR, 2 * HOUR)] == versions(world, "n1", "nvlink_domain")


def test_a_scheduler_that_tells_no_labels_takes_none_away() -> None:
    world = fill(labelled("n1", 0, labels={CLIQUE: "c.1"}), node("n1", {"": 2}, HOUR), node("n1", {"": 2}, HOUR, scheduler="kubernetes"))  # fmt: skip

    assert [("c.1", None, None)] == versions(world, "n1", "nvlink_domain")


def test_links_that_broke_and_were_repaired() -> None:
    world = fill(matrix("n1", "01:NV12", at=0), matrix("n1", "01:NV10", at=HOUR), matrix("n1", "01:NV12", at=2 * HOUR), node("n1", {"": 2}, gpu_model="a100"))  # fmt: skip
    rows = sorted(world.rows("topology_pair"), key=lambda row: row["valid_from_us"] or 0)

    assert [("NV12", 240.0, None, HOUR), ("NV10", 200.0, HOUR, 2 * HOUR), ("NV12", 240.0, 2 * HOUR, None)] == [
        (r["level"], r["bandwidth_gb_per_s"], _seconds(r["valid_from_us"]), _seconds(r["valid_until_us"])) for r in rows
    ]
    assert [0, HOUR, 2 * HOUR] == [_seconds(r["observed_us"]) for r in rows]


def test_a_gpu_that_fell_off_its_bus() -> None:
    world = fill(matrix("n1", "01:NV4 02:NV4 12:NV4", at=0), matrix("n1", "01:NV4", at=HOUR))

    assert [("n1", None, HOUR)] == versions(world, "n1/GPU2", "node")
    assert [("n1", None, None)] == versions(world, "n1/GPU1", "node")


def test_a_gpu_that_was_replaced() -> None:
    world = fill(
        matrix("n1", "01:NV4"),
        sampled("GPU-a", "n1", 0, 0, 4 * HOUR),
        sampled("GPU-old", "n1", 1, 0, HOUR),
        sampled("GPU-new", "n1", 1, 2 * HOUR, 4 * HOUR),
    )
    start = 2 * HOUR + 30

    assert [("n1/nvlink-0", None, start)] == versions(world, "GPU-old", "nvlink")
    assert [("n1/nvlink-0", start, None)] == versions(world, "GPU-new", "nvlink")
    ends = {r["b"]: (_seconds(r["valid_from_us"]), _seconds(r["valid_until_us"])) for r in world.rows("topology_pair")}
    assert {"GPU-old": (None, start), "GPU-new": (start, None)} == ends
    assert {("GPU-a", "GPU-old"), ("GPU-a", "GPU-new")} == set(pairs(world))


def test_a_gpu_that_moved_to_another_node() -> None:
    world = fill(sampled("GPU-a", "n1", 0, 0, HOUR), sampled("GPU-a", "n2", 3, 2 * HOUR, 3 * HOUR))

    assert [("n1", None, 2 * HOUR + 30), ("n2", 2 * HOUR + 30, None)] == versions(world, "GPU-a", "node")


def test_a_source_that_came_later_decides_from_then_on() -> None:
    world = fill(tree("l1:n1", at=0), labelled("n1", HOUR, labels={TIER + "0": "A"}))

    assert [("l1", None, HOUR), ("A", HOUR, None)] == versions(world, "n1", "leaf")


def test_samples_alone_take_the_short_way_to_the_same_topology(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without links, labels and moves, most steps have nothing to do. Here one GPU replaced another."""
    unplaced = replace(Gpu("GPU-e", "n4"), index=None)
    rows = [
        sampled("GPU-a", "n1", 0, 0, 1800),
        sampled("GPU-b", "n1", 0, 1800, HOUR),
        sampled("GPU-c", "N2.example", 1),
        samples(Gpu("GPU-d", "n3", gi=3, profile="1g.10gb"), minutes(0, HOUR)),
        samples(unplaced, minutes(0, HOUR)),
        node("n2", {"": 1}, 60, gpu_model="h100"),
        node("n5", {"": 4}, 60),
        claim("1", 0, HOUR, "n1"),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(topology_derive, "_matrices", lambda store: pytest.fail("took the long way"))
        short = fill(*rows)
    with monkeypatch.context() as patch:
        patch.setattr(topology_derive, "_moved", lambda store: True)
        long = fill(*rows)

    assert derived(long) == derived(short)
    assert [("n1", None, 1830)] == versions(short, "GPU-a", "node")
    assert {"GPU-b": "n1", "GPU-c": "n2", "GPU-d": "n3", "GPU-e": "n4"} == edges(short, "gpu")


def test_no_versions_of_a_thing_overlap() -> None:
    rng = random.Random(7)
    rows: list[Any] = []
    for at in range(0, 20 * 60, 60):
        names = [f"n{i}" for i in range(6)]
        rng.shuffle(names)
        rows += tree(f"l1:{','.join(names[:3])} l2:{','.join(names[3:5])} s1:l1,l2", at)
        rows.append(labelled(rng.choice(names), at, labels={TIER + "0": rng.choice("AB")}))
    world = fill(*rows)
    found: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    for row in world.rows("topology_edge"):
        key = (row["child"], row["child_kind"], row["parent_kind"])
        found.setdefault(key, []).append((row["valid_from_us"] or 0, row["valid_until_us"] or 1 << 62))
    spans = [sorted(one) for one in found.values()]

    assert [] == [one for one in spans if any(a[1] > b[0] for a, b in pairwise(one))]
    assert max(len(one) for one in spans) > 4


# Runs again ---------------------------------------------------------------------------------------------------------


def derived(world: World) -> dict[str, list[Row]]:
    return {name: world.rows(name) for name in ("topology_edge", "topology_pair", "topology_conflict")}


def test_nothing_new_costs_a_look() -> None:
    world = fill(tree("l1:n1,n2"), sampled("GPU-a", "n1", 0), labelled("n1", 0, labels={CLIQUE: "c.1"}))
    before = derived(world)

    assert not topology_derive.derive(world.store, CLUSTER)
    world.add(labelled("n1", HOUR, labels={CLIQUE: "c.1"}))
    assert not topology_derive.derive(world.store, CLUSTER), "a repeated word is no news"
    rows = [{**row, "observed_us": us(HOUR)} for row in tree("l1:n1,n2")]
    world.store.append(Records("link", pa.Table.from_pylist(rows * 2, schema=LINK)))
    assert not topology_derive.derive(world.store, CLUSTER), "nor is a file that says the same later"
    world.add(labelled("n1", 2 * HOUR, labels={CLIQUE: "c.2"}))
    assert topology_derive.derive(world.store, CLUSTER)
    world.add(labelled("n1", 3 * HOUR, labels={CLIQUE: "c.1"}))
    assert topology_derive.derive(world.store, CLUSTER), "an old word that is back is news"
    assert before != derived(world)


def test_a_derivation_leaves_nothing_behind_but_its_tables() -> None:
    world = fill(tree("l1:n1,n2"))

    assert [] == world.store.sql("select table_name from duckdb_tables() where temporary and table_name like 'topo%'")


def test_another_cluster_is_left_alone() -> None:
    world = fill(tree("l1:n1,n2"))
    before = derived(world)
    rows = [{**row, "cluster": "c2"} for row in tree("l9:n1,n2")]
    world.store.append(Records("link", pa.Table.from_pylist(rows, schema=LINK)))
    topology_derive.derive(world.store, "c2")

    assert before["topology_edge"] == [row for row in world.rows("topology_edge") if row["cluster"] == CLUSTER]
    assert [CLUSTER, "c2"] == topology_derive.clusters(world.store)


def test_compacting_what_is_repeated_changes_nothing() -> None:
    rows = [row for at in range(0, 6 * HOUR, HOUR) for row in matrix("n1", "01:NV4", at) + tree("l1:n1", at)]
    rows += matrix("n1", "01:NV2", 6 * HOUR) + tree("l2:n1", 6 * HOUR)
    rows += [hyper("h1", 1, chosen("Node", exactMatch={"name": "n1"}), at=at) for at in (0, HOUR, 2 * HOUR)]
    world = fill(*rows)
    before, count = derived(world), len(world.rows("link"))
    topology_derive.compact(world.store)
    topology_derive.derive(world.store, CLUSTER)

    assert before == derived(world)
    assert (len(rows), 3 * 3 + 3 + 2) == (count, len(world.rows("link")))


STATEMENTS: list[list[Any]] = [
    sampled("GPU-a", "n1", 0, 0, 600),
    sampled("GPU-b", "n1", 1, 0, 600),
    sampled("GPU-c", "n1", 1, 1200, 1800),
    sampled("GPU-d", "n2", 0, 0, 1800),
    matrix("n1", "01:NV4", at=0),
    matrix("n1", "01:NV2", at=900),
    tree("l1:n1,n2 l2:n3 s1:l1,l2", at=0),
    tree("l1:n1 l2:n2,n3 s1:l1,l2", at=600),
    tree("l3:n1 l2:n2,n3 s1:l3,l2"),
    [labelled("n1", 0, labels={TIER + "0": "A", TIER + "1": "S"})],
    [labelled("n2", 0, labels={TIER + "0": "A", TIER + "1": "T"})],
    [labelled("n3", 300, labels={TIER + "0": "A", TIER + "1": "T"})],
    [labelled("n3", 900, labels={TIER + "0": "B", TIER + "1": "T"})],
    [labelled("n3", 900, labels={TIER + "0": "C"})],
    [hyper("h1", 1, chosen("Node", regexMatch={"pattern": "n[123]"}), at=100)],
]


@pytest.fixture(scope="module")
def straight() -> dict[str, list[Row]]:
    return derived(fill(*STATEMENTS))


@settings(max_examples=8, deadline=None)
@given(order=st.permutations(range(len(STATEMENTS))), cut=st.integers(0, len(STATEMENTS)), twice=st.integers(0, 3))
def test_the_order_of_ingest_does_not_matter(
    straight: dict[str, list[Row]], order: list[int], cut: int, twice: int
) -> None:
    """Nor how often it was derived between, nor that something came twice."""
    chosen_rows = [STATEMENTS[i] for i in order]
    world = fill(*chosen_rows[:cut])
    rest = fill_rows(world, chosen_rows[cut:] + [STATEMENTS[i] for i in order[:twice]])
    tell(world, rest)

    assert straight == derived(world)


def fill_rows(world: World, statements: list[list[Any]]) -> list[Link]:
    """Adds all but links, which it returns."""
    flat = [one for rows in statements for one in rows]
    world.add(*[row for row in flat if not (isinstance(row, dict) and "level" in row)])
    return [row for row in flat if isinstance(row, dict) and "level" in row]


# Real inputs --------------------------------------------------------------------------------------------------------


def imported(*paths: Path, kind: str) -> World:
    world = World()
    for path in paths:
        if not path.exists():
            pytest.skip(f"{path} is not there: set GPUWATCH_SHARED")
        for batch in (read_topo if kind == "topo" else read_topology)(Source(str(path), CLUSTER), Rejects()):
            assert isinstance(batch, Records)
            world.store.append(batch)
    topology_derive.derive(world.store, CLUSTER)
    return world


def test_all_recorded_matrices_at_once() -> None:
    folder = SHARED / "wire/topology/topo_m"
    world = imported(*(sorted(folder.glob("*.txt")) or [folder]), kind="topo")
    levels = Counter(r["level"] for r in world.rows("topology_pair"))
    islands = Counter(edges(world, "gpu", "nvlink").values())

    assert {"NV4": 6, "NV12": 56, "NV18": 27 + 28 + 15, "NODE": 6 + 4, "PHB": 2, "SYS": 4 + 28} == levels
    assert [4, 6, 8, 8, 8, 8] == sorted(islands.values())


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("recorded_22.05/topology.conf", {"leaf": 2, "spine": 1}),
        ("recorded_22.05/scontrol_show_topology.txt", {"leaf": 2, "spine": 1}),
        ("topology/expected.slinky-dra-block.conf", {"block": 12}),
        ("topology/expected.slinky-oci-sim-tree.conf", {"leaf": 12, "spine": 6, "core": 1}),
        ("topology/topology.conf_examples.txt", {"leaf": 3, "spine": 1, "block": 4 + 2}),
        ("topology/topology.yaml_example.yaml", {"leaf": 2, "spine": 1, "block": 5}),
    ],
)
def test_recorded_topologies_of_slurm(name: str, kinds: dict[str, int]) -> None:
    """A node that is in several groups of near nodes is in the first of the most trusted topology."""
    world = imported(SHARED / "wire/slurm" / name, kind="slurm-topology")
    found = {(r["parent_kind"], r["parent"]) for r in world.rows("topology_edge") if r["child_kind"] == "node"}

    assert kinds == Counter(kind for kind, _ in found)


def test_both_forms_of_slurms_file_give_the_same_graph() -> None:
    folder = SHARED / "wire/slurm/recorded_22.05"
    worlds = [
        imported(folder / name, kind="slurm-topology") for name in ("topology.conf", "scontrol_show_topology.txt")
    ]

    assert derived(worlds[0]) == derived(worlds[1])


def test_recorded_objects_of_kueue() -> None:
    paths = [SHARED / "wire/schedulers/kueue" / name for name in ("sample-queues.yaml", "sample-gpu-queues.yaml", "tas_objects.yaml", "manager-setup.yaml")]  # fmt: skip
    if not all(path.exists() for path in paths):
        pytest.skip(f"{paths[0].parent} is not there: set GPUWATCH_SHARED")
    found = []
    for path in paths:
        for item in yaml.safe_load_all(path.read_text()):
            if isinstance(item, dict) and item.get("kind") == "Topology":
                found.append([row["b"].rpartition("/")[2] for _, row in topology_rows(item, None)])

    assert [["topology-block", "topology-rack", "hostname"]] * 2 + [
        ["topology-block", "topology-rack"],
        ["hostname"],
    ] == found


def test_the_importers_are_there() -> None:
    assert {"topo", "slurm-topology"} <= set(importers())


def test_a_thousand_nodes() -> None:
    """Eight GPUs each, 32 leaves, labels of a third of them, and a second word of everything."""
    level = " ".join(f"{a}{b}:NV18" for a in range(8) for b in range(a + 1, 8))
    names = [f"n{i:04}" for i in range(1000)]
    leaves = [f"l{i}:{','.join(names[i * 32 : i * 32 + 32])}" for i in range(32)]
    spines = [f"s{i}:{','.join(f'l{j}' for j in range(i * 8, i * 8 + 8))}" for i in range(4)]
    text = " ".join([*(one for one in leaves if not one.endswith(":")), *spines])
    links = [row for at in (0, HOUR) for row in tree(text, at)]
    links += [row for at in (0, HOUR) for name in names for row in matrix(name, level, at, "00001111")]
    world = World()
    nodes = [node(name, {"": 8}, 0, gpu_model="h100") for name in names]
    nodes += [labelled(name, 60, labels={"topology.kubernetes.io/zone": "z"}) for name in names[::3]]
    claims = [claim("1", 0, HOUR, name, 8) for name in names[:10]]
    for table, rows, schema in (("link", links, LINK), ("node", nodes, NODE), ("claim", claims, CLAIM)):
        world.store.append(Records(table, pa.Table.from_pylist(rows, schema=schema)))
    topology_derive.derive(world.store, CLUSTER)
    graph = topology_derive.graph(world.store, CLUSTER, us(2 * HOUR))
    best = best_attainable(graph, [f"{name}/GPU{i}" for name in names[:40] for i in range(4)], 16)

    assert (8000, 28_000) == (len(graph.places), len(graph.pairs))
    assert {len(names)} == {len(edges(world, "node", "leaf"))}
    assert best is not None
    assert ("leaf", 50.0) == (best.level, best.gb_per_s)
