"""Backup of a data directory in use: a consistent copy of telemetry and state."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.state import FILE as STATE_FILE
from gpuwatch.state import State
from gpuwatch.state.copying import save
from gpuwatch.store.database import FILE_NAME as STORE_FILE
from gpuwatch.store.database import Store
from gpuwatch.store.private_files import DIRECTORY_MODE, close_to_others

PARTIAL = ".partial"


@dataclass(frozen=True)
class Backup:
    """The size of each written file in bytes."""

    telemetry_bytes: int
    state_bytes: int


def backup(store: Store, state: State, target: Path) -> Backup:
    """Copies telemetry and state into `target`, which must be empty or absent. `gpuwatch restore` copies them back.

    The telemetry copy is one snapshot, without later commits. Raises UsageError if `target` has files or is the data
    directory, UnreadableInput if it cannot be written, StoreError if the disk is full. An interrupted copy leaves only
    *.partial files. A state on a server becomes a state.sqlite too, of one snapshot.
    """
    if store.path is not None and target.resolve().is_relative_to(store.path.resolve()):
        raise UsageError(f"backup {target}: is inside the data directory {store.path}; use a directory outside it")
    try:
        _prepare(target)
    except OSError as error:
        raise UnreadableInput(f"backup {target}: {error.strerror or error}; use another directory") from error
    telemetry, settings = target / (STORE_FILE + PARTIAL), target / (STATE_FILE + PARTIAL)
    # State first, so that the telemetry it refers to (e.g. acknowledged findings) is in the later copy.
    save(state, settings)
    store.copy_to(telemetry)
    close_to_others(telemetry)
    os.replace(settings, target / STATE_FILE)
    os.replace(telemetry, target / STORE_FILE)
    return Backup((target / STORE_FILE).stat().st_size, (target / STATE_FILE).stat().st_size)


def _prepare(target: Path) -> None:
    """Makes sure the directory is empty and writable. Raises OSError or UsageError."""
    if target.exists() and (not target.is_dir() or any(p for p in target.iterdir() if not p.name.endswith(PARTIAL))):
        raise UsageError(f"backup {target}: is not an empty directory; use a new one")
    target.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    close_to_others(target)
    for leftover in target.glob(f"*{PARTIAL}*"):
        if leftover.is_dir():
            shutil.rmtree(leftover)
        else:
            leftover.unlink()
    with tempfile.TemporaryFile(dir=target):
        pass  # checks that it is writable before anything is copied
