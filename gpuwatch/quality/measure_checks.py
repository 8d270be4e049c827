"""Doctor's checks of measurements: fields, links, evaluated detectors, unmeasured GPUs."""

from __future__ import annotations

from typing import Any

from gpuwatch.core.clock import HOUR_US, SECOND_US, rfc3339
from gpuwatch.core.gpu_specs import facts
from gpuwatch.core.words import gpus_and_slices
from gpuwatch.findings import custom_rules, evaluate
from gpuwatch.output.fix_hints import Advice
from gpuwatch.quality.check import FAIL, OK, WARN, Check, Evidence, named, place, unjudged
from gpuwatch.store import remembered
from gpuwatch.store.database import Store

UNOBSERVED_SHARE_MAX = 0.05

COUNTERS = {
    "lacks_sm_active": "DCGM_FI_PROF_SM_ACTIVE, gauge, The ratio of cycles an SM has at least 1 warp assigned.",
    "lacks_sm_occupancy": "DCGM_FI_PROF_SM_OCCUPANCY, gauge, The ratio of number of warps resident on an SM.",
    "lacks_gr_engine": "DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, Ratio of time the graphics engine is active.",
    "lacks_tensor": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, Ratio of cycles the tensor pipe is active.",
    "lacks_dram": "DCGM_FI_PROF_DRAM_ACTIVE, gauge, Ratio of cycles the device memory interface is active.",
}
"""Lines of dcgm-exporter's counters file, by what is missing without them."""
NEEDED = tuple(name for name in COUNTERS if name != "lacks_sm_occupancy")
"""Fields that detectors cannot do without."""
LINK_COUNTERS = {
    "NVLink": (
        "DCGM_FI_PROF_NVLINK_TX_BYTES, gauge, The rate of data transmitted over NVLink in bytes per second.",
        "DCGM_FI_PROF_NVLINK_RX_BYTES, gauge, The rate of data received over NVLink in bytes per second.",
    ),
    "PCIe": (
        "DCGM_FI_PROF_PCIE_TX_BYTES, gauge, The rate of data transmitted over the PCIe bus in bytes per second.",
        "DCGM_FI_PROF_PCIE_RX_BYTES, gauge, The rate of data received over the PCIe bus in bytes per second.",
    ),
}
"""Lines of dcgm-exporter's counters file for the traffic between GPUs."""
ADD = "Add to the counters file of dcgm-exporter (option -f)"
LISTED = "Add the lines of the check counters, above."
NOT_NAMED = "device not named by any source"
"""The reason in `unjudged` of a job whose devices are estimated."""
NO_SAMPLE = "no GPU that a job held was measured"


def missing_fields(row: dict[str, Any]) -> list[str]:
    """Names in NEEDED that a row of quality/doctor_fields lacks."""
    return [name for name in NEEDED if row[name]]


def lacking_fields(store: Store, since_us: int) -> list[dict[str, Any]]:
    """Nodes with held devices that never deliver a field of NEEDED."""
    return [row for row in remembered.rows(store, "quality/doctor_fields", since_us=since_us) if missing_fields(row)]


Links = dict[str, list[dict[str, Any]]]
"""Nodes whose link traffic is not read, by kind of link: see without_links."""


def fields(store: Store, since_us: int, evidence: Evidence, links: Links) -> Check:
    """Nodes whose exporter leaves out fields that detectors need, or the traffic of `links`."""
    if not evidence.held_samples:
        return unjudged("counters", NO_SAMPLE, evidence.measure_fix)
    lacking = lacking_fields(store, since_us)
    if not lacking and not links:
        return Check("counters", OK, "every measured node with held GPUs delivers the fields that detectors need")
    problems, lines = [], []
    if lacking:
        missing = [name for name in COUNTERS if any(r[name] for r in lacking)]
        names = ", ".join(COUNTERS[name].split(",")[0] for name in missing)
        devices = sum(r["devices"] for r in lacking)
        problems.append(f"{devices} held devices deliver no {names}: {named(place(r) for r in lacking)}")
        lines += [COUNTERS[name] for name in missing]
    for kind, rows in links.items():
        devices = sum(r["devices"] for r in rows)
        problems.append(f"no {kind} traffic is read of {devices} held devices: {named(place(r) for r in rows)}")
        lines += LINK_COUNTERS[kind]
    status = FAIL if lacking else WARN
    return Check("counters", status, "; ".join(problems), "\n".join([f"{ADD} on these nodes:", *lines]))


def without_links(store: Store, since_us: int) -> Links:
    """Nodes where jobs held several GPUs and NVLink (where their model has it) or PCIe traffic was not read, by kind."""
    rows = remembered.rows(store, "quality/doctor_links", since_us=since_us)
    found = {
        "NVLink": [r for r in rows if not r["reads_nvlink"] and facts(r["model"]).link_bytes_per_s is not None],
        "PCIe": [r for r in rows if not r["reads_pcie"]],
    }
    return {kind: lacking for kind, lacking in found.items() if lacking}


