"""Copies a backup into a data directory, whole or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gpuwatch.core.clock import from_us
from gpuwatch.core.errors import StoreError, UnreadableInput
from gpuwatch.state import FILE as STATE_FILE
from gpuwatch.state import State
from gpuwatch.state.copying import fill, is_new, same_content
from gpuwatch.state.pairing import open_state_of
from gpuwatch.state.server import Server
from gpuwatch.store.database import FILE_NAME as STORE_FILE
from gpuwatch.store.database import Store
from gpuwatch.store.private_files import REPLACED, make_private

STORE_LOG = f"{STORE_FILE}.wal"
STATE_LOGS = (f"{STATE_FILE}-wal", f"{STATE_FILE}-shm", f"{STATE_FILE}-journal")


@dataclass(frozen=True)
class Parts:
    """What of a backup is restored, and where the state goes: a file in the data directory, or a server."""

    state: bool = True
    store: bool = True
    server: Server | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the backup that are read."""
        return (STATE_FILE,) * self.state + (STORE_FILE,) * self.store

    @property
    def replaced(self) -> tuple[str, ...]:
        """The files of the data directory that are replaced."""
        return tuple(name for name in self.files if name == STORE_FILE or self.server is None)


EVERYTHING = Parts()


def restore(source: Path, directory: Path, now_us: int, parts: Parts = EVERYTHING) -> Path | None:
    """Copies a backup into a data directory; returns where the former files are kept, None if there were none.

    1. Copy the files aside, open and migrate the copies, and check that they belong together. 2. Copy the state to the
    server, if it is there and empty. 3. Move the former files into a folder of their own. 4. Move the copies into place.
    With the state alone, the store stays and takes the state of the backup for its own; with the store alone, the state
    stays, and must be the one that the store of the backup remembers.

    Raises UnreadableInput for a directory that is no backup, StoreError for a damaged one, for files of two stores, for a
    server that has another state or one that was changed since the backup, or if a process uses the data directory.
    """
    _check_source(source, directory, parts.files)
    if not parts.store and not (directory / STORE_FILE).exists():
        raise UnreadableInput(f"--data {directory}: has no store to keep; restore without --state-only")
    try:
        make_private(directory)
        with _unused(directory), tempfile.TemporaryDirectory(prefix="restoring-", dir=directory) as aside:
            copies = Path(aside)
            for name in parts.files:
                shutil.copyfile(source / name, copies / name)
            _check_copies(copies, directory, parts)
            if parts.state and parts.server is not None:
                _fill_server(copies, parts.server)
            kept = _replace(copies, directory, parts.replaced, now_us)
    except OSError as error:
        raise StoreError(
            f"restore {directory}: {error.strerror or error}; make room, or check its permissions"
        ) from error
    if not parts.store:
        with (
            Store.open(directory, create=False) as store,
            open_state_of(store, directory, new_state=True, new_store=True, server=parts.server),
        ):
            pass
    return kept


def _check_source(source: Path, directory: Path, wanted: tuple[str, ...]) -> None:
    for name in wanted:
        if not (source / name).is_file():
            raise UnreadableInput(f"{source}: has no {name}; name a directory that gpuwatch backup wrote")
    if source.resolve() == directory.resolve():
        raise UnreadableInput(f"{source}: is the data directory itself; name a backup")
    for name in (STORE_LOG, STATE_LOGS[0]):
        with suppress(FileNotFoundError):
            if (source / name).stat().st_size:
                raise UnreadableInput(
                    f"{source}: has changes in {name}, so it is a data directory in use or after a crash; make a backup "
                    "of it with gpuwatch backup, and restore that"
                )


def _check_copies(copies: Path, directory: Path, parts: Parts) -> None:
    """Opens the copies, which migrates them, and folds their logs into the files."""
    if not parts.store:
        State.open(copies, create=False).close()
        return
    with Store.open(copies, create=False) as store:
        if parts.state:
            with open_state_of(store, copies):
                pass
        else:
            with State.open(parts.server or directory, create=False) as state:
                if store.linked_state() != state.identity():
                    raise StoreError(
                        f"state {state.name}: is not the state of this backup's store; restore without --store-only"
                    )
        store.checkpoint()


def _fill_server(copies: Path, server: Server) -> None:
    """Puts the state of a backup on the server; one that is there must be the same, or the two would not fit together."""
    with State.open(copies, create=False) as saved, State.open(server) as state:
        if is_new(state):
            fill(saved, state)
        elif not same_content(saved, state):
            raise StoreError(
                f"state {state.name}: is not empty, and not as it was at the time of the backup. Restore the state into an "
                "empty database (dropdb, createdb), or keep what is there and restore the telemetry alone: --store-only"
            )


def _replace(copies: Path, directory: Path, wanted: tuple[str, ...], now_us: int) -> Path | None:
    logs = {STATE_FILE: STATE_LOGS, STORE_FILE: (STORE_LOG,)}
    former = [*(log for name in wanted for log in logs[name]), *reversed(wanted)]
    present = [name for name in former if (directory / name).exists()]
    kept = None
    if present:
        stamp = from_us(now_us).strftime("%Y%m%dT%H%M%SZ")
        kept = Path(tempfile.mkdtemp(prefix=f"{REPLACED}{stamp}-", dir=directory))
        for name in present:
            os.replace(directory / name, kept / name)
    # The state first: a store without its state is refused, and the former files are kept.
    for name in wanted:
        os.replace(copies / name, directory / name)
    return kept


@contextmanager
def _unused(directory: Path) -> Iterator[None]:
    """Holds the lock that DuckDB takes on its file, so that no process opens the store meanwhile."""
    try:
        file = open(directory / STORE_FILE, "rb+")  # noqa: SIM115 - closed below
    except FileNotFoundError:
        yield
        return
    with file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreError(f"{directory} is in use by another process: stop it first") from error
        yield
