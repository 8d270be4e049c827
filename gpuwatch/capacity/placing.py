"""Whether a request fits the free GPUs now, on which of them, and if not, why and what would let it start."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gpuwatch.capacity.free_state import Cluster, Gpu
from gpuwatch.capacity.make_room import Names, every_host, moves_to
from gpuwatch.core.clock import rfc3339
from gpuwatch.hardware.defrag import Host, Plan, plan
from gpuwatch.hardware.fgd import GPU_MILLI
from gpuwatch.store.database import Store
from gpuwatch.topology.node_records import room_before
from gpuwatch.topology.taints import TaintedNodes, untainted

Within = Literal["any", "leaf", "nvlink"]
POOLS_MAX = 64
"""Pools and models that one request is tried on."""
LEAVES_MAX = 8
"""Leaf switches or NVLink domains for which moves are planned: those with the most free GPUs."""
OUTSIDE_MAX = 64
"""Nodes outside that may take the jobs that leave a leaf switch."""
DOMAIN_WORDS = {"leaf": "leaf switch", "nvlink": "NVLink domain"}

Row = dict[str, Any]
Pool = tuple[str | None, str | None]
"""(pool, GPU model)."""
Room = tuple[int | None, int | None]
"""Thousandths of CPUs and bytes of memory that are free on a node; None: not known."""


@dataclass(frozen=True)
class Request:
    """`members` nodes with `gpus` whole GPUs each, all below one leaf switch or in one NVLink domain if `within` asks for it."""

    members: int
    gpus: int
    within: Within = "any"
    models: Collection[str] | None = None
    pools: Collection[str | None] | None = None
    nodes: Collection[str] | None = None
    """Nodes that its selectors and tolerations fit; None: not known, so nodes with a taint of their own are left out."""
    cpu_milli: int | None = None
    """Thousandths of CPUs of each member; None: not known."""
    memory_bytes: int | None = None

    @property
    def shape(self) -> str:
        """`8`, `2x8`."""
        return str(self.gpus) if self.members == 1 else f"{self.members}x{self.gpus}"


@dataclass(frozen=True)
class FreeNode:
    """A node of one pool and model, its free GPUs, and how many it has in service."""

    name: str
    domain: str | None
    """The leaf switch or NVLink domain that the request asks for; None unknown."""
    leaf: str | None
    free: tuple[Gpu, ...]
    size: int
    short: bool = False
    """Whether more GPUs are free, but not the CPUs or memory that the request needs with them."""


class Places:
    """The free GPUs of a cluster, and the jobs beside them, for several requests. Hosts are read once."""

    def __init__(self, store: Store, cluster: Cluster, idle: Mapping[str, Row] | None = None) -> None:
        self.store, self.cluster, self.idle = store, cluster, idle or {}
        self._taints = TaintedNodes(store, cluster.name).at(cluster.as_of_us)
        self._room: dict[str, Room] | None = None
        self._hosts: tuple[dict[tuple[str | None, str], list[Host]], Names] | None = None
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

    def hosts(self, pool: Pool, nodes: Collection[str] | None = None) -> tuple[list[Host], Names]:
        """The nodes of a pool that a request may use and jobs may move between, with the jobs on them.

        Only nodes with the taints that all of them have: whether a job tolerates others is not known.
        """
        if self._hosts is None:
            self._hosts = every_host(self.store, self.cluster.name, self.cluster.as_of_us - 1)
        groups, names = self._hosts
        group = groups.get((pool[0], pool[1] or ""), [])
        allowed = self._open(pool)
        return [one for one in group if one.name in allowed and (nodes is None or one.name in nodes)], names

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
            "places": [_place(node, request.gpus) for node in chosen or ()],
            "left_out_nodes": len(self._gpus[pool]) - len(nodes),
            "why": None if chosen else _why(nodes, request, known),
            "plan": None,
            "reclaim": [],
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
                found.append(FreeNode(name, domain, gpus[0].leaf, free[:usable], len(gpus), usable < len(free)))
        return found

    def _usable(self, node: str, free: int, request: Request) -> int:
        """Of the free GPUs of a node those that its free CPUs and memory are enough for."""
        asked = request.cpu_milli, request.memory_bytes
        if asked == (None, None):
            return free
        if self._room is None:
            self._room = room_before(self.store, self.cluster.name, self.cluster.as_of_us)
        room = self._room.get(node, (None, None))
        return min(
            free,
            *(has * request.gpus // need for has, need in zip(room, asked, strict=True) if has is not None and need),
        )

    def _plan(self, pool: Pool, nodes: Sequence[FreeNode], request: Request) -> Row | None:
        """The cheapest moves after which it fits; None if none were found."""
        group, names = self.hosts(pool, None if request.nodes is None else {node.name for node in nodes})
        best: tuple[Plan, list[Host]] | None = None
        for some in planned_groups(group, nodes, request):
            found = plan(some, request.gpus, request.members)
            if found is not None and found.moves and (best is None or found.price < best[0].price):
                best = found, some
        if best is None:
            return None
        moved = moves_to(best[0], best[1], names, request.gpus, request.members)
        return None if moved is None else moved | {"moved_gpus": best[0].gpus, "exact": best[0].exact}

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
        for some in _by_domain(ready, request).values():
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


def choose(nodes: Iterable[FreeNode], request: Request) -> list[FreeNode] | None:
    """The nodes that a request gets: the fullest that have room, in the tightest domain; None if it does not fit."""
    best: tuple[int, str, list[FreeNode]] | None = None
    for name, some in _by_domain([node for node in nodes if len(node.free) >= request.gpus], request).items():
        if len(some) >= request.members:
            tight = sorted(some, key=lambda node: (len(node.free), node.name))[: request.members]
            found = len(some), name, tight
            if best is None or found[:2] < best[:2]:
                best = found
    return None if best is None else best[2]


def _by_domain(nodes: Iterable[FreeNode], request: Request) -> dict[str, list[FreeNode]]:
    """Nodes by the domain that all members must share; one group where none is asked for."""
    found: dict[str, list[FreeNode]] = defaultdict(list)
    for node in nodes:
        if request.within == "any" or request.members == 1:
            found[""].append(node)
        elif node.domain is not None:
            found[node.domain].append(node)
    return dict(sorted(found.items()))


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
        found.append([*inside, *(Host(h.name, min(h.free, request.gpus - 1)) for h in outside[:OUTSIDE_MAX])])
    return found


def _place(node: FreeNode, gpus: int) -> Row:
    """The GPUs of a node that the request gets: of one NVLink island where one has enough."""
    islands: dict[str, list[Gpu]] = defaultdict(list)
    for gpu in node.free:
        islands[gpu.nvlink or ""].append(gpu)
    enough = [some for name, some in islands.items() if len(some) >= gpus and name]
    chosen = min(enough, key=lambda some: (len(some), some[0].name)) if enough else list(node.free)
    return {"node": node.name, "leaf": node.leaf, "gpus": [gpu.name for gpu in chosen[:gpus]]}


def _why(nodes: Sequence[FreeNode], request: Request, known: bool) -> str:
    """Why it does not fit, in one sentence or two."""
    why, short = _why_gpus(nodes, request, known), sum(node.short for node in nodes)
    if not (short and known):
        return why
    return f"{why} GPUs without the CPUs or memory that it needs beside them ({short} node{'s' if short > 1 else ''}) are not counted."


def _why_gpus(nodes: Sequence[FreeNode], request: Request, known: bool) -> str:
    need, free = request.members * request.gpus, sum(len(node.free) for node in nodes)
    largest = max((node.size for node in nodes), default=0)
    if not known:
        return f"No source reports the {DOMAIN_WORDS[request.within]} of these nodes, so whether {request.members} lie in one is not known."
    if largest < request.gpus:
        return f"No node has {request.gpus} GPUs; the largest has {largest}."
    if free < need:
        return f"It needs {need:,} GPUs, and {free:,} {'is' if free == 1 else 'are'} free."
    if request.members == 1:
        most = max(len(node.free) for node in nodes)
        return f"{free:,} GPUs are free, but at most {most} on one node."
    ready = [node for node in nodes if len(node.free) >= request.gpus]
    have = f"{len(ready) or 'No'} node{'s have' if len(ready) > 1 else ' has'} {request.gpus} free GPUs"
    if len(ready) < request.members:
        return f"{have}, and {request.members} are needed."
    most = max((len(some) for some in _by_domain(ready, request).values()), default=0)
    return f"{have}, but at most {most} {'below' if request.within == 'leaf' else 'in'} one {DOMAIN_WORDS[request.within]}."


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
