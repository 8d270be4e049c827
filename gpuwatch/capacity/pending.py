"""Requests that wait now: why, and what would let each start: GET /capacity/pending."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from gpuwatch.capacity import quota_wait, slice_wait
from gpuwatch.capacity.free_nodes import Request
from gpuwatch.capacity.free_state import clusters, instants, rows_at
from gpuwatch.capacity.make_room import listed
from gpuwatch.capacity.placing import Places
from gpuwatch.capacity.queues import queues
from gpuwatch.capacity.simulator import faulty_gpus, idle_gpus
from gpuwatch.capacity.waiting_requests import Wait, waits
from gpuwatch.capacity.waits import FRESH_US, WAITING, for_room, nodes_of
from gpuwatch.capacity.workloads import workloads
from gpuwatch.core.clock import parse_rfc3339, rfc3339
from gpuwatch.rules.rule import count
from gpuwatch.state import State
from gpuwatch.store.database import Store

PLANNED_MAX = 20
"""Requests of a cluster for which a start is planned: those that wait longest."""
SHOWN = ("cluster", "scheduler", "kind", "name", "namespace", "job", "team", "user", "queue", "state", "reason", "why", "gpus", "profile", "pods", "submitted_at", "wait_seconds", "observed_at")  # fmt: skip
NAMED_MAX = 3
"""Nodes or teams in a sentence."""
NO_POOL = "Which pools its queue may use is not known, so no start is planned."
FEWER = (
    "Its scheduler looked at {counted}; by what is recorded, {fitting} could take it. What keeps it from the others is not recorded, "
    "so no start is suggested."
)

Row = dict[str, Any]


def pending(
    store: Store,
    state: State,
    at_us: int,
    teams: Collection[str] | None = None,
    *,
    cluster: str | None = None,
    exact: bool = False,
    findings: Iterable[Mapping[str, Any]] = (),
) -> Row:
    """The longest waiting first. `waits_for`: `gpus` where free GPUs near one another would end the wait, `other` for
    quota, turns or what no node offers, `unknown`; `start` for the first that wait for GPUs.

    With `teams` only their requests, without `waits_for` and `start`: both depend on what others hold.
    """
    bound = teams is not None
    found = [
        {name: row[name] for name in (*SHOWN, "message")} | {"shape": None, "waits_for": None, "start": None}
        for row in workloads(store, state, at_us, teams, cluster=cluster, states=WAITING, bound=bound)
    ]
    messages = {id(row): row.pop("message") for row in found}
    if bound:
        return {"at": rfc3339(at_us), "items": found, "unknown": {}}
    ends, unknown = instants(store, at_us, cluster, exact)
    findings = list(findings)
    idle, faults = idle_gpus(findings), faulty_gpus(findings)
    gpus = rows_at(store, ends)
    at_quota = any(row["why"] == quota_wait.QUOTA for row in found)
    known_queues = queues(store, state, at_us, cluster=cluster) if at_quota else []
    for one in clusters(store, ends, gpus):
        mine = [row for row in found if row["cluster"] == one.name]
        if not mine:
            continue
        at_gpus = {wait.job_id: wait for wait in waits(store, one.name, recorded_us(mine, one.as_of_us), one.as_of_us)}
        places, planned = Places(store, one, idle.get(one.name), faults.get(one.name)), 0
        emptied: dict[str, str] = {}
        devices = [device for gpu in gpus.get(one.name, {}).values() for device in gpu]
        nodes = {device["node"] for device in devices} - {None}
        for row in mine:
            wait = at_gpus.get(row["job"])
            other = "/" in (row["profile"] or "")  # another vendor's devices, or shares of GPUs
            short = wait is not None or (False if other else for_room(row["reason"], messages[id(row)]))
            row["waits_for"] = "unknown" if short is None else "gpus" if short else "other"
            if wait is None:
                borrowed = quota_wait.words(row, known_queues) if row["why"] == quota_wait.QUOTA else None
                text = NO_POOL if short else borrowed
                row["start"] = None if text is None else {"words": text, "best": None}
                continue
            row["shape"] = wait.shape
            fitting = nodes if wait.places is None else nodes & wait.places
            fewer = _fewer(messages[id(row)], len(fitting))
            if wait.profile is not None:
                row["start"] = fewer or {"words": slice_wait.words(wait, devices), "best": None}
            elif planned < PLANNED_MAX:
                planned += 1
                row["start"] = fewer or start(places, wait)
                _same_move(row, emptied)
    return {"at": rfc3339(at_us), "items": found, "unknown": dict(sorted(unknown.items()))}


def recorded_us(rows: Iterable[Row], at_us: int) -> int:
    """An instant before the oldest record of the waiting requests, at most FRESH_US ago. So far, a wait reaches only to its last record."""
    oldest = min((parse_rfc3339(row["observed_at"]) for row in rows if row["observed_at"]), default=at_us)
    return max(min(oldest, at_us) - 1, at_us - FRESH_US)


def _fewer(message: str | None, fitting: int) -> Row | None:
    """The answer where the scheduler counts fewer nodes than the request fits: what keeps it from the others is not recorded."""
    counted = nodes_of(message or "")
    if counted is None or counted >= fitting:
        return None
    return {"words": FEWER.format(counted=count(counted, "node"), fitting=fitting), "best": None}


def _same_move(row: Row, emptied: dict[str, str]) -> None:
    """Notes the nodes that a request would get after moves in `emptied`, and in its words that another would get them too."""
    best = row["start"]["best"]
    if best is None or best["plan"] is None:
        return
    name = row["name"] or row["job"]
    for node in best["plan"]["places"]:
        first = emptied.setdefault(node, name)
        if first != name:
            row["start"]["words"] += f" These moves empty {node} for {first} too: only one of the two can start there."
            return


def start(places: Places, wait: Wait) -> Row:
    """What would let a request start: the best pool that it may use, and a sentence."""
    request = Request(
        wait.members, wait.gpus, "any", wait.models, wait.pools, wait.places, wait.cpu_milli, wait.memory_bytes,
        wait.unknown,
    )  # fmt: skip
    tried = places.tried(request)
    if not tried:
        return {"words": "No pool has GPUs of a model that it takes, on nodes that it may use.", "best": None}
    return {"words": words(tried[0]), "best": tried[0]}


def words(row: Row) -> str:
    """What would let it start, in one sentence or two. Numbers of GPUs are those of the best pool that it may use."""
    if row["fits"]:
        nodes = [place["node"] for place in row["places"]]
        return f"It fits now on {listed(nodes, NAMED_MAX)}. {slice_wait.NOT_STARTED}"
    why = (
        f"Where it may run ({row['pool']}): {row['why'][0].lower()}{row['why'][1:]}" if row.get("pool") else row["why"]
    )
    options = []
    if row["plan"] is not None:
        moves = row["plan"]["moves"]
        options.append(
            f"{count(len(moves), 'job')} with {count(row['plan']['moved_gpus'], 'GPU')} moved to other nodes"
        )
    if row["reclaim"]:
        gpus = sum(len(one["gpus"]) for one in row["reclaim"])
        options.append(
            f"{count(gpus, 'idle GPU')} of {listed(sorted({one['team'] for one in row['reclaim']}), NAMED_MAX)} {'was' if gpus == 1 else 'were'} released"
        )
    if options:
        return f"{why} It could start if {' or if '.join(options)}."
    return f"{why} No moves help, and too few held GPUs are idle."
