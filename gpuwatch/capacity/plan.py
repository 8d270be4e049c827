"""What would have to move so that a shape finds a place, and MIG layouts that the last week would have used better."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from gpuwatch.capacity import demand as capacity_demand
from gpuwatch.capacity.demand import DAYS
from gpuwatch.capacity.free_state import Cluster, clusters, instants
from gpuwatch.capacity.make_room import Names, blocking, every_host, listed_moves, moves_to
from gpuwatch.capacity.waiting_requests import waits
from gpuwatch.core.clock import DAY_US, HOUR_US, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.hardware.defrag import Host, fits, plan
from gpuwatch.hardware.fgd import GPU_MILLI
from gpuwatch.hardware.mig_packing import own_name
from gpuwatch.hardware.mig_plan import repartition
from gpuwatch.hardware.mig_profiles import GEOMETRIES
from gpuwatch.hardware.shares import model_key
from gpuwatch.store.database import Store
from gpuwatch.topology.taints import TaintedNodes, untainted

SHAPES_MAX = 8
"""Shapes that are planned for where none is named: the most frequent of those that find no place."""
PLACES_MAX = 64
"""Pools and models that one answer plans for."""
K_MAX, MEMBERS_MAX = 1024, 1024
WEEK_US = 7 * DAY_US

Row = dict[str, Any]
Shape = tuple[int, int]
"""(members, GPUs of each)."""


def plans(
    store: Store,
    at_us: int,
    *,
    cluster: str | None = None,
    shape: str | None = None,
    days: int = DAYS,
    exact: bool = False,
) -> Row:
    """The answer of GET /capacity/plan. Without a `shape` (`8`, `2x8`): those asked for that find no place now.

    Raises UsageError for a shape that is none.
    """
    wanted = None if shape is None else parsed(shape)
    ends, unknown = instants(store, at_us, cluster, exact)
    asked = capacity_demand.read(store, ends, days)
    items: list[Row] = []
    layouts: list[Row] = []
    for one in clusters(store, ends):
        shapes = [wanted] if wanted is not None else _asked(one, asked[one.name])
        places = sorted(
            {(gpu.pool, gpu.model) for gpu in one.whole}, key=lambda place: (place[0] or "", place[1] or "")
        )
        tainted = TaintedNodes(store, one.name).at(one.as_of_us)
        groups, names = every_host(store, one.name, one.as_of_us - 1)
        for pool, model in places[:PLACES_MAX]:
            group = groups.get((pool, model or ""), [])
            open_ = untainted([host.name for host in group], tainted)
            group = [host for host in group if host.name in open_]
            found = [_item(group, names, members, gpus) for members, gpus in shapes]
            head = {"cluster": one.name, "as_of": rfc3339(one.as_of_us), "pool": pool, "gpu_model": model}
            items += [head | row for row in found if row is not None and (wanted is not None or not row["placeable"])]
        layouts += _layouts(store, one)
    return {"at": rfc3339(at_us), "items": items, "repartition": layouts, "unknown": dict(sorted(unknown.items()))}


def parsed(shape: str) -> Shape:
    """(members, GPUs of each) of `8` or `2x8`. Raises UsageError for anything else."""
    first, cross, second = shape.lower().partition("x")
    members, gpus = (first, second) if cross else ("1", first)
    if not (members.isascii() and members.isdigit() and gpus.isascii() and gpus.isdigit()):
        raise UsageError(f"shape {shape!r}: expected GPUs (8), or nodes x GPUs on each (2x8)")
    found = int(members[:5]), int(gpus[:5])
    if not (1 <= found[0] <= MEMBERS_MAX and 1 <= found[1] <= K_MAX):
        raise UsageError(f"shape {shape!r}: expected 1 to {MEMBERS_MAX} nodes with 1 to {K_MAX} GPUs on each")
    return found


def _asked(cluster: Cluster, rows: Sequence[Mapping[str, Any]]) -> list[Shape]:
    """The most frequent shapes of whole GPUs that are asked for."""
    demand = capacity_demand.of_cluster(rows, cluster)
    shapes = [
        (task.members, task.gpus)
        for task in demand.tasks
        if not demand.usual and task.profile is None and task.gpus and task.share_milli == GPU_MILLI
    ]
    return list(dict.fromkeys(shapes))[:SHAPES_MAX]


def _item(group: Sequence[Host], names: Names, members: int, gpus: int) -> Row | None:
    """What one shape needs in one pool; None where no node there is so large."""
    sizes = [host.free + sum(piece.gpus for piece in host.pieces) for host in group]
    if sum(size // gpus for size in sizes) < members:
        return None
    placeable = bool(fits([host.free for host in group], [gpus] * members))
    found = plan(group, gpus, members)
    moved = None if found is None else moves_to(found, group, names, gpus, members)
    unmoved = [move | {"to": None} for move in listed_moves(found, names)]
    return {
        "shape": str(gpus) if members == 1 else f"{members}x{gpus}",
        "free_gpus": sum(host.free for host in group),
        "placeable": placeable,
        "possible": found is not None,
        "exact": None if found is None else found.exact,
        "moved_gpus": None if found is None else found.gpus,
        "moves": unmoved if moved is None else moved["moves"],
        "at_once": None if moved is None else moved["at_once"],
        "places": [] if moved is None else moved["places"],
        "drained": [] if moved is None else moved["drained"],
        "blockers": [{"job": job, "gpus": held, "free_gpus": free} for job, held, free in blocking([group], names)],
    }


def _layouts(store: Store, cluster: Cluster) -> list[Row]:
    """Other layouts of unallocated GPUs, by pool and model, tested against the demand of the week before."""
    until_us = cluster.as_of_us // HOUR_US * HOUR_US
    now, busy = _current_layouts(store, cluster)
    if not now:
        return []
    demand = _demand(store, cluster.name, until_us - WEEK_US, until_us)
    found = []
    for (pool, model), gpus in sorted(now.items(), key=lambda one: (one[0][0] or "", one[0][1])):
        key = model_key(model) or ""
        known = {gpu: tuple(sorted(_own(key, profile) for profile in layout)) for gpu, layout in gpus.items()}
        hours = [{_own(key, name): us for name, us in hour.items()} for hour in demand[pool, model].values()]
        layout = repartition(key, known, [gpu for gpu in sorted(known) if gpu not in busy], hours, HOUR_US)
        found.append(
            {
                "cluster": cluster.name,
                "pool": pool,
                "gpu_model": model,
                "since": rfc3339(until_us - WEEK_US),
                "until": rfc3339(until_us),
                "changes": [{"gpu": gpu, "layout": list(old), "better": list(new)} for gpu, old, new in layout.changes],
                "served_ratio": _ratio(layout.served_before, layout.wanted),
                "served_ratio_after": _ratio(layout.served_after, layout.wanted),
            }
        )
    return found


def _current_layouts(
    store: Store, cluster: Cluster
) -> tuple[dict[tuple[str | None, str], dict[str, list[str]]], set[str]]:
    """The profiles on each GPU by pool and model, and the GPUs of which a slice is allocated."""
    layouts: dict[tuple[str | None, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    busy: set[str] = set()
    for row in store.rows("capacity/mig_now", cluster=cluster.name, at_us=cluster.as_of_us):
        if row["model"] and row["profile"] and model_key(row["model"]):
            layouts[row["pool"], row["model"]][row["gpu"]].append(row["profile"])
            if row["busy"]:
                busy.add(row["gpu"])
    return layouts, busy


def _demand(
    store: Store, cluster: str, from_us: int, until_us: int
) -> dict[tuple[str | None, str | None], dict[int, dict[str, int]]]:
    """(pool, model) -> hour -> profile -> microseconds of instances that were held or waited for."""
    found: dict[Any, dict[int, dict[str, int]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for row in store.rows("capacity/mig_week", cluster=cluster, from_us=from_us, until_us=until_us):
        if row["profile"]:
            found[row["pool"], row["model"]][row["hour_us"]][row["profile"]] += row["held_us"]
    for wait in waits(store, cluster, from_us, until_us):
        # Where a request may use several pools or models, it is unknown which it would have got: it counts for none.
        if wait.profile is not None and wait.models is not None and len(wait.models) == len(wait.pools) == 1:
            for hour_us in range(wait.start_us // HOUR_US * HOUR_US, wait.end_us, HOUR_US):
                part = min(wait.end_us, hour_us + HOUR_US) - max(wait.start_us, hour_us)
                found[wait.pools[0], wait.models[0]][hour_us][wait.profile] += part * wait.members
    return found


def _own(key: str, profile: str) -> str:
    return own_name(GEOMETRIES[key], profile) or profile


def _ratio(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None
