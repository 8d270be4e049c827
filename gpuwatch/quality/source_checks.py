"""Doctor's checks of the sources: refused input, GPUs known to one side only, conflicting exporters and names."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from fractions import Fraction

from gpuwatch.hardware import shares
from gpuwatch.output.fix_hints import Advice
from gpuwatch.quality.check import NAMED_MAX, OK, WARN, Check, Evidence, named, place, unjudged
from gpuwatch.quality.fixes import source_fix
from gpuwatch.quality.status import SourceStatus
from gpuwatch.store import remembered
from gpuwatch.store.database import Store
from gpuwatch.topology.gaps import conflicts, missing

NO_MEASURED = "no GPU is measured"
EACH = "The same for each of these nodes; for the first:\n"
SCHEDULERS = ("slurm", "kubernetes", "ray")
"""Live sources that know a scheduler's nodes."""


def rejects(store: Store, advice: Advice, sources: Sequence[SourceStatus]) -> Check:
    """Input of files and live sources that could not be used, the most frequent reason first."""
    found = [
        (row["times"], row["reason"], f"{row['path']}:{row['line']}", row["example"])
        for row in remembered.rows(store, "quality/doctor_rejects")
    ]
    for source in sources:
        for reason, times in source.rejects.faults.items():
            _, line, example = source.rejects.first.get(reason, ("", 0, ""))
            found.append((times, reason, f"{source.name}:{line}" if line else source.name, example))
    if not found:
        return Check("rejects", OK, "no input was refused")
    found.sort(key=lambda entry: (-entry[0], entry[1], entry[2]))
    lines = [
        f"{where}: {reason} ({times} times){': ' + example if example else ''}"
        for times, reason, where, example in found[:NAMED_MAX]
    ]
    first = (
        "Correct these where they come from (files are imported again while the server is stopped):"
        if advice.live
        else "Correct these and import the files again:"
    )
    reasons = len({reason for _, reason, _, _ in found})
    what = f"{sum(entry[0] for entry in found)} input items were refused for {reasons} reasons"
    return Check("rejects", WARN, what, "\n".join([first, *lines]))


def unknown(store: Store, evidence: Evidence, advice: Advice, sources: Sequence[SourceStatus]) -> Check:
    """GPUs on nodes that no scheduler record names; failing schedulers are listed before missing ones."""
    if not evidence.measured:
        return unjudged("unscheduled", NO_MEASURED, evidence.measure_fix)
    rows = [r for r in remembered.rows(store, "quality/doctor_devices") if r["unknown"]]
    if not rows:
        return Check("unscheduled", OK, "a scheduler knows every node that is measured")
    what = f"{sum(r['unknown'] for r in rows)} GPUs are measured on nodes that no scheduler record names: "
    clusters = sorted({r["cluster"] for r in rows})[:NAMED_MAX]
    lines = _name_scheduler(clusters, sources) if advice.live else _import_scheduler(store, clusters, advice)
    return Check("unscheduled", WARN, what + named(place(r) for r in rows), "\n".join(lines))


def _import_scheduler(store: Store, clusters: Sequence[str], advice: Advice) -> list[str]:
    """How to import the scheduler's records without a running server; of both where none is known in a cluster."""
    lines = ["Import the scheduler's records of the same time, with these nodes:"]
    for cluster in clusters:
        option = f"--cluster {shlex.quote(cluster)}"
        query = (
            "select distinct scheduler from run where cluster = $c union select scheduler from node where cluster = $c"
        )
        known = {row[0] for row in store.sql(query, c=cluster)} & {"slurm", "kubernetes"}
        if known != {"kubernetes"}:
            words = f"import scontrol nodes.txt {option}"
            lines.append(f"scontrol show node -d > nodes.txt && {advice.command(words)}")
        if known != {"slurm"}:
            words = f"import k8s-json k8s.json {option}"
            lines.append(f"kubectl get nodes,pods -A -o json > k8s.json && {advice.command(words)}")
    return lines


def _name_scheduler(clusters: Sequence[str], sources: Sequence[SourceStatus]) -> list[str]:
    """What to do about each configured scheduler, and the clusters without one."""
    configured = [s for s in sources if s.kind in SCHEDULERS and s.cluster in clusters]
    lines = [line for source in configured[:NAMED_MAX] for line in _scheduler(source)]
    nameless = [f'cluster = "{cluster}"' for cluster in clusters if cluster not in {s.cluster for s in configured}]
    if nameless:
        lines.append(
            "Name the scheduler in gpuwatch.toml, [[slurm]] or [[kubernetes]] (docs/connect/sources.md), and send SIGHUP to a "
            "server that runs with --config:"
        )
    return lines + nameless


def _scheduler(source: SourceStatus) -> list[str]:
    """What to do about a configured scheduler that does not know these nodes."""
    about = f"The scheduler of {source.cluster} is configured ({source.name})"
    if source.error is not None:
        return [f"{about} and fails: {source.error}", source_fix(source)]
    if source.last_success_us is None:
        return [f"{about} and has not answered yet", source_fix(source)]
    return [f"{about} and answers without these nodes: check that `cluster` of the exporters' tables names theirs"]


