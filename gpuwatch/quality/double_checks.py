"""Doctor's checks for what is there twice: jobs, and GPUs of a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuwatch.core.clock import rfc3339
from gpuwatch.output.fix_hints import Advice
from gpuwatch.quality.check import FAIL, OK, Check, Evidence, named, place, unjudged
from gpuwatch.store.database import Store

NO_HOLD = "no job held a GPU"


def checks(store: Store, since_us: int, evidence: Evidence, advice: Advice) -> list[Check]:
    """Both checks."""
    if not evidence.holds:
        return [unjudged(name, NO_HOLD, evidence.scheduler_fix) for name in ("doubled", "inventory")]
    twice = store.rows("quality/doctor_doubled", since_us=since_us)
    return [
        _doubled(twice, advice),
        _inventory(store.rows("quality/doctor_inventory", since_us=since_us), twice, advice),
    ]


def _doubled(rows: Sequence[dict[str, Any]], advice: Advice) -> Check:
    if not rows:
        return Check("doubled", OK, "no job is recorded twice")
    jobs = dict.fromkeys((row["cluster"], row["job_id"]) for row in rows)
    shifts = sorted({row["shift_hours"] for row in rows})
    what = f"{len(jobs)} jobs are recorded twice, {_hours(shifts)} apart, and charged twice: "
    return Check("doubled", FAIL, what + named(f"{cluster}/{job}" for cluster, job in jobs), _fix(rows, advice))


def _fix(rows: Sequence[dict[str, Any]], advice: Advice) -> str:
    found = sorted({number for row in rows for number in row["imports"]})
    which = f"\nThe jobs came from the imports {named(map(str, found))}." if found else ""
    return (
        "Local times were read in two time zones. Import the file with the wrong one again, with the right --timezone, or take "
        f"one import back:\n{advice.command('imports')}\n{advice.command('import --forget ID')}{which}"
    )


def _inventory(rows: Sequence[dict[str, Any]], twice: Sequence[dict[str, Any]], advice: Advice) -> Check:
    known = [row for row in rows if row["gpus"] is not None]
    if not known:
        fix = "Import or collect the nodes of the scheduler: scontrol show node -d, or kubectl get nodes -o json."
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


def _hours(shifts: Sequence[float]) -> str:
    texts = [f"{shift:g} h" for shift in shifts[:2]]
    return " and ".join(texts) if len(shifts) <= 2 else f"{shifts[0]:g} to {shifts[-1]:g} h"
