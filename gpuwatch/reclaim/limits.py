"""What idle limits would have changed: GPU-hours returned, requests that start sooner, jobs hit, by replay of a past window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import median_low
from typing import Any

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, SECOND_US, Window, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.money import CENT_PLACES, format_quantity
from gpuwatch.findings.contention import requests_for_gpus
from gpuwatch.reclaim.jobs_hit import jobs_hit, most_wrong
from gpuwatch.reclaim.measured import not_measured
from gpuwatch.reclaim.replay import Idle, Served, Waiting, served
from gpuwatch.state import State
from gpuwatch.store.database import Store

LIMITS_MIN = (5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240)
"""The limits that are tried, in minutes. Idle runs of less than five minutes are not stored."""
WINDOW_US_MAX = 31 * DAY_US
SOON_US = 30 * MINUTE_US
"""A job that uses a GPU again this soon after it was taken would have noticed."""
IDLE_MAX = 20_000
"""Idle runs that the queue is replayed against."""

_ALL = 0
"""The limit that stands for all idle time."""


@dataclass
class _Outcome:
    """What one limit would have changed, for all teams or for one."""

    units: Fraction = Fraction(0)
    cost: Fraction = Fraction(0)
    priced: bool = True
    hits: dict[str, int] = field(default_factory=dict)
    served: list[Served] = field(default_factory=list)

    def as_dict(self, with_requests: bool) -> dict[str, Any]:
        names = ("jobs", "wrong_jobs", "devices", "wrong_devices", "soon_devices")
        return {
            "returned_gpu_hours": format_quantity(self.units / HOUR_US),
            "returned_cost": format_quantity(self.cost, CENT_PLACES) if self.priced else None,
            **{name: self.hits.get(name, 0) for name in names},
            "sooner": sooner(self.served) if with_requests else None,
        }


_Outcomes = dict[tuple[int, str | None], _Outcome]


def try_limits(
    store: Store,
    state: State,
    window: Window,
    *,
    teams: Collection[str] | None = None,
    cluster: str | None = None,
    with_requests: bool = True,
    jobs_at: int | None = None,
) -> dict[str, Any]:
    """Each limit of LIMITS_MIN against a past window: the answer of GET /reclaim/limits. Stores nothing.

    `teams`: only GPUs that these teams held. Without `with_requests` the queue is not replayed. `jobs_at`: the limit, in minutes,
    whose jobs are listed. Raises UsageError for a window longer than 31 days, and for a limit that is not tried.
    """
    if jobs_at is not None and jobs_at not in LIMITS_MIN:
        raise UsageError(
            f"jobs_at {jobs_at}: not a limit that is tried; choose one of {', '.join(map(str, LIMITS_MIN))}"
        )
    if window.end_us - window.start_us > WINDOW_US_MAX:
        raise UsageError("window: idle limits are tried on at most 31 days; choose a shorter one")
    found: _Outcomes = defaultdict(_Outcome)
    rest: dict[str, Fraction] = defaultdict(Fraction)
    currencies: set[str] = set()
    waited, skipped = 0, []
    jobs: list[dict[str, Any]] = []
    with store.workspace() as work:
        clusters = [name for (name,) in work.sql("select distinct cluster from segment order by cluster")]
        for name in clusters if cluster is None else [cluster]:
            _prepare(work, name, window, teams)
            currencies |= _add_returned(work, found)
            _add_hits(work, found)
            jobs += [] if jobs_at is None else jobs_hit(work, name, jobs_at * MINUTE_US)
            for row in work.rows("reclaim/replay/not_judged", from_us=window.start_us, until_us=window.end_us):
                rest[row["why"]] += Fraction(int(row["us"]), HOUR_US)
            if with_requests:
                requests = _add_served(work, state, name, window, found)
                waited += requests or 0
                skipped += [name] if requests is None else []
    currency = next(iter(currencies)) if len(currencies) == 1 else None
    if currency is None:
        for one in found.values():
            one.priced = one.priced and not one.units
    reason = not_measured(store, cluster)
    return {
        "window": {"start": rfc3339(window.start_us), "end": rfc3339(window.end_us)},
        "currency": currency,
        "idle": None if reason else _row(found, _ALL, None, False),
        "not_measured": reason,
        "items": [] if reason else [_row(found, limit, None, with_requests) for limit in LIMITS_MIN],
        "teams": [
            {"team": team, **_row(found, limit, team, with_requests)} for team in _teams(found) for limit in LIMITS_MIN
        ],
        "jobs": None if jobs_at is None else most_wrong(jobs, priced=currency is not None),
        "requests": waited if with_requests else None,
        "left_alone_gpu_hours": format_quantity(rest["left_alone"]),
        "unsure_gpu_hours": format_quantity(rest["unsure"]),
        "not_replayed": skipped,
    }


def _prepare(work: Store, cluster: str, window: Window, teams: Collection[str] | None) -> None:
    """Creates replay_idle, replay_taken and replay_priced. Idle runs that began up to the longest limit before the window are read whole."""
    since_us = window.start_us - LIMITS_MIN[-1] * MINUTE_US - HOUR_US
    work.run("views/job_chain", cluster=cluster, since_us=since_us, until_us=window.end_us)
    work.run(
        "reclaim/replay/idle",
        cluster=cluster,
        since_us=since_us,
        from_us=window.start_us,
        until_us=window.end_us,
        teams=None if teams is None else list(teams),
        limits=[_ALL, *(limit * MINUTE_US for limit in LIMITS_MIN)],
    )
    work.run("reclaim/replay/priced", cluster=cluster)


def _add_returned(work: Store, found: _Outcomes) -> set[str]:
    """Adds GPU-hours and their cost; returns the currencies of the prices."""
    currencies = set()
    for row in work.rows("reclaim/replay/returned"):
        units = Fraction(int(row["units"]), row["den"])
        if row["currency"] is not None:
            currencies.add(row["currency"])
        for team in (None, row["team"]):
            one = found[row["limit_us"] // MINUTE_US, team]
            one.units += units
            if row["usd_per_gpu_hour"] is None:
                one.priced = False
            else:
                one.cost += units / HOUR_US * Fraction(row["usd_per_gpu_hour"])
    return currencies


def _add_hits(work: Store, found: _Outcomes) -> None:
    for row in work.rows("reclaim/replay/hits", soon_us=SOON_US):
        hits = found[row["limit_us"] // MINUTE_US, row["team"]].hits
        for name, count in row.items():
            if name not in ("limit_us", "team"):
                hits[name] = hits.get(name, 0) + count


def _add_served(work: Store, state: State, cluster: str, window: Window, found: _Outcomes) -> int | None:
    """Replays the queue of a cluster; returns how many requests waited for GPUs, None if there are too many idle runs."""
    with requests_for_gpus(work, state, window.start_us, window.end_us):
        requests = [Waiting(**row) for row in work.rows("reclaim/replay/request", cluster=cluster)]
    fits = work.sql("select distinct kind, place from replay_place")
    idle = [Idle(**row) for row in work.rows("reclaim/replay/idle_place", cluster=cluster, limit=IDLE_MAX + 1)]
    if len(idle) > IDLE_MAX:
        return None
    for limit in LIMITS_MIN:
        for one in served(idle, requests, fits, limit * MINUTE_US):
            found[limit, None].served.append(one)
            found[limit, one.request.team].served.append(one)
    return len(requests)


def _row(found: _Outcomes, limit: int, team: str | None, with_requests: bool) -> dict[str, Any]:
    return {"limit_minutes": limit, **found.get((limit, team), _Outcome()).as_dict(with_requests)}


def _teams(found: _Outcomes) -> list[str]:
    """Teams by the cost, then the hours, that the shortest limit returns."""
    names = {team for _, team in found if team is not None}
    shortest = {name: found.get((LIMITS_MIN[0], name), _Outcome()) for name in names}
    return sorted(names, key=lambda name: (-shortest[name].cost, -shortest[name].units, name))


def sooner(found: Iterable[Served]) -> dict[str, Any]:
    """Requests that start sooner: how many, for how many devices, and by how much."""
    times = [one.sooner_us for one in found]
    devices = sum(one.request.nodes * one.request.devices for one in found)
    return {
        "requests": len(times),
        "devices": devices,
        "waiting_hours": format_quantity(Fraction(sum(times), HOUR_US)),
        "median_s": median_low(times) // SECOND_US if times else None,
        "longest_s": max(times) // SECOND_US if times else None,
    }
