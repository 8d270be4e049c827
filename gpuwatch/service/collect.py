"""The collectors' thread: every live source runs in one event loop and commits through the writer."""

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

from gpuwatch.core.errors import StoreError, UsageError
from gpuwatch.core.model import Points, Records, Rejects
from gpuwatch.core.registry import LiveSource, live_kinds
from gpuwatch.quality.clocks import Clocks
from gpuwatch.quality.status import Sources
from gpuwatch.settings import table_list

RESTART_S = 30.0
"""A source that ended by an unforeseen error starts again after this."""
STOP_S = 10.0

Submit = Callable[[str, Sequence[Records | Points], Rejects | None], Future[None]]
OpenClaims = Callable[[str, str], list[dict[str, Any]]]
OpenRows = Callable[[str, str], list[dict[str, Any]]]
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


def unchanged(before: Mapping[str, Any], after: Mapping[str, Any]) -> set[str]:
    """Names of the sources that two configurations have in common, all that their tables say of them included.

    Each entry of a table's `targets` counts as a table of its own, so that one more exporter disturbs no other.
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
    """What each source of a kind was made of, as text: its own part of the tables, or all of them where it is not alone."""
    configure = live_kinds()[table].configure
    listed = table_list(tables, table, [])
    whole = _mark(listed)
    marks = {source.name: whole for source in configure(listed, [])}
    targeted = any("targets" in each for each in listed)
    parts: dict[str, list[str]] = {}
    for part in (part for each in listed for part in _parts(each)):
        if targeted and "targets" not in part:
            continue  # it may find what another table names: then both begin anew together
        for source in configure([part], []):
            parts.setdefault(source.name, []).append(_mark([part]))
    return {name: parts[name][0] if len(parts.get(name, [])) == 1 else mark for name, mark in marks.items()}


def _parts(table: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    targets = table.get("targets")
    return [{**table, "targets": [target]} for target in targets] if isinstance(targets, list) else [table]


def _mark(tables: Sequence[Mapping[str, Any]]) -> str:
    """A digest: tables hold secrets."""
    return blake2b(json.dumps(tables, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Exchange:
    """What became of the sources: names, and how many went on undisturbed."""

    started: list[str]
    stopped: list[str]
    restarted: list[str]
    kept: int


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
        open_rows: OpenRows = lambda cluster, table: [],
    ) -> None:
        self._live = live
        self._submit = submit
        self._sources = sources
        self._now_us = now_us
        self._open_claims = open_claims
        self._clocks = clocks
        self._open_rows = open_rows
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
        """Cancels every source; what they handed over is still written."""
        if self._thread.is_alive():
            self._running.wait(STOP_S)  # stopped in the moment it was started, it has no loop to cancel yet
            if self._loop is not None and self._ended is not None:
                self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(STOP_S)
        self._lookup.shutdown(wait=False)

    def exchange(self, live: Sequence[LiveSource], kept: Collection[str]) -> Exchange:
        """Runs `live` from now on: sources that are gone end, others start; those of `kept` that run go on undisturbed.

        A source that changed ends before it starts anew, and is told of afresh.
        """
        if not self._thread.is_alive():
            for source in self._live:
                self._sources.forget(source.name)
            before = {source.name for source in self._live}
            self._live = list(live)
            for source in live:
                self.added(source)
            self.start()
            return Exchange(sorted({s.name for s in live} - before), sorted(before - {s.name for s in live}), [], 0)
        self._running.wait(STOP_S)
        if self._loop is None:
            raise StoreError("the collectors have not started; restart the service")
        return asyncio.run_coroutine_threadsafe(self._exchange(live, kept), self._loop).result(2 * STOP_S)

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
        self._clocks.record(cluster, name, offset_us, at_us)

    async def open_claims(self, cluster: str, scheduler: str) -> list[dict[str, Any]]:
        """The newest record of each pod or run on a node that no record has ended."""
        return await asyncio.get_running_loop().run_in_executor(self._lookup, self._open_claims, cluster, scheduler)

    async def open_rows(self, cluster: str, table: str) -> list[dict[str, Any]]:
        """The newest record of each queue or workload that no record has ended."""
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
        """Cancels sources and waits until they have ended: what they handed over is still written."""
        ending = {name: self._tasks.pop(name) for name in names if name in self._tasks}
        for task in ending.values():
            task.cancel()
        if ending:
            _, hanging = await asyncio.wait(ending.values(), timeout=STOP_S)
            if hanging:
                log.error("sources do not end", extra={"sources": [n for n, t in ending.items() if t in hanging]})

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
                error = "ended by itself"
            except StoreError as failure:
                error = str(failure)
            except Exception as failure:
                log.exception("source broke", extra={"source": source.name})
                error = f"{type(failure).__name__}: {failure}"
            self.failed(source.name, self._now_us(), f"{error}; starts again in {RESTART_S:g} s")
            await asyncio.sleep(RESTART_S)