def clusters(store: Store, since_us: int, evidence: Evidence) -> Check:
    """GPUs measured in two clusters at the same time: one exporter read under two names."""
    if not evidence.measured:
        return unjudged("clusters", NO_MEASURED, evidence.measure_fix)
    rows = remembered.rows(store, "quality/doctor_clusters", since_us=since_us)
    if not rows:
        return Check("clusters", OK, "every GPU is measured in one cluster")
    what = f"{len(rows)} GPUs are measured in two clusters at once and count twice: "
    fix = (
        "One exporter is read under two cluster names: use one name in all its tables and senders, or remove all but "
        "one of them."
    )
    return Check("clusters", WARN, what + named(f"{r['gpu']} ({', '.join(r['clusters'])})" for r in rows), fix)


def exporters(store: Store, since_us: int, evidence: Evidence) -> list[Check]:
    """Two exporters of one GPU, and owner labels that come and go."""
    if not evidence.measured:
        return [unjudged(name, NO_MEASURED, evidence.measure_fix) for name in ("exporters", "labels")]
    rows = remembered.rows(store, "quality/doctor_exporters", since_us=since_us)
    twice, absent = [r for r in rows if r["exporters"]], [r for r in rows if not r["exporters"]]
    found = [
        Check("exporters", OK, "every GPU is read by one exporter"),
        Check("labels", OK, "owner labels are stable"),
    ]
    if twice:
        what = f"{sum(r['devices'] for r in twice)} GPUs are read twice; only one reading counts: "
        fix = (
            "Keep one exporter and one scrape job for these nodes. To list them: "
            "count by (instance, job) (DCGM_FI_DEV_FB_USED) in Prometheus; on the node: ss -ltnp | grep 9400"
        )
        found[0] = Check("exporters", WARN, what + named(f"{place(r)} ({r['devices']})" for r in twice), fix)
    if absent:
        what = f"pod or job labels of {sum(r['devices'] for r in absent)} GPUs come and go: "
        fix = (
            "dcgm-exporter loses them when it does not reach the kubelet in time. Check its log for pod-resources, and that "
            "/var/lib/kubelet/pod-resources is mounted. Meanwhile the last owner is kept."
        )
        found[1] = Check("labels", WARN, what + named(place(r) for r in absent), fix)
    return found


def profiles(store: Store) -> list[Check]:
    """MIG profiles that their GPU does not have, and profiles of unknown GPU models, if any."""
    rows = remembered.rows(store, "quality/doctor_profiles")
    meant = {id(row): shares.misnamed(row["model"], row["profile"]) for row in rows}
    misnamed = (
        f"{row['profile']} on {row['model']} ({row['slices']} slices on {place(row)}"
        f"{f', counted as {meant[id(row)]}' if meant[id(row)] else ''})"
        for row in rows
        if meant[id(row)] is not None
    )
    check = Check("profiles", OK, "every MIG profile exists on its GPU")
    if any(name is not None for name in meant.values()):
        fix = (
            "Older exporters print a neighbour's name (1g.11gb for 1g.12gb): upgrade dcgm-exporter. The driver's own list: "
            "nvidia-smi mig -lgip; nvidia-smi -L"
        )
        check = Check("profiles", WARN, f"MIG profiles that their GPU does not have: {named(misnamed, '; ')}", fix)
    guessed = [
        f"{row['profile']} on {row['model'] or 'a GPU without a model'} ({Fraction(share.units, shares.SHARE_UNITS)} of a GPU)"
        for row in rows
        if meant[id(row)] is None
        and (share := shares.share(row["model"], row["profile"])) is not None
        and share.estimated
    ]
    if not guessed:
        return [check]
    what = f"MIG profiles of unknown GPU models, sized by their names: {named(guessed, '; ')}"
    fix = "Compare these shares with the driver's list (nvidia-smi mig -lgip), and upgrade gpuwatch when it supports them."
    return [check, Check("shares", WARN, what, fix)]


def topology(store: Store, advice: Advice) -> Check:
    """Nodes whose links or network position are unknown, or on which sources disagree."""
    lacking, disputed = missing(store, advice=advice), conflicts(store)
    if not lacking and not disputed:
        return Check("topology", OK, "the GPU links of every node are known")
    problems, fixes = [], []
    for what, words in (("links", "GPU links"), ("network", "the network position")):
        if rows := [r for r in lacking if r["what"] == what]:
            problems.append(f"{words} of {len(rows)} nodes unknown ({named(place(r) for r in rows)})")
            fixes.append(f"{EACH if len(rows) > 1 else ''}{rows[0]['fix']}")
    if disputed:
        places = (
            f"{r['cluster']}/{r['child']} in {r['parent']} ({r['source']}) or {r['told']} ({r['told_source']})"
            for r in disputed
        )
        problems.append(f"sources disagree about {len(disputed)} nodes, the first one counts: {named(places, '; ')}")
        fixes.append("Correct the source that is wrong: docs/connect/topology.md has their order.")
    return Check("topology", WARN, "; ".join(problems), "\n".join(fixes))
