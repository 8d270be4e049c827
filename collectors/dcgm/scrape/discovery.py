"""Discovers targets repeatedly, and scrapes each one while it exists."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from gpuwatch.collectors.dcgm.scrape.config import Target, url_of
from gpuwatch.core.errors import GpuwatchError, SourceUnreachable
from gpuwatch.core.registry import LiveSource, Sink

MAX_FOUND = 20_000
"""Limit of the targets of all discoveries together."""
FIND_S = 20.0
"""Time limit of one search."""
PROBLEMS_SHOWN = 5

T = TypeVar("T")


@dataclass(frozen=True)
class FoundTarget:
    """A discovered target: an address for url_of, and labels for its samples."""

    address: str
    labels: Mapping[str, str] = field(default_factory=dict)


class Finder(Protocol):
    """A way to find targets."""

    shown: str
    """Its name in messages: "dns dcgm-exporter:9400"."""

    async def find(self) -> tuple[Sequence[FoundTarget], Sequence[str]]:
        """The current targets, and problems with some of them. Raises SourceUnreachable if the search fails."""


class OwnThread:
    """Runs calls that may hang in a thread of their own; while one hangs, no further call is made."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._last: Future[object] | None = None

    async def call(self, function: Callable[[], T]) -> T:
        """The result of a function. Raises SourceUnreachable while an earlier call is still running."""
        if self._last is not None and not self._last.done():
            raise SourceUnreachable("the previous query is still running")
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="discovery")
        future = self._threads.submit(function)
        self._last = future  # type: ignore[assignment]
        return await asyncio.wrap_future(future)


class TargetOwners:
    """The owner of each address, so that a target found by two discoveries is scraped once."""

    def __init__(self, listed: Sequence[str] = ()) -> None:
        self._owners: dict[str, object] = dict.fromkeys(listed, self)
        self._listed = len(self._owners)

    def take(self, address: str, owner: object) -> bool:
        """Whether the address now belongs to the owner. Raises ValueError if there are too many."""
        if (holder := self._owners.get(address)) is not None:
            return holder is owner
        if len(self._owners) - self._listed >= MAX_FOUND:
            raise ValueError(f"more than {MAX_FOUND} targets found; the rest is skipped")
        self._owners[address] = owner
        return True

    def release(self, address: str, owner: object) -> None:
        """Releases an address."""
        if self._owners.get(address) is owner:
            del self._owners[address]


class Discovery:
    """The finders of one `[[dcgm]]` table. While a finder fails, its last targets are still scraped."""

    kind = "dcgm"

    def __init__(
        self,
        name: str,
        template: Target,
        finders: Sequence[Finder],
        refresh_s: float,
        owners: TargetOwners,
        make: Callable[[Target], LiveSource],
    ) -> None:
        """`template` is a target without an address; `make` creates the source of a target."""
        self.name = name
        self.cluster = template.cluster
        self.interval_s = refresh_s
        self._template = template
        self._finders = finders
        self._owners = owners
        self._make = make
        self._known: dict[str, Sequence[FoundTarget]] = {}
        self._running: dict[str, tuple[Target, str, asyncio.Task[None]]] = {}

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Searches every `interval_s`; stops its sources when it is cancelled."""
        try:
            while True:
                problems = await self.search(sink, now_us)
                if problems:
                    sink.failed(self.name, now_us(), "; ".join(problems[:PROBLEMS_SHOWN]))
                else:
                    sink.succeeded(self.name, now_us(), 0)
                await asyncio.sleep(self.interval_s)
        finally:
            await self._end(list(self._running), sink)

    async def search(self, sink: Sink, now_us: Callable[[], int]) -> list[str]:
        """Runs every finder once, and starts and stops sources; returns the problems."""
        found = await asyncio.gather(*(self._ask(finder) for finder in self._finders))
        problems = [problem for listed in found for problem in listed]
        wanted = self._wanted(problems)
        gone = [a for a, (target, _, task) in self._running.items() if wanted.get(a) != target or task.done()]
        await self._end(gone, sink, staying=wanted.keys())
        for address, target in wanted.items():
            if address not in self._running:
                source = self._make(target)
                sink.added(source)
                self._running[address] = (target, source.name, asyncio.create_task(source.run(sink, now_us)))
        return problems

    async def _ask(self, finder: Finder) -> list[str]:
        try:
            async with asyncio.timeout(FIND_S):
                places, problems = await finder.find()
        except TimeoutError:
            return [f"{finder.shown}: no answer within {FIND_S:g} s; its last known targets are kept"]
        except GpuwatchError as error:
            return [f"{finder.shown}: {error}; its last known targets are kept"]
        except Exception as error:  # noqa: BLE001 - one finder that fails never stops the others
            return [f"{finder.shown} failed: {type(error).__name__}: {error}; its last known targets are kept"]
        self._known[finder.shown] = places
        return [f"{finder.shown}: {problem}" for problem in problems]

    def _wanted(self, problems: list[str]) -> dict[str, Target]:
        """Targets by address that this discovery owns. If two finders find a target, the first one sets its labels."""
        wanted: dict[str, Target] = {}
        for shown in (finder.shown for finder in self._finders):
            for place in self._known.get(shown, ()):
                try:
                    target = self._target(place)
                    if target.shown not in wanted and self._owners.take(target.shown, self):
                        wanted[target.shown] = target
                except ValueError as error:
                    if len(problems) < PROBLEMS_SHOWN:
                        problems.append(f"{shown}: {error}")
        return wanted

    def _target(self, place: FoundTarget) -> Target:
        return self._template.at(url_of(place.address), place.labels)

    async def _end(self, addresses: Sequence[str], sink: Sink, staying: Container[str] = ()) -> None:
        """Stops sources; those that restart at once stay listed."""
        ended = [(address, self._running.pop(address)) for address in addresses]
        for _, (_, _, task) in ended:
            task.cancel()
        await asyncio.gather(*(task for _, (_, _, task) in ended), return_exceptions=True)
        for address, (_, name, _) in ended:
            if address in staying:
                continue
            self._owners.release(address, self)
            sink.dropped(name)
