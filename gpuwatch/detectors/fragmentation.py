"""Free GPUs that no usual request can use."""

from __future__ import annotations

from gpuwatch.capacity.make_room import prepare
from gpuwatch.core.clock import MINUTE_US
from gpuwatch.rules.layers import WEEKS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, average, lasting, register


def _summary(e: Evidence) -> str:
    free = average(e["free_gpus"], "GPU")
    free = f"{free[0].upper()}{free[1:]} free, the largest gang that one node could take {e['largest_gang_gpus']:g}"
    if e.get("starved_minutes"):
        waited = lasting(e["starved_minutes"], "minutes")
        if e.get("waited_minutes"):
            whole = lasting(e["waited_minutes"], "minutes")
            return f"{free}; {e['waiting_job']} waited {whole} for {e['shape']}, at least {waited} of it while as many GPUs were free."
        return f"{free}; {e['waiting_job']} waited {waited} for {e['shape']} although as many GPUs were free."
    return f"{free}; the usual requests cannot use {100 * e['fragmentation_ratio']:.0f} % of them."


def _headline(e: Evidence) -> str:
    free = f"{{has|had}} {average(e['free_gpus'], 'free GPU')}"
    if e.get("starved_minutes"):
        return f"{free} too scattered for job {e['waiting_job']}, which {{waits|waited}} for {e['shape']}"
    return f"{free}, {100 * e['fragmentation_ratio']:.0f} % of them too scattered for the usual requests"


def _remedy(e: Evidence) -> str:
    if e.get("moves"):
        return f"Move or requeue {e['moves']}: that frees {e['shape']}. Then pack small jobs onto few nodes."
    return "Pack small jobs onto few nodes (bin-packing, or nodes of their own), so that whole nodes stay free."


FRAGMENTATION = register(
    Rule(
        id="fragmentation",
        title="Free GPUs too scattered to use",
        why="Free GPUs cost money, and no usual request can use them because they are not close together.",
        bucket="stranded",
        layer="placement",
        effort=WEEKS,
        needs=("pending|workloads|asked_days",),
        thresholds=(
            Threshold("fragmentation_min", 0.5, "half of what is free cannot be used: F / free of FGD, over one hour"),
            Threshold("requests_min", 10, "requests in four weeks needed to estimate the usual job shapes"),
            Threshold(
                "wait_us_min", 30 * MINUTE_US, "a gang that waits half an hour while enough GPUs are free is starved"
            ),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        severity=lambda e, _: "critical" if e.get("starved_minutes") else "medium",
        measures={
            "free_gpus": "mean",
            "fragmentation_ratio": "mean",
            "largest_gang_gpus": "max",
            "wanted_gpus": "max",
            "starved_minutes": "sum",
            "waited_minutes": "max",
            "moved_gpus": "last",
        },
        confidence=lambda e: 0.9 if e.get("starved_minutes") else 0.8,
        prepare=prepare,
    )
)
