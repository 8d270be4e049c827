"""Copies a backup into a data directory, whole or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpuwatch.core.clock import from_us
from gpuwatch.core.errors import StoreError, UnreadableInput
from gpuwatch.state import FILE as STATE_FILE
from gpuwatch.state import State
from gpuwatch.state.pairing import open_state_of
from gpuwatch.store.database import FILE_NAME as STORE_FILE
from gpuwatch.store.database import Store
from gpuwatch.store.private_files import REPLACED, make_private

STORE_LOG = f"{STORE_FILE}.wal"
STATE_LOGS = (f"{STATE_FILE}-wal", f"{STATE_FILE}-shm", f"{STATE_FILE}-journal")


def restore(source: Path, directory: Path, now_us: int, state_only: bool = False) -> Path | None:
    """Copies a backup into a data directory; returns where the former files are kept, None if there were none.

    1. Copy the files aside, open and migrate the copies, and check that they belong together. 2. Move the former files
    into a folder of their own. 3. Move the copies into place. With `state_only` the store stays, and takes the state of
    the backup for its own.

    Raises UnreadableInput for a directory that is no backup, StoreError for a damaged one, for files of two stores, or
    if a process uses the data directory.
    """
    wanted = (STATE_FILE,) if state_only else (STATE_FILE, STORE_FILE)
    _check_source(source, directory, wanted)
    if state_only and not (directory / STORE_FILE).exists():
        raise UnreadableInput(f"--data {directory}: has no store to keep; restore without --state-only")
    try:
        make_private(directory)
        with _unused(directory), tempfile.TemporaryDirectory(prefix="restoring-", dir=directory) as aside:
            copies = Path(aside)
            for name in wanted:
                shutil.copyfile(source / name, copies / name)
            _check_copies(copies, state_only)
            kept = _replace(copies, directory, wanted, now_us)
    except OSError as error:
        raise StoreError(
            f"restore {directory}: {error.strerror or error}; make room, or check its permissions"
        ) from error
    if state_only:
        with (
            Store.open(directory, create=False) as store,
            open_state_of(store, directory, new_state=True, new_store=True),
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


def _check_copies(copies: Path, state_only: bool) -> None:
    """Opens the copies, which migrates them, and folds their logs into the files."""
    if state_only:
        State.open(copies, create=False).close()
        return
    with Store.open(copies, create=False) as store:
        with open_state_of(store, copies):
            pass
        store.checkpoint()


def _replace(copies: Path, directory: Path, wanted: tuple[str, ...], now_us: int) -> Path | None:
    former = [*STATE_LOGS, STATE_FILE] if STORE_FILE not in wanted else [STORE_LOG, *STATE_LOGS, STORE_FILE, STATE_FILE]
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
