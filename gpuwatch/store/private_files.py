"""Permissions of the data directory: only its owner may read what is in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DIRECTORY_MODE = 0o700
PRIVATE_UMASK = 0o077
_OTHERS = 0o077
PREFIXES = ("gpuwatch.duckdb", "state.sqlite", "serve.json", "cell.json", "restoring-")
FOLDERS = ("tmp", "arriving", "reports", "bundle", "live")
REPLACED = "replaced-"
"""How the folder begins that keeps what `gpuwatch restore` replaced."""
_FOREIGN_ALLOWED = ("lost+found",)
FILES_MAX = 100_000
"""Files of subdirectories whose permissions are corrected at one start."""
_users_umask: list[int] = []
"""The umasks that private_umask has replaced, the user's own first."""


@contextmanager
def private_umask() -> Iterator[None]:
    """Files that the process creates meanwhile are readable by its owner only, those of DuckDB and SQLite included."""
    before = os.umask(PRIVATE_UMASK)
    _users_umask.append(before)
    try:
        yield
    finally:
        _users_umask.pop()
        os.umask(before)


@contextmanager
def users_umask() -> Iterator[None]:
    """Restores the user's umask for a file that they asked for, such as --out."""
    before = os.umask(_users_umask[0]) if _users_umask else None
    try:
        yield
    finally:
        if before is not None:
            os.umask(before)


def make_private(directory: Path) -> None:
    """Creates the data directory, or corrects the permissions of an existing one and of gpuwatch's files in it.

    What belongs to another user is left alone. So is the mode of a directory that also has files of others: closing it
    could break a program that reads them. Raises OSError if the directory cannot be created.
    """
    if not directory.is_dir():
        directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        return
    names = sorted(os.listdir(directory))
    ours = [name for name in names if name.startswith((*PREFIXES, REPLACED)) or name in FOLDERS]
    if all(name in ours or name in _FOREIGN_ALLOWED for name in names):
        close_to_others(directory)
    for name in ours:
        path = directory / name
        if close_to_others(path) and path.is_dir() and not path.is_symlink():
            _close_all_below(path)


def close_to_others(path: Path) -> bool:
    """Removes the permissions of group and others from a file or directory of this user. True if it had any."""
    with suppress(OSError):  # gone meanwhile, or a file system without permissions
        found = path.lstat()
        mine = found.st_uid == os.geteuid() and not found.st_mode & stat.S_ISVTX
        if mine and found.st_mode & _OTHERS and not stat.S_ISLNK(found.st_mode):
            os.chmod(path, stat.S_IMODE(found.st_mode) & ~_OTHERS)
            return True
    return False


def _close_all_below(folder: Path) -> None:
    """Once for each folder: it was open to others, and is closed now."""
    for number, path in enumerate(folder.rglob("*")):
        if number >= FILES_MAX:
            return  # its closed parent protects the rest
        close_to_others(path)
