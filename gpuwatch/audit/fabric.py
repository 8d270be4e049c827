"""What is decided of placement and fabric: who sees the topology, who asks for it, who watches the links. Pure."""

from __future__ import annotations

from gpuwatch.audit.decision import (
    HALF,
    IMPORT,
    OBJECTS,
    Decision,
    Row,
    gangs,
    left,
    named,
    no_gangs,
    nothing,
    percent,
    rounded,
    scored,
    weighed,
)
from gpuwatch.core.clock import rfc3339
from gpuwatch.rules.layers import HOURS, WEEKS

MEASURED = ("compute", "memory_roof", "below_roof", "stalled", "communication", "gap", "hoarded")
"""Buckets of held time that was measured."""
TOPOLOGIES = "kubectl get topologies.kueue.x-k8s.io,hypernodes.topology.volcano.sh,resourceflavors -o json"
SWITCHES = (
    "Accounting does not tell --switches: scontrol show job | grep -o 'ReqSwitch=[^ ]*' while jobs run, or enforce it in "
    "job_submit.lua."
)


def placement(facts: Row) -> list[Decision]:
    return [_topology_told(facts), _topology_asked(facts), _links_told(facts)]


def _topology_told(facts: Row) -> Decision:
    """Whether who places gangs is told what links GPUs and nodes."""
    id, title = "topology-told", "Who places gangs sees the topology"
    fix = (
        "Give Kueue a Topology and name it in topologyName of the ResourceFlavors (Volcano: HyperNodes; Slurm: topology.conf "
        "with TopologyPlugin=topology/tree or topology/block)."
    )
    if (none := no_gangs(id, title, facts)) is not None:
        return none
    places = {row["cluster"]: row for row in facts["topology"]}

    def told(gang: Row) -> float | None:
        place = places.get(gang["cluster"], {})
        if gang["scheduler"] == "slurm":
            return 1.0 if place.get("switches") else None
        if gang["gate"] == "kueue":
            flavors = place.get("flavors")
            return None if not flavors else place["flavors_with_topology"] / flavors
        if gang["authority"] == "volcano":
            return 1.0 if place.get("hypernodes") else None
        return 0.0 if gang["authority"] == "kube-scheduler" else None

    ratio, unknown = weighed(gangs(facts), told)
    if ratio is None:
        return scored(
            id, title, None, "No object says whether the schedulers are told of it.", f"{TOPOLOGIES} ({IMPORT})"
        )
    said = f"{percent(ratio)} of the GPU-hours of gangs were placed by who is told of links and switches."
    if ratio < 1:
        said += " kube-scheduler alone, and Kueue flavors without topologyName, count GPUs and see no links."
    return scored(id, title, ratio, said + left(unknown), fix, WEEKS)


def _topology_asked(facts: Row) -> Decision:
    """Whether jobs over several pods or nodes demand to be near each other."""
    id, title = "topology-required", "Gangs ask for the topology that they need"
    fix = (
        "Set kueue.x-k8s.io/podset-required-topology on the pod template (Volcano: networkTopology.mode: hard with "
        "highestTierAllowed; Slurm: --switches=1 or topology/block)."
    )
    if (none := no_gangs(id, title, facts)) is not None:
        return none
    worth = {"required": 1.0, "preferred": HALF, "none": 0.0}
    ratio, unknown = weighed(gangs(facts), lambda gang: worth.get(gang["topology"] or ""))
    if ratio is None:
        slurm = any(gang["scheduler"] == "slurm" for gang in gangs(facts))
        fix = SWITCHES if slurm else f"{OBJECTS} ({IMPORT})"
        return scored(id, title, None, "No record tells what gangs ask for.", fix)
    jobs = [job for gang in gangs(facts) if gang["topology"] == "none" for job in gang["jobs"]]
    said = f"{percent(ratio)} of the GPU-hours of gangs that tell it ask for a required topology (a preferred one counts half)."
    said += f" Without: {named(jobs)}." if jobs else ""
    return scored(id, title, ratio, said + left(unknown), fix)


def _links_told(facts: Row) -> Decision:
    id, title = "links-told", "What links the GPUs of a node is written down"
    nodes = sum(row["linkable_nodes"] for row in facts["topology"])
    linked = sum(row["linked_nodes"] for row in facts["topology"])
    fix = "On each node: (date -u +'# observed %FT%TZ'; nvidia-smi topo -m) > NODE.txt; then BUNDLE/topo/NODE.txt, or: gpuwatch import topo NODE.txt --cluster NAME"
    if not facts["topology"]:
        return scored(id, title, None, "No node with GPUs is known.", fix, HOURS)
    if not nodes:
        return nothing(id, title, "No node has more than one GPU.")
    if not linked:
        return scored(id, title, None, f"Of none of {nodes} nodes with several GPUs is it known.", fix, HOURS)
    sources = named(sorted({name for row in facts["topology"] for name in row["link_sources"] or ()}))
    return scored(
        id, title, linked / nodes, f"Of {linked} of {nodes} nodes with several GPUs, by {sources}.", fix, HOURS
    )


