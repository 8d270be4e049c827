"""What could be placed now, what of the free GPUs the workload cannot use, and what that costs: GET /capacity/shapes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.capacity import demand as capacity_demand
from gpuwatch.capacity.demand import DAYS, Demand, domains_of, shape
from gpuwatch.capacity.free_state import Cluster, Gpu, clusters, instants
from gpuwatch.capacity.notes import notes, nothing
from gpuwatch.capacity.slots import gangs, items
from gpuwatch.core.clock import DAY_US, rfc3339
from gpuwatch.core.money import CENT_PLACES, largest_remainder
from gpuwatch.hardware import mig_packing
from gpuwatch.hardware.fgd import CASES, GPU_MILLI, NODE, REMEDIES, Fragmentation, Level, Node, Task, expected, hostable
from gpuwatch.output.fix_hints import Advice
from gpuwatch.store.database import Store
from gpuwatch.topology.gaps import SERVED

SHOWN_RATIO_MIN = Fraction(1, 100)
"""Shapes with a smaller part of the requests are evaluated but not shown."""
PLACES = 3
"""Decimal places of an amount of GPUs."""
RATIO_PLACES = 6

Row = dict[str, Any]
UNKNOWN_TOTAL: Row = {
    "free_gpus": None,
    "stranded_gpus": None,
    "rate": None,
    "cost_per_hour": None,
    "unpriced_gpus": None,
}
"""The sum over clusters if some have no data at that instant."""
_Key = tuple[str, str, str, str]
"""(cluster, pool, model, currency), "" for none."""


@dataclass(frozen=True)
class _Evaluated:
    """One cluster with what it is asked for, and F of its whole and of its partitioned GPUs."""

    cluster: Cluster
    demand: Demand
    whole: Fragmentation
    whole_gpus: tuple[tuple[Gpu, ...], ...]
    """The free GPUs behind `whole.by_gpu`."""
    nodes: tuple[Node, ...]
    """The same as nodes."""
    domains: Mapping[Level, Sequence[Sequence[int]]]
    slices: Fragmentation | None
    """None if partitioned GPUs cannot be evaluated: there are none, or only assumed requests are known."""
    sliced_gpus: tuple[Gpu, ...]
    """Partitioned GPUs whose room is known."""
    asked: Mapping[Task, Fraction]
    """The shapes that are shown, and their part of all requests."""


def shapes(
    store: Store,
    at_us: int,
    *,
    cluster: str | None = None,
    days: int = DAYS,
    advice: Advice = SERVED,
    exact: bool = False,
    limit: int | None = None,
    offset: int = 0,
) -> Row:
    """The answer of GET /capacity/shapes with `next_offset` (None at the end); `items` are paged, the rest is whole.

    The instant is the last at which the ledger knows every GPU, no later than `at_us`. With `exact` it is `at_us` itself,
    and a ledger that ends earlier has no answer. Requests count that were submitted in the `days` before
    it. Amounts of GPUs are floats, ratios 0..1, money text; None is unknown.
    """
    ends, unknown = instants(store, at_us, cluster, exact)
    asked = capacity_demand.read(store, ends, days)
    evaluated = [_evaluate(one, capacity_demand.of_cluster(asked[one.name], one)) for one in clusters(store, ends)]
    table = [
        row | {"requested_ratio": _ratio(row["requested_ratio"])}
        for one in evaluated
        for row in items(one.cluster, one.asked)
    ]
    page = table[offset:] if limit is None else table[offset : offset + limit]
    stranded = _stranded(evaluated)
    found = [
        {
            "cluster": one.cluster.name,
            "as_of": rfc3339(one.cluster.as_of_us),
            "demand": _demand(one, days),
            "gpus": _amounts(one.whole),
            "slices": None if one.slices is None else _amounts(one.slices),
            "gangs": gangs(one.cluster),
            "notes": notes(store, one.cluster, one.demand, advice),
        }
        for one in evaluated
    ]
    return {
        "items": page,
        "at": rfc3339(at_us),
        "days": days,
        "clusters": sorted([*found, *nothing(unknown)], key=lambda one: str(one["cluster"])),
        "stranded": stranded,
        "total": UNKNOWN_TOTAL if unknown else _total(evaluated, stranded),
        "next_offset": offset + len(page) if offset + len(page) < len(table) else None,
    }


def _evaluate(cluster: Cluster, demand: Demand) -> _Evaluated:
    groups = _free_by_node(cluster)
    nodes = tuple(Node(tuple(gpu.free_milli for gpu in gpus), gpus[0].model) for gpus in groups)
    domains = _domains(groups)
    sliced = tuple(gpu for gpu in cluster.partitioned if gpu.room is not None)
    rooms = [gpu.room for gpu in sliced if gpu.room is not None]
    slices = None
    if rooms and not demand.usual:
        slices = mig_packing.expected(rooms, demand.tasks, [gpu.model for gpu in sliced])
    total = demand.requests + demand.left_out
    shown = {task: Fraction(task.weight, total) for task in demand.tasks}
    return _Evaluated(
        cluster,
        demand,
        expected(nodes, demand.tasks, domains),
        groups,
        nodes,
        domains,
        slices,
        sliced,
        {task: ratio for task, ratio in shown.items() if ratio > SHOWN_RATIO_MIN},
    )


def _free_by_node(cluster: Cluster) -> tuple[tuple[Gpu, ...], ...]:
    """GPUs with free capacity by node and model, the fullest first."""
    at_node: dict[tuple[str, str | None], list[Gpu]] = defaultdict(list)
    for gpu in cluster.whole:
        if gpu.free_milli:
            at_node[gpu.node, gpu.model].append(gpu)
    return tuple(tuple(sorted(gpus, key=lambda gpu: gpu.free_milli)) for gpus in at_node.values())


def _domains(groups: Sequence[Sequence[Gpu]]) -> dict[Level, list[list[int]]]:
    """Nodes by the domains over nodes that they lie in."""
    found: dict[Level, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for n, gpus in enumerate(groups):
        for level, name in domains_of(gpus[0]):
            if name is not None:
                found[level][name].append(n)
    return {level: list(found[level].values()) for level in capacity_demand.LEVELS if level != NODE}


def _demand(one: _Evaluated, days: int) -> Row:
    as_of_us, demand = one.cluster.as_of_us, one.demand
    rows = []
    for task, ratio in one.asked.items():
        placeable = _placeable(one, task)
        row = {
            "shape": shape(task),
            "gpu_models": None if task.models is None else sorted(task.models),
            "requests": None if demand.usual else task.weight,
            "ratio": _ratio(ratio),
            "level": task.level,
            "placeable": placeable,
            "starved": placeable == 0 and not demand.usual,
        }
        rows.append(row)
    return {
        "since": rfc3339(as_of_us - days * DAY_US),
        "requests": 0 if demand.usual else demand.requests + demand.left_out,
        "requests_judged": 0 if demand.usual else demand.requests,
        "requests_unsized": demand.unsized,
        "usual": demand.usual,
        "shapes": rows,
    }


def _placeable(one: _Evaluated, task: Task) -> int:
    """How many of a shape could be placed at once, each within one domain of its level."""
    if task.profile is not None:
        suited = [gpu for gpu in one.sliced_gpus if task.models is None or gpu.model in task.models]
        return sum(gpu.room.hosts(task.profile) for gpu in suited if gpu.room is not None) // task.members
    if task.level == NODE:
        return sum(hostable([node], task) for node in one.nodes)
    return sum(hostable([one.nodes[n] for n in members], task) for members in one.domains[task.level])


def _amounts(found: Fragmentation) -> Row:
    """F with its causes, in GPUs."""
    causes = [
        {"case": case, "gpus": _gpus(amount), "means": CASES[case], "remedy": REMEDIES[case]}
        for case, amount in found.by_case().items()
    ]
    return {
        "free_gpus": _gpus(Fraction(found.free)),
        "stranded_gpus": _gpus(found.amount),
        "rate": _ratio(found.rate),
        "causes": causes,
    }


def _stranded(evaluated: Sequence[_Evaluated]) -> list[Row]:
    """F by cluster, pool, model and currency, with what it costs an hour; no price is no zero."""
    free: dict[_Key, int] = defaultdict(int)
    lost: dict[_Key, Fraction] = defaultdict(Fraction)
    cost: dict[_Key, Fraction] = defaultdict(Fraction)
    for one in evaluated:
        for gpu, milli, milli_lost in _losses(one):
            key = one.cluster.name, gpu.pool or "", gpu.model or "", gpu.currency or ""
            free[key] += milli
            lost[key] += milli_lost
            cost[key] += milli_lost * (gpu.price or 0)
    cents = _published(cost)
    return [
        {
            "cluster": key[0],
            "pool": key[1] or None,
            "gpu_model": key[2] or None,
            "free_gpus": _gpus(Fraction(free[key])),
            "stranded_gpus": _gpus(lost[key]),
            "rate": _ratio(lost[key] / free[key] if free[key] else None),
            "cost_per_hour": f"{cents[key]:f}" if key in cents else None,
            "currency": key[3] or None,
        }
        for key in sorted(free)
    ]


def _losses(one: _Evaluated) -> Iterator[tuple[Gpu, int, Fraction]]:
    """Each GPU with what is free on it, and the stranded part of that, in thousandths of a GPU."""
    for gpus, row in zip(one.whole_gpus, one.whole.by_gpu, strict=True):
        for gpu, units in zip(gpus, row, strict=True):
            yield gpu, gpu.free_milli, Fraction(units, one.whole.weight)
    if one.slices is not None:
        for gpu, (units,) in zip(one.sliced_gpus, one.slices.by_gpu, strict=True):
            milli = 0 if gpu.room is None else gpu.room.free_slices * mig_packing.slice_milli(gpu.room.geometry)
            yield gpu, milli, Fraction(units, one.slices.weight)


def _published(cost: Mapping[_Key, Fraction]) -> dict[_Key, Decimal]:
    """Cents that add up to the rounded sum of each currency."""
    published: dict[_Key, Decimal] = {}
    for currency in {key[3] for key in cost if key[3]}:
        keys = sorted(key for key in cost if key[3] == currency)
        amounts = [cost[key] / GPU_MILLI for key in keys]
        names = ["\x1f".join(key) for key in keys]
        published.update(zip(keys, largest_remainder(amounts, CENT_PLACES, names), strict=True))
    return published


def _total(evaluated: Sequence[_Evaluated], stranded: Sequence[Row]) -> Row:
    parts = [part for one in evaluated for part in (one.whole, one.slices) if part is not None]
    free, lost = sum(part.free for part in parts), sum((part.amount for part in parts), Fraction(0))
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for row in stranded:
        if row["cost_per_hour"] is not None:
            sums[row["currency"]] += Decimal(row["cost_per_hour"])
    return {
        "free_gpus": _gpus(Fraction(free)),
        "stranded_gpus": _gpus(lost),
        "rate": _ratio(lost / free if free else None),
        "cost_per_hour": [{"amount": f"{amount:f}", "currency": name} for name, amount in sorted(sums.items())],
        "unpriced_gpus": round(sum(row["stranded_gpus"] for row in stranded if row["currency"] is None), PLACES),
    }


def _gpus(milli: Fraction) -> float:
    return round(float(milli / GPU_MILLI), PLACES)


def _ratio(exact: Fraction | None) -> float | None:
    return None if exact is None else round(float(exact), RATIO_PLACES)
