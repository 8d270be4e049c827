"""Making room for a shape that finds no place: which jobs stand in the way, and the cheapest moves that end it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from gpuwatch.capacity.move_fit import MoveFit, joined, split
from gpuwatch.capacity.waiting_requests import prepare as prepare_waits
from gpuwatch.core.clock import HOUR_US
from gpuwatch.hardware.defrag import Plan, plan
from gpuwatch.hardware.destinations import destinations
from gpuwatch.hardware.rooms import NO_LIMITS, Host, Limits, Piece
from gpuwatch.rules.rule import EvaluationScope, count
from gpuwatch.store import remembered
from gpuwatch.store.database import Store
from gpuwatch.topology.node_records import keep_room

PLANS_MAX = 24
"""Pools for which one evaluation plans moves."""
NAMED_MAX = 4
"""Jobs or moves that a sentence names."""
_WORD = pa.schema(
    [
        ("pool", pa.string()),
        ("hour_us", pa.int64()),
        ("wait", pa.int64()),
        ("moved_gpus", pa.int64()),
        ("exact", pa.bool_()),
        ("moves", pa.string()),
        ("blockers", pa.string()),
        ("nodes", pa.list_(pa.string())),
        ("not_known", pa.string()),
    ]
)

Names = dict[int, str]
"""run id -> job id."""


@dataclass(frozen=True)
class Standing:
    """The nodes of a cluster at an instant by pool and model ("" unknown), and the jobs of the runs on them."""

    groups: dict[tuple[str | None, str], list[Host]]
    names: Names
    fit: MoveFit


def hosts(store: Store, cluster: str, at_us: int, pool: str | None, models: Sequence[str] | None) -> Standing:
    """The nodes of a pool at an instant."""
    scope: dict[str, Any] = {"pool": pool, "models": models, "every_pool": False}
    return _grouped(
        remembered.rows(store, "capacity/hosts", cluster=cluster, at_us=at_us, **scope), MoveFit(store, cluster, at_us)
    )


def every_host(store: Store, cluster: str, at_us: int, fit: MoveFit | None = None) -> Standing:
    """The nodes of a cluster at an instant; `fit`: of the same instant."""
    scope: dict[str, Any] = {"pool": None, "models": None, "every_pool": True}
    rows = remembered.rows(store, "capacity/hosts", cluster=cluster, at_us=at_us, **scope)
    return _grouped(rows, fit or MoveFit(store, cluster, at_us))


def _grouped(rows: Sequence[dict[str, Any]], fit: MoveFit) -> Standing:
    names = {row["run_id"]: row["job_id"] for row in rows if row["run_id"] is not None}
    found: dict[tuple[str | None, str], list[Host]] = {}
    for (place, model, pool), some in groupby(rows, key=lambda row: (row["place"], row["model"], row["pool"])):
        held = list(some)
        pieces = tuple(
            Piece(place, str(row["run_id"]), row["gpus"], row["preemptible"], row["stays"], fit.limits(row))
            for row in held
            if row["run_id"] is not None
        )
        found.setdefault((pool, model), []).append(Host(place, held[0]["free"], pieces, fit.room(place)))
    return Standing(found, names, fit)


def cheapest(groups: Iterable[Sequence[Host]], gpus: int, members: int, limits: Limits = NO_LIMITS) -> Plan | None:
    """The cheapest plan of the models that a shape may lie on: its members are of one model."""
    found = [one for group in groups if (one := plan(group, gpus, members, limits)) is not None]
    return min(found, key=lambda one: one.price) if found else None


def listed_moves(found: Plan | None, names: Names) -> list[dict[str, Any]]:
    """The moves of a plan as JSON has them."""
    moves = () if found is None else found.moves
    return [{"job": names.get(int(p.run)), "node": p.node, "gpus": p.gpus, "preemptible": p.preemptible} for p in moves]


def moves_to(
    found: Plan, group: Sequence[Host], names: Names, gpus: int, members: int, limits: Limits = NO_LIMITS
) -> dict[str, Any] | None:
    """The moves with their targets, in an order that works, and the nodes that the request then gets; None if no
    assignment was found.
    """
    where = destinations(group, found, gpus, members, limits)
    if where is None:
        return None
    left = {piece for host in group for piece in host.pieces} - set(found.moves)
    cleared = {piece.node for piece in found.moves} - {piece.node for piece in left}
    return {
        "moves": [listed_moves(Plan((piece,), True), names)[0] | {"to": target} for piece, target in where.moves],
        "at_once": where.at_once,
        "places": list(where.places),
        "drained": sorted(cleared),
    }


def blocking(groups: Iterable[Sequence[Host]], names: Names) -> list[tuple[str, int, int]]:
    """Jobs that hold a part of a node whose rest is free: (job, GPUs that it holds there, GPUs free beside it)."""
    found: dict[str, list[int]] = {}
    for group in groups:
        for host in group:
            for piece in host.pieces if host.free else ():
                own = found.setdefault(names.get(int(piece.run), piece.run), [0, 0])
                own[0] += piece.gpus
                own[1] += host.free
    return sorted(((job, held, free) for job, (held, free) in found.items()), key=lambda one: (-one[2], one[0]))


def prepare_levels(store: Store, scope: EvaluationScope) -> None:
    """Makes room_wait and what shapes/starved.sql makes of it: what was free while requests waited for room."""
    prepare_waits(store, scope)
    (needed,) = store.sql("select exists(from room_wait where coalesce(cpu_milli, memory_bytes) is not null)")[0]
    until_us = scope.until_us if needed else scope.since_us
    keep_room(store, scope.cluster, scope.since_us, until_us)
    store.run("capacity/starved", cluster=scope.cluster, since_us=scope.since_us, until_us=scope.until_us)


def prepare(store: Store, scope: EvaluationScope) -> None:
    """The same, and starved_word: who stood in the way of the worst waits, and what would have had to move."""
    prepare_levels(store, scope)
    rows = [_words(store, scope.cluster, row) for row in store.rows("capacity/starved_last", limit=PLANS_MAX)]
    with store.view("word_row", pa.Table.from_pylist(rows, schema=_WORD)):
        store.run("capacity/starved_word")


def _words(store: Store, cluster: str, row: dict[str, Any]) -> dict[str, Any]:
    """The blockers at the last moment of a wait, and the moves that would have ended it."""
    standing = hosts(store, cluster, row["at_us"], row["pool"], row["models"])
    groups = [group for _, group in sorted(standing.groups.items(), key=lambda one: one[0][1])]
    names = standing.names
    places = frozenset(host.name for group in groups for host in group)
    barred = places - frozenset(row["places"]) if row["places"] is not None else frozenset[str]()
    limits = Limits((row["cpu_milli"], row["memory_bytes"]), barred)
    found = cheapest(groups, row["gpus"], row["members"], limits)
    unknown = None if found is None or not found.moves else standing.fit.not_known(found.moves)
    share = row["starved_us"] / HOUR_US
    jobs = [f"{job} ({free * share:.1f} free GPU-hours on the same nodes)" for job, _, free in blocking(groups, names)]
    return {
        "pool": row["pool"],
        "hour_us": row["hour_us"],
        "wait": row["wait"],
        "moved_gpus": None if found is None else found.gpus,
        "exact": None if found is None else found.exact,
        "moves": listed([f"{m['job']} ({count(m['gpus'], 'GPU')} on {m['node']})" for m in listed_moves(found, names)]),
        "blockers": listed(jobs),
        "nodes": sorted({host.name for group in groups for host in group if host.free and host.pieces}),
        "not_known": joined([*split(row["unknown"]), *split(unknown)]),
    }


def listed(words: Sequence[str], most: int = NAMED_MAX) -> str:
    """The first of some words, and how many more there are."""
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")
