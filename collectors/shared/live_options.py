"""A table of gpuwatch.toml read by name: every wrong value is told, none stops the others."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from typing import Any

MAX_NAMES = 1000


class Options:
    """Takes options out of one table; what is wrong goes to `problems` with the table and the option's name."""

    def __init__(self, table: Mapping[str, Any], where: str, problems: list[str]) -> None:
        self._table, self._where, self._problems = dict(table), where, problems

    def wrong(self, name: str, what: str) -> None:
        """Adds a problem of one option."""
        self._problems.append(f"{self._where} {name}: {what}")

    def text(self, name: str, default: str = "") -> str:
        """A text without line breaks; `default` when absent or wrong."""
        value = self._table.pop(name, default)
        if isinstance(value, str) and not any(char in value for char in "\r\n\0"):
            return value.strip()
        self.wrong(name, "must be a text on one line")
        return default

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A number within [low, high]; `default` when absent or wrong."""
        value = self._table.pop(name, default)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high:
            return float(value)
        self.wrong(name, f"must be a number from {low:g} to {high:g}, not {value!r}")
        return default

    def flag(self, name: str, default: bool) -> bool:
        """true or false; `default` when absent or wrong."""
        value = self._table.pop(name, default)
        if isinstance(value, bool):
            return value
        self.wrong(name, f"must be true or false, not {value!r}")
        return default

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of different texts that are not empty; none when absent or wrong."""
        value = self._table.pop(name, [])
        if isinstance(value, list) and len(value) <= MAX_NAMES and all(isinstance(v, str) and v for v in value):
            return tuple(dict.fromkeys(value))
        self.wrong(name, "must be a list of texts")
        return ()

    def path(self, name: str, folder: bool = False) -> str:
        """A file (or folder) that exists, empty when absent."""
        path = self.text(name)
        if path and not (os.path.isdir(path) if folder else os.path.isfile(path)):
            self.wrong(name, f"there is no {'folder' if folder else 'file'} {path}")
        return path

    def finish(self) -> None:
        """Tells the options that nobody asked for: misspelt ones."""
        for name in self._table:
            self.wrong(name, "is not an option of this table; remove it or correct its spelling")


def backoff_s(failures: int, first_s: float, most_s: float) -> float:
    """Seconds to wait after so many failures in a row: doubling up to `most_s`, of which a random half is left out."""
    return min(most_s, first_s * 2.0 ** min(max(failures - 1, 0), 30)) * random.uniform(0.5, 1.0)
