"""What is missing or wrong in the inputs, each with the fix to paste."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gpuwatch import ledger
from gpuwatch.clock import HOUR_US, rfc3339
from gpuwatch.errors import BooksDoNotClose
from gpuwatch.store import Store

OK, WARN, FAIL = "ok", "warn", "fail"
COLUMNS = ("id", "status", "what", "fix")
NAMED_MAX = 8
"""Nodes, owners or reasons that one check names; it counts the rest."""
UNALLOCATED_SHARE_MAX = 0.01
UNOBSERVED_SHARE_MAX = 0.05

COUNTERS = {
    "lacks_sm_active": "DCGM_FI_PROF_SM_ACTIVE, gauge, The ratio of cycles an SM has at least 1 warp assigned.",
    "lacks_sm_occupancy": "DCGM_FI_PROF_SM_OCCUPANCY, gauge, The ratio of number of warps resident on an SM.",
    "lacks_gr_engine": "DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, Ratio of time the graphics engine is active.",
    "lacks_tensor": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, Ratio of cycles the tensor pipe is active.",
    "lacks_dram": "DCGM_FI_PROF_DRAM_ACTIVE, gauge, Ratio of cycles the device memory interface is active.",
}
"""Lines of dcgm-exporter's counters file by what is missing without them."""
NEEDED = tuple(name for name in COUNTERS if name != "lacks_sm_occupancy")
"""Those without which a verdict cannot be reached."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: `fix` is empty when all is well."""

    id: str
    status: str
    what: str
    fix: str = ""

    def as_dict(self) -> dict[str, str]:
        """The check as JSON has it."""
        return asdict(self)


def wrong(checks: Iterable[Check]) -> bool:
    """Whether anything needs a fix: doctor's exit code."""
    return any(check.status != OK for check in checks)


def examine(store: Store, since_us: int = 0) -> list[Check]:
    """Every check over what the store holds; prices and teams are those of the last pricing.

    From `since_us`, the start of an hour, on: what is measured and held before is left out.
    """
    holds = store.rows("reports/doctor_holds", since_us=since_us)
    return [
        _analysed(store),
        _rejects(store),
        _fields(store, since_us),
        _unjudged(store),
        _unmeasured(store),
        _unknown(store),
        _owners(store, since_us),
        _rates(store),
        _estimated(holds),
        _conflicts(holds),
        _gaps(holds),
        _books(store, since_us),
    ]


def missing_fields(row: dict[str, Any]) -> list[str]:
    """Names in COUNTERS of the readings that verdicts need and a row of reports/doctor_fields lacks."""
    return [name for name in NEEDED if row[name]]


def _analysed(store: Store) -> Check:
    files, hours, devices = store.sql(
        "select (select count(*) from import_file), (select count(*) from dirty_hour), (select count(*) from device)"
    )[0]
    if not devices:
        words = "nothing has been analysed" if files else "nothing has been imported"
        fix = "gpuwatch analyze" if files else "gpuwatch import bundle DIR, then gpuwatch analyze"
        return Check("analysis", FAIL, words, fix)
    if hours:
        return Check("analysis", WARN, f"{hours} hours are newer than the books", "gpuwatch analyze")
    return Check("analysis", OK, f"{files} files imported, {devices} devices, books up to date")


def _rejects(store: Store) -> Check:
    rows = store.rows("reports/doctor_rejects")
    if not rows:
        return Check("rejects", OK, "no input was refused")
    lines = [
        f"{r['path']}:{r['line']}: {r['reason']} ({r['times']} times){': ' + r['example'] if r['example'] else ''}"
        for r in rows[:NAMED_MAX]
    ]
    what = f"{sum(r['times'] for r in rows)} pieces of input refused for {len(rows)} reasons"
    return Check("rejects", WARN, what, "\n".join(["Correct these and import the files again:", *lines]))


