"""The collectors' thread: all live sources run in one event loop and commit through the writer."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from gpuwatch.core.config_file import table_list
from gpuwatch.core.errors import StoreError, TimeNotConfirmed, UsageError
from gpuwatch.core.model import Points, Records, Rejects
from gpuwatch.core.registry import LiveSource, live_kinds
from gpuwatch.quality.clocks import Clocks
from gpuwatch.quality.own_clock import OwnClock
from gpuwatch.quality.status import Sources

RESTART_S = 30.0
"""Delay before restarting a source that ended with an unexpected error."""
STOP_S = 10.0

Submit = Callable[[str, Sequence[Records | Points], Rejects | None], Future[None]]
OpenClaims = Callable[[str, str], list[dict[str, Any]]]
OpenRows = Callable[[str, str], list[dict[str, Any]]]
log = logging.getLogger(__name__)


def configured(tables: Mapping[str, Any]) -> list[LiveSource]:
    """The live sources in gpuwatch.toml. Raises one UsageError with every problem."""
    problems: list[str] = []
    sources: list[LiveSource] = []
    for name, kind in live_kinds().items():
        if listed := table_list(tables, name, problems):
            sources += kind.configure(listed, problems)
    seen: set[str] = set()
    for source in sources:
        if source.name in seen:
            problems.append(f"{source.kind}: {source.name} is configured twice")
        seen.add(source.name)
    if problems:
        raise UsageError(f"settings: {'; '.join(problems)}")
    return sources


def unchanged(before: Mapping[str, Any], after: Mapping[str, Any]) -> set[str]:
    """Names of the sources that are identical in two configurations.

    Each entry of a table's `targets` is compared separately, so that adding an exporter restarts no other.
    """
    same: set[str] = set()
    for table in live_kinds():
        if table not in before or table not in after:
            continue
        if before[table] == after[table]:
            same |= {source.name for source in live_kinds()[table].configure(table_list(after, table, []), [])}
            continue
        old, new = _marks(table, before), _marks(table, after)
        same |= {name for name, mark in old.items() if new.get(name) == mark}
    return same


def _marks(table: str, tables: Mapping[str, Any]) -> dict[str, str]:
    """The configuration of each source of a kind as text: its own part of the tables, or all of them if shared."""
    configure = live_kinds()[table].configure
    listed = table_list(tables, table, [])
    whole = _mark(listed)
    marks = {source.name: whole for source in configure(listed, [])}
    targeted = any("targets" in each for each in listed)
    parts: dict[str, list[str]] = {}
    for part in (part for each in listed for part in _parts(each)):
        if targeted and "targets" not in part:
            continue  # its discovery may overlap with another table: then both restart together
        for source in configure([part], []):
            parts.setdefault(source.name, []).append(_mark([part]))
    return {name: parts[name][0] if len(parts.get(name, [])) == 1 else mark for name, mark in marks.items()}


def _parts(table: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    targets = table.get("targets")
    return [{**table, "targets": [target]} for target in targets] if isinstance(targets, list) else [table]


def _mark(tables: Sequence[Mapping[str, Any]]) -> str:
    """A digest, because tables may contain secrets."""
    return blake2b(json.dumps(tables, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Exchange:
    """The result of a reload: names of started and stopped sources, and how many kept running."""

    started: list[str]
    stopped: list[str]
    restarted: list[str]
    kept: int


class Collectors:
    """Runs live sources until stopped. A source that fails is recorded and restarted; the others keep running."""

    def __init__(
        self,
        live: Sequence[LiveSource],
        submit: Submit,
        sources: Sources,
        now_us: Callable[[], int],
        open_claims: OpenClaims,
        clocks: Clocks,
        open_rows: OpenRows = lambda cluster, table: [],
        own_clock: OwnClock | None = None,
    ) -> None:
        self._live = live
        self._submit = submit
        self._sources = sources
        self._now_us = now_us
        self._open_claims = open_claims
        self._clocks = clocks
        self._open_rows = open_rows
        self._own_clock = own_clock
        self._lookup = ThreadPoolExecutor(1, thread_name_prefix="lookup")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._running = threading.Event()
        self._thread = threading.Thread(target=self._work, name="collectors", daemon=True)
        for source in live:
            sources.add(source.name, source.kind, source.cluster, source.interval_s)

    def start(self) -> None:
        """Starts every source."""
        if self._live:
            self._thread.start()

    def stop(self) -> None:
        """Cancels all sources; data they already handed over is still written."""
        if self._thread.is_alive():
            self._running.wait(STOP_S)  # wait for the loop, in case it is stopped right after its start
            if self._loop is not None and self._ended is not None:
                self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(STOP_S)
        self._lookup.shutdown(wait=False)

    def exchange(self, live: Sequence[LiveSource], kept: Collection[str]) -> Exchange:
        """Switches to `live`: stops removed sources, starts new ones and leaves running ones in `kept` alone.

        A changed source is stopped and restarted with a fresh state.
        """
        if not self._thread.is_alive():
            for source in self._live:
                self._sources.forget(source.name)
            before = {source.name for source in self._live}
            self._live = list(live)
            for source in live:
                self.added(source)
            if live:
                self.start()
            return Exchange(sorted({s.name for s in live} - before), sorted(before - {s.name for s in live}), [], 0)
        self._running.wait(STOP_S)
        if self._loop is None:
            raise StoreError("the collectors have not started; restart the service")
        return asyncio.run_coroutine_threadsafe(self._exchange(live, kept), self._loop).result(2 * STOP_S)

    # The sink of registry.Sink -----------------------------------------------------------------------------------

    async def commit(self, source: str, batches: Sequence[Records | Points], rejects: Rejects | None = None) -> None:
        """Returns when the batches are on disk. Raises StoreError while their time cannot be trusted, because it may be that
        of our own clock.
        """
        if self._own_clock is not None and (doubt := self._own_clock.doubt()) is not None:
            raise TimeNotConfirmed(f"not stored: {doubt}")
        refused = rejects if rejects is not None else Rejects()
        await asyncio.wrap_future(self._submit(source, batches, refused))
        if refused.total:
            self._sources.rejected(source, refused)

    def succeeded(self, source: str, at_us: int, samples: int) -> None:
        """Records a successful round of the source."""
        self._sources.succeeded(source, at_us, samples)

    def failed(self, source: str, at_us: int, error: str) -> None:
        """Records a failed round of the source."""
        log.warning("source failed", extra={"source": source, "error": error})
        self._sources.failed(source, at_us, error)

    def added(self, source: LiveSource) -> None:
        """Adds a discovered source."""
        self._sources.add(source.name, source.kind, source.cluster, source.interval_s)

    def dropped(self, source: str) -> None:
        """Removes a source."""
        self._sources.forget(source)

    def clock(self, cluster: str, name: str, offset_us: int, at_us: int) -> None:
        """Records the reading of a clock."""
        self._clocks.record(cluster, name, offset_us, at_us)
        if self._own_clock is not None:
            self._own_clock.record(f"{cluster}/{name}", offset_us)

    async def open_claims(self, cluster: str, scheduler: str) -> list[dict[str, Any]]:
        """The latest record of each pod or run on a node that has not ended."""
        return await asyncio.get_running_loop().run_in_executor(self._lookup, self._open_claims, cluster, scheduler)

    async def open_rows(self, cluster: str, table: str) -> list[dict[str, Any]]:
        """The latest record of each queue or workload that has not ended."""
        return await asyncio.get_running_loop().run_in_executor(self._lookup, self._open_rows, cluster, table)

    # ---------------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        for source in self._live:
            self._begin(source)
        self._running.set()
        await self._ended.wait()
        await self._end(list(self._tasks))

    def _begin(self, source: LiveSource) -> None:
        self._tasks[source.name] = asyncio.create_task(self._forever(source))

    async def _end(self, names: Sequence[str]) -> None:
        """Cancels sources and waits for them to end; data they already handed over is still written."""
        ending = {name: self._tasks.pop(name) for name in names if name in self._tasks}
        for task in ending.values():
            task.cancel()
        if ending:
            _, hanging = await asyncio.wait(ending.values(), timeout=STOP_S)
            if hanging:
                log.error(
                    "sources did not stop in time", extra={"sources": [n for n, t in ending.items() if t in hanging]}
                )

    async def _exchange(self, live: Sequence[LiveSource], kept: Collection[str]) -> Exchange:
        wanted = {source.name: source for source in live}
        before = set(self._tasks)
        stay = before & wanted.keys() & set(kept)
        await self._end(sorted(before - stay))
        for name in before - stay:
            self._sources.forget(name)
        for name, source in wanted.items():
            if name not in stay:
                self.added(source)
                self._begin(source)
        new = wanted.keys() - stay
        return Exchange(sorted(new - before), sorted(before - wanted.keys()), sorted(new & before), len(stay))

    async def _forever(self, source: LiveSource) -> None:
        while True:
            try:
                await source.run(self, self._now_us)
                error = "ended unexpectedly"
            except StoreError as failure:
                error = str(failure)
            except Exception as failure:
                log.exception("source crashed", extra={"source": source.name})
                error = f"{type(failure).__name__}: {failure}"
            self.failed(source.name, self._now_us(), f"{error}; restarting in {RESTART_S:g} s")
            await asyncio.sleep(RESTART_S)
