"""Expected fragmentation of free GPUs: how much of what is free a workload could not use (FGD, and gangs). Pure.

The measure is that of FGD (Weng et al., USENIX ATC 2023): F = sum over nodes and tasks of p_m * F_n(m). GPUs are counted in
integer thousandths, weights of tasks are integer counts, so every sum is exact; a ratio is made at the edge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

GPU_MILLI = 1000
"""Units of one whole GPU."""

Case = Literal["Q1", "Q2", "Q3", "Q4", "NA", "ML", "XL", "XR"]
Level = str
NODE: Level = "node"
"""The level at which each node stands by itself."""
WHOLE_LOST: tuple[Case, ...] = ("Q1", "Q2", "Q4", "NA", "ML", "XL", "XR")
"""Cases in which all that is free is lost to the task."""
CASES: dict[Case, str] = {
    "Q1": "too few free GPUs together, and too little CPU",
    "Q2": "too few free GPUs, or memory slices, together",
    "Q3": "crumbs beside what fits",
    "Q4": "too little CPU beside free GPUs",
    "NA": "another model or profile is asked for",
    "ML": "the wrong MIG mode for what is asked for",
    "XL": "CPU-only tasks, which fit",
    "XR": "CPU-only tasks, which do not fit",
}
"""What keeps a task from using the free GPUs. ML extends FGD: slices are asked for and GPUs are whole, or the other way."""
REMEDIES: dict[Case, str] = {
    "Q1": "Drain or move small jobs until whole nodes are free again.",
    "Q2": "Pack small jobs on fewer nodes, so that whole nodes and islands stay free.",
    "Q3": "Put fractions of GPUs together on fewer GPUs.",
    "Q4": "Ask for less CPU beside each GPU, or move CPU-only tasks elsewhere.",
    "NA": "Let jobs take the other models too, or buy what is asked for.",
    "ML": "Change how many GPUs are partitioned to what is asked for.",
    "XL": "Keep CPU-only tasks off GPU nodes.",
    "XR": "Keep CPU-only tasks off GPU nodes.",
}


@dataclass(frozen=True)
class Node:
    """What is free on a node whose GPUs are of one model; `cpu_milli` None: unknown, so that no task lacks it."""

    free: tuple[int, ...]
    """Thousandths of each GPU, 0..GPU_MILLI; GPUs with nothing free may be left out."""
    model: str | None = None
    cpu_milli: int | None = None


@dataclass(frozen=True)
class Task:
    """A class of requests: `weight` is how many there were. Raises ValueError for a request that nobody can make."""

    weight: int
    gpus: int
    """Of each member, all on one node; 0: CPU only."""
    share_milli: int = GPU_MILLI
    """Of each GPU; less than all only for one GPU."""
    cpu_milli: int = 0
    """Of each member."""
    models: frozenset[str] | None = None
    """Models that it takes; None: any."""
    members: int = 1
    """How many places of `gpus` GPUs it needs at once."""
    level: Level = NODE
    """What all members must lie in: the node, or a kind of domain over nodes."""
    profile: str | None = None
    """The MIG profile asked for; None: whole GPUs."""

    def __post_init__(self) -> None:
        if not (self.weight >= 0 and self.gpus >= 0 and self.cpu_milli >= 0 and self.members >= 1):
            raise ValueError(f"{self}: counts must not be negative, and a task has one member at least")
        if not 0 < self.share_milli <= GPU_MILLI or (self.share_milli < GPU_MILLI and self.gpus != 1):
            raise ValueError(
                f"{self}: a part of a GPU is asked of one GPU only, and is 1..{GPU_MILLI} thousandths of it"
            )


@dataclass(frozen=True)
class Fragmentation:
    """What is free and what of it the tasks could not use, on average over their weights."""

    free: int
    """Thousandths of GPUs (or memory slices, of GPUs that are partitioned)."""
    weight: int
    """Sum of the weights of all tasks."""
    lost: Mapping[Case, int]
    """Weight times free units lost, by case; zeros are left out."""
    by_gpu: tuple[tuple[int, ...], ...] = field(default=(), repr=False)
    """The same of each GPU of each node, in the order given."""

    @property
    def amount(self) -> Fraction:
        """F in the units of `free`; 0 where nothing was asked."""
        return Fraction(sum(self.lost.values()), self.weight or 1)

    @property
    def rate(self) -> Fraction | None:
        """F of what is free, 0..1; None where nothing is free or nothing was asked."""
        return self.amount / self.free if self.free and self.weight else None

    def by_case(self) -> dict[Case, Fraction]:
        """F by cause, in the order of CASES; the parts add up to `amount`."""
        return {case: Fraction(self.lost[case], self.weight) for case in CASES if self.lost.get(case)}


def copies(node: Node, task: Task) -> int:
    """Members of a task that fit on a node at once, model, GPUs and CPU regarded. Raises ValueError for CPU-only tasks."""
    if not _takes(node, task):
        return 0
    return min(_by_gpu(node, task), _by_cpu(node, task))


def hostable(nodes: Sequence[Node], task: Task) -> int:
    """How many of a task fit at once in a domain of nodes."""
    return sum(copies(node, task) for node in nodes) // task.members


def judge(nodes: Sequence[Node], task: Task) -> list[Case]:
    """The case of each node of a domain for one task. For one node and one member these are the cases of FGD.

    A gang fits a domain where all members find a place in it at once; nodes of a model that it does not take are NA.
    """
    if task.gpus == 0:
        return ["XL" if node.cpu_milli is None or node.cpu_milli >= task.cpu_milli else "XR" for node in nodes]
    if task.profile is not None:
        return ["ML"] * len(nodes)
    suited = [node for node in nodes if _takes(node, task)]
    case: Case
    if sum(copies(node, task) for node in suited) >= task.members:
        case = "Q3"
    else:
        fits = sum(_by_gpu(node, task) for node in suited) >= task.members
        cpu = sum(_by_cpu(node, task) for node in suited) >= task.members
        case = "Q4" if fits else "Q2" if cpu else "Q1"
    return [case if _takes(node, task) else "NA" for node in nodes]


def expected(
    nodes: Sequence[Node], tasks: Sequence[Task], domains: Mapping[Level, Sequence[Sequence[int]]] | None = None
) -> Fragmentation:
    """F of nodes. `domains`: of each level but the node, the nodes (by number) of each domain, none in two of them.

    A node in no domain of a level stands by itself. Raises ValueError for a task of a level that is not given.
    """
    above = domains or {}
    losses = [_Loss() for _ in nodes]
    alike: dict[Node, _Loss] = {}
    at_node = [task for task in tasks if task.level == NODE]
    for n, node in enumerate(nodes):
        if node not in alike:
            alike[node] = _Loss()
            for task in at_node:
                alike[node].add(judge([node], task)[0], task)
        losses[n].join(alike[node])
    for level in sorted({task.level for task in tasks} - {NODE}):
        if level not in above:
            raise ValueError(f"a task asks for level {level!r}, which is not given: {', '.join(above) or 'none is'}")
        groups = _groups(len(nodes), above[level])
        for task in (task for task in tasks if task.level == level):
            for members in groups:
                for n, case in zip(members, judge([nodes[n] for n in members], task), strict=True):
                    losses[n].add(case, task)
    lost: Counter[Case] = Counter()
    for node, loss in zip(nodes, losses, strict=True):
        loss.count(node, lost)
    return Fragmentation(
        sum(sum(node.free) for node in nodes),
        sum(task.weight for task in tasks),
        {case: amount for case, amount in lost.items() if amount},
        tuple(loss.of_gpus(node) for node, loss in zip(nodes, losses, strict=True)),
    )


def largest_gang(domains: Mapping[str, int]) -> tuple[str, int] | None:
    """The domain with most free GPUs, and how many: what one gang could get. Ties to the first name; None without any."""
    return min(domains.items(), key=lambda domain: (-domain[1], domain[0])) if domains else None


def takes(task: Task, model: str | None) -> bool:
    """Whether a request may use GPUs of a model."""
    return task.models is None or model in task.models


@dataclass
class _Loss:
    """What a node loses: all that is free with some weight by case, and with others the GPUs with less than a share."""

    cases: Counter[Case] = field(default_factory=Counter)
    crumbs: Counter[int] = field(default_factory=Counter)

    def add(self, case: Case, task: Task) -> None:
        if case == "Q3":
            self.crumbs[task.share_milli] += task.weight
        else:
            self.cases[case] += task.weight

    def join(self, other: _Loss) -> None:
        self.cases.update(other.cases)
        self.crumbs.update(other.crumbs)

    def count(self, node: Node, into: Counter[Case]) -> None:
        free = sum(node.free)
        for case, weight in self.cases.items():
            into[case] += weight * free
        for share, weight in self.crumbs.items():
            into["Q3"] += weight * sum(part for part in node.free if part < share)

    def of_gpus(self, node: Node) -> tuple[int, ...]:
        whole = self.cases.total()
        less = {free: whole + sum(w for share, w in self.crumbs.items() if free < share) for free in set(node.free)}
        return tuple(free * less[free] for free in node.free)


def _groups(count: int, domains: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    inside = {n for members in domains for n in members}
    return [*domains, *([n] for n in range(count) if n not in inside)]


def _takes(node: Node, task: Task) -> bool:
    if task.gpus == 0:
        raise ValueError(f"{task}: takes no GPU")
    return task.profile is None and takes(task, node.model)


def _by_gpu(node: Node, task: Task) -> int:
    if task.share_milli < GPU_MILLI:
        return sum(free // task.share_milli for free in node.free)
    return sum(free >= GPU_MILLI for free in node.free) // task.gpus


def _by_cpu(node: Node, task: Task) -> int:
    """No limit is the number of GPUs: more copies than that never fit on whole ones, and parts of a GPU have 1000 at most."""
    if node.cpu_milli is None or task.cpu_milli == 0:
        return len(node.free) * GPU_MILLI + task.members
    return node.cpu_milli // task.cpu_milli