def _fields(store: Store, since_us: int) -> Check:
    lacking = [r for r in store.rows("reports/doctor_fields", since_us=since_us) if missing_fields(r)]
    if not lacking:
        return Check("counters", OK, "every node with held GPUs gives the readings that verdicts need")
    missing = [name for name in COUNTERS if any(r[name] for r in lacking)]
    fields = ", ".join(COUNTERS[name].split(",")[0] for name in missing)
    devices = sum(r["devices"] for r in lacking)
    what = f"{devices} held devices give no {fields}: {_named(_place(r) for r in lacking)}"
    fix = ["Add to the counters file of dcgm-exporter (option -f) on these nodes:"]
    return Check("counters", FAIL, what, "\n".join([*fix, *(COUNTERS[name] for name in missing)]))


def _unjudged(store: Store) -> Check:
    rows = store.rows("reports/doctor_unjudged")
    if not rows:
        return Check("verdicts", OK, "every verdict could be reached")
    reasons = [
        f"{r['detector']} on {r['devices']} devices for {r['device_us'] / HOUR_US:.1f} device-hours: {r['reason']}"
        for r in rows
    ]
    lines = [line for name, line in COUNTERS.items() if any(_field(line) in r["reason"] for r in rows)]
    if COUNTERS["lacks_sm_active"] in lines:
        lines.insert(1, COUNTERS["lacks_sm_occupancy"])
    if lines:
        fix = ["Add to the counters file of dcgm-exporter (option -f):", *lines]
    else:
        fix = ["Import metrics of these devices: see the checks counters and unmeasured."]
    return Check("verdicts", WARN, f"could not be judged: {_named(reasons, '; ')}", "\n".join(fix))


def _unmeasured(store: Store) -> Check:
    rows = [r for r in store.rows("reports/doctor_devices") if r["unmeasured"]]
    if not rows:
        return Check("unmeasured", OK, "every GPU that a scheduler knows is measured")
    what = f"{sum(r['unmeasured'] for r in rows)} GPUs are known to a scheduler and were never measured: "
    fix = "Run dcgm-exporter on these nodes for every GPU (option -d f), check that it is scraped, and import its metrics."
    return Check("unmeasured", FAIL, what + _named(f"{_place(r)} ({r['unmeasured']})" for r in rows), fix)


def _unknown(store: Store) -> Check:
    rows = [r for r in store.rows("reports/doctor_devices") if r["unknown"]]
    if not rows:
        return Check("unscheduled", OK, "a scheduler knows every node that is measured")
    what = f"{sum(r['unknown'] for r in rows)} GPUs are measured on nodes that no scheduler record names: "
    fix = (
        "Import the scheduler's records of the same time:\n"
        "gpuwatch import scontrol scontrol_node.txt   # scontrol show node -d\n"
        "gpuwatch import k8s-json nodes.json pods.json   # kubectl get nodes,pods -A -o json"
    )
    return Check("unscheduled", WARN, what + _named(_place(r) for r in rows), fix)


def _owners(store: Store, since_us: int) -> Check:
    rows = store.rows("reports/doctor_owners", since_us=since_us)
    share = sum(r["held_us"] for r in rows) / rows[0]["all_held_us"] if rows else 0.0
    if share <= UNALLOCATED_SHARE_MAX:
        return Check("owners", OK, f"{100 * share:.1f} % of held time has no team")
    lines = list(dict.fromkeys(line for r in rows if (line := _team_line(r))))
    what = f"{100 * share:.1f} % of held time has no team: it is charged to __unallocated__"
    fix = ["Add to teams.csv (columns match_kind,match,team), put the team for TEAM, and import it again:"]
    return Check("owners", WARN, what, "\n".join([*fix, *(lines[:NAMED_MAX] or ["user,NAME,TEAM"])]))


def _team_line(row: dict[str, Any]) -> str | None:
    """A rule that gives this owner a team, by the widest name it has."""
    for kind, column in (("account", "account"), ("namespace", "namespace"), ("user", "user_name"), ("queue", "queue")):
        if row[column]:
            return f"{kind},{row[column]},TEAM"
    return None


