"""Doctor's checks for what is there twice: jobs, and GPUs of a node."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from gpuwatch.core.clock import rfc3339
from gpuwatch.output.fix_hints import Advice
from gpuwatch.quality.check import FAIL, NAMED_MAX, NOT_JUDGED, OK, Check, Evidence, named, place, unjudged
from gpuwatch.store import remembered
from gpuwatch.store.database import Store

Row = dict[str, Any]

NO_HOLD = "no job held a GPU"
NODE_LISTS = {
    "slurm": ("scontrol show node -d", "scontrol", "nodes.txt"),
    "kubernetes": ("kubectl get nodes -o json", "k8s-json", "nodes.json"),
}
"""By scheduler: the command that prints its nodes, the kind of import that reads them, and a file."""


def doubled_runs(store: Store, since_us: int) -> list[Row]:
    """Pairs of runs that are one, as in sql/quality/doctor_doubled.sql."""
    return remembered.rows(store, "quality/doctor_doubled", since_us=since_us)


def checks(store: Store, since_us: int, evidence: Evidence, advice: Advice, twice: Sequence[Row]) -> list[Check]:
    """Both checks; `twice` are the doubled runs."""
    if not evidence.holds:
        return [unjudged(name, NO_HOLD, evidence.scheduler_fix) for name in ("doubled", "inventory")]
    return [
        _doubled(twice, advice),
        _inventory(store, remembered.rows(store, "quality/doctor_inventory", since_us=since_us), twice, advice),
    ]


def spoiled(check: Check, twice: Sequence[Row], what: str, advice: Advice) -> Check:
    """A check that cannot be OK, because jobs are recorded twice: `what` says what follows."""
    if not twice or check.status == NOT_JUDGED:
        return check
    clusters = {name for row in twice for name in (row["cluster"], row["other_cluster"]) if name}
    words = f"{_count(twice)} recorded twice: {what} {named(sorted(clusters))}"
    return Check(check.id, FAIL, words if check.status == OK else f"{check.what}; {words}", _fix(twice, advice))


def _doubled(rows: Sequence[Row], advice: Advice) -> Check:
    if not rows:
        return Check("doubled", OK, "no job is recorded twice")
    jobs = dict.fromkeys((row["cluster"], row["job_id"]) for row in rows)
    pairs = sorted({f"{row['cluster']} and {row['other_cluster']}" for row in rows if row["other_cluster"]})
    shifts = sorted({row["shift_hours"] for row in rows if row["shift_hours"]})
    where = [f"{_hours(shifts)} apart"] if shifts else []
    where += [f"in the clusters {named(pairs)}"] if pairs else []
    what = f"{_count(rows)} recorded twice, {', '.join(where)}, and charged twice: "
    return Check("doubled", FAIL, what + named(f"{cluster}/{job}" for cluster, job in jobs), _fix(rows, advice))


def _count(rows: Sequence[Row]) -> str:
    return f"{len({(row['cluster'], row['job_id']) for row in rows})} jobs are"


def _fix(rows: Sequence[Row], advice: Advice) -> str:
    if any(row["other_cluster"] for row in rows):
        return (
            "One cluster was read under two names. Give its records one name (--cluster, or cluster in gpuwatch.toml), and take the "
            f"imports of the other name back:\n{advice.command('imports')}\n{advice.command('import --forget ID')}"
        )
    found = sorted({number for row in rows for number in row["imports"]})
    which = f"\nThe jobs came from the imports {named(map(str, found))}." if found else ""
    return (
        "Local times were read in two time zones. Import the file with the wrong one again, with the right --timezone, or take "
        f"one import back:\n{advice.command('imports')}\n{advice.command('import --forget ID')}{which}"
    )


def _inventory(store: Store, rows: Sequence[Row], twice: Sequence[Row], advice: Advice) -> Check:
    known = [row for row in rows if row["gpus"] is not None]
    if not known:
        fix = _node_list_fix(store, advice)
        return unjudged("inventory", "no record of a scheduler has the number of GPUs of a node", fix)
    over = [row for row in known if row["most"] > row["gpus"]]
    if not over:
        some = "" if len(known) == len(rows) else f" ({len(rows) - len(known)} nodes have no known number of GPUs)"
        return Check("inventory", OK, f"no node holds more GPUs than it has{some}")
    nodes = named(f"{place(r)} has {r['gpus']} and holds {r['most']} at {rfc3339(r['at_us'])}" for r in over)
    fix = (
        _fix(twice, advice)
        if twice
        else (
            "Check that jobs are not recorded twice (two exports in different time zones, two clusters under one name), and that the "
            f"record of the node is current:\n{advice.command('imports')}"
        )
    )
    return Check("inventory", FAIL, f"{len(over)} nodes hold more GPUs than they have: {nodes}", fix)


def _node_list_fix(store: Store, advice: Advice) -> str:
    """How to add the nodes of each cluster's scheduler: commands to paste, or the table of a running server's configuration."""
    query = "select distinct cluster, scheduler from claim where list_contains($known, scheduler) order by all"
    found = remembered.sql(store, query, known=list(NODE_LISTS))
    if advice.live:
        tables = " or ".join(f"[[{name}]]" for name in dict.fromkeys(scheduler for _, scheduler in found) or NODE_LISTS)
        return f"Name {tables} in gpuwatch.toml: it reads the nodes of the scheduler."
    lines = []
    for cluster, scheduler in found[:NAMED_MAX]:
        dump, kind, file = NODE_LISTS[scheduler]
        words = f"import {kind} {file} --cluster {shlex.quote(cluster)}"
        lines.append(f"{dump} > {file} && {advice.command(words)}")
    if not lines:
        return "Import the nodes of the scheduler: docs/connect/sources.md."
    return "\n".join(["Import the nodes of the scheduler:", *lines, advice.analysis()])


def _hours(shifts: Sequence[float]) -> str:
    texts = [f"{shift:g} h" for shift in shifts[:2]]
    return " and ".join(texts) if len(shifts) <= 2 else f"{shifts[0]:g} to {shifts[-1]:g} h"
