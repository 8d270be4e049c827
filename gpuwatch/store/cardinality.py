"""How many new label sets a cluster may bring: what has no end must not fill the store."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpuwatch.core.clock import DAY_US
from gpuwatch.core.model import Points, Records, Rejects
from gpuwatch.store.database import Store

NEW_A_DAY_MAX = 200_000
"""New label sets of one cluster within a day: 10,000 GPUs whose owner changes twenty times."""
NEW_IN_ALL_MAX = 1_000_000
"""New label sets of all clusters within a day."""
CLUSTERS_MAX = 1_000
"""Clusters that a store knows: names come from senders too."""
FRESH_MAX = 20_000
"""Label sets kept beside the sorted ones before they are sorted in."""

TOO_MANY = (
    f"over {NEW_A_DAY_MAX} new label sets of this cluster within a day: a label that changes all the time must be "
    "dropped by the sender (write_relabel_configs); what is known goes on"
)
TOO_MANY_IN_ALL = f"over {NEW_IN_ALL_MAX} new label sets within a day; what is known goes on"
TOO_MANY_CLUSTERS = f"over {CLUSTERS_MAX} clusters: check the parameter `cluster` of the senders"

Batches = Sequence[Records | Points]


class SeriesLimit:
    """Label sets that are known, and how many were new since the day began. Safe in threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: NDArray[np.int64] = np.empty(0, np.int64)  # sorted
        self._fresh: set[int] = set()
        self._clusters: set[str] = set()
        self._new: dict[str, int] = {}
        self._day_us = 0

    def load(self, store: Store) -> None:
        """Knows what the store knows."""
        found = store.table("store/known_context")
        with self._lock:
            self._known = np.unique(found.column("context_id").to_numpy())
            self._clusters = set(found.column("cluster").unique().to_pylist())

    def admitted(self, batches: Batches, now_us: int, where: str, rejects: Rejects | None) -> list[Records | Points]:
        """The batches without new label sets beyond the limits and without their readings, which are counted.

        A reading is judged by the label sets that came with it: senders repeat those until they are on disk.
        """
        refused: dict[int, str] = {}
        with self._lock:
            self._begin_day(now_us)
            for batch in batches:
                if isinstance(batch, Records) and batch.table == "context":
                    refused |= self._refused(batch.rows)
        if not refused:
            return list(batches)
        ids = np.array(sorted(refused), np.int64)
        return [_without(batch, ids, refused, where, rejects) for batch in batches]

    def _begin_day(self, now_us: int) -> None:
        if not 0 <= now_us - self._day_us < DAY_US:
            self._day_us = now_us
            self._new.clear()

    def _refused(self, contexts: pa.Table) -> dict[int, str]:
        """Why, by context_id. What is not refused is known from here on."""
        ids = contexts.column("context_id").to_numpy()
        unknown = np.flatnonzero(~_in_sorted(self._known, ids))
        if not len(unknown):
            return {}
        refused: dict[int, str] = {}
        clusters = contexts.column("cluster")
        for place in unknown.tolist():
            context_id = int(ids[place])
            if context_id in self._fresh or context_id in refused:
                continue
            cluster = clusters[place].as_py()
            if reason := self._reason(cluster):
                refused[context_id] = reason
                continue
            self._clusters.add(cluster)
            self._new[cluster] = self._new.get(cluster, 0) + 1
            self._fresh.add(context_id)
        if len(self._fresh) > FRESH_MAX:
            fresh = np.fromiter(self._fresh, np.int64, len(self._fresh))
            self._known = np.union1d(self._known, fresh)
            self._fresh.clear()
        return refused

    def _reason(self, cluster: str) -> str:
        if cluster not in self._clusters and len(self._clusters) >= CLUSTERS_MAX:
            return TOO_MANY_CLUSTERS
        if self._new.get(cluster, 0) >= NEW_A_DAY_MAX:
            return TOO_MANY
        return TOO_MANY_IN_ALL if sum(self._new.values()) >= NEW_IN_ALL_MAX else ""


def _in_sorted(known: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    if not len(known):
        return np.zeros(len(ids), np.bool_)
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.asarray(known[at] == ids)


def _without(
    batch: Records | Points, ids: NDArray[np.int64], reasons: dict[int, str], where: str, rejects: Rejects | None
) -> Records | Points:
    if isinstance(batch, Records):
        if batch.table != "context":
            return batch
        return Records(batch.table, batch.rows.filter(pa.array(~np.isin(batch.rows["context_id"].to_numpy(), ids))))
    of_series = batch.series.column("context_id").to_numpy()
    lost = np.flatnonzero(np.isin(of_series, ids))
    numbers = batch.series.column("series").to_numpy()
    used = batch.rows.column("series").to_numpy()
    gone = np.isin(used, numbers[lost])
    if rejects is not None:
        counts = np.bincount(used[gone], minlength=int(numbers.max()) + 1 if len(numbers) else 0)
        for place in lost.tolist():
            if count := int(counts[numbers[place]]):
                rejects.add(reasons[int(of_series[place])], where, 0, count=count)
    return Points(batch.series, batch.rows.filter(pa.array(~gone)))
