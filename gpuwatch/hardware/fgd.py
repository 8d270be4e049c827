"""Expected fragmentation of free GPUs: how much of the free capacity a workload could not use (FGD, and gangs). Pure.

The measure comes from FGD (Weng et al., USENIX ATC 2023): F = sum over nodes and tasks of p_m * F_n(m). GPUs are counted
in integer thousandths and weights of tasks are integer counts, so every sum is exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from gpuwatch.hardware.shares import has_profile

GPU_MILLI = 1000
"""Units of one whole GPU."""

Case = Literal["Q1", "Q2", "Q3", "Q4", "NA", "ML", "XL", "XR"]
Level = str
NODE: Level = "node"
"""The level at which each node is a domain of its own."""
CASES: dict[Case, str] = {
    "Q1": "too few free GPUs together, and too little CPU",
    "Q2": "too few free GPUs, or memory slices, together",
    "Q3": "leftover fractions next to what fits",
    "Q4": "too little CPU for the free GPUs",
    "NA": "another model or profile is requested",
    "ML": "the wrong MIG mode for the request",
    "XL": "CPU-only tasks, which fit",
    "XR": "CPU-only tasks, which do not fit",
}
"""Why a task cannot use free GPUs. ML extends FGD: slices are requested and GPUs are whole, or the other way round."""
REMEDIES: dict[Case, str] = {
    "Q1": "Drain or move small jobs until whole nodes are free again.",
    "Q2": "Pack small jobs on fewer nodes, so that whole nodes and islands stay free.",
    "Q3": "Pack fractions of GPUs on fewer GPUs.",
    "Q4": "Request less CPU per GPU, or move CPU-only tasks elsewhere.",
    "NA": "Let the jobs that ask for other models use these GPUs too, or give back those that stay free.",
    "ML": "Change how many GPUs are partitioned to match the requests, or give back those that stay free.",
    "XL": "Keep CPU-only tasks off GPU nodes.",
    "XR": "Keep CPU-only tasks off GPU nodes.",
}


@dataclass(frozen=True)
class Node:
    """The free capacity of a node with one GPU model; `cpu_milli` None means unknown, so no task lacks CPU."""

    free: tuple[int, ...]
    """Free thousandths of each GPU, 0..GPU_MILLI; GPUs that are in use may be omitted."""
    model: str | None = None
    cpu_milli: int | None = None


@dataclass(frozen=True)
class Task:
    """A class of requests, of which there were `weight`. Raises ValueError for an impossible request."""

    weight: int
    gpus: int
    """GPUs per member, all on one node; 0 for CPU only."""
    share_milli: int = GPU_MILLI
    """Thousandths of each GPU; a fraction is only possible for one GPU."""
    cpu_milli: int = 0
    """CPU per member."""
    models: frozenset[str] | None = None
    """Suitable models, None for any."""
    members: int = 1
    """How many places of `gpus` GPUs it needs at the same time."""
    level: Level = NODE
    """What all members must share: the node, or a kind of domain over nodes."""
    profile: str | None = None
    """The requested MIG profile, None for whole GPUs."""

    def __post_init__(self) -> None:
        if not (self.weight >= 0 and self.gpus >= 0 and self.cpu_milli >= 0 and self.members >= 1):
            raise ValueError(f"{self}: counts must not be negative, and a task has at least one member")
        if not 0 < self.share_milli <= GPU_MILLI or (self.share_milli < GPU_MILLI and self.gpus != 1):
            raise ValueError(
                f"{self}: a fraction is only possible for one GPU, and is 1..{GPU_MILLI} thousandths of it"
            )


@dataclass(frozen=True)
class Fragmentation:
    """The free capacity and the part of it that tasks could not use, on average over their weights."""

    free: int
    """Thousandths of GPUs (of partitioned GPUs: of their memory slices)."""
    weight: int
    """Sum of the weights of all tasks."""
    lost: Mapping[Case, int]
    """Weight times lost free units, by case, without zeros."""
    by_gpu: tuple[tuple[int, ...], ...] = field(default=(), repr=False)
    """The same for each GPU of each node, in the given order."""

    @property
    def amount(self) -> Fraction:
        """F in the units of `free`; 0 without any tasks."""
        return Fraction(sum(self.lost.values()), self.weight or 1)

    @property
    def rate(self) -> Fraction | None:
        """F relative to the free capacity, 0..1; None if nothing is free or there are no tasks."""
        return self.amount / self.free if self.free and self.weight else None

    def by_case(self) -> dict[Case, Fraction]:
        """F by case, in the order of CASES; the sum is `amount`."""
        return {case: Fraction(self.lost[case], self.weight) for case in CASES if self.lost.get(case)}


def copies(node: Node, task: Task) -> int:
    """How many members of a task fit on a node at once, by model, GPUs and CPU. Raises ValueError for CPU-only tasks."""
    if not _takes(node, task):
        return 0
    return min(_by_gpu(node, task), _by_cpu(node, task))


def hostable(nodes: Sequence[Node], task: Task) -> int:
    """How many of a task fit at once in a domain of nodes."""
    return sum(copies(node, task) for node in nodes) // task.members


def loss_cases(nodes: Sequence[Node], task: Task) -> list[Case]:
    """The case of each node of a domain for a task. For one node and one member these are the cases of FGD.

    A gang fits a domain if all members can be placed in it at once; nodes with an unsuitable model are NA.
    """
    if task.gpus == 0:
        return ["XL" if node.cpu_milli is None or node.cpu_milli >= task.cpu_milli else "XR" for node in nodes]
    if task.profile is not None:
        return ["ML" if takes(task, node.model) and has_profile(node.model, task.profile) else "NA" for node in nodes]
    suited = [node for node in nodes if _takes(node, task)]
    case = _case_of_domain(suited, task)
    return [case if _takes(node, task) else "NA" for node in nodes]


def _case_of_domain(suited: Sequence[Node], task: Task) -> Case:
    def fits(count: Callable[[Node, Task], int]) -> bool:
        return sum(count(node, task) for node in suited) >= task.members

    if fits(copies):
        return "Q3"
    if fits(_by_gpu):
        return "Q4"
    return "Q2" if fits(_by_cpu) else "Q1"


def expected(
    nodes: Sequence[Node], tasks: Sequence[Task], domains: Mapping[Level, Sequence[Sequence[int]]] | None = None
) -> Fragmentation:
    """F of nodes. `domains` has the disjoint domains of each level above the node, as lists of node numbers.

    A node without a domain at a level is a domain of its own. Raises ValueError for a task of an unknown level.
    """
    above = domains or {}
    losses = _node_losses(nodes, [task for task in tasks if task.level == NODE])
    for level in sorted({task.level for task in tasks} - {NODE}):
        if level not in above:
            raise ValueError(f"a task has the unknown level {level!r}; known: {', '.join(above) or 'none'}")
        groups = _groups(len(nodes), above[level])
        _add_domain_losses(losses, nodes, [task for task in tasks if task.level == level], groups)
    return _fragmentation(nodes, losses, sum(task.weight for task in tasks))


def _fragmentation(nodes: Sequence[Node], losses: Sequence[_Loss], weight: int) -> Fragmentation:
    lost: Counter[Case] = Counter()
    for node, loss in zip(nodes, losses, strict=True):
        loss.count(node, lost)
    return Fragmentation(
        sum(sum(node.free) for node in nodes),
        weight,
        {case: amount for case, amount in lost.items() if amount},
        tuple(loss.of_gpus(node) for node, loss in zip(nodes, losses, strict=True)),
    )


def _node_losses(nodes: Sequence[Node], tasks: Sequence[Task]) -> list[_Loss]:
    """The loss of each node for tasks of one node each; equal nodes are examined once."""
    alike: dict[Node, _Loss] = {}
    for node in nodes:
        if node not in alike:
            alike[node] = _Loss()
            for task in tasks:
                alike[node].add(loss_cases([node], task)[0], task)
    return [alike[node].copy() for node in nodes]


def _add_domain_losses(
    losses: Sequence[_Loss], nodes: Sequence[Node], tasks: Sequence[Task], groups: Sequence[Sequence[int]]
) -> None:
    """Adds the losses for tasks that fit within a domain of one level."""
    for task in tasks:
        for members in groups:
            for n, case in zip(members, loss_cases([nodes[n] for n in members], task), strict=True):
                losses[n].add(case, task)


def largest_gang(domains: Mapping[str, int]) -> tuple[str, int] | None:
    """The domain with the most free GPUs and their number, by name among equals; None without any domain."""
    return min(domains.items(), key=lambda domain: (-domain[1], domain[0])) if domains else None


def takes(task: Task, model: str | None) -> bool:
    """Whether a model is suitable for a request."""
    return task.models is None or model in task.models


@dataclass
class _Loss:
    """The losses of a node: by case the weight of losing everything, by share that of losing smaller fractions."""

    cases: Counter[Case] = field(default_factory=Counter)
    fractions: Counter[int] = field(default_factory=Counter)

    def add(self, case: Case, task: Task) -> None:
        if case == "Q3":
            self.fractions[task.share_milli] += task.weight
        else:
            self.cases[case] += task.weight

    def copy(self) -> _Loss:
        return _Loss(self.cases.copy(), self.fractions.copy())

    def count(self, node: Node, into: Counter[Case]) -> None:
        free = sum(node.free)
        for case, weight in self.cases.items():
            into[case] += weight * free
        for share, weight in self.fractions.items():
            into["Q3"] += weight * sum(part for part in node.free if part < share)

    def of_gpus(self, node: Node) -> tuple[int, ...]:
        whole = self.cases.total()
        less = {free: whole + sum(w for share, w in self.fractions.items() if free < share) for free in set(node.free)}
        return tuple(free * less[free] for free in node.free)


def _groups(count: int, domains: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    inside = {n for members in domains for n in members}
    return [*domains, *([n] for n in range(count) if n not in inside)]


def _takes(node: Node, task: Task) -> bool:
    if task.gpus == 0:
        raise ValueError(f"{task}: a CPU-only task")
    return task.profile is None and takes(task, node.model)


def _by_gpu(node: Node, task: Task) -> int:
    if task.share_milli < GPU_MILLI:
        return sum(free // task.share_milli for free in node.free)
    return sum(free >= GPU_MILLI for free in node.free) // task.gpus


def _by_cpu(node: Node, task: Task) -> int:
    """Members that fit by CPU; without a limit, a number that exceeds what fits by GPU."""
    if node.cpu_milli is None or task.cpu_milli == 0:
        return len(node.free) * GPU_MILLI + task.members
    return node.cpu_milli // task.cpu_milli
