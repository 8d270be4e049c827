"""Which free GPUs a gang could not have used at its start: by selectors, constraints, CPUs and memory; and what of these is not known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from gpuwatch.store.database import Store
from gpuwatch.topology.node_fit import Place, fitting_places, json_object
from gpuwatch.topology.node_records import keep_room, places, room_sources
from gpuwatch.topology.not_known import not_known
from gpuwatch.topology.slurm_fit import constraint_places

GANGS_MAX = 2_000
"""Gangs whose CPUs and memory one evaluation compares with nodes; of others these are not known."""
SECOND_HAND = frozenset({"ksm", "yunikorn"})
"""Kinds of records that have no selectors and tolerations."""
_START = pa.schema([("gang", pa.int64()), ("run_id", pa.int64()), ("at_us", pa.int64())])
_NEED = pa.schema(
    [("gang", pa.int64()), ("at_us", pa.int64()), ("cpu_milli", pa.int64()), ("memory_bytes", pa.int64())]
)
_AMOUNTS = ("cpu_milli", "memory_bytes")

One = TypeVar("One")
"""A GPU, by its name or its number."""


@dataclass(frozen=True)
class Limits:
    """What a gang could not use."""

    barred: frozenset[str] = frozenset()
    """Nodes that its selectors or its constraint do not fit."""
    most: Mapping[str, int] = field(default_factory=dict)
    """Of nodes without enough CPUs or memory: for how many of its GPUs, its own there included, they were enough."""

    def usable(self, free: list[One], own: Collection[One], node_of: Callable[[One], str | None]) -> list[One]:
        """Of free GPUs those that the gang could have used: its own, and of others as many of a node as its CPUs and memory are enough
        for."""
        if not (self.barred or self.most):
            return free
        left = {node: most - sum(node_of(gpu) == node for gpu in own) for node, most in self.most.items()}
        found = []
        for gpu in free:
            node = node_of(gpu)
            if gpu not in own and node is not None:
                if node in self.barred or left.get(node, 1) <= 0:
                    continue
                if node in left:
                    left[node] -= 1
            found.append(gpu)
        return found


@dataclass(frozen=True)
class Start:
    """A gang at its start."""

    gang: int
    runs: frozenset[int]
    at_us: int
    gpus: int


class Fit:
    """Compares gangs with the nodes of a cluster. What is the same for several of them is read once."""

    def __init__(self, store: Store, cluster: str) -> None:
        self._store, self._cluster = store, cluster
        self._places: list[Place] = []
        self._barred: dict[tuple[bool, str], frozenset[str]] = {}
        self.unknown: dict[int, str] = {}
        """What is not known of the nodes, by gang, of those that were compared."""

    def limits(self, starts: Collection[Start]) -> dict[int, Limits]:
        """What each gang could not use, by gang."""
        if not starts:
            return {}
        first_us, last_us = min(one.at_us for one in starts), max(one.at_us for one in starts) + 1
        rows = [{"gang": one.gang, "run_id": run, "at_us": one.at_us} for one in starts for run in one.runs]
        asked: dict[int, list[dict[str, Any]]] = defaultdict(list)
        with self._store.view("gang_start", pa.Table.from_pylist(rows, schema=_START)):
            for row in self._store.rows("topology/placement/gang_asks", cluster=self._cluster):
                asked[row["gang"]].append(row)
        facts = room_sources(self._store, self._cluster, first_us, last_us)
        self._places = places(self._store, self._cluster, last_us)
        reserved = bool(self._store.sql("select 1 from reservation where cluster = $c limit 1", c=self._cluster))
        most = self._most([one for one in starts if asked[one.gang]][:GANGS_MAX], asked)
        found = {}
        for one in starts:
            own = asked[one.gang]
            found[one.gang] = Limits(self._barred_of(own), most.get(one.gang, {}))
            if (words := self._unknown(own, facts, reserved)) is not None:
                self.unknown[one.gang] = words
        return found

    def _barred_of(self, asked: Iterable[Mapping[str, Any]]) -> frozenset[str]:
        found = frozenset[str]()
        for kubernetes, rule in {(row["scheduler"] == "kubernetes", row["node_rule"]) for row in asked}:
            if rule is None:
                continue
            if (kubernetes, rule) not in self._barred:
                self._barred[kubernetes, rule] = self._not_fitting(kubernetes, rule)
            found |= self._barred[kubernetes, rule]
        return found

    def _not_fitting(self, kubernetes: bool, rule: str) -> frozenset[str]:
        fitting = (
            fitting_places(rule, self._places)
            if kubernetes
            else constraint_places(json_object(rule).get("constraint"), self._places)
        )
        return frozenset(place.name for place in self._places) - frozenset(place.name for place in fitting)

    def _most(self, starts: Collection[Start], asked: Mapping[int, list[dict[str, Any]]]) -> dict[int, dict[str, int]]:
        needs = {one.gang: _needs(asked[one.gang]) for one in starts}
        known = [one for one in starts if any(needs[one.gang].values())]
        if not known:
            return {}
        times = [one.at_us for one in known]
        keep_room(self._store, self._cluster, min(times), max(times) + 1)
        rows = [{"gang": one.gang, "at_us": one.at_us, **needs[one.gang]} for one in known]
        gpus = {one.gang: one.gpus for one in starts}
        found: dict[int, dict[str, int]] = defaultdict(dict)
        with self._store.view("gang_need", pa.Table.from_pylist(rows, schema=_NEED)):
            tight = self._store.rows("topology/placement/gang_room")
        own = {(gang, row["node"]): row for gang, some in asked.items() for row in _by_node(some)}
        for row in tight:
            gang, here = row["gang"], own.get((row["gang"], row["place"]), {})
            enough = [
                (row[name] + (here.get(name) or 0)) * gpus[gang] // need
                for name in _AMOUNTS
                if row[name] is not None and (need := needs[gang][name])
            ]
            if enough and min(enough) < gpus[gang]:
                found[gang][row["place"]] = min(enough)
        return found

    def _unknown(
        self, asked: list[dict[str, Any]], facts: Mapping[str, Mapping[str, Any]], reserved: bool
    ) -> str | None:
        schedulers = {row["scheduler"] for row in asked}
        if not schedulers or not schedulers <= {"kubernetes", "slurm"}:
            return None
        kubernetes = "kubernetes" in schedulers
        known = None not in _needs(asked).values()
        rules = not any(row["kind"] in SECOND_HAND for row in asked)
        return not_known(
            kubernetes, known, facts.get("kubernetes" if kubernetes else "slurm"), self._places, reserved,
            running=True, rules=rules,
        )  # fmt: skip


def _needs(asked: Iterable[Mapping[str, Any]]) -> dict[str, int | None]:
    """What a gang has of CPUs and memory, on all its nodes; None: not known of some."""
    rows = list(asked)
    return {
        name: None if not rows or any(row[name] is None for row in rows) else sum(row[name] for row in rows)
        for name in _AMOUNTS
    }


def _by_node(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What a gang has on each node."""
    nodes: dict[str, dict[str, Any]] = {}
    for row in rows:
        own = nodes.setdefault(row["node"], {"node": row["node"], **dict.fromkeys(_AMOUNTS, 0)})
        for name in _AMOUNTS:
            own[name] += row[name] or 0
    return list(nodes.values())
