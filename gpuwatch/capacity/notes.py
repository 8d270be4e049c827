"""Missing inputs of a cluster's shapes, and how to provide them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuwatch.capacity.demand import USUAL, Demand
from gpuwatch.capacity.free_state import Cluster
from gpuwatch.core.clock import rfc3339
from gpuwatch.output.fix_hints import Advice
from gpuwatch.store.database import Store
from gpuwatch.topology.gaps import missing

CPU = "A free GPU counts here whatever CPU and memory is left beside it: what is needed of both decides only for requests that wait and jobs that would move."
REQUESTS = (
    "Import the schedulers' job records: sacct, or pods with kubectl get pods -A -o json; or name a live source "
    "([[slurm]], [[kubernetes]])."
)
SIZES = "Import sacct with AllocTRES and ReqTRES, or pods as JSON: there stands how many GPUs are asked for."
GEOMETRY = (
    "See docs/understand/mig.md: the GPU's name must contain its memory, and its slices must be profiles of that model."
)
PRICED = "price"


def notes(store: Store, cluster: Cluster, demand: Demand, advice: Advice) -> list[dict[str, Any]]:
    """Rows of {what, gpus (how many it concerns, None: all), fix}: CPU always, the rest where something is unknown."""
    found = [_note("cpu", None, CPU)]
    if demand.usual:
        usual = ", ".join(str(k) for k in USUAL if k <= cluster.node_gpus_max)
        found.append(_note("requests", None, f"No request is known; {usual} GPUs stand for them. {REQUESTS}"))
    if demand.unsized:
        found.append(
            _note("request-size", None, f"{demand.unsized} requests do not state how many GPUs they need. {SIZES}")
        )
    found += places_lacking(store, cluster, advice)
    unknown = [gpu for gpu in cluster.partitioned if gpu.room is None]
    if unknown:
        found.append(_note("mig-layout", len(unknown), GEOMETRY))
    unpriced = [gpu for gpu in cluster.gpus if gpu.price is None]
    if unpriced:
        models = sorted({gpu.model or "*" for gpu in unpriced})
        since = rfc3339(cluster.as_of_us)
        lines = [f"{model},on_demand,USD_PER_HOUR,{since}," for model in models]
        found.append(_note(PRICED, len(unpriced), advice.rates(lines)))
    return found


def nothing(unknown: Mapping[str, str]) -> list[dict[str, Any]]:
    """Clusters without data at an instant, with the reason as their note."""
    empty = dict.fromkeys(("as_of", "demand", "gpus", "slices"))
    return [
        {"cluster": name, **empty, "gangs": [], "notes": [_note("books", None, why)]} for name, why in unknown.items()
    ]


def places_lacking(store: Store, cluster: Cluster, advice: Advice) -> list[dict[str, Any]]:
    """GPUs with unknown links or network position, with the fix for one of the nodes."""
    lacking = {
        "links": sum(gpu.nvlink is None for gpu in cluster.whole),
        "network": sum(gpu.leaf is None for gpu in cluster.whole),
    }
    if not any(lacking.values()):
        return []
    fixes: dict[str, list[str]] = {what: [] for what in lacking}
    for row in missing(store, cluster.name, advice):
        fixes[row["what"]].append(row["fix"])
    found = []
    for what, gpus in lacking.items():
        # A single node needs no network, as a single GPU needs no links: nothing is missing there.
        if gpus and fixes[what]:
            more = "" if len(fixes[what]) == 1 else f"\nThe same for {len(fixes[what]) - 1} more nodes."
            found.append(_note(what, gpus, fixes[what][0] + more))
    return found


def _note(what: str, gpus: int | None, fix: str) -> dict[str, Any]:
    return {"what": what, "gpus": gpus, "fix": fix}
