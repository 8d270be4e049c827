"""Doctor's checks of who held GPUs: teams, estimated devices, conflicts, and the ledger."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from gpuwatch.core.clock import HOUR_US, from_us
from gpuwatch.core.errors import LedgerDoesNotClose
from gpuwatch.ledger.hours import check as check_ledger
from gpuwatch.output.fix_hints import Advice
from gpuwatch.policy.inferred import NONE
from gpuwatch.quality.check import FAIL, NAMED_MAX, OK, WARN, Check, Evidence, named, place, unjudged
from gpuwatch.store import remembered
from gpuwatch.store.database import Store

Row = dict[str, Any]

UNALLOCATED_SHARE_MAX = 0.01
TEAM_LABELS = (
    "team",
    "app.kubernetes.io/team",
    "squad",
    "group",
    "department",
    "project",
    "app.kubernetes.io/part-of",
    "owner",
)
"""Labels of jobs that name their team by custom; the first of those that name most of the time is proposed."""
LABEL_SHARE_MIN = 0.5
"""Part of the held time without a rule that a label has to name."""
LABEL_VALUES_MAX = 200
"""Values above which a label tells jobs or users apart rather than teams."""
NO_HOLD = "no job that held a GPU is known"
OPTIONAL = "Nothing needs to be done. For teams of other names:"
SACCT = (
    "sacct -a -D -X -P -S {day} -o JobID,JobIDRaw,User,Account,Partition,QOS,JobName,State,Submit,Eligible,Start,End,"
    "ElapsedRaw,Suspended,NNodes,NodeList,ReqTRES,AllocTRES,Reason,Comment > sacct.txt"
)
"""Writes what `import sacct` reads."""
TRACE = "trace"
"""In place of a scheduler: the jobs of a published trace without placements."""
PLACEMENT_FIXES = {
    "kubernetes": "Kubernetes: let dcgm-exporter label its readings with pods (DCGM_EXPORTER_KUBERNETES=true, with "
    "/var/lib/kubelet/pod-resources mounted) and scrape it; a dump has no devices.",
    "ray": "Ray: let dcgm-exporter run on the nodes of the Ray cluster and scrape it, and read the head while jobs run: the GPUs of "
    "its processes tell which job has which GPU.",
    TRACE: "The trace has no placements: GPU-seconds are exact, and which GPU a job had stays an estimate.",
}
"""How to report the devices of jobs, by scheduler."""


def owners(store: Store, since_us: int, evidence: Evidence, advice: Advice) -> Check:
    """Held time without a team, and with an inferred one."""
    if not evidence.holds:
        return unjudged("owners", NO_HOLD, evidence.scheduler_fix)
    rows = remembered.rows(store, "quality/doctor_owners", since_us=since_us)
    lacking, inferred = ([r for r in rows if r[kind]] for kind in ("lacking", "inferred"))
    share, guessed = (
        sum(r["held_us"] for r in some) / some[0]["all_held_us"] if some else 0.0 for some in (lacking, inferred)
    )
    what = f"{100 * share:.1f} % of held time has no team"
    if share > UNALLOCATED_SHARE_MAX:
        what += ": it is charged to __unallocated__"
    if inferred:
        teams = named(dict.fromkeys(r["team"] for r in inferred))
        what += f"; {100 * guessed:.1f} % has a team that its account or namespace names (inferred): {teams}"
    label = _label(store, since_us) if lacking or inferred else None
    if label is not None:
        values = f"{label['values_count']} values: {named(label['names'])}"
        of = "the held time" if share + guessed > 0.995 else f"these {100 * (share + guessed):.1f} %"
        what += f". The label {label['key']} names {100 * label['share']:.1f} % of {of} ({values})"
        return Check("owners", WARN, what, advice.team_lines([f"label:{label['key']},*,*"]))
    if share > UNALLOCATED_SHARE_MAX:
        return Check("owners", WARN, what, _owner_fix(lacking, advice))
    if inferred:
        keep = f'To have no team instead where no rule decides: ownership_default = "{NONE}" in gpuwatch.toml.'
        fix = f"{OPTIONAL}\n{advice.teams(_team_lines(inferred)[:NAMED_MAX])}\n{keep}"
        return Check("owners", OK, what, fix)
    return Check("owners", OK, what)


def _owner_fix(lacking: Sequence[Row], advice: Advice) -> str:
    """How to name the teams of time without one: rules for the names that are known, or the records that have names."""
    nameless = {row["cluster"]: row["scheduler"] for row in lacking if _team_line(row) is None}
    day = f"{from_us(min((row['begun_us'] for row in lacking), default=0)):%Y-%m-%d}"
    fixes = [advice.teams(lines[:NAMED_MAX])] if (lines := _team_lines(lacking)) else []
    for cluster, scheduler in sorted(nameless.items())[:NAMED_MAX]:
        if scheduler == "slurm" and advice.live:
            fixes.append(
                f"Jobs of {cluster} have a number and no user: name [[slurm]] in gpuwatch.toml, which asks sacct."
            )
        elif scheduler == "slurm":
            words = f"import sacct sacct.txt --cluster {shlex.quote(cluster)}"
            fixes.append(
                f"Jobs of {cluster} have a number and no user: sacct has their user and account.\n{SACCT.format(day=day)}\n{advice.command(words)}\n"
                f"{advice.analysis()}"
            )
    return "\n".join(fixes) or advice.teams(["user,NAME,TEAM"])


def _label(store: Store, since_us: int) -> Row | None:
    """The label that names the team of most time without a rule, and differs from the names that this time has now."""
    rows = remembered.rows(store, "quality/doctor_team_label", since_us=since_us, keys=list(TEAM_LABELS))
    return next(
        (
            row
            for row in rows
            if row["share"] >= LABEL_SHARE_MIN
            and row["other_share"] > UNALLOCATED_SHARE_MAX
            and row["values_count"] <= LABEL_VALUES_MAX
        ),
        None,
    )


def _team_lines(rows: Sequence[Row]) -> list[str]:
    """Ownership rules that give these owners a team, without duplicates."""
    return list(dict.fromkeys(line for r in rows if (line := _team_line(r))))


def _team_line(row: Row) -> str | None:
    """An ownership rule that gives this owner a team, by the widest name it has."""
    for kind, column in (("account", "account"), ("namespace", "namespace"), ("user", "user_name"), ("queue", "queue")):
        if row[column]:
            return f"{kind},{row[column]},TEAM"
    return None


def estimated(store: Store, holds: Sequence[Row], evidence: Evidence, advice: Advice) -> Check:
    """Jobs whose devices on a node are estimated from a count."""
    if not evidence.holds:
        return unjudged("placement", NO_HOLD, evidence.scheduler_fix)
    rows = [r for r in holds if r["estimated_us"]]
    if not rows:
        return Check("placement", OK, "the devices of every job are known")
    hours = sum(r["estimated_us"] for r in rows) / HOUR_US
    what = (
        f"{hours:.1f} device-hours belong to jobs whose placement within the node is not known, so their devices are estimated and "
        f"evaluated only where one job holds the whole node or all its GPUs idle: {named(place(r) for r in rows)}"
    )
    schedulers = sorted({scheduler for r in rows for scheduler in r["estimated_by"] or ()})
    fixes = [PLACEMENT_FIXES[scheduler] for scheduler in schedulers if scheduler in PLACEMENT_FIXES]
    slurm = [r for r in rows if "slurm" in (r["estimated_by"] or ())]
    if slurm or not fixes:
        fixes.insert(0, _slurm_fix(store, sorted({r["cluster"] for r in slurm}), advice))
    return Check("placement", WARN, what, "\n".join(fixes))


def _slurm_fix(store: Store, clusters: Sequence[str], advice: Advice) -> str:
    fix = "Start dcgm-exporter with --hpc-job-mapping-dir and let the Slurm prolog write there, or "
    if advice.live:
        return f"{fix}name [[slurm]] in gpuwatch.toml: it asks scontrol while jobs run."
    jobs, known = remembered.sql(
        store,
        "select count(distinct (cluster, job_id)), count(distinct (cluster, job_id)) filter (where device_indexes is not null)"
        " from claim where scheduler = 'slurm' and list_contains($clusters, cluster)",
        clusters=list(clusters),
    )[0]
    if known:
        # Another dump would name the jobs of its own moment only.
        return (
            f"The records name the GPUs of {known:,} of {jobs:,} jobs: scontrol names those that run when it is asked. For the next "
            f"jobs, let gpuwatch serve ask while they run ([[slurm]] in gpuwatch.toml), or {fix[0].lower()}{fix[1:].removesuffix(', or ')}. "
            "Jobs that have ended stay estimated; their GPU-hours are exact."
        )
    fix += "import the output of scontrol while jobs run:"
    for cluster in clusters[:NAMED_MAX]:
        words = f"import scontrol jobs.txt --cluster {shlex.quote(cluster)}"
        fix += f"\nscontrol show job -d > jobs.txt && {advice.command(words)}"
    return fix


def local_times(store: Store, since_us: int, evidence: Evidence) -> Check:
    """Jobs with a local time that may mean two instants."""
    if not evidence.holds:
        return unjudged("local-times", NO_HOLD, evidence.scheduler_fix)
    store.run("views/local_time")
    rows = remembered.rows(store, "quality/doctor_local_times", since_us=since_us)
    if not rows:
        return Check("local-times", OK, "every time of a job is certain")
    jobs = named(f"{row['cluster']}/{row['job_id']}" for row in rows)
    some = "1 job has" if len(rows) == 1 else f"{len(rows):,} jobs have"
    what = (
        f"{some} a start or an end in an hour that clocks repeat or skip, and no record decides when; "
        f"its time is estimated, never longer than printed: {jobs}"
    )
    fix = "Export these days again with UTC times: TZ=UTC sacct ..., and import it with --timezone UTC."
    return Check("local-times", WARN, what, fix)


def conflicts(holds: Sequence[Row], evidence: Evidence) -> Check:
    """Devices that two jobs held at once."""
    if not evidence.holds:
        return unjudged("conflicts", NO_HOLD, evidence.scheduler_fix)
    rows = [r for r in holds if r["conflict_us"]]
    if not rows:
        return Check("conflicts", OK, "no device is allocated to two jobs at once")
    hours = sum(r["conflict_us"] for r in rows) / HOUR_US
    what = (
        f"{hours:.1f} device-hours are allocated to two jobs at once and charged to the one whose devices are known, else to the "
        f"newer: {named(place(r) for r in rows)}"
    )
    fixes = list(dict.fromkeys(_conflict_fix(row) for row in rows))
    return Check("conflicts", WARN, what, "\n".join(fixes))


def _conflict_fix(row: Row) -> str:
    """What decides who had the devices of a node that two jobs held at once."""
    if len(row["schedulers"] or ()) > 1:
        return "Check that one scheduler owns these nodes and that their records use one time zone (import --timezone)."
    if row["estimated_us"]:
        return (
            "The jobs' records ask for more GPUs at once than these nodes have. Import a node list that is not older than the jobs, "
            "and records that name devices (see placement)."
        )
    return (
        "Two jobs of one scheduler name the same device. Check that all of its records use one time zone (import --timezone), and "
        "that the nodes were not renumbered."
    )


def ledger_adds_up(store: Store, since_us: int, advice: Advice) -> Check:
    """Whether every GPU-microsecond is in exactly one bucket."""
    query = "select cluster, min(start_us), max(end_us) from segment group by 1 order by 1"
    clusters = remembered.sql(store, query)
    if not clusters:
        return unjudged("books", "the ledger is empty", advice.analysis())
    for cluster, start_us, end_us in clusters:
        try:
            check_ledger(store, cluster, max(start_us // HOUR_US * HOUR_US, since_us), -(-end_us // HOUR_US) * HOUR_US)
        except LedgerDoesNotClose as error:
            return Check("books", FAIL, str(error), advice.analysis())
    return Check("books", OK, "every GPU-microsecond is in exactly one bucket")
