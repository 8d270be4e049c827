"""What is not known of the nodes that a request or a gang may use, with the source that would have it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuwatch.topology.node_fit import Place

SLURM = {
    "asked": "what it asks for of CPUs and memory (ReqTRES)",
    "has": "its own CPUs and memory (AllocTRES)",
    "nodes": "CPUs and memory of nodes (scontrol show node)",
    "runs": "CPUs and memory of running jobs (AllocTRES)",
    "others": "CPUs and memory of jobs without GPUs (CPUAlloc and AllocMem of scontrol show node)",
    "rules": "partitions and features of nodes (scontrol show node)",
    "reserved": "reservations (scontrol show reservation)",
}
KUBERNETES = {
    "asked": "what its pods ask for of CPUs and memory (kubectl get pods)",
    "has": "CPUs and memory of its pods (kubectl get pods)",
    "selectors": "selectors and tolerations of its pods (kubectl get pods)",
    "nodes": "CPUs and memory of nodes (kubectl get nodes)",
    "runs": "CPUs and memory of running pods (kubectl get pods)",
    "others": "CPUs and memory of pods without GPUs (kubectl get pods,nodes -A in one file, or [[kubernetes]] without namespaces)",
    "rules": "labels and taints of nodes (kubectl get nodes)",
}
"""What a record of the scheduler would say, and which record that is."""


def not_known(
    kubernetes: bool,
    asked: bool,
    facts: Mapping[str, Any] | None,
    places: Iterable[Place],
    reserved: bool,
    *,
    running: bool = False,
    rules: bool = True,
) -> str | None:
    """The names of what is missing, None where nothing is. `asked`: the CPUs and memory of the request, or of the `running` job, are
    known; `facts`: the row of topology/placement/room_sources of its scheduler; `reserved`: some reservation is recorded; `rules`: its
    records would have its selectors.
    """
    bare = any(place.labels is None if kubernetes else not place.partitions for place in places)
    nodes = facts is None or facts["nodes_lack"]
    missing = {
        "asked": not (asked or running),
        "has": running and not asked,
        "selectors": not rules,
        "nodes": nodes,
        "runs": facts is not None and facts["runs_lack"],
        "others": not nodes and facts is not None and facts["others_lack"],
        "rules": bare,
        "reserved": not reserved,
    }
    names = KUBERNETES if kubernetes else SLURM
    return "; ".join(text for name, text in names.items() if missing[name]) or None
