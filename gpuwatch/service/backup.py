"""Back-up of a data directory while it is in use: a consistent copy of telemetry and state."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.state import FILE as STATE_FILE
from gpuwatch.state import State
from gpuwatch.store.database import FILE_NAME as STORE_FILE
from gpuwatch.store.database import Store

PARTIAL = ".partial"


@dataclass(frozen=True)
class Backup:
    """What was written: bytes of each file."""

    telemetry_bytes: int
    state_bytes: int


def backup(store: Store, state: State, target: Path) -> Backup:
    """Copies telemetry and state into `target`, which must be empty or absent; a restore copies the files back.

    The telemetry copy is one snapshot: what is committed while it runs is not in it. Raises UsageError when `target` has
    files in it or holds the store itself, UnreadableInput when it cannot be
    written to, StoreError when the disk is full. A copy that broke off leaves *.partial files only.
    """
    if store.path is not None and target.resolve() == store.path.resolve():
        raise UsageError(f"backup {target}: is the data directory itself; name another")
    try:
        _prepare(target)
    except OSError as error:
        raise UnreadableInput(f"backup {target}: {error.strerror or error}; name another directory") from error
    telemetry, settings = target / (STORE_FILE + PARTIAL), target / (STATE_FILE + PARTIAL)
    # State first: what refers to telemetry (an acknowledged finding) may then lack nothing in it.
    state.copy_to(settings)
    store.copy_to(telemetry)
    os.replace(settings, target / STATE_FILE)
    os.replace(telemetry, target / STORE_FILE)
    return Backup((target / STORE_FILE).stat().st_size, (target / STATE_FILE).stat().st_size)


def _prepare(target: Path) -> None:
    """An empty directory that can be written to; OSError where it cannot."""
    if target.exists() and (not target.is_dir() or any(p for p in target.iterdir() if not p.name.endswith(PARTIAL))):
        raise UsageError(f"backup {target}: is not an empty directory; name a new one")
    target.mkdir(parents=True, exist_ok=True)
    for leftover in target.glob(f"*{PARTIAL}*"):
        leftover.unlink()
    with tempfile.TemporaryFile(dir=target):
        pass  # whether it can be written to shows before anything is copied
