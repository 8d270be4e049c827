"""Reads and parses files in a thread, ahead of the store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import BoundedSemaphore, Event, Thread

from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Points, Records, Rejects, Rows, Source
from gpuwatch.core.registry import find_importer
from gpuwatch.imports.provenance import ASSUMED_ZONE, FileIdentity, KnownFiles

READ_BYTES = 1 << 20
BATCHES_AHEAD = 3
"""Parsed batches that may wait for the store, with about a million readings each."""


@dataclass(frozen=True)
class Part:
    """A file to import."""

    kind: str
    path: Path
    cluster: str
    timezone: str | None
    """Of naive times; None: none was given, they are read in ASSUMED_ZONE."""
    cluster_given: bool = True
    """Whether the user or the bundle named the cluster."""


@dataclass
class OpenFile:
    """A file that another thread reads: its batches come through a short queue, with None at the end."""

    part: Part
    size: int = 0
    identity: FileIdentity | None = None
    known: bool = False
    rejects: Rejects = field(default_factory=Rejects)
    error: Exception | None = None
    batches: SimpleQueue[Records | Points | None] = field(default_factory=SimpleQueue)
    taken: Callable[[], None] = lambda: None
    """Signals that a batch was taken from the queue, so that the next one may be added."""


def read_ahead(parts: list[Part], known: KnownFiles) -> Generator[OpenFile, None, None]:
    """Parses files in a second thread while the first one writes to the store, outside of Python's lock.

    At most BATCHES_AHEAD batches wait. Closing the iterator stops the thread after its current batch.
    """
    together: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        together.setdefault((part.kind, part.cluster), []).append(str(part.path))
    beside = {key: tuple(paths) for key, paths in together.items()}
    opened: SimpleQueue[OpenFile | None] = SimpleQueue()
    room = BoundedSemaphore(BATCHES_AHEAD)
    stop = Event()

    def work() -> None:
        for part in parts:
            file = OpenFile(part)
            opened.put(file)
            try:
                digest, file.size = digest_of(part.path)
                local = find_importer(part.kind).naive_times
                zone = (part.timezone or ASSUMED_ZONE) if local else ""
                file.identity = FileIdentity(digest, part.kind, part.cluster, zone)
                file.known = known.have(file.identity)
                for batch in () if file.known else _batches(part, beside, file.rejects):
                    room.acquire()
                    if stop.is_set():
                        return
                    file.batches.put(batch)
            except OSError as error:
                file.error = UnreadableInput(f"{part.path}: {error.strerror or error}")
            except Exception as error:  # noqa: BLE001 - passed to the other thread, which raises it
                file.error = error
            file.batches.put(None)
            if stop.is_set():
                return
        opened.put(None)

    reader = Thread(target=work, name="reader", daemon=True)
    reader.start()
    try:
        while (file := opened.get()) is not None:
            file.taken = room.release
            yield file
    finally:
        stop.set()
        with suppress(ValueError):
            room.release()
        reader.join()


def _batches(part: Part, beside: dict[tuple[str, str], tuple[str, ...]], rejects: Rejects) -> Rows:
    return find_importer(part.kind).read(_source(part, beside[part.kind, part.cluster]), rejects)


def _source(part: Part, beside: tuple[str, ...]) -> Source:
    # A scrape without timestamps has the time of its file. No other format does, because a copy of an old dump is not
    # newer evidence.
    saved_us = part.path.stat().st_mtime_ns // 1000 if part.kind == "openmetrics" else None
    return Source(str(part.path), part.cluster, part.timezone or ASSUMED_ZONE, saved_us, beside, part.cluster_given)


def digest_of(path: Path) -> tuple[str, int]:
    """SHA-256 and size of a file, or of all files below a directory with their names."""
    total = hashlib.sha256()
    size = 0
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    for file in files:
        total.update(file.name.encode())
        try:
            with file.open("rb") as stream:
                while block := stream.read(READ_BYTES):
                    total.update(block)
                    size += len(block)
        except OSError as error:
            raise UnreadableInput(f"{file}: {error.strerror}") from error
    return total.hexdigest(), size
