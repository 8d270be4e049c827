"""Decisions about scheduling: who places on which pool, who starts whole, which queues have limits and rules. Pure."""

from __future__ import annotations

from gpuwatch.audit.decision import (
    IMPORT,
    NOT_GANGS,
    OBJECTS,
    QUEUES,
    Decision,
    Row,
    gangs,
    left,
    named,
    no_scheduler_fix,
    nothing,
    percent,
    rounded,
    scored,
    weighed,
)
from gpuwatch.rules.layers import HOURS, WEEKS

STRONG = 0.05
"""Part of a pool's GPU-hours above which an authority counts as placing on it: as in scheduler-conflict (D13)."""
KINDS = ("cluster_queue", "queue", "qos")
"""Queues that can have limits. Slurm partitions list nodes; local queues have the limits of their cluster queue."""
RULED = ("cluster_queue", "queue", "qos", "partition")
"""Queues that can have preemption rules."""
OFF = ("OFF", "DISABLED")
"""Slurm's values for no preemption, which is its default."""


def scheduling(facts: Row) -> list[Decision]:
    """The decisions of scheduling."""
    return [_one_writer(facts), _whole_gangs(facts), _quotas(facts), _preemption(facts)]


def writers(facts: Row) -> list[dict[str, object]]:
    """Who placed work on each pool, with their part of its GPU-hours, and the nodes that several share; largest pool first."""
    shared = {(row["cluster"], row["pool"]): row for row in facts["shared_pool"]}
    pools: dict[tuple[str, str], list[Row]] = {}
    for row in facts["binder"]:
        pools.setdefault((row["cluster"], row["pool"]), []).append(row)
    found = []
    for (cluster, pool), rows in pools.items():
        among = shared.get((cluster, pool))
        found.append(
            {
                "cluster": cluster,
                "pool": pool,
                "gpu_hours": round(sum(row["gpu_hours"] for row in rows), 3),
                "writers": [
                    {
                        "authority": row["authority"],
                        "gate": row["gate"],
                        "gpu_hours": round(row["gpu_hours"], 3),
                        "ratio": round(row["ratio"] or 0.0, 6),
                    }
                    for row in rows
                ],
                "several": among is not None,
                "shared_nodes": 0 if among is None else among["shared_nodes"],
                "nodes": None if among is None else among["nodes"],
            }
        )
    return sorted(found, key=lambda one: (-float(str(one["gpu_hours"])), str(one["cluster"]), str(one["pool"])))


def _one_writer(facts: Row) -> Decision:
    """Pools with one placing authority per node; several on separate nodes are no conflict."""
    id, title = "one-writer", "One authority places work on a pool"
    fix = "Name one placement authority a pool, or a node: drain the nodes of the other, and taint them for it."
    pools = [one for one in writers(facts) if _authorities(one)]
    if not pools:
        return scored(id, title, None, "No scheduler records show who placed what.", no_scheduler_fix(), WEEKS)
    split = [
        one for one in pools if one["shared_nodes"] and sum(part > STRONG for part in _authorities(one).values()) > 1
    ]
    hours = sum(float(str(one["gpu_hours"])) for one in pools)
    ratio = 1 - sum(float(str(one["gpu_hours"])) for one in split) / hours if hours else None
    sentence = f"{len(pools) - len(split)} of {len(pools)} pools."
    sentence += f" Several place on the same nodes of {named(str(one['pool']) for one in split)}." if split else ""
    return scored(id, title, None if ratio is None else rounded(ratio), sentence, fix, WEEKS)


def _authorities(one: dict[str, object]) -> dict[str, float]:
    """Who places work on a pool, through any gate, and their part of its GPU-hours."""
    found = one["writers"]
    assert isinstance(found, list)
    parts: dict[str, float] = {}
    for row in found:
        if row["authority"] not in NOT_GANGS:
            parts[row["authority"]] = parts.get(row["authority"], 0.0) + row["ratio"]
    return parts


