"""The topology of a cluster in the store: derived from the reports of sources, read as of an instant."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping

import pyarrow as pa

from gpuwatch.hardware.link_graph import Graph, Inside, Place
from gpuwatch.hardware.links import (
    KINDS,
    NVLINK_KINDS,
    OUTER_KINDS,
    TIER_KINDS,
    NodeLinks,
    domain_gb_per_s,
    link_gb_per_s,
    network_gb_per_s,
    node_links,
)
from gpuwatch.store.database import Store

VERSION = "topology 1"
"""Version of the derivation; a change derives everything again."""
END_US = 1 << 62
"""Later than every instant."""
MOVES_MAX = 64
"""Moves of one GPU that are accepted; more come from exporters that disagree about a node's name."""
DEPTH_MAX = 16
"""Switches above each other."""

_MEMBER = pa.schema(
    [
        ("digest", pa.string()),
        ("device", pa.string()),
        ("device_kind", pa.string()),
        ("gpu_index", pa.int32()),
        ("uuid", pa.string()),
        ("parent_kind", pa.string()),
        ("parent", pa.string()),
        ("level", pa.string()),
    ]
)
_PAIR = pa.schema(
    [
        ("digest", pa.string()),
        ("a", pa.string()),
        ("a_index", pa.int32()),
        ("a_uuid", pa.string()),
        ("b", pa.string()),
        ("b_index", pa.int32()),
        ("b_uuid", pa.string()),
        ("level", pa.string()),
    ]
)
_SPEED = pa.schema([("model", pa.string()), ("level", pa.string()), ("gb_per_s", pa.float64())])
_NODE_SPEED = pa.schema([("node", pa.string()), ("kind", pa.string()), ("gb_per_s", pa.float64())])
_TIER = pa.table({"tier": pa.array(range(len(TIER_KINDS)), pa.int32()), "kind": pa.array(TIER_KINDS)})
_KIND = pa.table({"kind": pa.array(KINDS), "place": pa.array(range(len(KINDS)), pa.int32())})


def derive(store: Store, cluster: str) -> bool:
    """Rebuilds the topology of a cluster where its inputs changed; returns whether it did.

    All in one transaction. The result depends on the stored records only, not on the order they came in.
    """
    with store.workspace() as work, work.transaction():
        counts = work.rows("topology/counts", cluster=cluster, version=VERSION)[0]["counts"]
        known = work.sql("select inputs, counts from topology_state where cluster = $c", c=cluster)
        if known and known[0][1] == counts:
            return False
        inputs = work.rows("topology/inputs", cluster=cluster, version=VERSION)[0]["inputs"]
        if known and known[0][0] == inputs:
            # Sources only repeated their reports.
            work.run("topology/counted", cluster=cluster, counts=counts)
            return False
        if known:
            work.run("topology/clear", cluster=cluster)
        parameters = {
            "cluster": cluster,
            "end_us": END_US,
            "moves_max": MOVES_MAX,
            "depth_max": DEPTH_MAX,
            "inputs": inputs,
            "counts": counts,
        }
        (sources,) = work.rows("topology/sources", cluster=cluster)
        work.run("topology/10_seat", **parameters)
        if not (sources["links"] or sources["labels"] or _moved(work)):
            work.run("topology/14_samples", **parameters)
            return True
        work.run("topology/12_node", **parameters)
        work.run("topology/20_matrix", **parameters)
        matrices = _matrices(work)
        members, pairs = _members(matrices), _pairs(matrices)
        with (
            work.view("topo_member", members),
            work.view("topo_link", pairs),
            work.view("topo_tier", _TIER),
            work.view("topo_kind", _KIND),
            work.view("topo_speed", _speeds(work, members, pairs)),
            work.view("topo_node_speed", _node_speeds(work, matrices)),
        ):
            work.run("topology/30_inside", **parameters)
            for step in _steps(sources):
                work.run(f"topology/{step}", **parameters)
            work.run("topology/38_version", **parameters)
            work.run("topology/40_resolve", **parameters)
            work.run("topology/45_chain", **parameters)
            work.run("topology/40_resolve", **parameters)
            work.run("topology/50_replace", **parameters)
    return True


def _moved(store: Store) -> bool:
    """Whether a GPU sat in several places."""
    return store.sql("select count(*) > count(distinct gpu) from topo_slot") == [(True,)]


def _steps(sources: Mapping[str, bool]) -> list[str]:
    """The steps that read network sources other than samples: node labels, HyperNodes, Slurm's switches."""
    steps = [
        ("32_label", sources["labels"] or sources["hypernodes"]),
        ("34_volcano", sources["hypernodes"]),
        ("36_slurm", sources["switches"]),
    ]
    return [step for step, present in steps if present]


def clusters(store: Store) -> list[str]:
    """Clusters with inputs for a topology, including those that appear only in links."""
    found = store.sql(
        "select cluster from link union select cluster from context union select cluster from node order by 1"
    )
    return [row[0] for row in found if row[0] is not None]


