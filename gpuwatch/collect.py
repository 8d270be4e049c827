"""The collectors' thread: every live source runs in one event loop and commits through the writer."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from gpuwatch.clocks import Clocks
from gpuwatch.errors import StoreError, UsageError
from gpuwatch.model import Points, Records, Rejects
from gpuwatch.registry import LiveSource, live_kinds
from gpuwatch.settings import table_list
from gpuwatch.sources import Sources

RESTART_S = 30.0
"""A source that ended by an unforeseen error starts again after this."""
STOP_S = 10.0

Submit = Callable[[str, Sequence[Records | Points], Rejects | None], Future[None]]
OpenClaims = Callable[[str, str], list[dict[str, Any]]]
log = logging.getLogger(__name__)


def configured(tables: Mapping[str, Any]) -> list[LiveSource]:
    """The live sources that gpuwatch.toml names. Raises UsageError with every problem at once."""
    problems: list[str] = []
    sources: list[LiveSource] = []
    for name, kind in live_kinds().items():
        if listed := table_list(tables, name, problems):
            sources += kind.configure(listed, problems)
    seen: set[str] = set()
    for source in sources:
        if source.name in seen:
            problems.append(f"{source.kind}: {source.name} is named twice")
        seen.add(source.name)
    if problems:
        raise UsageError(f"settings: {'; '.join(problems)}")
    return sources


class Collectors:
    """Runs live sources until stopped. One that ends by an error is told, and started again; the others go on."""

    def __init__(
        self,
        live: Sequence[LiveSource],
        submit: Submit,
        sources: Sources,
        now_us: Callable[[], int],
        open_claims: OpenClaims,
        clocks: Clocks,
    ) -> None:
        self._live = live
        self._submit = submit
        self._sources = sources
        self._now_us = now_us
        self._open_claims = open_claims
        self._clocks = clocks
        self._lookup = ThreadPoolExecutor(1, thread_name_prefix="lookup")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._all: asyncio.Task[None] | None = None
        self._running = threading.Event()
        self._thread = threading.Thread(target=self._work, name="collectors", daemon=True)
        for source in live:
            sources.add(source.name, source.kind, source.cluster, source.interval_s)

    def start(self) -> None:
        """Starts every source."""
        if self._live:
            self._thread.start()

    def stop(self) -> None:
        """Cancels every source; what they handed over is still written."""
        if self._thread.is_alive():
            self._running.wait(STOP_S)  # stopped in the moment it was started, it has no loop to cancel yet
            loop, every = self._loop, self._all
            if loop is not None and every is not None:
                loop.call_soon_threadsafe(every.cancel)
            self._thread.join(STOP_S)
        self._lookup.shutdown(wait=False)

    # The sink of registry.Sink -----------------------------------------------------------------------------------

    async def commit(self, source: str, batches: Sequence[Records | Points], rejects: Rejects | None = None) -> None:
        """Returns when the batches are on disk."""
        refused = rejects if rejects is not None else Rejects()
        await asyncio.wrap_future(self._submit(source, batches, refused))
        if refused.total:
            self._sources.rejected(source, refused)

    def succeeded(self, source: str, at_us: int, samples: int) -> None:
        """A round of the source went well."""
        self._sources.succeeded(source, at_us, samples)

    def failed(self, source: str, at_us: int, error: str) -> None:
        """A round of the source failed."""
        log.warning("source failed", extra={"source": source, "error": error})
        self._sources.failed(source, at_us, error)

    def added(self, source: LiveSource) -> None:
        """A source that was found while others run."""
        self._sources.add(source.name, source.kind, source.cluster, source.interval_s)

    def dropped(self, source: str) -> None:
        """A source that is gone."""
        self._sources.forget(source)

    def clock(self, cluster: str, name: str, offset_us: int, at_us: int) -> None:
        """A clock was read."""
        self._clocks.heard(cluster, name, offset_us, at_us)

    async def open_claims(self, cluster: str, scheduler: str) -> list[dict[str, Any]]:
        """The newest record of each pod or run on a node that no record has ended."""
        return await asyncio.get_running_loop().run_in_executor(self._lookup, self._open_claims, cluster, scheduler)

    # ---------------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._all = asyncio.ensure_future(self._gather())
        self._running.set()
        try:
            await self._all
        except asyncio.CancelledError:
            return

    async def _gather(self) -> None:
        await asyncio.gather(*(self._forever(source) for source in self._live))

    async def _forever(self, source: LiveSource) -> None:
        while True:
            try:
                await source.run(self, self._now_us)
                error = "ended by itself"
            except StoreError as failure:
                error = str(failure)
            except Exception as failure:
                log.exception("source broke", extra={"source": source.name})
                error = f"{type(failure).__name__}: {failure}"
            self.failed(source.name, self._now_us(), f"{error}; starts again in {RESTART_S:g} s")
            await asyncio.sleep(RESTART_S)
