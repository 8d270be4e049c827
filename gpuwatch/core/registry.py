"""Plug-ins: a decorator and a file. Importers, live sources and receivers are found by walking their package."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gpuwatch.core.errors import UsageError

if TYPE_CHECKING:
    from gpuwatch.core.model import Points, Records, Rejects, Rows, Source


class Read(Protocol):
    """Reads one file into batches; refuses bad pieces into `rejects`; raises UnreadableInput for a bad file."""

    def __call__(self, source: Source, rejects: Rejects) -> Rows: ...


@dataclass(frozen=True)
class Importer:
    """An import kind and the function that reads one file of it."""

    kind: str
    about: str
    read: Read
    suffixes: tuple[str, ...] = ()
    """File names to take when the user names a directory, e.g. (".prom", ".prom.gz")."""
    naive_times: bool = False
    """Whether its files may have local times without an offset."""


_importers: dict[str, Importer] = {}


def importer(
    kind: str, about: str, suffixes: tuple[str, ...] = (), *, naive_times: bool = False
) -> Callable[[Read], Read]:
    """Registers a reader for an import kind."""

    def register(read: Read) -> Read:
        if kind in _importers:
            raise ValueError(f"import kind {kind!r} is registered twice: {_importers[kind].read} and {read}")
        _importers[kind] = Importer(kind, about, read, suffixes, naive_times)
        return read

    return register


def discover(package: str) -> None:
    """Imports every module below `package`, so that their decorators run."""
    root = importlib.import_module(package)
    for module in pkgutil.walk_packages(root.__path__, prefix=f"{package}."):
        importlib.import_module(module.name)


def importers() -> dict[str, Importer]:
    """All import kinds by name."""
    discover("gpuwatch.collectors")
    return dict(sorted(_importers.items()))


def find_importer(kind: str) -> Importer:
    """The importer of `kind`, or UsageError with the kinds there are."""
    known = importers()
    if kind not in known:
        raise UsageError(f"import: unknown kind {kind!r}; known: {', '.join(known)}")
    return known[kind]


def plan_bundle(path: Path) -> Any:
    """The collectors.bundle.BundlePlan of a directory: what to import from it, as which kind, and what is missing."""
    return importlib.import_module("gpuwatch.collectors.bundle").plan(path)


# Live sources ------------------------------------------------------------------------------------------------------


class Sink(Protocol):
    """Where a live source puts what it read, and says how it fares. Used from the collectors' event loop only."""

    async def commit(self, source: str, batches: Sequence[Records | Points], rejects: Rejects | None = None) -> None:
        """Returns when the batches are on disk. Raises StoreBusy when the queue is full, StoreError when it cannot."""

    def succeeded(self, source: str, at_us: int, samples: int) -> None:
        """A round of the source went well; `samples` is what it read."""

    def failed(self, source: str, at_us: int, error: str) -> None:
        """A round of the source failed; `error` says what, which and what to do, without secrets."""

    def added(self, source: LiveSource) -> None:
        """A source that was found while others run: it is listed before it has reported anything."""

    def dropped(self, source: str) -> None:
        """A source that is gone for good: it is listed no more."""

    def clock(self, cluster: str, name: str, offset_us: int, at_us: int) -> None:
        """The clock of `name` (a node, or this source) was read at `at_us`: it is `offset_us` ahead of ours."""

    async def open_claims(self, cluster: str, scheduler: str) -> list[dict[str, Any]]:
        """The newest record (columns of model.CLAIM) of each pod or run on a node that no record has ended."""

    async def open_rows(self, cluster: str, table: str) -> list[dict[str, Any]]:
        """The newest record of each queue ("queue") that was not deleted, or workload ("workload") that has not ended."""


class LiveSource(Protocol):
    """One thing that is read for ever: an endpoint, a Slurm controller, a Kubernetes API server."""

    name: str
    """Unique and stable, without secrets: "dcgm http://n1:9400/metrics"."""
    kind: str
    """Its table in gpuwatch.toml: dcgm, slurm, kubernetes."""
    cluster: str
    interval_s: float
    """The longest time between two successes when all is well: what lateness is measured against."""

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Reads until it is cancelled. Failures are reported to the sink and tried again; it never returns by itself."""


class Configure(Protocol):
    """Makes sources of a table (or list of tables) of gpuwatch.toml; adds every wrong value to `problems`."""

    def __call__(self, tables: Sequence[Mapping[str, Any]], problems: list[str]) -> Sequence[LiveSource]: ...


@dataclass(frozen=True)
class LiveKind:
    """A table of gpuwatch.toml that configures live sources."""

    table: str
    about: str
    configure: Configure


class Receive(Protocol):
    """Decodes one pushed body. One object a service: it may keep caches between calls, and is called from one thread.

    `body` is decompressed already. Refuses bad pieces into `rejects`; raises UnreadableInput for a bad body.
    """

    def __call__(
        self, body: bytes, content_type: str, cluster: str, now_us: int, rejects: Rejects
    ) -> Sequence[Records | Points]: ...


_live: dict[str, LiveKind] = {}
_receivers: dict[str, Callable[[], Receive]] = {}


def live(table: str, about: str) -> Callable[[Configure], Configure]:
    """Registers what makes live sources of a table of gpuwatch.toml."""

    def register(configure: Configure) -> Configure:
        if table in _live:
            raise ValueError(f"live source {table!r} is registered twice: {_live[table].configure} and {configure}")
        _live[table] = LiveKind(table, about, configure)
        return configure

    return register


def live_kinds() -> dict[str, LiveKind]:
    """All kinds of live sources by table name."""
    discover("gpuwatch.collectors")
    return dict(sorted(_live.items()))


def receiver(name: str) -> Callable[[Callable[[], Receive]], Callable[[], Receive]]:
    """Registers what makes the decoder of a push protocol: remote-write, events."""

    def register(make: Callable[[], Receive]) -> Callable[[], Receive]:
        if name in _receivers:
            raise ValueError(f"receiver {name!r} is registered twice: {_receivers[name]} and {make}")
        _receivers[name] = make
        return make

    return register


def make_receiver(name: str) -> Receive:
    """A new decoder of the push protocol `name`; UsageError for an unknown one."""
    discover("gpuwatch.collectors")
    if name not in _receivers:
        raise UsageError(f"no receiver {name!r}; known: {', '.join(sorted(_receivers))}")
    return _receivers[name]()
