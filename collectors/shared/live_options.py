"""Reads a table of gpuwatch.toml by option name; every wrong value is reported, and none stops the others."""

from __future__ import annotations

import difflib
import os
import random
from collections.abc import Mapping
from typing import Any

from gpuwatch.core import option_names

MAX_NAMES = 1000
MAX_TEXT = 4_096


class Options:
    """The options of one table. Problems are collected in `problems`, with the names of table and option."""

    def __init__(self, table: Mapping[str, Any], where: str, problems: list[str]) -> None:
        self._table, self._where, self._problems = dict(table), where, problems
        self._known: list[str] = []

    def wrong(self, name: str, what: str) -> None:
        """Reports a problem of one option."""
        self._problems.append(f"{self._where} {name}: {what}")

    def take(self, name: str, default: Any = None) -> Any:
        """The value as it is; the caller checks it."""
        self._known.append(name)
        return self._table.pop(name, default)

    def text(self, name: str, default: str = "") -> str:
        """A text without line breaks; `default` if absent or wrong."""
        value = self.take(name, default)
        if isinstance(value, str) and len(value) <= MAX_TEXT and not any(char in value for char in "\r\n\0"):
            return value.strip()
        self.wrong(name, "must be text on one line")
        return default

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A number within [low, high]; `default` if absent or wrong."""
        value = self.take(name, default)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high:
            return float(value)
        self.wrong(name, f"must be a number from {low:g} to {high:g}, not {value!r}")
        return default

    def flag(self, name: str, default: bool) -> bool:
        """true or false; `default` if absent or wrong."""
        value = self.take(name, default)
        if isinstance(value, bool):
            return value
        self.wrong(name, f"must be true or false, not {value!r}")
        return default

    def texts(self, name: str, most: int = MAX_NAMES) -> tuple[str, ...]:
        """A list of at most `most` non-empty texts, without duplicates; none if absent or wrong."""
        value = self.take(name, [])
        if (
            isinstance(value, list)
            and len(value) <= most
            and all(isinstance(v, str) and 0 < len(v) <= MAX_TEXT for v in value)
        ):
            return tuple(dict.fromkeys(value))
        self.wrong(name, f"must be a list of at most {most} texts")
        return ()

    def path(self, name: str, folder: bool = False) -> str:
        """The path of an existing file (or folder), empty if absent."""
        path = self.text(name)
        if path and not (os.path.isdir(path) if folder else os.path.isfile(path)):
            self.wrong(name, f"there is no {'folder' if folder else 'file'} {path}")
        return path

    def finish(self) -> None:
        """Reports the options that were not read: they are misspelt or unknown."""
        here = self._where.partition("]]")[0] + "]]" if self._where.startswith("[[") else ""
        if here:
            option_names.note(here, self._known)
        for name in self._table:
            home = option_names.belongs(name, here)
            close = difflib.get_close_matches(name, self._known, 1, cutoff=0.8)
            fix = home or (f"did you mean {close[0]}?" if close else "remove it or correct its spelling")
            self.wrong(name, f"is not an option of this table; {fix}")


def backoff_s(failures: int, first_s: float, most_s: float) -> float:
    """Seconds to wait after so many failures in a row: doubles up to `most_s`, times a random factor of 0.5 to 1."""
    return min(most_s, first_s * 2.0 ** min(max(failures - 1, 0), 30)) * random.uniform(0.5, 1.0)
