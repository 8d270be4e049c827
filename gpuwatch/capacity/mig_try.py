"""What if the partitioned GPUs had other layouts: who fits, who moves, and what of the week's demand is served."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from gpuwatch.capacity.free_state import Cluster, clusters, instants
from gpuwatch.capacity.mig_layouts import WEEK_US, current_layouts, own, ratio, week_demand
from gpuwatch.core.clock import HOUR_US, rfc3339
from gpuwatch.hardware.mig_fit import fitted
from gpuwatch.hardware.mig_plan import Layout, repartition, served
from gpuwatch.hardware.mig_profiles import GEOMETRIES
from gpuwatch.hardware.shares import maximal_layouts, model_key
from gpuwatch.store.database import Store

GPUS_MAX = 64
"""GPUs of one pool and model that are listed."""

Row = dict[str, Any]


def try_layouts(store: Store, at_us: int, *, cluster: str | None = None, pool: str | None = None) -> Row:
    """The answer of GET /what-if/mig: for each pool and model with partitioned GPUs, every legal full layout, and the plan that
    serves most of the last week's demand. Stores nothing.
    """
    ends, unknown = instants(store, at_us, cluster, False)
    items = [row for one in clusters(store, ends) for row in _items(store, one) if pool in (None, row["pool"])]
    return {"at": rfc3339(at_us), "items": items, "unknown": dict(sorted(unknown.items()))}


def _items(store: Store, cluster: Cluster) -> list[Row]:
    until_us = cluster.as_of_us // HOUR_US * HOUR_US
    now, _ = current_layouts(store, cluster)
    if not now:
        return []
    demand, shared = week_demand(store, cluster.name, until_us - WEEK_US, until_us)
    holders: dict[tuple[str | None, str], list[Row]] = defaultdict(list)
    for row in store.rows("capacity/mig_holder", cluster=cluster.name, at_us=cluster.as_of_us):
        if row["model"] and row["profile"]:
            holders[row["pool"], row["model"]].append(row)
    head = {"cluster": cluster.name, "since": rfc3339(until_us - WEEK_US), "until": rfc3339(until_us)}
    found = []
    for (pool, model), gpus in sorted(now.items(), key=lambda one: (one[0][0] or "", one[0][1])):
        key = model_key(model) or ""
        known = {gpu: tuple(sorted(own(key, profile) for profile in layout)) for gpu, layout in gpus.items()}
        hours = [{own(key, name): us for name, us in hour.items()} for hour in demand.get((pool, model), {}).values()]
        held = [row | {"profile": own(key, row["profile"])} for row in holders[pool, model]]
        named = {"pool": pool, "gpu_model": model, "not_counted": len(shared.get(pool, ()))}
        found.append(head | named | _tried(key, known, held, hours))
    return found


def _tried(key: str, known: Mapping[str, Layout], held: Sequence[Row], hours: Sequence[Mapping[str, int]]) -> Row:
    """The current layouts, each full layout on all GPUs, and the plan."""
    sizes = {name: profile.memory_slices for name, profile in GEOMETRIES[key].profiles.items()}
    wanted = sum(us * sizes.get(name, 0) for hour in hours for name, us in hour.items())
    supply = Counter(profile for layout in known.values() for profile in layout)

    def outcome(then: Mapping[str, Layout]) -> Row:
        instances = Counter(profile for layout in then.values() for profile in layout)
        changed = {gpu for gpu, layout in then.items() if layout != known[gpu]}
        places = fitted(key, [row["profile"] for row in held], instances)
        return {
            "changed_gpus": len(changed),
            "served_ratio": ratio(served(hours, instances, sizes, HOUR_US), wanted),
            "fit": sum(place is not None for place in places),
            "move": sum(row["gpu"] in changed for row in held),
            "misfits": [_holder(row, None) for row, place in zip(held, places, strict=True) if place is None],
        }

    plan = repartition(key, known, sorted(known), hours, HOUR_US)
    then = dict(known) | {gpu: new for gpu, _, new in plan.changes}
    places = fitted(
        key, [row["profile"] for row in held], Counter(profile for layout in then.values() for profile in layout)
    )
    moving = defaultdict(list)
    for row, place in zip(held, places, strict=True):
        moving[row["gpu"]].append(_holder(row, place))
    return {
        "gpus": len(known),
        "instances": dict(sorted(supply.items())),
        "held": len(held),
        "served_ratio": ratio(served(hours, supply, sizes, HOUR_US), wanted),
        "layouts": [
            {"layout": list(layout), **outcome(dict.fromkeys(known, layout))} for layout in sorted(maximal_layouts(key))
        ],
        "plan": outcome(then)
        | {
            "changes": [
                {"gpu": gpu, "layout": list(old), "better": list(new), "holders": moving[gpu]}
                for gpu, old, new in plan.changes[:GPUS_MAX]
            ]
        },
    }


def _holder(row: Row, place: str | None) -> Row:
    return {name: row[name] for name in ("job", "name", "team", "user", "gpu", "profile")} | {"then": place}
