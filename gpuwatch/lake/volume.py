"""Makes the data directory of a process that has just taken a cell over the cell's own: as it is, or from the lake."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from gpuwatch.core.clock import from_us
from gpuwatch.core.errors import StoreError, UsageError
from gpuwatch.lake import guard, mirror
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.rebuild import Rebuilt, rebuild
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.store.database import FILE_NAME, Store
from gpuwatch.store.private_files import REPLACED, make_private

FILE = "cell.json"
"""The file with the random id of a directory, which the lease names as that of its last holder."""
KEPT = 3
"""Stores that were replaced by the lake's rows and are kept; older ones are deleted."""
_BEHIND = f"{REPLACED}behind-"


def id_of(directory: Path) -> str | None:
    """The id of a directory; None for one that never held a cell to its end."""
    try:
        found = json.loads((directory / FILE).read_text("utf-8"))["volume"]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{directory / FILE}: cannot be read ({error}); delete it to start from the lake") from error
    return str(found)


def mark(directory: Path) -> str:
    """The id of a directory that is as new as the cell; it gets one if it has none. On disk when this returns."""
    if (found := id_of(directory)) is not None:
        return found
    found, fresh = uuid4().hex, directory / f"{FILE}.{os.getpid()}"
    make_private(directory)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump({"volume": found}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, directory / FILE)
    return found


def prepare(
    settings: LakeSettings,
    directory: Path,
    before: str | None,
    fence: Callable[[Lake], None],
    open_store: Callable[[], Store],
    now_us: Callable[[], int],
) -> Rebuilt | None:
    """What was made from the lake; None for a directory that was the last holder's, or is the first one.

    `before` is the directory of the holder before, `fence` refuses every publish of it from then on. A directory that is behind
    is kept beside. Raises UsageError for a directory of another cell, and for one that is behind while the lake has nothing;
    LakeError if the lake does not respond. What was killed at any moment is finished by the next call.
    """
    has, mine = (directory / FILE_NAME).exists(), id_of(directory)
    if has and mine is not None and mine == before:
        return None
    partial = has and mine is None and _is_partial(open_store)
    if has and before is None and not partial:
        return None
    with Lake.open(settings, create=True) as lake:
        if not guard.exists(lake):
            if before is None:
                return None
            raise UsageError(
                f"{directory}: another data directory had cell {settings.cell} last, and published nothing: start the process "
                "with that one; if it is lost, gpuwatch serve --new-store goes on without it"
            )
        fence(lake)
        if has and not partial:
            _put_aside(directory, settings, guard.read(lake).store_id, open_store, now_us())
        with open_store() as store:
            return rebuild(lake, store, now_us)


def _is_partial(open_store: Callable[[], Store]) -> bool:
    """Whether a rebuild of the directory was interrupted."""
    with open_store() as store:
        return mirror.is_mirror(store) or store.is_empty()


def _put_aside(
    directory: Path, settings: LakeSettings, store_id: str, open_store: Callable[[], Store], now_us: int
) -> None:
    """Moves a store away that lacks what later holders have published, and leaves what it alone has."""
    with open_store() as store:
        own = store.identity()
        store.checkpoint()
    if own != store_id:
        raise UsageError(
            f"{directory}: has the data of another cell than {settings.cell}; set another [lake] cell, or name an empty directory"
        )
    kept = directory / f"{_BEHIND}{from_us(now_us):%Y%m%dT%H%M%S%f}"
    kept.mkdir(mode=0o700)
    # The store itself goes last: until then it is found, and this is done again.
    for path in sorted(directory.glob(f"{FILE_NAME}?*")):
        os.replace(path, kept / path.name)
    (directory / FILE).unlink(missing_ok=True)
    os.replace(directory / FILE_NAME, kept / FILE_NAME)
    for old in sorted(directory.glob(f"{_BEHIND}*"))[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
