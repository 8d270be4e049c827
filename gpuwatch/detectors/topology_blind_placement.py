"""Gangs placed farther apart than necessary."""

from __future__ import annotations

from gpuwatch.core.clock import MINUTE_US
from gpuwatch.rules.layers import DAYS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, register
from gpuwatch.topology.gangs import prepare
from gpuwatch.topology.grade import EXPOSED
from gpuwatch.topology.jobs import QUIET_LINK_RATIO, QUIET_PCIE_BYTES_PER_S

MEASURED_RATIO_MIN = 0.1
"""Exposed communication from which a slowdown counts as measured: beyond what traffic of loaders alone makes."""
IN_NODE = ("nvlink", "pcie", "numa", "node")


def _measured(e: Evidence) -> bool:
    return e.get("bandwidth_ratio") is not None and (e.get("measured_exposed_ratio") or 0) >= MEASURED_RATIO_MIN


def _summary(e: Evidence) -> str:
    there = f"{e['spans']}, while {e['best']} had {e['free_gpus']} free GPUs at {e['at']}"
    if e.get("slowdown_low") is None:
        return f"{there}: how much slower its links are is not known."
    low, high = f"{e['slowdown_low']:.2f}", f"{e['slowdown_high']:.2f}"
    times = low if low == high else f"{low} to {high}"
    return f"{there}: a step takes {times} times as long on links that are {e['bandwidth_ratio']:.1f} times slower."


def _headline(e: Evidence) -> str:
    spans = str(e["spans"])
    return f"{spans[:1].lower()}{spans[1:]} while {e['best']} was free"


def _remedy(e: Evidence) -> str:
    slurm = e.get("scheduler") == "slurm"
    if e["best_kind"] in IN_NODE and (e.get("nodes") or 1) > 1:
        if slurm:
            return "Ask for one node (--nodes=1 --gpus-per-node=N) or one block (--segment), and keep whole nodes free for it."
        return (
            "Ask for all GPUs in one pod, or gang-schedule with a required topology: Kueue podset-required-topology "
            "kubernetes.io/hostname, Volcano networkTopology mode hard."
        )
    if e["best_kind"] in IN_NODE:
        if slurm:
            return "Bind GPUs to sockets: --gres-flags=enforce-binding and --gpus-per-socket, with cores in gres.conf."
        return "Set the kubelet's topologyManagerPolicy to single-numa-node, so that a pod gets GPUs of one socket."
    if slurm:
        return "Ask for one switch (--switches=1) or one block (topology/block), so that the gang stays together."
    return (
        f"Require topology level {e['best_kind']} for the gang: Kueue podset-required-topology, or Volcano networkTopology "
        "mode hard."
    )


def _severity(e: Evidence, hours: float) -> str:
    if e.get("bandwidth_ratio") is None:
        return "low"
    return "high" if _measured(e) else "medium"


def _confidence(e: Evidence) -> float:
    if e.get("bandwidth_ratio") is None:
        return 0.4
    return 0.7 if _measured(e) else 0.5


TOPOLOGY_BLIND_PLACEMENT = register(
    Rule(
        id="topology-blind-placement",
        title="Gang on slow links while a faster place was free",
        why="A step waits for its slowest link; GPUs that could have been together wait on every exchange, all the time.",
        bucket="communication",
        layer="placement",
        effort=DAYS,
        needs=("runs", "several_devices"),
        thresholds=(
            Threshold("bandwidth_ratio_min", 1.5, "slowest link of the best place by that of its own: across sockets or worse"),
            Threshold("quiet_link_ratio", QUIET_LINK_RATIO, "NVLink below 1 % for half an hour: its GPUs do not communicate"),
            Threshold("quiet_pcie_bytes_per_s", QUIET_PCIE_BYTES_PER_S, "and PCIe below 1 GB/s a GPU"),
            Threshold("exposed_low", EXPOSED[0], "share of a step that gives the published loss of 15 % at r = 7"),
            Threshold("exposed_high", EXPOSED[1], "share of a step that gives the published loss of 40 % at r = 7"),
            Threshold("tensor_roof", 0.93, "dcgmproftester saturates tensor cores at about 0.93"),
            Threshold("dram_roof", 0.8, "NVIDIA DCGM user guide: practical DRAM peak"),
            Threshold("coverage_min", 0.8, "a half hour is evaluated if 80 % of it was sampled"),
            Threshold("warm_up_us", 10 * MINUTE_US, "first 10 minutes of a run: compile, download, collective init"),
            Threshold("cool_down_us", 2 * MINUTE_US, "last 2 minutes of a run: checkpoint and teardown"),
            Threshold("still_us", 10 * MINUTE_US, "links in use within the last 10 known minutes count as in use"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        severity=_severity,
        confidence=_confidence,
        prepare=prepare,
        measures={
            **dict.fromkeys(
                (
                    "gpus", "gb_per_s", "mean_gb_per_s", "best_gb_per_s", "bandwidth_ratio", "free_gpus", "nvlink_domains",
                    "pcie_switches", "sockets", "nodes", "leaves",
                ),
                "last",
            ),
            **dict.fromkeys(
                (
                    "nvlink_ratio", "nvlink_gb_per_s", "pcie_gb_per_s", "measured_exposed_ratio", "exposed_ratio_low",
                    "exposed_ratio_high", "slowdown_low", "slowdown_high",
                ),
                "mean",
            ),
            **dict.fromkeys(("talking_gpu_hours", "lost_gpu_hours_low", "lost_gpu_hours_high"), "sum"),
        },
    )
)  # fmt: skip
