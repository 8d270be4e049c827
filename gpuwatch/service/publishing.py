"""Publishes the store to its lake after passes, in a thread of its own: a lake that does not respond delays nothing else."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import GpuwatchError
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.service.holding import ALWAYS, Always
from gpuwatch.service.lake_metrics import PUBLISH, Step, clusters_of
from gpuwatch.service.priority import yield_to_others
from gpuwatch.store.database import Store

if TYPE_CHECKING:
    from gpuwatch.lake.connection import Lake
    from gpuwatch.lake.publish import Published, Publisher

RETRY_S_MAX = 900.0
"""The longest wait after a failure; it doubles from [lake] every_s."""
MAINTAIN_S = 3600.0
STOP_S = 10.0
"""A publish that hangs in the network is left at this time after a stop: it was not committed, or it was."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PublishStatus:
    """Times in microseconds; None: never since the start."""

    success_us: int | None = None
    clusters: tuple[str, ...] = ()
    """Those of the store at the last success."""
    error: str | None = None
    fenced: bool = False
    """Another process publishes the cell now: this one never tries again."""


class Publishing:
    """Publishes at most every `every_s` seconds, if a pass was made since."""

    def __init__(
        self, store: Store, settings: LakeSettings | None, now_us: Callable[[], int], holding: Always = ALWAYS
    ) -> None:
        """Without settings it does nothing, and imports nothing of the lake's engine. It publishes only with the lease."""
        self._holding = holding
        self._store = store
        self._settings = settings
        self._now_us = now_us
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._failures = 0
        self._status = PublishStatus()
        self._interrupt: Callable[[], None] = lambda: None
        self.on_published: Callable[[Store], None] = lambda store: None
        self._thread = threading.Thread(target=self._work, name="lake", daemon=True)

    @property
    def status(self) -> PublishStatus:
        """State of the publishing."""
        return self._status

    def step(self) -> Step:
        """The last success, for Prometheus."""
        return Step(PUBLISH, self._status.success_us, self._status.clusters)

    def start(self) -> None:
        """Starts the thread."""
        if self._settings is not None:
            self._thread.start()

    def stop(self) -> None:
        """Interrupts a running publish and waits for it; what it would have written is written after the next start."""
        self._stopping.set()
        self._wake.set()
        until = time.monotonic() + STOP_S
        while self._thread.is_alive() and time.monotonic() < until:
            self._store.interrupt()
            self._interrupt()
            self._thread.join(0.2)

    def wake(self) -> None:
        """Requests a publish, because there is something new."""
        self._wake.set()

    def concerns(self) -> list[str]:
        """Why the lake is not up to date; empty if it is, or there is none."""
        found = self._status
        if found.error is None:
            return []
        last = "not since the start" if found.success_us is None else rfc3339(found.success_us)
        again = "it is not tried again" if found.fenced else "it is tried again"
        return [f"the lake is late, last published: {last}; {again}: {found.error}"]

    def _work(self) -> None:
        yield_to_others()
        from gpuwatch.lake.connection import Lake
        from gpuwatch.lake.guard import Fenced
        from gpuwatch.lake.publish import Publisher

        settings = self._settings
        assert settings is not None
        held = self._holding
        publisher = Publisher(settings, self._now_us, epoch=held.epoch, holder=held.holder)
        lake: Lake | None = None
        maintained = time.monotonic()
        while not self._stopping.is_set() and not self._status.fenced:
            if not self._failures:
                self._wake.wait()
            self._wake.clear()
            if self._stopping.is_set():
                break
            try:
                held.check()
                if lake is None:
                    lake = Lake.open(settings, create=True)
                    if held.epoch is not None:
                        lake.end_others()
                self._interrupt = lake.interrupt
                done = self._published(publisher, lake)
                self._succeeded(done.units + done.removed)
                if time.monotonic() - maintained >= MAINTAIN_S:
                    maintained = time.monotonic()
                    self._maintain(lake)
            except Exception as error:  # noqa: BLE001 - a lake never stops the service
                self._failed(error, isinstance(error, Fenced))
            if lake is not None and (self._failures or not settings.on_server):
                lake.close()  # a catalogue in a file serves one process at a time
                lake = None
            self._stopping.wait(self._rest_s(settings.every_s))
        if lake is not None:
            lake.close()

    def _published(self, publisher: Publisher, lake: Lake) -> Published:
        """Publishes. Where a process without a lease has published meanwhile, publishes again with a higher epoch, if this process has the lease."""
        from gpuwatch.lake.guard import Fenced

        try:
            return publisher.publish(lake, self._store)
        except Fenced as error:
            if not self._holding.higher(error.epoch + 1):
                raise
            publisher.epoch = self._holding.epoch
            return publisher.publish(lake, self._store)

    def _rest_s(self, every_s: float) -> float:
        return float(min(every_s * 2 ** min(self._failures, 10), max(RETRY_S_MAX, every_s)))

    def _succeeded(self, units: int) -> None:
        if self._failures or units:
            log.info("published to the lake", extra={"units": units})
        self._failures = 0
        self._status = PublishStatus(success_us=self._now_us(), clusters=clusters_of(self._store))
        self.on_published(self._store)

    def _failed(self, error: Exception, fenced: bool) -> None:
        if self._stopping.is_set():
            return
        self._failures += 1
        words = str(error) if isinstance(error, GpuwatchError) else f"{type(error).__name__}: {error}"
        log.error("not published to the lake", extra={"error": words, "failures": self._failures})
        self._status = replace(self._status, error=words, fenced=fenced)

    def _maintain(self, lake: Lake) -> None:
        from gpuwatch.lake.maintain import maintain

        done = maintain(lake)
        log.info("lake maintained", extra={"files": done.files_after, "orphans": done.orphans})
