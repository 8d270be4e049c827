"""What doctor finds in what was said: refused input, GPUs that a side does not know, exporters and names at odds."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from fractions import Fraction

from gpuwatch.hardware import shares as hardware_shares
from gpuwatch.output.fix_hints import Advice
from gpuwatch.quality.check import NAMED_MAX, OK, WARN, Check, named, place
from gpuwatch.quality.fixes import source_fix
from gpuwatch.quality.status import SourceStatus
from gpuwatch.store.database import Store
from gpuwatch.topology import derive as topology_derive

IGNORED = "ignored: "
"""How a reason begins that is no mistake of the input."""
SCHEDULERS = ("slurm", "kubernetes", "ray")
"""Kinds of live sources that say which nodes a scheduler has."""


def rejects(store: Store, advice: Advice, sources: Sequence[SourceStatus]) -> Check:
    """What files and live sources gave that could not be used, the most frequent first."""
    found = [
        (row["times"], row["reason"], f"{row['path']}:{row['line']}", row["example"])
        for row in store.rows("quality/doctor_rejects")
    ]
    for source in sources:
        for reason, times in source.rejects.counts.items():
            if not reason.startswith(IGNORED):
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
    what = f"{sum(entry[0] for entry in found)} pieces of input refused for {reasons} reasons"
    return Check("rejects", WARN, what, "\n".join([first, *lines]))


def unknown(store: Store, advice: Advice, sources: Sequence[SourceStatus]) -> Check:
    """GPUs of nodes that no scheduler record names: a source that fails is told before one that is not there."""
    rows = [r for r in store.rows("quality/doctor_devices") if r["unknown"]]
    if not rows:
        return Check("unscheduled", OK, "a scheduler knows every node that is measured")
    what = f"{sum(r['unknown'] for r in rows)} GPUs are measured on nodes that no scheduler record names: "
    clusters = sorted({r["cluster"] for r in rows})[:NAMED_MAX]
    if not advice.live:
        lines = ["Import the scheduler's records of the same time, of Slurm or of Kubernetes:"]
        for option in (f"--cluster {shlex.quote(cluster)}" for cluster in clusters):
            scontrol, kubectl = f"import scontrol nodes.txt {option}", f"import k8s-json k8s.json {option}"
            lines.append(f"scontrol show node -d > nodes.txt && {advice.command(scontrol)}")
            lines.append(f"kubectl get nodes,pods -A -o json > k8s.json && {advice.command(kubectl)}")
        return Check("unscheduled", WARN, what + named(place(r) for r in rows), "\n".join(lines))
    configured = [s for s in sources if s.kind in SCHEDULERS and s.cluster in clusters]
    lines = [line for source in configured[:NAMED_MAX] for line in _scheduler(source)]
    nameless = [cluster for cluster in clusters if cluster not in {s.cluster for s in configured}]
    if nameless:
        lines.append(
            "Name the scheduler in gpuwatch.toml, [[slurm]] or [[kubernetes]] (docs/connect/sources.md), and send SIGHUP to a "
            "server that runs with --config:"
        )
        lines += [f'cluster = "{cluster}"' for cluster in nameless]
    return Check("unscheduled", WARN, what + named(place(r) for r in rows), "\n".join(lines))


def _scheduler(source: SourceStatus) -> list[str]:
    """What to do about a configured scheduler that names no such nodes."""
    about = f"The scheduler of {source.cluster} is configured ({source.name})"
    if source.error is not None:
        return [f"{about} and fails: {source.error}", source_fix(source)]
    if source.last_success_us is None:
        return [f"{about} and has not answered yet", source_fix(source)]
    return [f"{about} and answers without these nodes: check that `cluster` of the exporters' tables names theirs"]


def clusters(store: Store, since_us: int) -> Check:
    """GPUs that two clusters measure at the same time: one exporter read under two names."""
    rows = store.rows("quality/doctor_clusters", since_us=since_us)
    if not rows:
        return Check("clusters", OK, "every GPU is measured in one cluster")
    what = f"{len(rows)} GPUs are measured in two clusters at once and count twice: "
    fix = (
        "One exporter is read under two names: give all its tables and senders one cluster name, or name it in one of "
        "them only."
    )
    return Check("clusters", WARN, what + named(f"{r['gpu']} ({', '.join(r['clusters'])})" for r in rows), fix)


def exporters(store: Store, since_us: int) -> list[Check]:
    """Two exporters of one GPU, and owner labels that come and go."""
    rows = store.rows("quality/doctor_exporters", since_us=since_us)
    twice, absent = [r for r in rows if r["exporters"]], [r for r in rows if not r["exporters"]]
    found = [Check("exporters", OK, "one exporter speaks for every GPU"), Check("labels", OK, "owner labels stay")]
    if twice:
        what = f"{sum(r['devices'] for r in twice)} GPUs are read twice, of which one reading counts: "
        fix = (
            "Keep one exporter and one scrape job for these nodes. Which ones there are: "
            "count by (instance, job) (DCGM_FI_DEV_FB_USED) in Prometheus, or "
            "kubectl get pods -A -o wide | grep dcgm-exporter"
        )
        found[0] = Check("exporters", WARN, what + named(f"{place(r)} ({r['devices']})" for r in twice), fix)
    if absent:
        what = f"pod or job labels of {sum(r['devices'] for r in absent)} GPUs come and go: "
        fix = (
            "dcgm-exporter loses them where it does not reach the kubelet in time. Check its log for pod-resources, and that "
            "/var/lib/kubelet/pod-resources is mounted. The owner is held meanwhile."
        )
        found[1] = Check("labels", WARN, what + named(place(r) for r in absent), fix)
    return found


def profiles(store: Store) -> list[Check]:
    """MIG profiles that their GPU does not have; and, where there are any, those of GPUs that are not known."""
    rows = store.rows("quality/doctor_profiles")
    meant = {id(row): hardware_shares.misnamed(row["model"], row["profile"]) for row in rows}
    told = (
        f"{row['profile']} on {row['model']} ({row['slices']} slices on {place(row)}"
        f"{f', counted as {meant[id(row)]}' if meant[id(row)] else ''})"
        for row in rows
        if meant[id(row)] is not None
    )
    check = Check("profiles", OK, "every MIG profile is one of its GPU's")
    if any(name is not None for name in meant.values()):
        fix = (
            "Older exporters print a neighbour's name (1g.11gb for 1g.12gb): upgrade dcgm-exporter. What the driver has: "
            "nvidia-smi mig -lgip; nvidia-smi -L"
        )
        check = Check("profiles", WARN, f"MIG profiles that their GPU does not have: {named(told, '; ')}", fix)
    guessed = [
        f"{row['profile']} on {row['model'] or 'a GPU without a model'} ({Fraction(share.units, hardware_shares.SHARE_UNITS)} of a GPU)"
        for row in rows
        if meant[id(row)] is None
        and (share := hardware_shares.share(row["model"], row["profile"])) is not None
        and share.estimated
    ]
    if not guessed:
        return [check]
    what = f"MIG profiles of GPUs that gpuwatch does not know, counted by their names: {named(guessed, '; ')}"
    fix = (
        "Compare these shares with what the driver has (nvidia-smi mig -lgip), and upgrade gpuwatch once it knows them."
    )
    return [check, Check("shares", WARN, what, fix)]


def topology(store: Store, advice: Advice) -> Check:
    """Nodes whose links or place in the network nobody tells, or two tell differently."""
    lacking, disputed = topology_derive.missing(store, advice=advice), topology_derive.conflicts(store)
    if not lacking and not disputed:
        return Check("topology", OK, "what links the GPUs of every node is known")
    said, fixes = [], []
    for what, words in (("links", "what links the GPUs of"), ("network", "the place in the network of")):
        if rows := [r for r in lacking if r["what"] == what]:
            said.append(f"{words} {len(rows)} nodes is not known ({named(place(r) for r in rows)})")
            fixes.append(rows[0]["fix"])
    if disputed:
        told = (
            f"{r['cluster']}/{r['child']} in {r['parent']} ({r['source']}) or {r['told']} ({r['told_source']})"
            for r in disputed
        )
        said.append(f"two sources place {len(disputed)} nodes differently, the first counts: {named(told, '; ')}")
        fixes.append("Correct the source that is wrong: docs/connect/topology.md has their order.")
    return Check("topology", WARN, "; ".join(said), "\n".join(fixes))
