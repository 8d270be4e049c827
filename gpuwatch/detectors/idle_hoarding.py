"""Held and idle GPUs."""

from __future__ import annotations

from gpuwatch.core.clock import MINUTE_US
from gpuwatch.rules.layers import HOURS
from gpuwatch.rules.not_running import remedy_of
from gpuwatch.rules.rule import EvaluationScope, Evidence, Rule, Threshold, count, lasting, register
from gpuwatch.store.database import Store

_SESSION = (
    "Close the session, and open it again when there is work: its files stay. Write and read code on CPUs or on a MIG slice. An idle culler (JupyterHub: "
    "jupyterhub-idle-culler) or a short time limit (Slurm: a partition for sessions) ends what is forgotten."
)
_OVER = (
    "The session has ended. An idle culler (JupyterHub: jupyterhub-idle-culler) or a short time limit (Slurm: a partition for sessions) ends the next "
    "that is forgotten."
)


def prepare(store: Store, scope: EvaluationScope) -> None:
    """Makes what names sessions, and pods that do not run."""
    store.run("views/session")
    store.run("views/pod_state")


def _summary(e: Evidence) -> str:
    return (
        f"{e['idle_devices']} of {count(e['devices'], 'device')} idle, {e['shape']}: "
        f"{count(e['idle_device_hours'], 'device-hour')} in {count(e['idle_runs'], 'idle run')}, "
        f"the longest {lasting(e['longest_idle_minutes'], 'minutes')}."
        + (f" No container of its pod runs: {e['not_running']}." if e.get("not_running") else "")
        + (" Which of the node's devices it holds is not known; all of them idled." if e.get("placement") else "")
    )


def _headline(e: Evidence) -> str:
    of = f" of {e['devices']}" if e["idle_devices"] < e["devices"] else ""
    reason = f" while no container runs ({e['not_running']})" if e.get("not_running") else ""
    return f"{{holds|held}} {count(e['idle_devices'], 'idle GPU')}{of}{reason}"


def _remedy(e: Evidence) -> str:
    if e.get("not_running") and not e.get("job_ended"):
        return remedy_of(e["not_running"])
    if e.get("is_serving"):
        return "Scale the service to zero while no requests come, or share the GPU with others (MIG slice, MPS or time-slicing)."
    if e.get("use") == "interactive" and e["idle_devices"] == e["devices"]:
        return _OVER if e.get("job_ended") else _SESSION
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
        prepare=prepare,
    )
)
