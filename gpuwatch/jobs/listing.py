"""Jobs: who ran them, what they held, where their GPU time went and what it cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from math import lcm
from typing import Any

import pyarrow as pa

from gpuwatch.core.clock import HOUR_US, SECOND_US, Window, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.money import largest_remainder, units_to_decimal
from gpuwatch.findings import read as findings_read
from gpuwatch.findings.repository import Action
from gpuwatch.findings.selection import read_cursor, write_cursor
from gpuwatch.jobs import series
from gpuwatch.jobs.amounts import NOTHING, SECOND_PLACES, JobAmount
from gpuwatch.jobs.details import device_rows, run_row, suspended_seconds, waterfall
from gpuwatch.ledger import workload_class
from gpuwatch.ledger.hours import HELD_BUCKETS
from gpuwatch.ledger.measures import AT_ROOF
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.topology import jobs as topology_jobs

SEEN_PARTS_MIN = 10
DARK_PARTS_MIN = 100
"""More than one part in this many of the held time unobserved, and no work seen in the rest: the work is unknown."""
PAUSES = ("unobserved", "hoarded", "gap")
"""Buckets that need no SM_ACTIVE."""
"""Effectiveness is unknown if less than this part of the held time was observed."""
SORTS = ("cost", "gpu_seconds", "started", "effective_ratio", "avoidable", "hoarded", "gap", "communication", "stalled")
"""Most expensive, largest, newest or least effective first, or those of which the most was avoidable, or was in a bucket."""
PAGE_MAX = 1000
SEARCH_MAX = 200
SPANS_MAX = 20_000
"""Device spans listed for one job."""
RUNS_MAX = 1000
"""Runs listed for one job, the newest."""
RATIO_PLACES = 6

_JOB = pa.schema([("cluster", pa.string()), ("job_id", pa.string())])
_RUN = pa.schema([*_JOB, ("run_id", pa.int64())])

Row = dict[str, Any]
Key = tuple[str, str]


def jobs(
    store: Store,
    state: State | None,
    window: Window,
    teams: Collection[str] | None = None,
    *,
    user: str | None = None,
    queues: Collection[str] | None = None,
    cluster: str | None = None,
    pool: str | None = None,
    state_filter: str | None = None,
    q: str | None = None,
    sort: str = "cost",
    limit: int = 100,
    cursor: str | None = None,
) -> dict[str, Any]:
    """The jobs that ran in a window, a page of them: the answer of GET /jobs.

    Amounts and buckets are those of the window; name, owner and state are those of its newest run in it. `teams` and `pool`
    filter by owner and by where a job held a device. `state_filter` is a prefix of the scheduler's state, in any case. `q` is
    searched in id, name, user, account, queue, namespace and team. `gpus` is the most devices held at one time. Prices and teams are those of the last pricing; `state` is not read. Raises UsageError for an unknown sort
    or a broken cursor.
    """
    if sort not in SORTS:
        raise UsageError(f"sort {sort}: unknown; known: {', '.join(SORTS)}")
    limit = max(1, min(limit, PAGE_MAX))
    after = (None, None, None) if cursor is None else read_cursor(cursor)
    store.run("views/whole_days", start_us=window.start_us, end_us=window.end_us)
    rows = store.rows(
        "jobs/rank",
        start_us=window.start_us,
        end_us=window.end_us,
        teams=_listed(teams),
        user=user,
        queues=_listed(queues),
        cluster=cluster,
        pool=pool,
        state=(state_filter or "").strip().lower() or None,
        q=(q or "").strip().lower()[:SEARCH_MAX] or None,
        sort=sort,
        after_first=after[0],
        after_second=after[1],
        after_name=after[2],
        limit=limit + 1,
    )
    shown = rows[:limit]
    last = shown[-1] if len(rows) > limit else None
    keys = [(row["cluster"], row["job_id"]) for row in shown]
    return {
        "items": _items(store, keys, window, teams, user)[0],
        "next": None if last is None else write_cursor(last["first_rank"], last["second_rank"], last["name"]),
    }


def job(
    store: Store,
    state: State | None,
    cluster: str | None,
    job_id: str,
    teams: Collection[str] | None = None,
    actions: Mapping[str, Action] | None = None,
) -> dict[str, Any] | None:
    """One job over its whole life: runs, devices, placement, waterfall, findings and series; None if it is unknown.

    `cluster` may be None if only one cluster has this id; otherwise UsageError lists them. `teams` hides other teams' runs. `state` is not read.
    """
    found = store.rows("jobs/span", cluster=cluster, job_id=job_id, teams=_listed(teams))
    if not found:
        return None
    if len(found) > 1:
        names = ", ".join(row["cluster"] for row in found)
        raise UsageError(f"job {job_id} exists in {names}: choose one with cluster=NAME")
    here, start_us, end_us = found[0]["cluster"], found[0]["start_us"], found[0]["end_us"]
    # Whole hours, so the ledger answers and no minute has to be divided.
    window = Window(start_us // HOUR_US * HOUR_US, -(-end_us // HOUR_US) * HOUR_US)
    store.run("views/whole_days", start_us=window.start_us, end_us=window.end_us)
    items, runs, amounts = _items(store, [(here, job_id)], window, teams, None)
    item = items[0]
    mine = [run for run in runs if run["cluster"] == here][-RUNS_MAX:]
    with store.view("asked_run", _run_table(runs)):
        spans = store.rows("jobs/device", limit=SPANS_MAX)
        priced = store.rows("jobs/bucket_price", start_us=window.start_us, end_us=window.end_us)
    findings = (
        findings_read.read(store, keys=item["findings"], teams=teams, actions=actions) if item["findings"] else []
    )
    placed = topology_jobs.of_runs(store, here, _run_table(runs), named=teams is None)
    costs = {run_id: None if a.cost is None else (a.cost, next(iter(a.costs))) for run_id, a in amounts.items()}
    placed = topology_jobs.with_cost(placed, mine, costs)
    return item | {
        "placement_grade": None if placed is None else placed["grade"],
        "placement": placed,
        "runs": [run_row(run, amounts.get(run["run_id"])) for run in mine],
        "devices": device_rows(spans),
        "waterfall": waterfall(item, priced),
        "findings": [finding.as_dict() for finding in findings],
        "series": series.of_job(store, here, job_id, teams),
    }


def _items(
    store: Store, keys: Sequence[Key], window: Window, teams: Collection[str] | None, user: str | None
) -> tuple[list[Row], list[Row], dict[int, JobAmount]]:
    """The jobs as GET /jobs lists them, their runs, and what each run held."""
    if not keys:
        return [], [], {}
    span = {"start_us": window.start_us, "end_us": window.end_us}
    asked = pa.Table.from_pylist([{"cluster": c, "job_id": j} for c, j in keys], schema=_JOB)
    with store.view("asked_job", asked):
        runs = store.rows("jobs/run", teams=_listed(teams), user=user, **span)
        found = store.rows("jobs/finding", teams=_listed(teams), **span)
    with store.view("asked_run", _run_table(runs)):
        amounts = store.rows("jobs/amount", **span)
        buckets = store.rows("jobs/bucket", **span)
        if window.start_us % HOUR_US or window.end_us % HOUR_US:
            store.run("jobs/bucket_cut", **span)
            store.run("views/cut_bucket")
            buckets += store.rows("jobs/bucket_cut_sum")
    sizes, kinds = _sizes(store, runs, span), _classes(store, runs, span)
    store.drop_made("jobs/drop")
    whose = {run["run_id"]: (run["cluster"], run["job_id"]) for run in runs}
    of_job: dict[Key, JobAmount] = defaultdict(JobAmount)
    of_run: dict[int, JobAmount] = defaultdict(JobAmount)
    for row in amounts:
        of_job[whose[row["run_id"]]].add(row)
        of_run[row["run_id"]].add(row)
    buckets_of: dict[Key, list[Row]] = defaultdict(list)
    for row in buckets:
        buckets_of[whose[row["run_id"]]].append(row)
    runs_of, findings_of = _grouped(runs), _grouped(found)
    items = [
        _identity(runs_of[key])
        | _time_and_cost(of_job.get(key), buckets_of.get(key, []))
        | {
            "gpus": sizes.get(key),
            "workload_class": workload_class.most(kinds.get(key, {})),
            "findings": [row["key"] for row in findings_of.get(key, [])],
            "placement_grade": None,
        }
        for key in keys
        if key in runs_of
    ]
    return items, runs, of_run


def _sizes(store: Store, runs: Sequence[Row], span: Mapping[str, int]) -> dict[Key, int]:
    """The most devices each job held at one time: those of its only run, or counted over time."""
    sizes: dict[Key, int] = {}
    others: list[Row] = []
    for key, mine in _grouped(runs).items():
        if len(mine) == 1 and mine[0]["common"] is not False:
            sizes |= {key: mine[0]["devices"]} if mine[0]["common"] else {}
        else:
            others += mine
    if others:
        with store.view("asked_run", _run_table(others)):
            sizes |= {(row["cluster"], row["job_id"]): row["devices"] for row in store.rows("jobs/size", **span)}
    return sizes


def _classes(store: Store, runs: Sequence[Row], span: Mapping[str, int]) -> dict[Key, dict[str, int]]:
    """Device microseconds of each class of work that the jobs did in the hours of the window."""
    start_us = span["start_us"] // HOUR_US * HOUR_US
    class_times = workload_class.times_of_runs(store, [run["run_id"] for run in runs], start_us, span["end_us"])
    kinds: dict[Key, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for run in runs:
        for name, us in class_times.get(run["run_id"], {}).items():
            kinds[run["cluster"], run["job_id"]][name] += us
    return kinds


def _identity(runs: Sequence[Row]) -> Row:
    """The owner, name, state and times of a job, from its newest run."""
    newest = runs[-1]
    submitted = [run["submit_us"] for run in runs if run["submit_us"] is not None]
    ends = [run["end_us"] for run in runs]
    return {
        "id": newest["job_id"],
        **{name: newest[name] for name in ("cluster", "name", "team", "inferred")},
        "user": newest["user_name"],
        **{name: newest[name] for name in ("account", "queue", "namespace", "scheduler", "state")},
        "submitted_at": rfc3339(min(submitted)) if submitted else None,
        "started_at": rfc3339(runs[0]["start_us"]),
        "ended_at": None if None in ends else rfc3339(max(ends)),
        "suspended_seconds": suspended_seconds(runs),
    }


def _work_is_known(sums: Mapping[str, int], seen: int, total: int) -> bool:
    """Whether the work of a job was measured: without SM_ACTIVE, only its pauses are seen."""
    only_pauses = not any(sums[name] for name in HELD_BUCKETS if name not in PAUSES)
    dark = (total - seen) * DARK_PARTS_MIN > total
    return seen > 0 and seen * SEEN_PARTS_MIN >= total and not (only_pauses and dark)


def _time_and_cost(amount: JobAmount | None, rows: Sequence[Row]) -> Row:
    """Amounts and buckets; the buckets add up to the GPU-seconds, digit by digit."""
    if amount is None:
        return NOTHING | {"effective_ratio": None, "buckets": {}}
    den = lcm(*(row["share_den"] for row in rows))
    sums: dict[str, int] = defaultdict(int)
    for row in rows:
        for bucket in HELD_BUCKETS:
            sums[bucket] += int(row[bucket]) * (den // row["share_den"])
    names = [bucket for bucket in HELD_BUCKETS if sums[bucket]]
    total = sum(sums.values())
    seen = total - sums["unobserved"]
    at_roof = sum(sums[name] for name in AT_ROOF)
    if den == 1:  # whole microseconds need no rounding
        published = [units_to_decimal(sums[name], SECOND_PLACES) for name in names]
    else:
        published = largest_remainder([Fraction(sums[name], den * SECOND_US) for name in names], SECOND_PLACES, names)
    return amount.as_dict() | {
        "effective_ratio": round(at_roof / seen, RATIO_PLACES) if _work_is_known(sums, seen, total) else None,
        "buckets": {name: f"{seconds:f}" for name, seconds in zip(names, published, strict=True)},
    }


def _run_table(runs: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([{name: run[name] for name in _RUN.names} for run in runs], schema=_RUN)


def _grouped(rows: Sequence[Row]) -> dict[Key, list[Row]]:
    groups: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["cluster"], row["job_id"]].append(row)
    return groups


def _listed(teams: Collection[str] | None) -> list[str] | None:
    return None if teams is None else list(teams)