def _whole_gangs(facts: Row) -> Decision:
    id, title = "all-or-nothing", "Gangs start whole or not at all"
    fix = "Run them as a Kueue Workload with waitForPodsReady, or with a PodGroup whose minMember (Volcano: minAvailable) is the gang."
    if not any(row["authority"] not in NOT_GANGS for row in facts["binder"]):
        return scored(id, title, None, "No scheduler records show who placed what.", no_scheduler_fix())
    found = gangs(facts)
    if not found:
        return nothing(id, title, "No gang over several pods or nodes ran.")
    ratio, unknown = weighed(found, lambda gang: None if gang["whole"] is None else float(gang["whole"]))
    if ratio is None:
        return scored(id, title, None, "No object shows the minimum that a gang starts with.", f"{OBJECTS} ({IMPORT})")
    jobs = [job for gang in found if gang["whole"] is False for job in gang["jobs"]]
    sentence = f"{percent(ratio)} of the GPU-hours of gangs where it is known; Slurm starts jobs whole."
    sentence += f" Without a minimum number of pods: {named(jobs)}." if jobs else ""
    return scored(id, title, ratio, sentence + left(unknown), fix)


def _leaves(facts: Row, kinds: tuple[str, ...]) -> list[Row]:
    """Queues of these kinds without queues below them; the root of Volcano and YuniKorn does not count."""
    above = {(row["cluster"], row["scheduler"], row["parent"]) for row in facts["queues"] if row["kind"] == "queue"}
    return [
        row
        for row in facts["queues"]
        if row["kind"] in kinds
        and row["name"] != "root"
        and (row["cluster"], row["scheduler"], row["name"]) not in above
    ]


def _quotas(facts: Row) -> Decision:
    id, title = "quota", "Queues have a quota"
    fix = "Give each a nominalQuota of nvidia.com/gpu (Volcano: deserved and capability; YuniKorn: resources.max; Slurm: sacctmgr modify qos NAME set GrpTRES=gres/gpu=N)."
    rows = _leaves(facts, KINDS)
    if not rows:
        return scored(id, title, None, "No queue object shows it.", _queue_fix(facts))
    lacking = [row["name"] for row in rows if not row["has_quota"]]
    sentence = f"{len(rows) - len(lacking)} of {len(rows)} queues." + (
        f" Without: {named(lacking)}." if lacking else ""
    )
    return scored(id, title, 1 - len(lacking) / len(rows), sentence, fix, HOURS)


def _preemption(facts: Row) -> Decision:
    id, title = "preemption", "Queues have preemption rules"
    fix = "Set spec.preemption of the ClusterQueues (Volcano: reclaimable and the preempt action; Slurm: PreemptType and PreemptMode), Never where that is meant."
    rows = _leaves(facts, RULED)
    if not rows:
        return scored(id, title, None, "No queue object shows it.", _queue_fix(facts))
    lacking = [row["name"] for row in rows if not _ruled(row["preemption"])]
    sentence = f"{len(rows) - len(lacking)} of {len(rows)} queues." + (
        f" Without: {named(lacking)}." if lacking else ""
    )
    return scored(id, title, 1 - len(lacking) / len(rows), sentence, fix, HOURS)


def _ruled(preemption: Row | None) -> bool:
    """Whether a queue has a preemption rule: any value but Slurm's default."""
    values = [value for name, value in (preemption or {}).items() if value not in (None, "", [], {})]
    return any(str(value).upper() not in OFF for value in values)


def _queue_fix(facts: Row) -> str:
    """How to report queues, for the schedulers that place work here; for both if none is known."""
    known = {row["authority"] for row in facts["binder"] if row["authority"] not in NOT_GANGS}
    slurm = "Slurm: [[slurm]] in gpuwatch.toml reads partitions and QOS."
    if known == {"slurm"}:
        return slurm
    objects = f"{QUEUES} ({IMPORT})"
    return f"{objects}." if known and "slurm" not in known else f"{objects}; {slurm}"
