"""What keeps running jobs from moving to other nodes beside a lack of GPUs: CPUs, memory, selectors, constraints, reservations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gpuwatch.capacity.waits import FRESH_US
from gpuwatch.hardware.rooms import NOT_KNOWN, Amounts, Limits, Piece
from gpuwatch.store.database import Store
from gpuwatch.topology import node_records
from gpuwatch.topology.fit import SECOND_HAND
from gpuwatch.topology.node_fit import Place, fitting_places, json_object
from gpuwatch.topology.not_known import not_known
from gpuwatch.topology.slurm_fit import (
    Reservation,
    constraint_places,
    partition_places,
    reservations_of,
    reserved_spans,
)

NODES = "CPUs and memory of nodes (scontrol show node, or kubectl get nodes)"


@dataclass(frozen=True)
class Asked:
    """What is known of a running job on a node."""

    scheduler: str
    known: bool
    """Whether its CPUs and its memory are."""
    rules: bool
    """Whether its records have selectors."""


class MoveFit:
    """Compares running jobs with the nodes of a cluster at an instant. Records are read when they are first needed."""

    def __init__(self, store: Store, cluster: str, at_us: int) -> None:
        self._store, self._cluster, self._at_us = store, cluster, at_us
        self._asked: dict[tuple[str, str], Asked] = {}
        self._barred: dict[tuple[str, str | None, str | None, str | None], frozenset[str]] = {}

    @cached_property
    def _places(self) -> list[Place]:
        return node_records.places(self._store, self._cluster, self._at_us + 1)

    @cached_property
    def _rooms(self) -> dict[str, Amounts]:
        return node_records.room_before(self._store, self._cluster, self._at_us + 1)

    @cached_property
    def _facts(self) -> dict[str, dict[str, Any]]:
        return node_records.room_sources(self._store, self._cluster, self._at_us, self._at_us + 1)

    @cached_property
    def _reservations(self) -> list[Reservation]:
        scope = {"from_us": self._at_us, "until_us": self._at_us + 1, "fresh_us": FRESH_US}
        return reservations_of(self._store.rows("capacity/reserved", cluster=self._cluster, **scope))

    @cached_property
    def _reserved(self) -> bool:
        return bool(self._store.sql("select 1 from reservation where cluster = $c limit 1", c=self._cluster))

    def room(self, node: str) -> Amounts:
        """What is free on a node of CPUs and memory."""
        return self._rooms.get(node, NOT_KNOWN)

    def limits(self, row: Mapping[str, Any]) -> Limits:
        """Of a run on a node, a row of capacity/hosts."""
        needs = row["cpu_milli"], row["memory_bytes"]
        asked = Asked(row["scheduler"], None not in needs, row["kind"] not in SECOND_HAND)
        self._asked[str(row["run_id"]), row["place"]] = asked
        slurm = row["scheduler"] == "slurm"
        key = (
            row["scheduler"],
            row["node_rule"],
            row["queue"] if slurm else None,
            row["user_name"] if slurm and self._reservations else None,
        )
        if key not in self._barred:
            self._barred[key] = self._away(*key)
        return Limits(needs, self._barred[key])

    def _away(self, scheduler: str, rule: str | None, queue: str | None, user: str | None) -> frozenset[str]:
        """Nodes that a job may not use. Where its partition is not certain, it keeps no node away."""
        if scheduler == "kubernetes":
            fitting = fitting_places(rule, self._places) if rule is not None else self._places
        elif scheduler == "slurm":
            fitting = partition_places(queue, self._places) or self._places
            fitting = constraint_places(json_object(rule).get("constraint"), fitting)
        else:
            return frozenset()
        found = frozenset(place.name for place in self._places) - frozenset(place.name for place in fitting)
        if scheduler == "slurm":
            spans = reserved_spans(user, self._at_us, self._at_us + 1, self._reservations)
            found = found.union(*(nodes for _, _, nodes in spans))
        return found

    def not_known(self, moves: Iterable[Piece]) -> str | None:
        """What is not known of some moved jobs and of the nodes of their schedulers; without moves, of the cluster's nodes."""
        moved = [self._asked[piece.run, piece.node] for piece in moves]
        words: list[str] = []
        for scheduler in sorted({one.scheduler for one in moved} or set(self._facts)):
            mine, facts = [one for one in moved if one.scheduler == scheduler], self._facts.get(scheduler)
            if moved and facts is not None:
                facts |= {"runs_lack": not all(one.known for one in mine)}
            rules = all(one.rules for one in mine)
            if scheduler in ("kubernetes", "slurm"):
                kubernetes = scheduler == "kubernetes"
                words += split(not_known(kubernetes, True, facts, self._places, self._reserved, rules=rules))
        return joined(words) if words or self._facts else NODES


def joined(words: Iterable[str | None]) -> str | None:
    """Each once, in their order; None: nothing."""
    return "; ".join(dict.fromkeys(word for word in words if word)) or None


def split(words: str | None) -> Sequence[str]:
    """The parts of what `joined` made."""
    return (words or "").split("; ")