def fabric(facts: Row) -> list[Decision]:
    return [_network_told(facts), _links_measured(facts), _health_read(facts), _sources_agree(facts)]


def _network_told(facts: Row) -> Decision:
    id, title = "network-told", "Where each node hangs in the network is written down"
    rows = [row for row in facts["topology"] if row["nodes"] > 1]
    fix = "Slurm: scontrol show topology > topology.conf (BUNDLE/slurm/, or: gpuwatch import slurm-topology topology.conf --cluster NAME). Kubernetes: node labels of Topograph or of the cloud, in kubectl get nodes -o json."
    if not facts["topology"]:
        return scored(id, title, None, "No node with GPUs is known.", fix)
    if not rows:
        return nothing(id, title, "No cluster has several nodes with GPUs.")
    nodes, placed = sum(row["nodes"] for row in rows), sum(row["networked_nodes"] for row in rows)
    if not placed:
        return scored(id, title, None, f"Of none of {nodes} nodes is it known.", fix)
    sources = named(sorted({name for row in rows for name in row["network_sources"] or ()}))
    return scored(id, title, placed / nodes, f"Of {placed} of {nodes} nodes, by {sources}.", fix)


def _links_measured(facts: Row) -> Decision:
    id, title = "links-measured", "What goes over links is measured"
    fix = "Add to the counters file of dcgm-exporter: DCGM_FI_PROF_NVLINK_TX_BYTES, DCGM_FI_PROF_NVLINK_RX_BYTES, DCGM_FI_PROF_PCIE_TX_BYTES, DCGM_FI_PROF_PCIE_RX_BYTES."
    if (kept := _not_kept(id, title, facts)) is not None:
        return kept
    held = sum(row["device_hours"] or 0 for row in facts["fabric"])
    if not held:
        return nothing(id, title, "No job with several GPUs was measured.")
    read = sum(max(row["nvlink_hours"] or 0, row["pcie_hours"] or 0) for row in facts["fabric"])
    if not read:
        return scored(
            id, title, None, "No source reads NVLink or PCIe traffic: what congests is not known.", fix, HOURS
        )
    return scored(
        id, title, rounded(read / held), f"In {percent(read / held)} of the time of jobs with several GPUs.", fix, HOURS
    )


def _health_read(facts: Row) -> Decision:
    id, title = "link-health", "Errors of links are read"
    fix = "Add to the counters file of dcgm-exporter: DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, DCGM_FI_DEV_PCIE_REPLAY_COUNTER."
    if (kept := _not_kept(id, title, facts)) is not None:
        return kept
    devices = sum(row["devices"] for row in facts["fabric"])
    if not devices:
        return scored(
            id, title, None, "Nothing was measured.", "Run dcgm-exporter on every node with GPUs and scrape it."
        )
    read = sum(row["read_devices"] for row in facts["fabric"])
    if not read:
        return scored(id, title, None, f"Of none of {devices} devices.", fix, HOURS)
    bad = sum(row["nvlink_error_devices"] for row in facts["fabric"])
    said = f"Of {read} of {devices} devices; {bad} of them counted errors."
    return scored(id, title, read / devices, said, fix, HOURS)


def _not_kept(id: str, title: str, facts: Row) -> Decision | None:
    """Of books that an older version wrote: work was measured, but what links carried was not kept by device and hour."""
    measured = sum(facts["buckets"].get(name, {}).get("gpu_hours", 0) for name in MEASURED)
    if facts["fabric"] or not measured:
        return None
    fix = f"gpuwatch analyze --since {rfc3339(facts['window'].start_us)} books them again."
    return scored(id, title, None, "These hours were booked by a version that kept nothing of it.", fix, HOURS)


def _sources_agree(facts: Row) -> Decision:
    id, title = "one-map", "Sources of the topology agree"
    if not any(row["linked_nodes"] or row["networked_nodes"] for row in facts["topology"]):
        return nothing(id, title, "No source tells of the topology.")
    nodes = sum(row["nodes"] for row in facts["topology"])
    odd = len({(row["cluster"], row["child"]) for row in facts["conflicts"]})
    said = (
        f"{odd} of {nodes} nodes are put elsewhere by one source than by another." if odd else "No two sources differ."
    )
    return scored(
        id,
        title,
        rounded(1 - min(1, odd / nodes)),
        said,
        "Correct the map that is wrong: GET /api/v1/topology names both.",
    )
