"""A map of the fleet: every GPU in its place, with its owner, state, temperature and open findings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from gpuwatch.capacity.fleet import RECENT_US
from gpuwatch.capacity.free_state import instants, rows_at
from gpuwatch.core.clock import HOUR_US, rfc3339
from gpuwatch.hardware.fgd import GPU_MILLI
from gpuwatch.store.database import Store

NODES_MAX = 4000
"""Nodes that one answer draws: those of the first names."""
FINDINGS_MAX = 1000
"""Open findings that one answer names: the most severe."""
HELD, FREE, STRANDED, PARTITIONED, OUT, OTHER = "held", "free", "stranded", "partitioned", "out_of_service", "other"
STATES = (HELD, FREE, STRANDED, PARTITIONED, OUT, OTHER)
"""`partitioned`: cut into MIG slices of which none is held. `other`: not held by the caller's teams; nothing else is shown."""
AVOIDABLE = ("hoarded", "stalled", "gap", "communication", "stranded")
BUCKETS = ("compute", "memory_roof", "below_roof", *AVOIDABLE[:-1], "unobserved", "schedulable", "stranded")
HARDWARE = ("degraded-gpu", "fabric-congestion", "straggler", "driver-drift", "blind-spot")
"""Rules whose findings are faults of a GPU, its links or its driver."""
SEVERITIES = ("critical", "high", "medium", "low", "info")
PLACES = 3
COLUMNS = (
    "gpus", "index", "island", "pcie", "numa", "state", "team", "job", "jobs", "bucket", "avoidable", "celsius", "finding",
    "fault",
)  # fmt: skip
"""What a node lists of each of its GPUs, in the same order."""

Row = dict[str, Any]


def fleet_map(
    store: Store,
    at_us: int,
    *,
    cluster: str | None = None,
    pool: str | None = None,
    teams: Collection[str] | None = None,
    exact: bool = False,
    findings: Sequence[Mapping[str, Any]] = (),
) -> Row:
    """The answer of GET /topology/map: nodes by cluster, leaf and name, with a list for each of COLUMNS.

    `team`, `job` and `finding` are places in the lists of these names; None: none, or not known. `bucket` is what most of the last
    hours was, `avoidable` the share of them that was avoidable. With `teams` only the nodes on which these hold a GPU; their
    other GPUs are `other`. `findings` are open ones as GET /findings has them.
    """
    ends, unknown = instants(store, at_us, cluster, exact)
    index = _Index()
    nodes: list[Row] = []
    for end in ends.to_pylist():
        nodes += _nodes(store, end, pool, teams, index)
    shown = nodes[:NODES_MAX]
    worst = _worst_first(findings)
    _mark_findings(shown, worst, "finding", index)
    _mark_findings(shown, [one for one in worst if one["detector"] in HARDWARE], "fault", index)
    return {
        "at": rfc3339(at_us),
        "clusters": [{"cluster": end["cluster"], "as_of": rfc3339(end["as_of_us"])} for end in ends.to_pylist()],
        "unknown": dict(sorted(unknown.items())),
        "teams": list(index.teams),
        "jobs": index.job_rows(shown),
        "findings": index.findings,
        "nodes": shown,
        "more_nodes": len(nodes) - len(shown),
    }


class _Index:
    """Names that GPUs refer to by their place in a list."""

    def __init__(self) -> None:
        self.teams: dict[str, int] = {}
        self.jobs: dict[tuple[str, str], tuple[int, Row]] = {}
        self.findings: list[Row] = []
        self._keys: dict[str, int] = {}

    def team(self, name: str | None) -> int | None:
        return None if name is None else self.teams.setdefault(name, len(self.teams))

    def job(self, cluster: str, row: Row) -> int | None:
        if row["job_id"] is None:
            return None
        words = {"cluster": cluster, "job": row["job_id"], "name": row["job_name"], "user": row["user_name"]}
        made = len(self.jobs), words | {"team": self.team(row["team"])}
        return self.jobs.setdefault((cluster, row["job_id"]), made)[0]

    def finding(self, one: Mapping[str, Any]) -> int:
        if one["key"] not in self._keys:
            self._keys[one["key"]] = len(self.findings)
            self.findings.append({name: one[name] for name in ("key", "detector", "title", "severity", "team")})
        return self._keys[one["key"]]

    def job_rows(self, nodes: Iterable[Row]) -> list[Row]:
        """The jobs, with how many GPUs, nodes and leaves they have on the map."""
        gpus: dict[int, int] = defaultdict(int)
        places: dict[int, set[str]] = defaultdict(set)
        leaves: dict[int, set[str | None]] = defaultdict(set)
        for node in nodes:
            for job in node["job"]:
                if job is not None:
                    gpus[job] += 1
                    places[job].add(node["node"])
                    leaves[job].add(node["leaf"])
        return [
            row | {"gpus": gpus[n], "nodes": len(places[n]), "leaves": None if None in leaves[n] else len(leaves[n])}
            for n, row in self.jobs.values()
        ]


