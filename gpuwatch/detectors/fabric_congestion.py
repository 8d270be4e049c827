"""Gangs on one switch that exchange less data than before."""

from __future__ import annotations

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US
from gpuwatch.rules.layers import WEEKS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, count, register
from gpuwatch.topology.jobs import QUIET_LINK_RATIO, QUIET_PCIE_BYTES_PER_S


def _summary(e: Evidence) -> str:
    return (
        f"Leaf {e['leaf']}: {e['fallen_gangs']} of {count(e['gangs'], 'gang')} exchange {100 * e['fall_ratio']:.0f} % less than "
        f"in the week before and wait {100 * e['rise_ratio']:.0f} % of the time more, on {count(e['devices'], 'GPU')}."
    )


def _headline(e: Evidence) -> str:
    return (
        f"{{slows|slowed}} {e['fallen_gangs']} of {count(e['gangs'], 'gang')}: they {{exchange|exchanged}} {100 * e['fall_ratio']:.0f} % "
        "less than in the week before"
    )


def _remedy(e: Evidence) -> str:
    first = "Replace the links that make errors" if _errors(e) else "Look for link errors"
    return (
        f"{first} on {e['leaf']}; then look at its uplinks (oversubscription), at ECN marks, CNPs and PFC pauses, and at what "
        "storage shares them."
    )


def _errors(e: Evidence) -> bool:
    return bool(e.get("nvlink_errors") or e.get("unhealthy_gpus"))


FABRIC_CONGESTION = register(
    Rule(
        id="fabric-congestion",
        title="Gangs on one switch exchange less data than before",
        why="A congested or failing fabric slows every gang on it at once; each of them looks like a slow job of its own.",
        bucket="communication",
        layer="fabric",
        effort=WEEKS,
        needs=("runs", "leaf_switches"),
        thresholds=(
            Threshold("fall_ratio_min", 0.15, "domain: link share 15 % below its own week"),
            Threshold("rise_ratio_min", 0.05, "and a twentieth of the time more in gap, communication or stalled"),
            Threshold("gangs_min", 2, "domain: one gang may have changed its batch, two independent ones have not"),
            Threshold("gangs_ratio_min", 0.5, "and half of those on the switch that can be evaluated"),
            Threshold("baseline_us", 7 * DAY_US, "domain: against its own seven days, at the same number of GPUs"),
            Threshold("baseline_hours_min", 6, "fewer hours before are no baseline"),
            Threshold("quiet_link_ratio", QUIET_LINK_RATIO, "NVLink below 1 %: its GPUs do not communicate"),
            Threshold("quiet_pcie_bytes_per_s", QUIET_PCIE_BYTES_PER_S, "and PCIe below 1 GB/s a GPU"),
            Threshold("confidence_errors", 0.8, "links report errors too"),
            Threshold("confidence_alone", 0.6, "traffic alone: the switches themselves are not read"),
            Threshold("coverage_min", 0.8, "an hour is evaluated if 80 % of it was sampled"),
            Threshold("warm_up_us", 10 * MINUTE_US, "first 10 minutes of a run: compile, download, collective init"),
            Threshold("still_us", HOUR_US, "congested within the last hour of what is known"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        severity=lambda e, hours: "high",
        least_us=2 * HOUR_US,
        measures={
            **dict.fromkeys(("gangs", "fallen_gangs", "unhealthy_gpus"), "max"),
            "devices": "devices",
            "baseline_hours": "min",
            **dict.fromkeys(("nvlink_errors", "pcie_replays"), "sum"),
            **dict.fromkeys(
                (
                    "fall_ratio", "rise_ratio", "nvlink_ratio", "usual_nvlink_ratio", "pcie_gb_per_s", "usual_pcie_gb_per_s",
                ),
                "mean",
            ),
        },
    )
)  # fmt: skip
