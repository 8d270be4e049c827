"""Whether a request fits the free GPUs now, on which of them, and if not, why and what would let it start."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuwatch.capacity.free_nodes import FreeNode, Request, by_domain, choose, place_on, why_not
from gpuwatch.capacity.free_state import Cluster, Gpu
from gpuwatch.capacity.make_room import Standing, every_host, moves_to
from gpuwatch.capacity.move_fit import MoveFit, joined, split
from gpuwatch.core.clock import rfc3339
from gpuwatch.hardware.defrag import Plan, plan
from gpuwatch.hardware.fgd import GPU_MILLI
from gpuwatch.hardware.rooms import Host, Limits
from gpuwatch.store.database import Store
from gpuwatch.topology.taints import TaintedNodes, untainted

POOLS_MAX = 64
"""Pools and models that one request is tried on."""
LEAVES_MAX = 8
"""Leaf switches or NVLink domains for which moves are planned: those with the most free GPUs."""
OUTSIDE_MAX = 64
"""Nodes outside that may take the jobs that leave a leaf switch."""

Row = dict[str, Any]
Pool = tuple[str | None, str | None]
"""(pool, GPU model)."""


class Places:
    """The free GPUs of a cluster, and the jobs beside them, for several requests. Hosts are read once."""

    def __init__(
        self,
        store: Store,
        cluster: Cluster,
        idle: Mapping[str, Row] | None = None,
        faults: Mapping[str, Row] | None = None,
    ) -> None:
        """`idle` and `faults`: findings by GPU, of those that could be reclaimed and of those that have a fault."""
        self.store, self.cluster, self.idle, self.faults = store, cluster, idle or {}, faults or {}
        self._taints = TaintedNodes(store, cluster.name).at(cluster.as_of_us)
        self._fit = MoveFit(store, cluster.name, cluster.as_of_us - 1)
        self._standing: Standing | None = None
        self._gpus: dict[Pool, dict[str, list[Gpu]]] = defaultdict(lambda: defaultdict(list))
        for gpu in cluster.whole:
            self._gpus[gpu.pool, gpu.model][gpu.node].append(gpu)

    def tried(self, request: Request) -> list[Row]:
        """The request on each pool and model that it may use: where it fits first, then where the fewest GPUs have to move."""
        found = []
        for pool, model in sorted(self._gpus, key=lambda one: (one[0] or "", one[1] or ""))[:POOLS_MAX]:
            wrong_model = request.models is not None and model not in request.models
            if not (wrong_model or (request.pools is not None and pool not in request.pools)):
                found.append(self._tried_in((pool, model), request))
        return sorted(found, key=_order)

    @property
    def standing(self) -> Standing:
        """The jobs beside the free GPUs."""
        if self._standing is None:
            self._standing = every_host(self.store, self.cluster.name, self.cluster.as_of_us - 1, self._fit)
        return self._standing

    def hosts(self, pool: Pool) -> list[Host]:
        """The nodes of a pool that jobs may move between, with the jobs on them.

        Only nodes with the taints that all of them have: whether a job tolerates others is not known.
        """
        group = self.standing.groups.get((pool[0], pool[1] or ""), [])
        allowed = self._open(pool)
        return [one for one in group if one.name in allowed]

    def _open(self, pool: Pool) -> set[str]:
        """The nodes without a taint that others of the pool lack."""
        names = list(self._gpus[pool])
        return untainted(names, self._taints)

    def _tried_in(self, pool: Pool, request: Request) -> Row:
        nodes = self._nodes(pool, request)
        chosen = choose(nodes, request)
        known = request.within == "any" or request.members == 1 or any(node.domain is not None for node in nodes)
        row: Row = {
            "cluster": self.cluster.name,
            "as_of": rfc3339(self.cluster.as_of_us),
            "pool": pool[0],
            "gpu_model": pool[1],
            "shape": request.shape,
            "within": request.within,
            "fits": None if not known else chosen is not None,
            "free_gpus": sum(len(node.free) for node in nodes),
            "faulty_gpus": sum(len(node.faulty) for node in nodes),
            "places": (places := [place_on(node, request.gpus) for node in chosen or ()]),
            "faults": [
                {"node": place["node"], "gpu": gpu} | self.faults[gpu]
                for place in places
                for gpu in place["gpus"]
                if gpu in self.faults
            ],
            "left_out_nodes": len(self._gpus[pool]) - len(nodes),
            "why": None if chosen else why_not(nodes, request, known),
            "plan": None,
            "reclaim": [],
            "not_known": joined([*split(request.unknown), *split(self._fit.not_known(()))]),
        }
        if chosen is None and known:
            row["plan"] = self._plan(pool, nodes, request)
            row["reclaim"] = self._reclaim(pool, nodes, request)
        return row

    def _nodes(self, pool: Pool, request: Request) -> list[FreeNode]:
        allowed = self._open(pool) if request.nodes is None else set(request.nodes)
        found = []
        for name, gpus in sorted(self._gpus[pool].items()):
            if name in allowed:
                free = tuple(gpu for gpu in gpus if gpu.free_milli == GPU_MILLI)
                domain = gpus[0].leaf if request.within == "leaf" else gpus[0].domain
                usable = self._usable(name, len(free), request)
                kept = tuple(sorted(free, key=lambda gpu: gpu.name in self.faults)[:usable])
                faulty = frozenset(gpu.name for gpu in kept) & self.faults.keys()
                found.append(FreeNode(name, domain, gpus[0].leaf, kept, len(gpus), faulty, usable < len(free)))
        return found

    def _usable(self, node: str, free: int, request: Request) -> int:
        """Of the free GPUs of a node those that its free CPUs and memory are enough for."""
        asked = request.cpu_milli, request.memory_bytes
        if asked == (None, None):
            return free
        room = self._fit.room(node)
        known = [(has, need) for has, need in zip(room, asked, strict=True) if has is not None and need]
        return min([free, *(has * request.gpus // need for has, need in known)])

    def _plan(self, pool: Pool, nodes: Sequence[FreeNode], request: Request) -> Row | None:
        """The cheapest moves after which it fits; None if none were found."""
        group = self.hosts(pool)
        barred = frozenset(host.name for host in group) - frozenset(node.name for node in nodes)
        limits = Limits((request.cpu_milli, request.memory_bytes), barred)
        best: tuple[Plan, list[Host]] | None = None
        for some in planned_groups(group, nodes, request):
            found = plan(some, request.gpus, request.members, limits)
            if found is not None and found.moves and (best is None or found.price < best[0].price):
                best = found, some
        if best is None:
            return None
        moved = moves_to(best[0], best[1], self.standing.names, request.gpus, request.members, limits)
        if moved is None:
            return None
        unknown = self._fit.not_known(best[0].moves)
        return moved | {"moved_gpus": best[0].gpus, "exact": best[0].exact, "not_known": unknown}

    def _reclaim(self, pool: Pool, nodes: Sequence[FreeNode], request: Request) -> list[Row]:
        """The idle GPUs that would let it start if they were released: the fewest, with who holds them."""
        idle = {
            node.name: [
                gpu.name for gpu in self._gpus[pool][node.name] if gpu.free_milli == 0 and gpu.name in self.idle
            ]
            for node in nodes
        }
        ready = [node for node in nodes if len(node.free) + len(idle[node.name]) >= request.gpus]
        lacks = {node.name: max(0, request.gpus - len(node.free)) for node in ready}
        best: list[FreeNode] | None = None
        for some in by_domain(ready, request).values():
            fewest = sorted(some, key=lambda node: (lacks[node.name], node.name))[: request.members]
            if len(fewest) == request.members and (best is None or _sum(fewest, lacks) < _sum(best, lacks)):
                best = fewest
        rows: dict[tuple[str, str], Row] = {}
        for node in best or ():
            for gpu in idle[node.name][: lacks[node.name]]:
                finding = self.idle[gpu]
                words = {name: finding[name] for name in ("team", "job", "finding")}
                row = rows.setdefault((node.name, finding["finding"]), {"node": node.name, **words, "gpus": []})
                row["gpus"].append(gpu)
        return list(rows.values())


def planned_groups(group: Sequence[Host], nodes: Sequence[FreeNode], request: Request) -> list[list[Host]]:
    """The nodes to plan on. In a domain, others may take the jobs that leave it, but no member of the request."""
    if request.within == "any" or request.members == 1:
        return [list(group)]
    domains = {node.name: node.domain for node in nodes}
    free: Counter[str] = Counter()
    for host in group:
        if (domain := domains.get(host.name)) is not None:
            free[domain] += host.free
    found = []
    for domain, _ in sorted(free.items(), key=lambda one: (-one[1], one[0]))[:LEAVES_MAX]:
        inside = [host for host in group if domains.get(host.name) == domain]
        outside = sorted(
            (h for h in group if domains.get(h.name) != domain and h.free), key=lambda h: (-h.free, h.name)
        )
        found.append(
            [*inside, *(Host(h.name, min(h.free, request.gpus - 1), (), h.room) for h in outside[:OUTSIDE_MAX])]
        )
    return found


def _sum(nodes: Iterable[FreeNode], lacks: Mapping[str, int]) -> int:
    return sum(lacks[node.name] for node in nodes)


def _order(row: Row) -> tuple[object, ...]:
    moved = None if row["plan"] is None else row["plan"]["moved_gpus"]
    fewest = min(
        (count for count in (moved, sum(len(one["gpus"]) for one in row["reclaim"]) or None) if count), default=None
    )
    return (
        not row["fits"],
        fewest is None,
        fewest or 0,
        -row["free_gpus"],
        row["pool"] or "",
        row["gpu_model"] or "",
    )
