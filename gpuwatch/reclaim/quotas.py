"""What a quota for one team would have changed: its runs that wait, and requests of others that start sooner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil
from statistics import median_low
from typing import Any

from gpuwatch.core.clock import HOUR_US, SECOND_US, Window, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.money import format_quantity
from gpuwatch.findings.contention import quota_reasons, requests_for_gpus
from gpuwatch.policy.inferred import resolve_many
from gpuwatch.policy.repository import load_ownership
from gpuwatch.reclaim.limits import IDLE_MAX, WINDOW_US_MAX, sooner
from gpuwatch.reclaim.quota_replay import Held, Moved, peak, under_quota
from gpuwatch.reclaim.replay import Idle, Served, Waiting, served
from gpuwatch.state import State
from gpuwatch.store.database import Store

RUNS_MAX = 20_000
"""Runs of a team that are replayed."""
REQUESTS_MAX = 100_000
LEVELS = 8
"""Quotas that are tried between zero and the most that the team held at once."""
HIT_MAX = 20
"""Users and queues that are listed."""

_Key = tuple[str, int]
"""Cluster and run."""


@dataclass(frozen=True)
class _Run:
    key: _Key
    job: str
    user: str | None
    queue: str | None


def try_quotas(
    store: Store,
    state: State,
    window: Window,
    team: str,
    *,
    gpus: Decimal | None = None,
    cluster: str | None = None,
    with_requests: bool = True,
) -> dict[str, Any]:
    """Quotas up to the team's peak, and `gpus`, on a past window: the answer of GET /what-if/quotas. Stores nothing.

    Without `with_requests` the requests of other teams are not replayed. Raises UsageError for a window longer than 31 days, and for
    more than RUNS_MAX runs.
    """
    if window.end_us - window.start_us > WINDOW_US_MAX:
        raise UsageError("window: quotas are tried on at most 31 days; choose a shorter one")
    span = {"from_us": window.start_us, "until_us": window.end_us}
    with store.workspace() as work:
        runs, known = _runs(work, team, cluster, window)
        most = peak(_clipped(runs, window))
        levels = _levels(most, gpus)
        under = {level: under_quota(runs, level, window.start_us) for level in levels}
        given: dict[Fraction, list[Served]] = defaultdict(list)
        if with_requests:
            for name in sorted({one.key[0] for one in known}):
                _add_served(work, state, name, window, team, known, under, given)
        waited = _waited(work, state, team, cluster, span)
    return {
        "window": {"start": rfc3339(window.start_us), "end": rfc3339(window.end_us)},
        "team": team,
        "peak_gpus": format_quantity(most),
        "runs": len(runs),
        "held_gpu_hours": format_quantity(_held(under[levels[-1]] if levels else [], window)),
        "items": [
            _level(level, under[level], known, window, given[level] if with_requests else None) for level in levels
        ],
        "waited_for_quota": waited,
    }


def _runs(work: Store, team: str, cluster: str | None, window: Window) -> tuple[list[Held], list[_Run]]:
    rows = work.rows(
        "reclaim/quota/run",
        team=team,
        cluster=cluster,
        from_us=window.start_us,
        until_us=window.end_us,
        limit=RUNS_MAX + 1,
    )
    if len(rows) > RUNS_MAX:
        raise UsageError(f"team {team}: more than {RUNS_MAX} runs in this window; choose a shorter one or one cluster")
    sizes: dict[_Key, Fraction] = defaultdict(Fraction)
    first: dict[_Key, Mapping[str, Any]] = {}
    for row in rows:
        key = row["cluster"], row["run_id"]
        sizes[key] += Fraction(row["units"], row["den"])
        first.setdefault(key, row)
    runs = [Held(n, sizes[key], row["start_us"], row["end_us"]) for n, (key, row) in enumerate(first.items())]
    return runs, [_Run(key, row["job_id"], row["user_name"], row["queue"]) for key, row in first.items()]


def _clipped(runs: Sequence[Held], window: Window) -> list[Held]:
    return [Held(one.number, one.gpus, max(one.start_us, window.start_us), one.end_us) for one in runs]


def _levels(most: Fraction, asked: Decimal | None) -> list[Fraction]:
    """Whole numbers of GPUs up to the peak, and the one asked for."""
    whole = ceil(most)
    found = {Fraction(ceil(Fraction(whole * step, LEVELS))) for step in range(1, LEVELS + 1)} if whole else set()
    return sorted(found | ({Fraction(asked)} if asked is not None else set()))


def _held(moved: Sequence[Moved], window: Window) -> Fraction:
    """GPU-hours within the window."""
    total = Fraction(0)
    for one in moved:
        if one.start_us is not None:
            end_us = min(one.start_us + one.run.end_us - one.run.start_us, window.end_us)
            total += one.run.gpus * max(0, end_us - max(one.start_us, window.start_us))
    return total / HOUR_US


def _level(
    quota: Fraction, moved: Sequence[Moved], known: Sequence[_Run], window: Window, given: Sequence[Served] | None
) -> dict[str, Any]:
    late = [one for one in moved if one.delay_us]
    never = [one for one in moved if one.start_us is None]
    held = _held(moved, window)
    capacity = quota * Fraction(window.end_us - window.start_us, HOUR_US)
    times = [one.delay_us for one in late]
    return {
        "gpus": format_quantity(quota),
        "held_gpu_hours": format_quantity(held),
        "unused_gpu_hours": format_quantity(max(capacity - held, Fraction(0))),
        "delayed_runs": len(late),
        "delayed_jobs": len({known[one.run.number].job for one in late}),
        "waiting_hours": format_quantity(Fraction(sum(times), HOUR_US)),
        "median_s": median_low(times) // SECOND_US if times else None,
        "longest_s": max(times) // SECOND_US if times else None,
        "too_large_runs": len(never),
        "not_started_runs": sum(one.start_us is not None and one.start_us >= window.end_us for one in late),
        "users": _hit(late + never, [one.user for one in known]),
        "queues": _hit(late + never, [one.queue for one in known]),
        "sooner": None if given is None else sooner(given),
    }


def _hit(moved: Sequence[Moved], names: Sequence[str | None]) -> list[dict[str, Any]]:
    """Who waits, longest first; runs that never start count as runs only."""
    runs: dict[str, list[Moved]] = defaultdict(list)
    for one in moved:
        name = names[one.run.number]
        if name is not None:
            runs[name].append(one)
    rows = [(name, len(own), sum(one.delay_us for one in own)) for name, own in runs.items()]
    rows.sort(key=lambda row: (-row[2], -row[1], row[0]))
    return [
        {"name": name, "runs": count, "waiting_hours": format_quantity(Fraction(waited, HOUR_US))}
        for name, count, waited in rows[:HIT_MAX]
    ]


def _add_served(
    work: Store,
    state: State,
    cluster: str,
    window: Window,
    team: str,
    known: Sequence[_Run],
    under: Mapping[Fraction, Sequence[Moved]],
    given: dict[Fraction, list[Served]],
) -> None:
    """Requests of other teams that GPUs of delayed runs would have served. Left out above IDLE_MAX devices."""
    runs = [one.key[1] for one in known if one.key[0] == cluster]
    span = {"from_us": window.start_us, "until_us": window.end_us}
    with requests_for_gpus(work, state, window.start_us, window.end_us):
        work.run("reclaim/quota/device", cluster=cluster, runs=runs, **span)
        requests = [Waiting(**row) for row in work.rows("reclaim/replay/request", cluster=cluster)]
    requests = [one for one in requests if one.team != team]
    fits = work.sql("select distinct kind, place from replay_place")
    rows = work.rows("reclaim/quota/place", cluster=cluster, limit=IDLE_MAX + 1)
    if len(rows) > IDLE_MAX:
        return
    numbers = {one.key[1]: number for number, one in enumerate(known) if one.key[0] == cluster}
    for quota, moved in under.items():
        starts = {one.run.number: one.start_us for one in moved if one.start_us is None or one.delay_us}
        idle = []
        for row in rows:
            number = numbers[row["run"]]
            if number in starts:
                until_us = starts[number]
                end_us = row["end_us"] if until_us is None else min(row["end_us"], until_us)
                if end_us > row["start_us"]:
                    idle.append(Idle(row["number"], row["node"], row["place"], row["start_us"], end_us))
        given[quota] += served(idle, requests, fits, 0)


def _waited(work: Store, state: State, team: str, cluster: str | None, span: Mapping[str, int]) -> dict[str, Any]:
    """The team's own requests that waited for a quota or a limit as it was."""
    found = work.table(
        "reclaim/quota/waited", cluster=cluster, reasons=sorted(quota_reasons(work)), limit=REQUESTS_MAX, **span
    )
    own = [row for row in resolve_many(load_ownership(work, state), found).to_pylist() if row["team"] == team]
    hours = Fraction(sum(row["end_us"] - row["start_us"] for row in own), HOUR_US)
    return {"requests": len(own), "waiting_hours": format_quantity(hours)}
