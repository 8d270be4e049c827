"""Contention: how much of the idle time of findings others waited for, and what that part costs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pyarrow as pa

from gpuwatch.capacity.requests import models_of_requests, prepare_requests, request_owners
from gpuwatch.capacity.waiting_requests import messages_about
from gpuwatch.capacity.waits import FRESH_US, NOT_FOR_GPUS, POD_REASONS, ROWS_MAX, for_room
from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.core.money import CENT_PLACES, format_quantity
from gpuwatch.policy.inferred import resolve_many
from gpuwatch.policy.repository import load_ownership
from gpuwatch.state import State
from gpuwatch.store.database import Store

KEYS_MAX = 5000
"""Findings per call."""
LOOK_BACK_US = 31 * DAY_US
"""How far back idle time is evaluated; for older time the result is unknown."""
REQUESTS_MAX = 100_000
OTHER_REASONS = ("NoMatchingFlavor", "WaitingForQuota", "TopologyPlacementFailed", "PodsReadyTimeout", "AdmissionCheck")
"""Kueue's reasons for waits that a released GPU does not end by itself: quota, taints and affinity, checks."""
_LIMITS = re.compile(r"(QOS|Assoc|Max|Invalid|Account|License|Reserv)\w*|\w*(Limit|NotAllowed|Quota)\w*", re.IGNORECASE)
"""Slurm's reasons for limits, quotas, licences and reservations."""

_REQUEST = pa.schema([("number", pa.int64()), ("team", pa.string())])
_REFUSED = pa.schema([("cluster", pa.string()), ("job_id", pa.string())])


@dataclass(frozen=True)
class Contention:
    """GPU-hours of one finding's waste that others waited for, exact; the cost is None if a part has no price."""

    gpu_hours: Fraction
    cost: Fraction | None
    currency: str | None
    requests: int
    """Requests that waited and would have fitted, each counted once."""
    devices_max: int
    """Devices of the largest of these requests."""

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it: decimal text."""
        return {
            "gpu_hours": format_quantity(self.gpu_hours),
            "cost": None if self.cost is None else format_quantity(self.cost, CENT_PLACES),
            "currency": self.currency,
            "requests": self.requests,
            "requested_devices_max": self.devices_max,
        }


def of(store: Store, state: State, keys: Collection[str], now_us: int) -> dict[str, Contention]:
    """For each idle-hoarding finding, by key, the part of its idle time that others waited for. Keys that no request waited
    for are left out.

    A request counts at an instant while it waits, is another team's, asks for this cluster, queue, kind of GPU and slice,
    fits into what lies idle and free there, and never gave a reason that a free GPU would not end (quota, limits, taints,
    gates, holds). Requests that free devices could serve are subtracted first. Raises ValueError for more than KEYS_MAX keys.
    """
    if len(keys) > KEYS_MAX:
        raise ValueError(f"{len(keys)} keys; {KEYS_MAX} are the most")
    if not keys:
        return {}
    since_us = now_us - LOOK_BACK_US
    try:
        store.run("findings/contention/pieces", keys=sorted(keys), since_us=since_us)
        ((start_us, end_us),) = (tuple(row.values()) for row in store.rows("findings/contention/reach"))
        if start_us is None:
            return {}
        return _contended(store, state, since_us, {"start_us": start_us, "end_us": end_us})
    finally:
        store.run("findings/contention/drop")


def _contended(store: Store, state: State, since_us: int, scope: Mapping[str, int]) -> dict[str, Contention]:
    with requests_for_gpus(store, state, scope["start_us"], scope["end_us"]):
        rows = store.rows("findings/contention/contended", since_us=since_us)
    by_key: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_key[row["key"]].append(row)
    wasted = {
        key: Fraction(int(units), den * HOUR_US)
        for key, units, den in store.sql(
            "select key, wasted_units, wasted_den from finding where list_contains($keys::varchar[], key)",
            keys=[*by_key],
        )
    }
    return {key: _part_of(_sum(parts), wasted[key]) for key, parts in by_key.items()}


@contextmanager
def requests_for_gpus(store: Store, state: State, start_us: int, end_us: int) -> Iterator[None]:
    """Within the block, `report_request` has the requests that waited for GPUs in a span, `report_owner` their teams and
    `report_fit` the models that each may use. Requests that a free GPU would not have started are left out.
    """
    reasons = {*NOT_FOR_GPUS, *OTHER_REASONS, *_seen_limits(store)}
    prepare_requests(store, start_us, end_us, sorted(reasons), REQUESTS_MAX)
    _drop_refused(store, start_us, end_us)
    owners = resolve_many(load_ownership(store, state), request_owners(store)).select(["number", "team"])
    with store.view("report_fit", models_of_requests(store)), store.view("report_owner", owners.cast(_REQUEST)):
        yield


def quota_reasons(store: Store) -> set[str]:
    """The reasons of waits that a larger quota or limit would have ended."""
    return {"WaitingForQuota", "ExceedsMaxQuota", *_seen_limits(store)}


def _seen_limits(store: Store) -> list[str]:
    """Slurm's words for limits, as far as some request gave them."""
    seen = [row[0] for row in store.sql("select distinct reason from pending where reason is not null")]
    return [word for word in seen if _LIMITS.fullmatch(word)]


def _drop_refused(store: Store, start_us: int, end_us: int) -> None:
    """Removes requests whose pods fit no node for a reason other than GPUs: a taint, a volume, CPU."""
    pending = store.sql(
        "select distinct cluster, job_id from pending join report_request using (cluster, job_id)"
        " where list_contains($words::varchar[], pending.reason)",
        words=sorted(POD_REASONS),
    )
    known = {(cluster, job_id) for cluster, job_id in pending}
    rows = []
    for cluster in sorted({cluster for cluster, _ in known}):
        scope = {"cluster": cluster, "from_us": start_us, "until_us": end_us, "fresh_us": FRESH_US, "limit": ROWS_MAX}
        for job_id, message in messages_about(store, cluster, known, scope).items():
            if for_room(None, message) is False:
                rows.append({"cluster": cluster, "job_id": job_id})
    with store.view("contended_refused", pa.Table.from_pylist(rows, schema=_REFUSED)):
        store.sql(
            "delete from report_request where (cluster, job_id) in (select (cluster, job_id) from contended_refused)"
        )


def _part_of(found: Contention, wasted: Fraction) -> Contention:
    """Capped at the finding's own waste, which excludes its grace minutes and the claims of higher-ranked rules."""
    if found.gpu_hours <= wasted:
        return found
    cost = None if found.cost is None else found.cost * wasted / found.gpu_hours
    return replace(found, gpu_hours=wasted, cost=cost)


def _sum(parts: Sequence[Mapping[str, Any]]) -> Contention:
    amounts = [(Fraction(int(part["units"]), int(part["den"])) / HOUR_US, part) for part in parts]
    currencies = {part["currency"] for part in parts}
    priced = len(currencies) == 1 and all(part["usd_per_gpu_hour"] is not None for part in parts)
    cost = sum((hours * Fraction(part["usd_per_gpu_hour"]) for hours, part in amounts), Fraction(0)) if priced else None
    return Contention(
        gpu_hours=sum((hours for hours, _ in amounts), Fraction(0)),
        cost=cost,
        currency=next(iter(currencies)) if priced else None,
        requests=max(part["requests"] for part in parts),
        devices_max=max(part["device_count_max"] for part in parts),
    )
