"""Requests that waited for free capacity: when, and for how many GPUs of which models. Other waits are left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa

from gpuwatch.capacity.demand import named_models
from gpuwatch.capacity.waits import FRESH_US, POD_REASONS, ROWS_MAX, for_room, job_of, short_nodes
from gpuwatch.hardware.shares import profile_name
from gpuwatch.rules.rule import EvaluationScope
from gpuwatch.store.database import Store
from gpuwatch.topology import node_records
from gpuwatch.topology.node_fit import Place, fitting_places, json_object
from gpuwatch.topology.not_known import not_known
from gpuwatch.topology.slurm_fit import constraint_places, partition_places, reservations_of, reserved_spans

WAITS_MAX = 500
"""Waits that one evaluation compares with free capacity: the largest requests."""
KUBERNETES = frozenset({"kubernetes", "kueue", "volcano", "coscheduling", "yunikorn", "kai", "ray"})
"""Schedulers of pods, whose queues are no pools of nodes."""
ROOMS_MAX = 64
"""Different amounts of CPUs and memory that one evaluation compares with nodes: those of the largest requests."""
_WAIT = pa.schema(
    [
        ("job_id", pa.string()),
        ("start_us", pa.int64()),
        ("end_us", pa.int64()),
        ("submit_us", pa.int64()),
        ("pools", pa.list_(pa.string())),
        ("models", pa.list_(pa.string())),
        ("profile", pa.string()),
        ("members", pa.int64()),
        ("gpus", pa.int64()),
        ("nodes_max", pa.int64()),
        ("fit", pa.int64()),
        ("cpu_milli", pa.int64()),
        ("memory_bytes", pa.int64()),
        ("unknown", pa.string()),
        ("shape", pa.string()),
    ]
)
_FIT = pa.schema([("fit", pa.int64()), ("place", pa.string())])


@dataclass(frozen=True)
class Wait:
    """A request in a span in which it waited for room: `members` places of `gpus` GPUs (or slices of `profile`)."""

    job_id: str
    start_us: int
    end_us: int
    submit_us: int
    pools: tuple[str | None, ...]
    """The pools that it may use, one of them or several; None: that of all devices that have none."""
    models: list[str] | None
    """Models that it takes; None: any."""
    profile: str | None
    members: int
    gpus: int
    nodes_max: int | None = None
    """Nodes that its scheduler found to lack GPUs only, where others refused it for another reason; None: no other reason."""
    places: frozenset[str] | None = None
    """Nodes that its partitions, constraint, selectors, affinity and tolerations fit, or GPUs without one; None: all of its pools."""
    cpu_milli: int | None = None
    """Thousandths of CPUs of one member; None: not known."""
    memory_bytes: int | None = None
    unknown: str | None = None
    """What is not known of the nodes that it may use, in words."""

    @property
    def shape(self) -> str:
        """`8`, `2x8`, `1g.10gb`."""
        one = self.profile or str(self.gpus)
        return one if self.members == 1 else f"{self.members}x{one}"


def waits(store: Store, cluster: str, from_us: int, until_us: int) -> list[Wait]:
    """Spans of waiting for room that touch a window, the largest requests first, at most WAITS_MAX.

    A Kubernetes request waits for any pool with suitable models and nodes that its selectors, affinity and tolerations fit, or
    for the one of them that its queue is named like, but not for nodes that only another scheduler has. One of Slurm waits for any
    node of its partitions with the features that it needs, but not while others have reserved it. One of another scheduler whose
    queue is no pool is left out if several pools have suitable models: which of them its queue has is unknown.
    """
    scope = {"cluster": cluster, "from_us": from_us, "until_us": until_us, "fresh_us": FRESH_US, "limit": ROWS_MAX}
    rows = store.rows("capacity/waiting", **scope)
    if not rows:
        return []
    places = node_records.places(store, cluster, until_us)
    models = frozenset[str]().union(*(place.models for place in places))
    fits = _Fits(places)
    reservations = reservations_of(store.rows("capacity/reserved", **scope))
    slurm = [row for row in rows if row["scheduler"] not in KUBERNETES]
    constraints = {row["job_id"]: row["node_rule"] for row in slurm if row["node_rule"]}
    messages = _messages(store, cluster, rows, scope)
    queued = {row["job_id"] for row in rows if row["queued"]}
    room = _Room(store, rows, places, scope, bool(reservations))
    found = []
    for row in rows:
        if row["job_id"] in queued and not row["queued"]:
            continue  # a queue's record describes the whole gang, a pod's only the pod
        start_us, end_us = max(row["start_us"], from_us), min(row["end_us"], until_us)
        taken = named_models(row["gpu_type"], models)
        message = row["message"] or messages.get(row["job_id"])
        if start_us >= end_us or not for_room(row["reason"], message):
            continue
        members, gpus, profile = _sized(row)
        some = None if taken is None else sorted(taken)
        rest = some, profile, members, gpus, short_nodes(message)
        kubernetes = row["scheduler"] in KUBERNETES
        rule = row["node_rule"] if kubernetes else constraints.get(row["job_id"])
        for begin_us, stop_us, reserved in reserved_spans(
            row["user_name"], start_us, end_us, () if kubernetes else reservations
        ):
            pools, where = fits.of(kubernetes, row["queue"], rule, taken, reserved)
            if pools:
                found.append(
                    Wait(row["job_id"], begin_us, stop_us, row["submit_us"], pools, *rest, where, *room.of(row, gpus))
                )
    return found[:WAITS_MAX]


Fit = tuple[tuple[str | None, ...], frozenset[str] | None]
"""Pools, and the names of places in them, None for all of their places."""


class _Fits:
    """Where requests may lie, found once for requests that are alike."""

    def __init__(self, places: list[Place]) -> None:
        self._places = places
        self._by_rule: dict[str | None, list[Place]] = {}
        self._found: dict[tuple[object, ...], Fit] = {}

    def of(
        self,
        kubernetes: bool,
        queue: str | None,
        rule: str | None,
        taken: frozenset[str] | None,
        reserved: frozenset[str],
    ) -> Fit:
        """The pools with models that a request takes and places that it may use; none where these are unknown."""
        key = (kubernetes, queue, rule, taken, reserved)
        if key not in self._found:
            self._found[key] = (
                self._labelled(queue, rule, taken) if kubernetes else self._listed(queue, rule, taken, reserved)
            )
        return self._found[key]

    def _labelled(self, queue: str | None, rule: str | None, taken: frozenset[str] | None) -> Fit:
        if rule not in self._by_rule:
            self._by_rule[rule] = fitting_places(rule, self._places)
        fitting = self._by_rule[rule]
        pools = dict.fromkeys(place.pool for place in fitting if _takes(place, taken))
        pools = {queue: None} if queue in pools else pools
        return tuple(pools), None if len(fitting) == len(self._places) else frozenset(place.name for place in fitting)

    def _listed(
        self, queue: str | None, rule: str | None, taken: frozenset[str] | None, reserved: frozenset[str]
    ) -> Fit:
        some = [place for place in self._places if _takes(place, taken)]
        constraint = json_object(rule).get("constraint")
        fitting = constraint_places(constraint, partition_places(queue, some))
        fitting = [place for place in fitting if place.name not in reserved]
        pools = dict.fromkeys(place.pool for place in fitting)
        whole = len(fitting) == sum(place.pool in pools for place in some)
        return tuple(pools), None if whole else frozenset(place.name for place in fitting)


class _Room:
    """What requests need of CPUs and memory, and what is not known of it."""

    def __init__(
        self, store: Store, rows: list[dict[str, Any]], places: list[Place], scope: Mapping[str, Any], reserved: bool
    ) -> None:
        self._facts = node_records.room_sources(store, scope["cluster"], scope["from_us"], scope["until_us"])
        self._places, self._reserved = places, reserved
        # By job, of one GPU: the record of a queue has none, the pods or the job itself may.
        self._asked = {
            (row["job_id"], name): Fraction(row[name], row["device_count"])
            for row in rows
            for name in ("cpu_milli", "memory_bytes")
            if row[name] is not None
        }
        self._seen: set[tuple[int, int | None, int | None]] = set()
        self._words: dict[tuple[bool, bool], str | None] = {}

    def of(self, row: Mapping[str, Any], gpus: int) -> tuple[int | None, int | None, str | None]:
        """Thousandths of CPUs and bytes of memory of a member with so many GPUs; and what is not known."""
        each = [self._asked.get((row["job_id"], name)) for name in ("cpu_milli", "memory_bytes")]
        cpu_milli, memory = (None if one is None else int(one * gpus) or None for one in each)
        key = gpus, cpu_milli, memory
        if key not in self._seen and len(self._seen) >= ROOMS_MAX:
            cpu_milli = memory = None
        else:
            self._seen.add(key)
        kubernetes, asked = row["scheduler"] in KUBERNETES, None not in each
        if (kubernetes, asked) not in self._words:
            facts = self._facts.get("kubernetes" if kubernetes else "slurm")
            self._words[kubernetes, asked] = not_known(kubernetes, asked, facts, self._places, self._reserved)
        return cpu_milli, memory, self._words[kubernetes, asked]


def _takes(place: Place, taken: Collection[str] | None) -> bool:
    return taken is None or not place.models.isdisjoint(taken)


def prepare(store: Store, scope: EvaluationScope) -> None:
    """Creates room_wait: the waits of the evaluated hours, from the moment they are long enough; and room_fit: the nodes that
    those with a `fit` may use.

    The rule has the threshold `wait_us_min`.
    """
    least_us = int(scope.parameters["wait_us_min"])
    found = waits(store, scope.cluster, scope.from_us, scope.until_us)
    fits: dict[frozenset[str], int] = {}
    rows = [
        {
            **vars(wait),
            "pools": [pool or "" for pool in wait.pools],
            "fit": None if wait.places is None else fits.setdefault(wait.places, len(fits)),
            "shape": wait.shape,
            "start_us": max(wait.start_us, wait.submit_us + least_us),
        }
        for wait in found
    ]
    table = pa.Table.from_pylist([row for row in rows if row["start_us"] < row["end_us"]], schema=_WAIT)
    listed = [{"fit": fit, "place": place} for places, fit in fits.items() for place in sorted(places)]
    with store.view("wait_row", table), store.view("fit_row", pa.Table.from_pylist(listed, schema=_FIT)):
        store.run("capacity/room_wait")


def _messages(store: Store, cluster: str, rows: list[dict[str, Any]], scope: Mapping[str, Any]) -> dict[str, str]:
    """The scheduler's message about the pods of each waiting job that has no reason of its own."""
    known = {(cluster, row["job_id"]) for row in rows if (row["reason"] or "") in POD_REASONS}
    return messages_about(store, cluster, known, scope) if known else {}


def messages_about(store: Store, cluster: str, known: set[tuple[str, str]], scope: Mapping[str, Any]) -> dict[str, str]:
    """The scheduler's newest message about any pod of each of the jobs (cluster, job) in `known`, by job."""
    found: dict[str, str] = {}
    for row in store.rows("capacity/refused", **scope):
        job = job_of(cluster, row["namespace"], row["name"], known)
        if job is not None:
            found.setdefault(job[1], row["message"])
    return found


def _sized(row: Mapping[str, Any]) -> tuple[int, int, str | None]:
    """(members, GPUs of each, profile); what does not divide evenly may lie anywhere."""
    members, devices = row["members"], row["device_count"]
    if row["profile"]:
        return devices, 1, profile_name(row["profile"]) or row["profile"]
    return (members, devices // members, None) if devices % members == 0 else (devices, 1, None)
