"""Label sets that are on disk: senders repeat theirs with every request, and the store need not look them up again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpuwatch.core.model import Points, Records
from gpuwatch.store.changes import Changes

Batches = Sequence[Records | Points]


class StoredContexts:
    """The ids of label sets that one writer has committed. Where anything else writes their table, all are forgotten."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._ids: NDArray[np.int64] = np.empty(0, np.int64)  # sorted
        self._count = -1

    def without(self, batches: Batches) -> list[Records | Points]:
        """The batches without records of label sets that are all on disk."""
        if (count := self._changes.counts()["context"]) != self._count:
            self._ids, self._count = np.empty(0, np.int64), count
        return [batch for batch in batches if not (_is_context(batch) and self._has(batch))]

    def committed(self, batches: Batches) -> None:
        """Remembers the label sets of batches from `without`, once a transaction has committed them all."""
        found = [batch.rows.column("context_id").to_numpy() for batch in batches if _is_context(batch)]
        if found:
            self._ids = np.union1d(self._ids, np.concatenate(found))
            self._count += 1

    def _has(self, batch: Records | Points) -> bool:
        ids = batch.rows.column("context_id").to_numpy()
        if not len(self._ids):
            return not len(ids)
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return bool((self._ids[at] == ids).all())


def _is_context(batch: Records | Points) -> bool:
    return isinstance(batch, Records) and batch.table == "context"