def _nodes(store: Store, end: Row, pool: str | None, teams: Collection[str] | None, index: _Index) -> list[Row]:
    """The nodes of one cluster with their GPUs."""
    one = pa.Table.from_pylist(
        [end], schema=pa.schema([(name, pa.string() if name == "cluster" else pa.int64()) for name in end])
    )
    since_us = (end["as_of_us"] - HOUR_US) // HOUR_US * HOUR_US
    asked = {"teams": None if teams is None else sorted(teams), "since_us": since_us, "recent_us": RECENT_US}
    with store.view("cluster_end", one):
        known = {
            row["gpu"]: row for row in store.rows("capacity/map_gpu", **asked, read_us=end["as_of_us"] - RECENT_US)
        }
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for devices in rows_at(store, one)[end["cluster"]].values():
        first = devices[0]
        if pool is None or first["pool"] == pool:
            found[first["leaf"] or "", first["node"] or first["gpu"]].append(
                _gpu(devices, known.get(first["gpu"]), teams is None)
            )
    ordered = [(key, gpus) for key, gpus in sorted(found.items())]
    if teams is not None:
        ordered = [(key, gpus) for key, gpus in ordered if any(gpu["jobs"] for gpu in gpus)]
    return [_node(end["cluster"], name, gpus, index) for (_, name), gpus in ordered]


def _gpu(devices: Sequence[Mapping[str, Any]], more: Row | None, whole: bool) -> Row:
    """One GPU of its row, or of those of its slices. `whole`: the caller sees the whole fleet."""
    row = {
        **devices[0],
        **(more or dict.fromkeys((*BUCKETS, "gpu_index", "pci_bus_id", "pcie", "numa", "job_id", "celsius", "team"))),
    }
    row["jobs"] = (more or {}).get("jobs") or 0
    return row | {"state": _state(devices, row, whole)}


def _state(devices: Sequence[Mapping[str, Any]], row: Row, whole: bool) -> str:
    if row["jobs"]:
        return HELD
    if not whole:
        return OTHER
    if all(one["out_of_service"] for one in devices):
        return OUT
    if any(one["gi"] >= 0 for one in devices):
        return HELD if all(one["held"] for one in devices) else PARTITIONED
    if devices[0]["free_milli"] < GPU_MILLI:
        return HELD
    return STRANDED if (row["stranded"] or 0) > (row["schedulable"] or 0) else FREE


def _node(cluster: str, name: str, gpus: list[Row], index: _Index) -> Row:
    gpus.sort(key=lambda gpu: (gpu["gpu_index"] is None, gpu["gpu_index"] or 0, gpu["pci_bus_id"] or "", gpu["gpu"]))
    first = gpus[0]
    models = {gpu["model"] for gpu in gpus}
    pools = {gpu["pool"] for gpu in gpus}
    lists: Row = {
        "gpus": [gpu["gpu"] for gpu in gpus],
        "index": [gpu["gpu_index"] for gpu in gpus],
        **{kind: _numbered([gpu[kind] for gpu in gpus]) for kind in ("island", "pcie", "numa")},
        "state": [gpu["state"] for gpu in gpus],
        "team": [index.team(gpu["team"]) for gpu in gpus],
        "job": [index.job(cluster, gpu) for gpu in gpus],
        "jobs": [gpu["jobs"] for gpu in gpus],
        "bucket": [_bucket(gpu) for gpu in gpus],
        "avoidable": [_avoidable(gpu) for gpu in gpus],
        "celsius": [None if gpu["celsius"] is None else round(gpu["celsius"], 1) for gpu in gpus],
        "finding": [None] * len(gpus),
        "fault": [None] * len(gpus),
    }
    return {
        "cluster": cluster,
        "node": name,
        "leaf": first["leaf"],
        "nvlink_domain": first["nvlink_domain"] or None,
        "pool": next(iter(pools)) if len(pools) == 1 else None,
        "gpu_model": next(iter(models)) if len(models) == 1 else None,
        **lists,
    }


def _numbered(names: Sequence[str | None]) -> list[int | None]:
    """Containers of a node by number, in the order in which they occur; None unknown."""
    numbers: dict[str, int] = {}
    return [None if name is None else numbers.setdefault(name, len(numbers)) for name in names]


def _bucket(gpu: Row) -> str | None:
    known = {name: gpu[name] or 0 for name in BUCKETS}
    best = max(known, key=lambda name: known[name])
    return best if known[best] else None


def _avoidable(gpu: Row) -> float | None:
    """The avoidable share of its measured time; None where less than half of it was measured."""
    total = sum(gpu[name] or 0 for name in BUCKETS)
    measured = total - (gpu["unobserved"] or 0)
    if not total or measured * 2 < total:
        return None
    return round(float(sum(gpu[name] or 0 for name in AVOIDABLE)) / float(measured), PLACES)


def _worst_first(findings: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    def order(one: Mapping[str, Any]) -> tuple[int, str]:
        severity = one["severity"]
        return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES), one["key"]

    return sorted(findings, key=order)[:FINDINGS_MAX]


def _mark_findings(nodes: Iterable[Row], findings: Sequence[Mapping[str, Any]], column: str, index: _Index) -> None:
    """Gives each GPU its worst finding; one that names only a node is that of all its GPUs."""
    by_gpu: dict[tuple[str, str], int] = {}
    by_node: dict[tuple[str, str], int] = {}
    for n, one in enumerate(findings):
        for device in one["devices"]:
            by_gpu.setdefault((one["cluster"], device.partition("/")[0]), n)
        for name in () if one["devices"] else one["nodes"]:
            by_node.setdefault((one["cluster"], name), n)
    for node in nodes:
        whole = by_node.get((node["cluster"], node["node"]))
        for at, gpu in enumerate(node["gpus"]):
            own = by_gpu.get((node["cluster"], gpu))
            numbers = [n for n in (own, whole) if n is not None]
            if numbers and node["state"][at] != OTHER:
                node[column][at] = index.finding(findings[min(numbers)])
