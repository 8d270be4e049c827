"""Tables of what could be placed now: k-GPU slots by how near their GPUs are, MIG slices, the largest gangs. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from gpuwatch.capacity.demand import CLUSTER, LEAF, LEVELS, NVLINK, shape
from gpuwatch.capacity.free_state import Cluster, Gpu
from gpuwatch.hardware.fgd import GPU_MILLI, NODE, Level, Task, largest_gang
from gpuwatch.hardware.mig_packing import own_name

K_MAX = 1024
"""GPUs of the largest slot that is counted."""
WITHIN: dict[Level, Callable[[Gpu], str | None]] = {
    NODE: lambda gpu: gpu.node,
    NVLINK: lambda gpu: gpu.nvlink,
    LEAF: lambda gpu: gpu.leaf,
    CLUSTER: lambda gpu: "",
}
"""What a GPU lies in at each level; None unknown."""
COLUMNS: dict[Level, str] = {NODE: "node_local", NVLINK: "nvlink_local", LEAF: "leaf_local", CLUSTER: "across"}

Item = dict[str, Any]
Place = tuple[str | None, str | None]
"""(pool, GPU model)."""


def items(cluster: Cluster, asked: Mapping[Task, Fraction]) -> list[Item]:
    """Rows of one cluster by pool and model: slots of 1, 2, 4, ... GPUs and of every shape asked for, then MIG slices.

    `asked`: the ratio of requests of each shape that is frequent enough to be shown. A level that is not known of any GPU
    of the pool is None; of a level that is known of some, GPUs without it count in no slot.
    """
    places: dict[Place, list[Gpu]] = defaultdict(list)
    for gpu in cluster.gpus:
        places[gpu.pool, gpu.model].append(gpu)
    found = []
    for (pool, model), gpus in sorted(places.items(), key=lambda place: (place[0][0] or "", place[0][1] or "")):
        head = {"cluster": cluster.name, "pool": pool, "gpu_model": model}
        whole = [gpu for gpu in gpus if not gpu.partitioned]
        suited = {task: ratio for task, ratio in asked.items() if task.models is None or model in task.models}
        found += [head | row for row in _slots(whole, suited)] if whole else []
        found += [head | row for row in _slices([gpu for gpu in gpus if gpu.partitioned], suited)]
    return found


def gangs(cluster: Cluster) -> list[Item]:
    """By model and level: the most whole GPUs that one gang could get now, where, and what is free beyond it.

    `gpus` None: nothing is known of that level. A GPU of unknown place counts in no domain.
    """
    models: dict[str | None, list[Gpu]] = defaultdict(list)
    for gpu in cluster.whole:
        models[gpu.model].append(gpu)
    rows = []
    for model, gpus in sorted(models.items(), key=lambda one: one[0] or ""):
        free = Free(gpus)
        whole = free.parts[CLUSTER][GPU_MILLI]
        for level in LEVELS:
            counts = {name: nodes.total() for name, nodes in free.whole[level].items()}
            domain, most = largest_gang(counts) or ("", 0)
            known = level in free.known
            row = {"gpu_model": model, "level": level, "gpus": most if known else None, "domain": domain or None}
            rows.append(row | {"free_gpus": whole, "availability_gap": whole - most if known else None})
    return rows


class Free:
    """Free GPUs by what they lie in, for many questions about the same ones."""

    def __init__(self, gpus: Iterable[Gpu]) -> None:
        self.known: set[Level] = set()
        self.parts: dict[Level, Counter[int]] = {level: Counter() for level in LEVELS}
        """Thousandths free -> GPUs with that, of those whose place is known."""
        self.whole: dict[Level, dict[str, Counter[str]]] = {level: defaultdict(Counter) for level in LEVELS}
        """Domain -> node -> whole free GPUs."""
        for gpu in gpus:
            for level, within in WITHIN.items():
                if (name := within(gpu)) is None:
                    continue
                self.known.add(level)
                if gpu.free_milli:
                    self.parts[level][gpu.free_milli] += 1
                if gpu.free_milli == GPU_MILLI:
                    self.whole[level][name][gpu.node] += 1

    def count(self, task: Task, level: Level) -> int | None:
        """How many of a shape fit at once so that each lies in one domain of a level. None where that is known of no GPU.

        A request of one member must be on one node only at that level; at wider ones its GPUs may lie anywhere in the
        domain.
        """
        if level not in self.known:
            return None
        if task.share_milli < GPU_MILLI:
            return sum(free // task.share_milli * gpus for free, gpus in self.parts[level].items())
        domains = self.whole[level].values()
        if task.members == 1 and level != NODE:
            return sum(nodes.total() // task.gpus for nodes in domains)
        return sum(sum(free // task.gpus for free in nodes.values()) // task.members for nodes in domains)


def _slots(gpus: Sequence[Gpu], asked: Mapping[Task, Fraction]) -> list[Item]:
    ratios: dict[tuple[int, int, int], Fraction] = defaultdict(Fraction)
    for task, ratio in asked.items():
        if task.profile is None and task.gpus:
            ratios[task.members, task.gpus, task.share_milli] += ratio
    wanted = {(1, k, GPU_MILLI) for k in _powers(len(gpus))} | ratios.keys()
    free, rows = Free(gpus), []
    for members, k, share in sorted(wanted, key=lambda key: (key[0] * key[1] * key[2], key)):
        task = Task(1, k, share, members=members)
        row: Item = {"shape": shape(task), "gpus": members * k * share / GPU_MILLI, "profile": None}
        row |= {"requested_ratio": ratios.get((members, k, share))}
        row |= {name: free.count(task, level) for level, name in COLUMNS.items()}
        rows.append(_row(row))
    return rows


def _slices(gpus: Sequence[Gpu], asked: Mapping[Task, Fraction]) -> list[Item]:
    rooms = [gpu.room for gpu in gpus if gpu.room is not None]
    if not rooms:
        return []
    ratios: dict[str, Fraction] = defaultdict(Fraction)
    for task, ratio in asked.items():
        if task.profile is not None and (own := own_name(rooms[0].geometry, task.profile)) is not None:
            ratios[own] += ratio
    rows = []
    for name, profile in rooms[0].geometry.profiles.items():  # one model has one geometry
        # A profile with media extensions also counts as its plain profile; it is listed only if requested or present.
        ready, after = (
            sum(room.ready.get(name, 0) for room in rooms),
            sum(room.reachable.get(name, 0) for room in rooms),
        )
        if profile.media and not ready and name not in ratios:
            continue
        creatable = sum(room.creatable.get(name, 0) for room in rooms)
        row: Item = {"shape": name, "gpus": None, "profile": name, "requested_ratio": ratios.get(name)}
        row |= {"ready": ready, "creatable": creatable, "placeable": ready + creatable, "after_repartition": after}
        rows.append(_row(row | {"exact": all(room.certain for room in rooms)}))
    return rows


def _powers(most: int) -> list[int]:
    powers = [1]
    while powers[-1] * 2 <= min(most, K_MAX):
        powers.append(powers[-1] * 2)
    return powers


def _row(values: Mapping[str, Any]) -> Item:
    """Every row has every column."""
    empty = dict.fromkeys((*COLUMNS.values(), "ready", "creatable", "placeable", "after_repartition", "exact"))
    return {**{name: values[name] for name in ("shape", "profile", "gpus", "requested_ratio")}, **empty, **values}
