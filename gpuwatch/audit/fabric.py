"""Decisions about placement and fabric: who sees the topology, who asks for it, who watches the links. Pure."""

from __future__ import annotations

from gpuwatch.audit.decision import (
    HALF,
    IMPORT,
    NOT_GANGS,
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
"""Buckets of held and measured time."""
TOPOLOGIES = "kubectl get topologies.kueue.x-k8s.io,hypernodes.topology.volcano.sh,resourceflavors -o json"
SLURM_TOPOLOGY = "scontrol show topology > topology.conf (BUNDLE/slurm/, or: gpuwatch import slurm-topology topology.conf --cluster NAME)."
SWITCHES = (
    "Accounting does not record --switches: scontrol show job | grep -o 'ReqSwitch=[^ ]*' while jobs run, or enforce it in "
    "job_submit.lua."
)


def placement(facts: Row) -> list[Decision]:
    return [_topology_visible(facts), _topology_asked(facts), _links_known(facts)]


def _topology_visible(facts: Row) -> Decision:
    """Whether the schedulers that place gangs know what links GPUs and nodes."""
    id, title = "topology-told", "Schedulers that place gangs see the topology"
    fix = (
        "Give Kueue a Topology and name it in topologyName of the ResourceFlavors (Volcano: HyperNodes; Slurm: topology.conf "
        "with TopologyPlugin=topology/tree or topology/block)."
    )
    if (none := no_gangs(id, title, facts)) is not None:
        return none
    places = {row["cluster"]: row for row in facts["topology"]}

    def sees_topology(gang: Row) -> float | None:
        place = places.get(gang["cluster"], {})
        if gang["scheduler"] == "slurm":
            return 1.0 if place.get("switches") else None
        if gang["gate"] == "kueue":
            flavors = place.get("flavors")
            return None if not flavors else place["flavors_with_topology"] / flavors
        if gang["authority"] == "volcano":
            return 1.0 if place.get("hypernodes") else None
        return 0.0 if gang["authority"] == "kube-scheduler" else None

    ratio, unknown = weighed(gangs(facts), sees_topology)
    if ratio is None:
        slurm = all(gang["scheduler"] == "slurm" for gang in gangs(facts))
        how = SLURM_TOPOLOGY if slurm else f"{TOPOLOGIES} ({IMPORT})"
        return scored(id, title, None, "No object shows whether the schedulers know the topology.", how)
    sentence = f"{percent(ratio)} of the GPU-hours of gangs were placed by schedulers that know links and switches."
    if ratio < 1:
        sentence += " kube-scheduler alone, and Kueue flavors without topologyName, count GPUs and see no links."
    return scored(id, title, ratio, sentence + left(unknown), fix, WEEKS)


def _topology_asked(facts: Row) -> Decision:
    """Whether jobs over several pods or nodes require to be placed close together."""
    id, title = "topology-required", "Gangs ask for the topology they need"
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
        return scored(id, title, None, "No record shows what gangs ask for.", fix)
    jobs = [job for gang in gangs(facts) if gang["topology"] == "none" for job in gang["jobs"]]
    sentence = f"{percent(ratio)} of the GPU-hours of gangs with a known request require a topology (a preferred one counts half)."
    sentence += f" Without: {named(jobs)}." if jobs else ""
    return scored(id, title, ratio, sentence + left(unknown), fix)


def _links_known(facts: Row) -> Decision:
    id, title = "links-told", "The links between a node's GPUs are known"
    nodes = sum(row["linkable_nodes"] for row in facts["topology"])
    linked = sum(row["linked_nodes"] for row in facts["topology"])
    fix = "On each node: (date -u +'# observed %FT%TZ'; nvidia-smi topo -m) > NODE.txt; then BUNDLE/topo/NODE.txt, or: gpuwatch import topo NODE.txt --cluster NAME"
    if not facts["topology"]:
        return scored(id, title, None, "No node with GPUs is known.", fix, HOURS)
    if not nodes:
        return nothing(id, title, "No node has more than one GPU.")
    if not linked:
        return scored(id, title, None, f"Known for none of {nodes} nodes with several GPUs.", fix, HOURS)
    sources = named(sorted({name for row in facts["topology"] for name in row["link_sources"] or ()}))
    return scored(
        id, title, linked / nodes, f"Known for {linked} of {nodes} nodes with several GPUs, from {sources}.", fix, HOURS
    )


def fabric(facts: Row) -> list[Decision]:
    return [_network_known(facts), _links_measured(facts), _health_read(facts), _sources_agree(facts)]


def _network_known(facts: Row) -> Decision:
    id, title = "network-told", "Each node's place in the network is known"
    rows = [row for row in facts["topology"] if row["nodes"] > 1]
    fix = _network_fix(facts)
    if not facts["topology"]:
        return scored(id, title, None, "No node with GPUs is known.", fix)
    if not rows:
        return nothing(id, title, "No cluster has several nodes with GPUs.")
    nodes, placed = sum(row["nodes"] for row in rows), sum(row["networked_nodes"] for row in rows)
    if not placed:
        return scored(id, title, None, f"Known for none of {nodes} nodes.", fix)
    sources = named(sorted({name for row in rows for name in row["network_sources"] or ()}))
    return scored(id, title, placed / nodes, f"Known for {placed} of {nodes} nodes, from {sources}.", fix)


def _network_fix(facts: Row) -> str:
    """How to report the place of nodes in the network, for the schedulers that place work here; for both if none is known."""
    known = {row["authority"] for row in facts["binder"] if row["authority"] not in NOT_GANGS}
    slurm = f"Slurm: {SLURM_TOPOLOGY}"
    labels = "Kubernetes: node labels of Topograph or of the cloud, in kubectl get nodes -o json."
    if known and "slurm" not in known:
        return labels
    return slurm if known == {"slurm"} else f"{slurm} {labels}"


def _links_measured(facts: Row) -> Decision:
    id, title = "links-measured", "Link traffic is measured"
    fix = "Add to the counters file of dcgm-exporter: DCGM_FI_PROF_NVLINK_TX_BYTES, DCGM_FI_PROF_NVLINK_RX_BYTES, DCGM_FI_PROF_PCIE_TX_BYTES, DCGM_FI_PROF_PCIE_RX_BYTES."
    if (older := _older_hours(id, title, facts)) is not None:
        return older
    held = sum(row["device_hours"] or 0 for row in facts["fabric"])
    if not held:
        return nothing(id, title, "No job with several GPUs was measured.")
    read = sum(max(row["nvlink_hours"] or 0, row["pcie_hours"] or 0) for row in facts["fabric"])
    if not read:
        return scored(
            id, title, None, "No source reads NVLink or PCIe traffic, so congestion cannot be seen.", fix, HOURS
        )
    return scored(
        id,
        title,
        rounded(read / held),
        f"Measured for {percent(read / held)} of the time of jobs with several GPUs.",
        fix,
        HOURS,
    )


def _health_read(facts: Row) -> Decision:
    id, title = "link-health", "Link errors are read"
    fix = "Add to the counters file of dcgm-exporter: DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, DCGM_FI_DEV_PCIE_REPLAY_COUNTER."
    if (older := _older_hours(id, title, facts)) is not None:
        return older
    devices = sum(row["devices"] for row in facts["fabric"])
    if not devices:
        return scored(
            id, title, None, "Nothing was measured.", "Run dcgm-exporter on every node with GPUs and scrape it."
        )
    read = sum(row["read_devices"] for row in facts["fabric"])
    if not read:
        return scored(id, title, None, f"Read for none of {devices} devices.", fix, HOURS)
    bad = sum(row["nvlink_error_devices"] for row in facts["fabric"])
    sentence = f"Read for {read} of {devices} devices; {bad} of them counted errors."
    return scored(id, title, read / devices, sentence, fix, HOURS)


def _older_hours(id: str, title: str, facts: Row) -> Decision | None:
    """For ledger hours of an older version: work was measured, but link traffic was not kept per device and hour."""
    measured = sum(facts["buckets"].get(name, {}).get("gpu_hours", 0) for name in MEASURED)
    if facts["fabric"] or not measured:
        return None
    fix = f"gpuwatch analyze --since {rfc3339(facts['window'].start_us)} computes them again."
    return scored(id, title, None, "These hours were computed by a version that did not keep it.", fix, HOURS)


def _sources_agree(facts: Row) -> Decision:
    id, title = "one-map", "Topology sources agree"
    if not any(row["linked_nodes"] or row["networked_nodes"] for row in facts["topology"]):
        return nothing(id, title, "No source describes the topology.")
    sources = ((row["link_sources"] or (), row["network_sources"] or ()) for row in facts["topology"])
    if all(len(names) < 2 for both in sources for names in both):
        return nothing(id, title, "One source describes it, so none can disagree.")
    nodes = sum(row["nodes"] for row in facts["topology"])
    odd = len({(row["cluster"], row["child"]) for row in facts["conflicts"]})
    sentence = f"Sources disagree about the place of {odd} of {nodes} nodes." if odd else "No two sources disagree."
    return scored(
        id,
        title,
        rounded(1 - min(1, odd / nodes)),
        sentence,
        "Correct the map that is wrong: GET /api/v1/topology names both.",
    )
