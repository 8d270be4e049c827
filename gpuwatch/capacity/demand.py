"""What is asked of a cluster: shapes of the requests of the last weeks, started or not, as tasks of fragmentation.

Submitted requests, not running ones: what could not be placed is part of what is wanted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpuwatch.capacity.free_state import Cluster, Gpu
from gpuwatch.core.clock import DAY_US
from gpuwatch.hardware.fgd import GPU_MILLI, NODE, Level, Task
from gpuwatch.hardware.shares import profile_name
from gpuwatch.rates.models import device_tokens, model_tokens
from gpuwatch.store import remembered
from gpuwatch.store.database import Store

DAYS, DAYS_MIN, DAYS_MAX = 28, 7, 28
"""Days of requests that count."""
ROWS_MAX = 2000
"""Distinct shapes of a cluster that are read, by the names of models that schedulers use: the most frequent."""
TASKS_MAX = 256
"""Shapes of a cluster that are evaluated: the most frequent."""
NVLINK, LEAF, CLUSTER = "nvlink", "leaf", "cluster"
LEVELS: tuple[Level, ...] = (NODE, NVLINK, LEAF, CLUSTER)
"""Where all members of a request may have to be, nearest first."""
USUAL = (1, 2, 4, 8)
"""Request sizes assumed, equally frequent, for a cluster without known requests."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Demand:
    """The requests of a cluster."""

    tasks: tuple[Task, ...]
    """The most frequent first."""
    requests: int
    """Those of `tasks`."""
    left_out: int = 0
    """Requests of rarer shapes."""
    unsized: int = 0
    """Requests of unknown size."""
    usual: bool = False
    """Whether no request is known, and USUAL stands for them."""


def read(store: Store, ends: Any, days: int) -> dict[str, list[dict[str, Any]]]:
    """Rows of capacity/demand by cluster, for `of_cluster`. `ends` is that of free_state.instants."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in read_shapes(store, ends, days * DAY_US, by_day=False):
        rows[row["cluster"]].append(row)
    return rows


def read_shapes(store: Store, ends: Any, lookback_us: int, *, by_day: bool) -> list[dict[str, Any]]:
    """Rows of capacity/demand: the shapes that were requested in the time before the ends of the clusters."""
    asked = {"lookback_us": lookback_us, "by_day": by_day, "limit": ROWS_MAX}
    return remembered.rows(store, "capacity/demand", {"cluster_end": ends}, **asked)


def of_cluster(rows: Iterable[Row], cluster: Cluster) -> Demand:
    """Equal requests as one task, with the level that their members must lie in."""
    sizes = _sizes(cluster)
    models = {gpu.model for gpu in cluster.gpus if gpu.model is not None}
    counts: Counter[Task] = Counter()
    known, unsized = 0, 0
    for row in rows:
        if row["gpus"] is None:
            unsized += row["requests"]
            continue
        known = row["requests_all"]
        counts[task_of(row, models, cluster.node_gpus_max, sizes)] += row["requests"]
    if not counts:
        usual = tuple(Task(1, k) for k in USUAL if k <= cluster.node_gpus_max)
        return Demand(usual, len(usual), 0, unsized, True)
    ranked = sorted(counts.items(), key=lambda one: (-one[1], shape(one[0]), sorted(one[0].models or ())))
    kept = ranked[:TASKS_MAX]
    tasks = tuple(weighed(task, weight) for task, weight in kept)
    requests = sum(task.weight for task in tasks)
    return Demand(tasks, requests, known - requests, unsized)


def shape(task: Task) -> str:
    """`8`, `2x8` (two nodes with eight each), `0.5`, `1g.10gb`, `2x1g.10gb`."""
    one = task.profile or (str(task.gpus) if task.share_milli == GPU_MILLI else f"{task.share_milli / GPU_MILLI:g}")
    return one if task.members == 1 else f"{task.members}x{one}"


def named_models(gpu_type: str | None, models: Collection[str]) -> frozenset[str] | None:
    """The models of a fleet that a request's type means (`h100`: every H100); None: any. Empty: none of them."""
    if not gpu_type:
        return None
    wanted = model_tokens(gpu_type)
    return frozenset(model for model in models if wanted <= device_tokens(model))


def task_of(row: Row, models: Collection[str], largest: int, sizes: Mapping[Level, Mapping[str, int]]) -> Task:
    """A request of weight 1, so that equal ones are equal. `largest`: GPUs of the largest node; `sizes`: of each domain."""
    taken = named_models(row["gpu_type"], models)
    if row["profile"] is not None:
        name = profile_name(row["profile"]) or row["profile"]
        return Task(1, 1, models=taken, profile=name, members=row["members"])
    members, gpus = row["members"], row["gpus"]
    if members == 1 and gpus > largest:
        members, gpus = gpus, 1  # no node is so large: its GPUs may lie on several
    if members == 1:
        return Task(1, gpus, row["share_milli"], models=taken)
    return Task(1, gpus, models=taken, members=members, level=_level(members * gpus, sizes))


def _level(gpus: int, sizes: Mapping[Level, Mapping[str, int]]) -> Level:
    """The nearest domain that could hold a gang if all were free. A gang of several nodes may lie on one."""
    for level in (NVLINK, LEAF):
        if max(sizes.get(level, {}).values(), default=0) >= gpus:
            return level
    return CLUSTER


def _sizes(cluster: Cluster) -> dict[Level, Counter[str]]:
    """GPUs in service of each domain over nodes."""
    sizes: dict[Level, Counter[str]] = {level: Counter() for level in LEVELS[1:]}
    for gpu in cluster.whole:
        for level, name in domains_of(gpu):
            if name is not None:
                sizes[level][name] += 1
    return sizes


def domains_of(gpu: Gpu) -> tuple[tuple[Level, str | None], ...]:
    """Domains over nodes that a GPU's node lies in; None unknown."""
    return (NVLINK, gpu.domain), (LEAF, gpu.leaf), (CLUSTER, "")


def weighed(task: Task, weight: int) -> Task:
    """The same request, so many times."""
    return Task(
        weight, task.gpus, task.share_milli, task.cpu_milli, task.models, task.members, task.level, task.profile
    )