def _rates(store: Store) -> Check:
    rows = store.rows("reports/doctor_rates")
    if not rows:
        return Check("rates", OK, "a rate covers every GPU-hour")
    hours = sum(r["lacking_us"] for r in rows) / HOUR_US
    lines = [f"{r['model'] or '*'},on_demand,USD_PER_HOUR,{rfc3339(r['first_us'])}," for r in rows[:NAMED_MAX]]
    fix = ["Add to rates.csv (gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to) and import it again:"]
    return Check(
        "rates", FAIL, f"{hours:.1f} GPU-hours have no rate, so no cost", "\n".join([*fix, *dict.fromkeys(lines)])
    )


def _estimated(holds: Sequence[dict[str, Any]]) -> Check:
    rows = [r for r in holds if r["estimated_us"]]
    if not rows:
        return Check("placement", OK, "which device each job held is known")
    hours = sum(r["estimated_us"] for r in rows) / HOUR_US
    what = f"{hours:.1f} device-hours are held by a job whose devices on the node are estimated: {_named(_place(r) for r in rows)}"
    fix = (
        "Start dcgm-exporter with --hpc-job-mapping-dir and let the Slurm prolog write there, "
        "or import what scontrol says while jobs run:\n"
        "scontrol show job -d > scontrol_job.txt && gpuwatch import scontrol scontrol_job.txt"
    )
    return Check("placement", WARN, what, fix)


def _conflicts(holds: Sequence[dict[str, Any]]) -> Check:
    rows = [r for r in holds if r["conflict_us"]]
    if not rows:
        return Check("conflicts", OK, "no device is claimed by two jobs at once")
    hours = sum(r["conflict_us"] for r in rows) / HOUR_US
    what = f"{hours:.1f} device-hours are claimed by two jobs at once, charged to the newer: {_named(_place(r) for r in rows)}"
    fix = "Check that one scheduler owns these nodes and that their records use one time zone (import --timezone)."
    return Check("conflicts", WARN, what, fix)


def _gaps(holds: Sequence[dict[str, Any]]) -> Check:
    bad = [r for r in holds if r["unobserved_us"] > UNOBSERVED_SHARE_MAX * r["held_us"]]
    if not bad:
        return Check(
            "telemetry", OK, f"at least {100 * (1 - UNOBSERVED_SHARE_MAX):.0f} % of held time is measured on every node"
        )
    shares = (f"{_place(r)} ({100 * r['unobserved_us'] / r['held_us']:.0f} %)" for r in bad)
    fix = "Check that dcgm-exporter runs there, that its target is scraped, and that profiling is not paused (dcgmi profile --resume)."
    return Check("telemetry", WARN, f"held time that nobody measured: {_named(shares)}", fix)


def _books(store: Store, since_us: int) -> Check:
    clusters = store.sql("select cluster, min(start_us), max(end_us) from segment group by 1 order by 1")
    for cluster, start_us, end_us in clusters:
        try:
            ledger.check(store, cluster, max(start_us // HOUR_US * HOUR_US, since_us), -(-end_us // HOUR_US) * HOUR_US)
        except BooksDoNotClose as error:
            return Check("books", FAIL, str(error), "gpuwatch analyze")
    return Check("books", OK, "every GPU-microsecond is in exactly one bucket")


def _field(line: str) -> str:
    """`SM_ACTIVE` of a counters line, as reasons name it."""
    return line.split(",")[0].removeprefix("DCGM_FI_PROF_")


def _place(row: dict[str, Any]) -> str:
    return f"{row['cluster']}/{row['node']}"


def _named(values: Iterable[str], between: str = ", ") -> str:
    """The first NAMED_MAX of them, and how many more."""
    every = list(values)
    more = f" and {len(every) - NAMED_MAX} more" if len(every) > NAMED_MAX else ""
    return between.join(every[:NAMED_MAX]) + more
