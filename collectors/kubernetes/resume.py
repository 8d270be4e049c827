"""Queues and workloads that the store has open when a source starts: what went while nobody watched is found out. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gpuwatch.collectors.kubernetes.kinds import Kind, kinds
from gpuwatch.collectors.shared.records import Columns

MAX_ROWS = 1_000_000
GROUPS = {
    "kueue": ("kueue.x-k8s.io",),
    "volcano": ("scheduling.volcano.sh", "batch.volcano.sh"),
    "coscheduling": ("scheduling.x-k8s.io",),
    "ray": ("ray.io",),
}
"""API groups of the schedulers that have some; the objects of others are those of Kubernetes itself."""
OWN = "kubernetes"
IDENTITY = {
    "queue": ("kind", "name", "namespace", "flavor"),
    "workload": ("kind", "uid"),
}
"""Columns that tell rows of one kind of object apart."""

Name = tuple[str, ...]


class Stored:
    """Rows of the store, until a whole list has said whether their object is still there."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], dict[Name, tuple[str, Columns]]] = {}

    def remember(self, table: str, rows: Iterable[Columns]) -> int | None:
        """Takes the newest row of each open queue or workload; returns when (µs) the newest of them was said.

        What no registered kind of object gives is another source's, and left out.
        """
        newest: int | None = None
        for number, row in enumerate(rows):
            kind = writer(table, row)
            if kind is None or number >= MAX_ROWS:
                continue
            self._rows.setdefault((kind.group, kind.kind), {})[_name(table, row)] = table, row
            if row.get("observed_us") is not None:
                newest = max(newest or 0, row["observed_us"])
        return newest

    def missing(
        self, kind: Kind, said: Collection[Name], uids: Collection[str], namespace: str | None
    ) -> list[tuple[str, Columns]]:
        """(table, row) of what a whole list of a namespace (None: of all) does not have; asked once a list.

        `said` are the (table, *IDENTITY) that its objects gave; one that could not be read is there by its UID.
        """
        known = self._rows.get((kind.group, kind.kind), {})
        listed = [name for name, (_, row) in known.items() if namespace in (None, row.get("namespace"))]
        rows = [(name, known.pop(name)) for name in listed]
        return [found for name, found in rows if name not in said and found[1].get("uid") not in uids]


def writer(table: str, row: Columns) -> Kind | None:
    """The registered kind of object whose rows look so: a queue is called `cluster_queue`, its object ClusterQueue."""
    scheduler, word = row.get("scheduler"), str(row.get("kind") or "")
    name = word if table == "workload" else "".join(part.capitalize() for part in word.split("_"))
    named = [kind for kind in kinds().values() if kind.kind == name]
    if scheduler == OWN:
        taken = {group for groups in GROUPS.values() for group in groups}
        named = [kind for kind in named if kind.group not in taken]
    else:
        named = [kind for kind in named if kind.group in GROUPS.get(str(scheduler), ())]
    return named[0] if len(named) == 1 else None


def _name(table: str, row: Columns) -> Name:
    return (table, *(str(row.get(column)) for column in IDENTITY[table]))
