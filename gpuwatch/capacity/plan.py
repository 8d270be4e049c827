"""What would have to move so that a shape finds a place, and MIG layouts that the last week would have used better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuwatch.capacity import demand as capacity_demand
from gpuwatch.capacity.demand import DAYS
from gpuwatch.capacity.free_state import Cluster, clusters, instants
from gpuwatch.capacity.make_room import Standing, blocking, every_host, listed_moves, moves_to
from gpuwatch.capacity.mig_layouts import layouts
from gpuwatch.capacity.move_fit import joined, split
from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.hardware.defrag import fits, plan
from gpuwatch.hardware.fgd import GPU_MILLI
from gpuwatch.hardware.rooms import Host
from gpuwatch.store.database import Store
from gpuwatch.topology.taints import TaintedNodes, untainted

SHAPES_MAX = 8
"""Shapes that are planned for where none is named: the most frequent of those that find no place."""
PLACES_MAX = 64
"""Pools and models that one answer plans for."""
ASKED = "what the shape asks for of CPUs and memory"
K_MAX, MEMBERS_MAX = 1024, 1024

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

    Raises UsageError for text that is not a shape.
    """
    wanted = None if shape is None else parsed(shape)
    ends, unknown = instants(store, at_us, cluster, exact)
    asked = capacity_demand.read(store, ends, days)
    items: list[Row] = []
    better: list[Row] = []
    for one in clusters(store, ends):
        shapes = [wanted] if wanted is not None else _asked(one, asked[one.name])
        places = sorted(
            {(gpu.pool, gpu.model) for gpu in one.whole}, key=lambda place: (place[0] or "", place[1] or "")
        )
        tainted = TaintedNodes(store, one.name).at(one.as_of_us)
        standing = every_host(store, one.name, one.as_of_us - 1)
        for pool, model in places[:PLACES_MAX]:
            group = standing.groups.get((pool, model or ""), [])
            open_ = untainted([host.name for host in group], tainted)
            group = [host for host in group if host.name in open_]
            found = [_item(group, standing, members, gpus) for members, gpus in shapes]
            head = {"cluster": one.name, "as_of": rfc3339(one.as_of_us), "pool": pool, "gpu_model": model}
            items += [head | row for row in found if row is not None and (wanted is not None or not row["placeable"])]
        better += layouts(store, one)
    return {"at": rfc3339(at_us), "items": items, "repartition": better, "unknown": dict(sorted(unknown.items()))}


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


def _item(group: Sequence[Host], standing: Standing, members: int, gpus: int) -> Row | None:
    """What one shape needs in one pool; None where no node there is so large."""
    sizes = [host.free + sum(piece.gpus for piece in host.pieces) for host in group]
    if sum(size // gpus for size in sizes) < members:
        return None
    names = standing.names
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
        "not_known": None if found is None else joined([ASKED, *split(standing.fit.not_known(found.moves))]),
        "blockers": [{"job": job, "gpus": held, "free_gpus": free} for job, held, free in blocking([group], names)],
    }
