"""Held and idle GPUs."""

from __future__ import annotations

from gpuwatch.core.clock import MINUTE_US
from gpuwatch.rules.layers import HOURS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, count, lasting, register


def _summary(e: Evidence) -> str:
    return (
        f"{e['idle_devices']} of {count(e['devices'], 'device')} idle, {e['shape']}: "
        f"{count(e['idle_device_hours'], 'device-hour')} in {count(e['idle_runs'], 'idle run')}, "
        f"the longest {lasting(e['longest_idle_minutes'], 'minutes')}."
        + (" Which of the node's devices it holds is not known; all of them idled." if e.get("placement") else "")
    )


def _headline(e: Evidence) -> str:
    of = f" of {e['devices']}" if e["idle_devices"] < e["devices"] else ""
    return f"{{holds|held}} {count(e['idle_devices'], 'idle GPU')}{of}"


def _remedy(e: Evidence) -> str:
    if e.get("is_serving"):
        return "Scale the service to zero while no requests come, or share the GPU with others (MIG slice, MPS or time-slicing)."
    if e.get("job_ended"):
        return "The job has ended. Next time, ask for the devices that it uses, and let it end when its work is done."
    if e["idle_devices"] < e["devices"]:
        return f"Shrink the request to {count(e['devices'] - e['idle_devices'], 'device')}, or give every rank its own device."
    if e["tier"] == "reclaim":
        return "Release the devices: end the job or scale it to zero; it may be resubmitted when there is work."
    return "Release or shrink the request while nothing runs; for notebooks set an idle culler."


IDLE_HOARDING = register(
    Rule(
        id="idle-hoarding",
        title="GPUs held and idle",
        why="A held GPU is blocked for everyone else; the team that holds it pays for its idle hours.",
        bucket="hoarded",
        layer="scheduling",
        effort=HOURS,
        needs=("runs", "idle_spans"),
        thresholds=(
            Threshold("idle_us_min", 15 * MINUTE_US, "generic reclaim time; the ledger's hoarded bucket uses the same"),
            Threshold("warm_up_us", 10 * MINUTE_US, "first 10 minutes of a run: compile, download, collective init"),
            Threshold("grace_us", MINUTE_US, "the first idle minute of each run is free"),
            Threshold("warn_us", 60 * MINUTE_US, "job_defense_shield warns at 60 minutes"),
            Threshold("reclaim_us", 120 * MINUTE_US, "job_defense_shield cancels at 120 minutes"),
            Threshold("still_us", 5 * MINUTE_US, "idle within the last 5 known minutes counts as ongoing"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        mode="runs",
    )
)
