"""Whether the SQLite file of the state has changed: a short text that differs after every commit, whoever made it."""

from __future__ import annotations

import sqlite3
from threading import Lock


class Watch:
    """Reads the version of a SQLite file. For several threads.

    SQLite counts the commits of others on a connection that never writes, which is why this has one of its own.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._lock = Lock()
        self._own: sqlite3.Connection | None = None
        self._opened = 0

    def version(self) -> str | None:
        """The version now; None for a database without a file."""
        if not self._path or self._path == ":memory:":
            return None
        with self._lock:
            if self._own is None:
                self._own = sqlite3.connect(self._path, check_same_thread=False)
                self._opened += 1
            (count,) = self._own.execute("pragma data_version").fetchone()
            # Counts of two connections do not compare.
            return f"{self._opened}.{count}"

    def close(self) -> None:
        """Closes the own connection."""
        with self._lock:
            if self._own is not None:
                self._own.close()
            self._own = None
