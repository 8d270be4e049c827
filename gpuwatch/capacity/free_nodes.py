"""Requests and the free nodes that they would get: which nodes, which of their GPUs, and why none. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gpuwatch.capacity.free_state import Gpu

Within = Literal["any", "leaf", "nvlink"]
DOMAIN_WORDS = {"leaf": "leaf switch", "nvlink": "NVLink domain"}


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
    unknown: str | None = None
    """What is not known of it and of the nodes that it may use, in words."""

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
    """Those with a fault come last: GPUs are taken in this order."""
    size: int
    faulty: frozenset[str] = frozenset()
    """Of the free GPUs those with a fault."""
    short: bool = False
    """Whether more GPUs are free, but not the CPUs or memory that the request needs with them."""


def choose(nodes: Iterable[FreeNode], request: Request) -> list[FreeNode] | None:
    """The nodes that a request gets: with the fewest faulty GPUs, the fullest that have room, in the tightest domain; None if it
    does not fit.
    """
    best: tuple[int, int, str, list[FreeNode]] | None = None
    for name, some in by_domain([node for node in nodes if len(node.free) >= request.gpus], request).items():
        if len(some) >= request.members:
            order = sorted(some, key=lambda node: (_unsound(node, request.gpus), len(node.free), node.name))
            tight = order[: request.members]
            found = sum(_unsound(node, request.gpus) for node in tight), len(some), name, tight
            if best is None or found[:3] < best[:3]:
                best = found
    return None if best is None else best[3]


def _unsound(node: FreeNode, gpus: int) -> int:
    """How many faulty GPUs of a node a member would get at least."""
    return max(0, gpus - len(node.free) + len(node.faulty))


def by_domain(nodes: Iterable[FreeNode], request: Request) -> dict[str, list[FreeNode]]:
    """Nodes by the domain that all members must share; one group where none is asked for."""
    found: dict[str, list[FreeNode]] = defaultdict(list)
    for node in nodes:
        if request.within == "any" or request.members == 1:
            found[""].append(node)
        elif node.domain is not None:
            found[node.domain].append(node)
    return dict(sorted(found.items()))


def place_on(node: FreeNode, gpus: int) -> dict[str, Any]:
    """The GPUs of a node that the request gets: of one NVLink island where one has enough, with the fewest faulty ones."""
    islands: dict[str, list[Gpu]] = defaultdict(list)
    for gpu in node.free:
        islands[gpu.nvlink or ""].append(gpu)
    enough = [some for name, some in islands.items() if len(some) >= gpus and name]

    def faulty(some: list[Gpu]) -> int:
        return sum(gpu.name in node.faulty for gpu in some[:gpus])

    chosen = min(enough, key=lambda some: (faulty(some), len(some), some[0].name)) if enough else list(node.free)
    return {"node": node.name, "leaf": node.leaf, "gpus": [gpu.name for gpu in chosen[:gpus]]}


def why_not(nodes: Sequence[FreeNode], request: Request, known: bool) -> str:
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
        return f"It needs {need:,} GPU{'s' if need > 1 else ''}, and {free:,} {'is' if free == 1 else 'are'} free."
    if request.members == 1:
        most = max(len(node.free) for node in nodes)
        return f"{free:,} GPUs are free, but at most {most} on one node."
    ready = [node for node in nodes if len(node.free) >= request.gpus]
    have = f"{len(ready) or 'No'} node{'s have' if len(ready) > 1 else ' has'} {request.gpus} free GPUs"
    if len(ready) < request.members:
        return f"{have}, and {request.members} are needed."
    most = max((len(some) for some in by_domain(ready, request).values()), default=0)
    return f"{have}, but at most {most} {'below' if request.within == 'leaf' else 'in'} one {DOMAIN_WORDS[request.within]}."
