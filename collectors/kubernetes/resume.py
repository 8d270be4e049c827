"""Queues and workloads that are open in the store when a source starts, to detect what was deleted meanwhile. Pure."""

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
"""API groups of the schedulers that have their own; all other groups belong to Kubernetes."""
OWN = "kubernetes"
IDENTITY = {
    "queue": ("kind", "name", "namespace", "flavor"),
    "workload": ("kind", "uid"),
}
"""Columns that identify a row among those of one kind."""

Name = tuple[str, ...]


class StoredRows:
    """Open rows of the store, until a complete list shows whether their object still exists."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], dict[Name, tuple[str, Columns]]] = {}

    def remember(self, table: str, rows: Iterable[Columns]) -> int | None:
        """Takes the newest row of each open queue or workload; returns when (µs) the newest was observed.

        Rows that no registered kind of object yields belong to other sources and are skipped.
        """
        newest: int | None = None
        for number, row in enumerate(rows):
            kind = kind_of_row(table, row)
            if kind is None or number >= MAX_ROWS:
                continue
            self._rows.setdefault((kind.group, kind.kind), {})[_name(table, row)] = table, row
            if row.get("observed_us") is not None:
                newest = max(newest or 0, row["observed_us"])
        return newest

    def missing(
        self, kind: Kind, listed: Collection[Name], uids: Collection[str], namespace: str | None
    ) -> list[tuple[str, Columns]]:
        """Rows whose object a complete list of a namespace (None: of all) does not have. Each is returned once.

        `listed` holds (table, *IDENTITY) of the rows of the list; an object that could not be read counts by its UID.
        """
        known = self._rows.get((kind.group, kind.kind), {})
        concerned = [name for name, (_, row) in known.items() if namespace in (None, row.get("namespace"))]
        rows = [(name, known.pop(name)) for name in concerned]
        return [found for name, found in rows if name not in listed and found[1].get("uid") not in uids]


def kind_of_row(table: str, row: Columns) -> Kind | None:
    """The registered kind that yields such rows. A queue row has the kind `cluster_queue` for a ClusterQueue."""
    scheduler, word = row.get("scheduler"), str(row.get("kind") or "")
    name = word if table == "workload" else "".join(part.capitalize() for part in word.split("_"))
    matches = [kind for kind in kinds().values() if kind.kind == name]
    if scheduler == OWN:
        taken = {group for groups in GROUPS.values() for group in groups}
        matches = [kind for kind in matches if kind.group not in taken]
    else:
        matches = [kind for kind in matches if kind.group in GROUPS.get(str(scheduler), ())]
    return matches[0] if len(matches) == 1 else None


def _name(table: str, row: Columns) -> Name:
    return (table, *(str(row.get(column)) for column in IDENTITY[table]))