def compact(store: Store) -> None:
    """Drops statements of links that only repeat the one before and are repeated by the next."""
    with store.transaction():
        store.run("topology/compact")


def graph(store: Store, cluster: str, at_us: int) -> Graph:
    """GPUs with their containers and links at an instant, for hardware.link_graph."""
    around: dict[tuple[str, str], list[Inside]] = defaultdict(list)
    order = {kind: place for place, kind in enumerate(KINDS)}
    for row in store.rows("topology/star", cluster=cluster, at_us=at_us):
        if row["parent_kind"] in order:
            inside = Inside(row["parent_kind"], row["parent"], row["bandwidth_gb_per_s"])
            around[row["child_kind"], row["child"]].append(inside)
    places = {}
    for (kind, gpu), inner in around.items():
        if kind != "gpu":
            continue
        node = next((one.name for one in inner if one.kind == "node"), None)
        outer = around.get(("node", node), []) if node is not None else []
        path = sorted((*inner, *outer), key=lambda one: order[one.kind])
        places[gpu] = Place(gpu, tuple(path))
    pairs = {
        (row["a"], row["b"]): (row["level"], row["bandwidth_gb_per_s"])
        for row in store.rows("topology/pair", cluster=cluster, at_us=at_us)
    }
    return Graph(places, pairs)


def _matrices(store: Store) -> dict[str, NodeLinks]:
    """The links in each distinct matrix; nodes of the same build share one."""
    rows: dict[str, list[tuple[str, str, str, dict[str, object]]]] = defaultdict(list)
    for digest, a, b, level, detail in store.sql("select digest, a, b, level, detail from topo_matrix order by all"):
        fields = json.loads(detail)
        rows[digest].append((a, b, level, fields if isinstance(fields, dict) else {}))
    return {digest: node_links(found) for digest, found in rows.items()}


def _members(matrices: dict[str, NodeLinks]) -> pa.Table:
    rows = [
        {
            "digest": digest,
            "device": member.device,
            "device_kind": "gpu" if member.device in links.gpus else "nic",
            "gpu_index": _index(member.device) if member.device in links.gpus else None,
            "uuid": links.uuids.get(member.device),
            "parent_kind": member.parent_kind,
            "parent": member.parent,
            "level": member.level,
        }
        for digest, links in matrices.items()
        for member in links.members
    ]
    return pa.Table.from_pylist(rows, schema=_MEMBER)


def _pairs(matrices: dict[str, NodeLinks]) -> pa.Table:
    rows = [
        {
            "digest": digest,
            "a": a,
            "a_index": _index(a),
            "a_uuid": links.uuids.get(a),
            "b": b,
            "b_index": _index(b),
            "b_uuid": links.uuids.get(b),
            "level": level,
        }
        for digest, links in matrices.items()
        for a, b, level in links.pairs
    ]
    return pa.Table.from_pylist(rows, schema=_PAIR)


def _index(device: str) -> int | None:
    """N of GPUN; None for a device named otherwise, for example by its UUID."""
    match = re.fullmatch(r"GPU(\d{1,4})", device)
    return int(match[1]) if match else None


def _speeds(store: Store, members: pa.Table, pairs: pa.Table) -> pa.Table:
    """The bandwidth of each model at each level that occurs."""
    models = store.sql("select model from topo_model union select model from topo_node where model is not null")
    levels = {*members["level"].to_pylist(), *pairs["level"].to_pylist()} - {None}
    rows = [
        {"model": model, "level": level, "gb_per_s": link_gb_per_s(model, level)}
        for (model,) in models
        for level in sorted(levels)
    ]
    return pa.Table.from_pylist([row for row in rows if row["gb_per_s"] is not None], schema=_SPEED)


def _node_speeds(store: Store, matrices: dict[str, NodeLinks]) -> pa.Table:
    """The bandwidth of a GPU of each node to the outside: NVLink into its domain, its share of the network cards to switches.

    Unknown into zones and regions. Above the leaf the figure is that of the network cards: an upper bound, lower in an
    oversubscribed fabric.
    """
    newest = dict(store.sql("select node, digest from topo_statement where until_us = $end", end=END_US))
    rows = []
    for node, model, count in store.sql("select node, model, gpus from topo_node"):
        links = matrices.get(newest.get(node, ""))
        gpus, nics = (len(links.gpus), len(links.nics)) if links else (count, None)
        # A matrix without any network card was made where none may be seen.
        network = network_gb_per_s(model, gpus, nics or None)
        for kind in OUTER_KINDS:
            speed = domain_gb_per_s(model) if kind in NVLINK_KINDS else network
            if speed is not None and kind not in ("zone", "region"):
                rows.append({"node": node, "kind": kind, "gb_per_s": speed})
    return pa.Table.from_pylist(rows, schema=_NODE_SPEED)
