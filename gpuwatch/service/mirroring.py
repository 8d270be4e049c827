"""Keeps the store of a replica up to date with its lake, in a thread of its own, while questions are answered."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpuwatch.core.clock import SECOND_US, rfc3339
from gpuwatch.core.errors import GpuwatchError, StoreBusy
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.service import answering
from gpuwatch.service.lake_metrics import PULL, Step, clusters_of
from gpuwatch.service.priority import yield_to_others
from gpuwatch.store.database import Store

if TYPE_CHECKING:
    from gpuwatch.lake.connection import Lake

RETRY_S_MAX = 60.0
"""The longest wait after a failure; it doubles from [lake] pull_s."""
LATE_PULLS = 6
"""A copy is late after so many pulls that should have been, and a minute at least."""
LATE_S_MIN = 60.0
STOP_S = 10.0
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MirrorStatus:
    """Times in microseconds; None: never."""

    as_of_us: int | None = None
    """Everything that was published up to then is here."""
    error: str | None = None
    clusters: tuple[str, ...] = ()
    """Those of the copy."""
    published_us: dict[str, int] = field(default_factory=dict)
    """The last publish of each cell that is here."""


class Mirroring:
    """Pulls at the start and every `pull_s` seconds. Until the first pull is whole there are no answers."""

    def __init__(self, store: Store, settings: LakeSettings, now_us: Callable[[], int]) -> None:
        self._store = store
        self._settings = settings
        self._now_us = now_us
        self._stopping = threading.Event()
        self._failures = 0
        self.pulls = 0
        """Pulls with news so far; the first one of this start counts as one."""
        self._status = MirrorStatus()
        self._mixed = True
        """Whether the store has parts of several snapshots, or nothing."""
        self._interrupt: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._work, name="mirror", daemon=True)

    @property
    def status(self) -> MirrorStatus:
        """State of the copy."""
        return self._status

    def snapshot(self, store: Store) -> AbstractContextManager[Store]:
        """A connection for one answer."""
        return answering.snapshot(store, lambda: self._status.as_of_us)

    def step(self) -> Step:
        """The last success, for Prometheus."""
        return Step(PULL, self._status.as_of_us, self._status.clusters)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Interrupts a running pull and waits for it; the next one finishes it."""
        self._stopping.set()
        until = time.monotonic() + STOP_S
        while self._thread.is_alive() and time.monotonic() < until:
            self._store.interrupt()
            self._interrupt()
            self._thread.join(0.2)

    def check(self) -> None:
        """Raises StoreBusy while the store has no whole snapshot of the lake to answer from."""
        if self._mixed:
            why = "" if self._status.error is None else f" ({self._status.error})"
            raise StoreBusy(f"the ledger is being copied from the lake{why}; retry in a few seconds")

    def problems(self) -> list[str]:
        """Why there are no answers; empty if there are."""
        try:
            self.check()
        except StoreBusy as error:
            return [str(error)]
        return [] if self._thread.is_alive() else ["the copy of the lake is not renewed any more; restart the service"]

    def concerns(self) -> list[str]:
        """Why the answers are old; empty if they are not."""
        found = self._status
        late_us = max(LATE_S_MIN, LATE_PULLS * self._settings.pull_s) * SECOND_US
        if self._mixed or (found.as_of_us is not None and self._now_us() - found.as_of_us < late_us):
            return []
        as_of = "an earlier start" if found.as_of_us is None else rfc3339(found.as_of_us)
        why = "" if found.error is None else f": {found.error}"
        return [f"the copy of the lake is late: answers are as of {as_of}{why}"]

    def _work(self) -> None:
        yield_to_others()
        from gpuwatch.lake import mirror
        from gpuwatch.lake.connection import Lake
        from gpuwatch.lake.pull import Puller

        puller = Puller(self._now_us, on_parts=self._parts)
        lake: Lake | None = None
        try:
            self._mixed = not (mirror.is_mirror(self._store) and (last := mirror.last_pull(self._store)) and last.whole)
            while not self._stopping.is_set():
                try:
                    began_us = self._now_us()
                    lake = lake or Lake.open(self._settings)
                    self._interrupt = lake.interrupt
                    done = puller.pull(lake, self._store)
                    if done.cells:
                        notes = mirror.cells(self._store).values()
                        self._status = replace(self._status, published_us={one.cell: one.published_us for one in notes})
                    self._succeeded(began_us, done.units + done.removed)
                except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the latter is an interrupted transaction
                    self._failed(error)
                if lake is not None and (self._failures or not self._settings.on_server):
                    lake.close()  # a catalogue in a file serves one process at a time
                    lake = None
                self._stopping.wait(min(self._settings.pull_s * 2 ** min(self._failures, 10), self._rest_s_max()))
        finally:
            if lake is not None:
                lake.close()

    def _rest_s_max(self) -> float:
        return max(RETRY_S_MAX, self._settings.pull_s)

    def _parts(self, mixed: bool) -> None:
        self._mixed = mixed

    def _succeeded(self, began_us: int, units: int) -> None:
        if self._failures or units:
            log.info("copied from the lake", extra={"units": units})
        self._failures, self._mixed = 0, False
        news = bool(units) or self._status.as_of_us is None
        self.pulls += news
        known = clusters_of(self._store) if news else self._status.clusters
        self._status = replace(self._status, as_of_us=began_us, error=None, clusters=known)

    def _failed(self, error: BaseException) -> None:
        if self._stopping.is_set():
            return
        self._failures += 1
        words = str(error) if isinstance(error, GpuwatchError) else f"{type(error).__name__}: {error}"
        log.error("not copied from the lake", extra={"error": words, "failures": self._failures})
        self._status = replace(self._status, error=words)
