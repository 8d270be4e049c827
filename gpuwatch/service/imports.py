"""Takes imports back while the service runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuwatch.imports.forget import forget
from gpuwatch.service.analyzer import Analyzer
from gpuwatch.service.group_commit import GroupCommit
from gpuwatch.state import State
from gpuwatch.store.database import Store

WAIT_S = 20.0
"""How long taking an import back waits for an analysis pass."""


class Imports:
    """The imports of a running service."""

    def __init__(
        self,
        store: Store,
        state: State,
        analyzer: Analyzer,
        writer: GroupCommit,
        now_us: Callable[[], int],
        wake: Callable[[], None],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`check` raises StoreError if this process changes no data."""
        self._store, self._state, self._now_us = store, state, now_us
        self._analyzer, self._writer, self._wake, self._check = analyzer, writer, wake, check

    def forget(self, import_id: int, actor: str) -> dict[str, Any]:
        """Takes an import back between two analysis passes; the next one computes its hours again. Raises StoreBusy during a
        long pass, NoSuchImport, and UsageError.
        """
        self._check()
        with self._analyzer.paused(WAIT_S), self._writer.paused(), self._store.cursor() as store:
            done = forget(store, import_id, self._now_us())
        self._state.record(actor, self._now_us(), f"import {import_id} forgotten", None, str(done["path"]))
        self._wake()
        return done