def evaluated(store: Store, evidence: Evidence, links: Links, listed: str = "") -> Check:
    """What detectors could not evaluate, because a field or a device's name was missing. `listed`: the fix of the check counters,
    whose lines are not repeated.
    """
    if not evidence.held_samples:
        return unjudged("verdicts", f"{NO_SAMPLE}, so no detector could evaluate its use", evidence.measure_fix)
    rows = remembered.rows(store, "quality/doctor_unjudged")
    reasons = [
        f"{_concerned(r)} on {r['devices']} devices for {r['device_us'] / HOUR_US:.1f} device-hours: {r['reason']}"
        for r in rows
    ]
    for kind, lacking in links.items():
        rule = "waiting on the network" if kind == "NVLink" else "congestion of links"
        reasons.append(f"{rule} on {sum(r['devices'] for r in lacking)} devices: no {kind} traffic")
    if not reasons:
        return Check("verdicts", OK, "every detector had the data it needs on every measured GPU")
    lines = [line for line in COUNTERS.values() if any(_field(line) in r["reason"] for r in rows)]
    if COUNTERS["lacks_sm_active"] in lines:
        lines.insert(1, COUNTERS["lacks_sm_occupancy"])
    lines += [line for kind in links for line in LINK_COUNTERS[kind]]
    more = [line for line in lines if line not in listed.splitlines()]
    fix = [f"{ADD}:", *more] if more else []
    if lines and not more:
        fix.append(LISTED)
    if any(r["reason"] == NOT_NAMED for r in rows):
        fix.append("Report which devices these jobs hold: see the check placement.")
    if not fix:
        fix.append("Import metrics of these devices: see the checks counters and unmeasured.")
    return Check("verdicts", WARN, f"could not be evaluated: {named(reasons, '; ')}", "\n".join(fix))


def detectors(store: Store, evidence: Evidence) -> Check:
    """Detectors that failed."""
    failures = [f"{one['detector']} in {one['cluster']}: {one['reason']}" for one in evaluate.failures(store)]
    failures += [str(refusal) for refusal in custom_rules.refused()]
    if failures:
        fix = "Correct the named file in detectors_dir, or report a bug in a built-in detector; the next analysis catches up."
        return Check("detectors", FAIL, f"detectors that failed: {named(failures, '; ')}", fix)
    if not evidence.measured:
        return unjudged("detectors", "no GPU is measured, so most detectors have no input", evidence.measure_fix)
    return Check("detectors", OK, "no detector failed")


def unmeasured(store: Store, evidence: Evidence, advice: Advice) -> Check:
    """GPUs that only a scheduler knows."""
    rows = [r for r in remembered.rows(store, "quality/doctor_devices") if r["unmeasured"]]
    if rows:
        slices = sum(r["slices"] for r in rows)
        found = f"{gpus_and_slices(sum(r['unmeasured'] for r in rows) - slices, slices)} known to a scheduler and never measured: "
        then = "name it in targets of [[dcgm]] or let its sender push here" if advice.live else "import its metrics"
        fix = f"Run dcgm-exporter on these nodes for every GPU (option -d f), check that it is scraped, and {then}."
        return Check("unmeasured", FAIL, found + named(map(_unmeasured, rows)), fix)
    if not evidence.scheduled:
        return unjudged("unmeasured", "no scheduler record names a node", evidence.scheduler_fix)
    return Check("unmeasured", OK, "every GPU known to a scheduler is measured")


def _unmeasured(row: dict[str, Any]) -> str:
    gpus, slices = row["unmeasured"] - row["slices"], row["slices"]
    return f"{place(row)} ({gpus_and_slices(gpus, slices) if slices else gpus})"


def gaps(store: Store, holds: list[dict[str, Any]], evidence: Evidence, since_us: int = 0) -> Check:
    """Held time without measurements, by node. The fix of nodes that lack a field is that of the check counters."""
    if not evidence.holds:
        return unjudged("telemetry", "no job that held a GPU is known", evidence.scheduler_fix)
    if not evidence.measured:
        return unjudged("telemetry", "no GPU is measured", evidence.measure_fix)
    bad = [r for r in holds if r["unobserved_us"] > UNOBSERVED_SHARE_MAX * r["held_us"]]
    if not bad:
        share = 100 * (1 - UNOBSERVED_SHARE_MAX)
        return Check("telemetry", OK, f"at least {share:.0f} % of held time is measured on every node")
    shares = (f"{place(r)} ({100 * r['unobserved_us'] / r['held_us']:.0f} %)" for r in bad)
    fix = "Check that dcgm-exporter runs there, that its target is scraped, and that profiling is not paused (dcgmi profile --resume)."
    without = {place(row) for row in lacking_fields(store, since_us) if row["lacks_sm_active"]}
    lacking = [place(row) for row in bad if place(row) in without]
    if len(lacking) == len(bad):
        return Check("telemetry", WARN, f"held time that was not measured: {named(shares)}", LISTED)
    first_us, last_us, held_us = remembered.sql(
        store,
        "select min(d.first_us), max(d.last_us), (select min(start_us) from segment where run_id is not null)"
        " from device d where d.measured",
    )[0]
    what = f"held time that was not measured: {named(shares)}"
    if first_us is not None and held_us is not None and first_us - held_us > HOUR_US:
        begin, end, held = (rfc3339(at_us // SECOND_US * SECOND_US) for at_us in (first_us, last_us, held_us))
        what += f". GPUs were measured from {begin} to {end} only, and jobs are known from {held}"
        fix = (
            "For the time before, import its metrics (gpuwatch backfill); or ask for the measured time: "
            f"--window {begin},{end}. Within it: {fix[0].lower()}{fix[1:]}"
        )
    if lacking:
        fix += f"\nOn {named(lacking)} its counters are missing. {LISTED}"
    return Check("telemetry", WARN, what, fix)


def _concerned(row: dict[str, Any]) -> str:
    """The detectors that a row of quality/doctor_unjudged is about: without a device's name, all that look at its use."""
    return "idle-hoarding, false-utilization and others" if row["reason"] == NOT_NAMED else str(row["detector"])


def _field(line: str) -> str:
    """`SM_ACTIVE` of a counters line, as reasons name it."""
    return line.split(",")[0].removeprefix("DCGM_FI_PROF_")
