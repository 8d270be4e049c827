"""Where a request would be placed now, or why not: GET /capacity/place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuwatch.capacity.demand import named_models
from gpuwatch.capacity.free_nodes import Request, Within
from gpuwatch.capacity.free_state import clusters, instants
from gpuwatch.capacity.notes import places_lacking
from gpuwatch.capacity.placing import Places
from gpuwatch.capacity.plan import parsed
from gpuwatch.core.clock import rfc3339
from gpuwatch.output.fix_hints import Advice
from gpuwatch.store.database import Store
from gpuwatch.topology.gaps import SERVED

IDLE = "idle-hoarding"
"""The rule whose open findings name GPUs that could be reclaimed."""
FAULTS = ("degraded-gpu", "memory-leak", "straggler")
"""The rules whose findings name GPUs that are no good place for a job while they are open."""
ASKED = "what the request needs of CPUs and memory on each node (cpus, memory_gib)"

Row = dict[str, Any]


def place(
    store: Store,
    at_us: int,
    shape: str,
    *,
    within: Within = "any",
    cluster: str | None = None,
    pool: str | None = None,
    gpu_model: str | None = None,
    cpus: float | None = None,
    memory_gib: float | None = None,
    exact: bool = False,
    findings: Iterable[Mapping[str, Any]] = (),
    advice: Advice = SERVED,
) -> Row:
    """The answer of GET /capacity/place: the shape on each pool and model, where it fits first.

    `gpu_model` is a model or a word for several (`h100`); `cpus` and `memory_gib` are of each node. `findings`: those of idle GPUs, which could be reclaimed, and of GPUs with a
    fault (FAULTS), which are chosen last. Raises UsageError for a text that is not a shape.
    """
    members, gpus = parsed(shape)
    ends, unknown = instants(store, at_us, cluster, exact)
    findings = list(findings)
    idle, faults = idle_gpus(findings), faulty_gpus(findings)
    items: list[Row] = []
    missing: list[Row] = []
    for one in clusters(store, ends):
        models = named_models(gpu_model, {gpu.model for gpu in one.gpus if gpu.model is not None})
        request = Request(
            members, gpus, within, models, None if pool is None else [pool], None,
            None if cpus is None else round(cpus * 1000),
            None if memory_gib is None else round(memory_gib * 2**30),
            ASKED if None in (cpus, memory_gib) else None,
        )  # fmt: skip
        items += Places(store, one, idle.get(one.name), faults.get(one.name)).tried(request)
        missing += [{"cluster": one.name, **note} for note in places_lacking(store, one, advice)]
    items.sort(key=lambda row: (not row["fits"], row["plan"] is None and not row["reclaim"]))
    return {
        "at": rfc3339(at_us),
        "shape": Request(members, gpus).shape,
        "within": within,
        "fits": any(row["fits"] for row in items) or (None if any(row["fits"] is None for row in items) else False),
        "items": items,
        "missing": missing,
        "unknown": dict(sorted(unknown.items())),
    }


def idle_gpus(findings: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Row]]:
    """Whole GPUs that are held idle, by cluster and name, with who holds them and the finding."""
    found: dict[str, dict[str, Row]] = {}
    for one in findings:
        if one["detector"] != IDLE:
            continue
        subject = one["subject"]
        row = {"team": one["team"], "job": subject["id"] if subject["kind"] == "job" else None, "finding": one["key"]}
        for device in one["devices"]:
            if "/" not in device:
                found.setdefault(one["cluster"], {})[device] = row
    return found


def faulty_gpus(findings: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Row]]:
    """GPUs with a fault, by cluster and name, with the finding: the most severe one comes first in `findings`."""
    found: dict[str, dict[str, Row]] = {}
    for one in findings:
        if one["detector"] in FAULTS:
            row = {"finding": one["key"], "severity": one["severity"], "what": one.get("headline") or one["title"]}
            for device in one["devices"]:
                found.setdefault(one["cluster"], {}).setdefault(device.partition("/")[0], row)
    return found
