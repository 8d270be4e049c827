"""Which charts prove the findings of each rule: lines over time, its members side by side, and numbers against limits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spec:
    """The charts of one rule. Names are those of the evidence or of the thresholds; titles may have evidence in braces."""

    members: str = ""
    """Title of the chart of all members of the job; the API sends them for rules that compare members."""
    limit: str = ""
    """A threshold drawn through the members."""
    lines: str = ""
    """Title of the chart over time."""
    columns: tuple[str, ...] = ()
    """Columns over time; those of one unit share a chart."""
    limits: tuple[tuple[str, str, str], ...] = ()
    """(column, name, label) of lines drawn through columns."""
    marks: tuple[tuple[str, str], ...] = ()
    """(threshold, label) of times after the start."""
    bars: str = ""
    """Title of the chart of numbers."""
    numbers: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    """Limits and usual values, drawn in the colour of thresholds."""


HOLLOW = ("gr_engine_ratio", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio")
SPECS: dict[str, Spec] = {
    "blind-spot": Spec(bars="Held without any measurement", numbers=("unobserved_gpu_hours",)),
    "checkpoint-stall": Spec(
        lines="{pauses} pauses, one every {period_minutes} min",
        columns=("gr_engine_ratio", "tensor_active_ratio"),
        bars="Share of the time paused",
        numbers=("duty_ratio",),
        against=("duty_ratio_min", "duty_ratio_max"),
    ),
    "degraded-gpu": Spec(
        lines="Readings of this GPU by the hour",
        columns=("samples", "gpu_temp_celsius", "pcie_lanes"),
        limits=(("pcie_lanes", "pcie_lanes_usual", "usual lanes"),),
        bars="Remapped rows, against the limit",
        numbers=("remapped_uncorrectable_rows",),
        against=("remapped_rows_max",),
    ),
    "driver-drift": Spec(bars="Nodes with another driver", numbers=("odd_nodes", "drivers", "unmet_jobs", "failed_starts")),
    "fabric-congestion": Spec(
        lines="Link traffic of the gang",
        columns=("link_ratio", "pcie_bytes_per_s"),
        limits=(("link_ratio", "usual_nvlink_ratio", "usual"), ("pcie_bytes_per_s", "usual_pcie_gb_per_s", "usual")),
        bars="The fall in traffic and the rise in waiting, against their limits",
        numbers=("fall_ratio", "rise_ratio"),
        against=("fall_ratio_min", "rise_ratio_min"),
    ),
    "failed-work": Spec(
        lines="What the failed runs did",
        columns=("gr_engine_ratio", "tensor_active_ratio"),
        bars="Lost work, against the limit",
        numbers=("lost_gpu_hours", "held_gpu_hours"),
        against=("lost_gpu_hours_min",),
    ),
    "false-utilization": Spec(
        members="SM activity of each GPU", limit="sm_active_max", lines="Busy, but few SMs are active", columns=HOLLOW
    ),
    "fragmentation": Spec(
        bars="Free GPUs, and the largest gang that one node could take",
        numbers=("free_gpus", "largest_gang_gpus"),
        against=("wanted_gpus",),
    ),
    "gang-partial": Spec(
        members="The members that run wait for the rest",
        bars="Members that run, against those needed",
        numbers=("running_pods", "held_devices", "missing_devices"),
        against=("pods_min",),
    ),
    "idle-hoarding": Spec(
        members="{idle_devices} of {devices} GPUs held and idle",
        marks=(("idle_us_min", "idle"), ("warn_us", "warn"), ("reclaim_us", "reclaim")),
    ),
    "memory-leak": Spec(
        lines="Memory in use by the hour",
        columns=("fb_used_bytes",),
        limits=(("fb_used_bytes", "baseline_mib_max", "usual at most"),),
        bars="Growth an hour, against its limit",
        numbers=("growth_ratio_per_hour",),
        against=("growth_ratio_per_hour_min",),
    ),
    "mig-mismatch": Spec(
        lines="The slice's memory and SMs, against what a {fit} offers",
        columns=("fb_used_bytes", "sm_active_ratio"),
        limits=(
            ("fb_used_bytes", "memory_gib", "most used"),
            ("fb_used_bytes", "fit", "{fit}"),
            ("fb_used_bytes", "profile", "{profile}"),
            ("sm_active_ratio", "sm_active_max_ratio", "most used"),
            ("sm_active_ratio", "fit", "80 % of a {fit}"),
        ),
    ),
    "mig-mixed-pool": Spec(
        bars="One pool has whole GPUs and MIG GPUs, and requests wait",
        numbers=("whole_gpus", "mig_gpus", "starved_devices"),
    ),
    "mig-speculative": Spec(
        bars="How much of the cut slices was held",
        numbers=("held_ratio",),
        against=("held_ratio_max",),
    ),
    "mig-training": Spec(
        members="{members} members of one job on slices of {gpus} GPUs",
        bars="Slices and GPUs of the job",
        numbers=("slices", "gpus"),
    ),
    "node-out-of-service": Spec(bars="GPU-hours that no job could use", numbers=("gpu_hours",)),
    "noisy-neighbour": Spec(
        lines="Work of this tenant",
        columns=("gr_engine_ratio", "sm_active_ratio"),
        bars="Its work while the neighbour was quiet and loud",
        numbers=("quiet_ratio", "loud_ratio", "lost_ratio"),
        against=("drop_min",),
    ),
    "own-vs-cloud": Spec(
        bars="Use of the pool, against the break-even",
        numbers=("utilisation_ratio",),
        against=("break_even_ratio",),
    ),
    "partial-island": Spec(
        members="The GPUs of the island while others waited",
        bars="GPUs of the island",
        numbers=("used_gpus", "free_gpus"),
        against=("island_gpus",),
    ),
    "preemption-thrash": Spec(
        bars="Preemptions, against the limit", numbers=("preemptions",), against=("preemptions_min",)
    ),
    "right-sizing": Spec(
        lines="Use over time, with the limits of the rule",
        columns=("sm_active_ratio", "fb_used_bytes"),
        limits=(("sm_active_ratio", "sm_active_max", "at most"), ("fb_used_bytes", "fb_used_max_gib", "peak")),
    ),
    "scheduler-conflict": Spec(
        bars="Nodes with several schedulers, evictions and refusals",
        numbers=("mixed_nodes", "evictions_an_hour", "refused_pods_a_day"),
        against=("evictions_min", "refused_min"),
    ),
    "small-batch": Spec(
        members="SM activity of each GPU",
        limit="sm_active_max",
        lines="Busy with small kernels: few SMs, low occupancy",
        columns=("gr_engine_ratio", "sm_active_ratio", "sm_occupancy_ratio"),
        limits=(("sm_occupancy_ratio", "occupancy_max", "at most"),),
    ),
    "spot-suitability": Spec(bars="Work lost to interruptions, and the spot price", numbers=("lost_ratio", "spot_price_ratio")),
    "starvation": Spec(
        bars="The queue's use, against its quota",
        numbers=("used_devices", "waiting_devices", "borrowed_devices"),
        against=("quota_devices",),
    ),
    "straggler": Spec(
        members="{slow_gpus} of {gpus} GPUs works while the others wait",
        bars="SM clock of this GPU and of its gang",
        numbers=("sm_clock_mhz",),
        against=("gang_sm_clock_mhz",),
    ),
    "topology-blind-placement": Spec(
        members="NVLink use of each GPU",
        lines="NVLink and PCIe rates of the job",
        columns=("nvlink_bytes_per_s", "pcie_bytes_per_s"),
        limits=(("nvlink_bytes_per_s", "gb_per_s", "slowest link"),),
        bars="Slowest link of this placement, and of the best free one",
        numbers=("gb_per_s",),
        against=("best_gb_per_s",),
    ),
}  # fmt: skip
"""By rule; rules of the site have the default."""
