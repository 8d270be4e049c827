"""What the value of a setting must be. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from gpuwatch.core import database_url, rooflines
from gpuwatch.core.errors import UsageError

_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(?:[KMGT]i?B|%)")


@dataclass(frozen=True)
class ValueRule:
    """What a value must be: a description, a test, and a parser for text from the environment."""

    words: str
    test: Callable[[Any], bool]
    read: Callable[[str], Any]


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def whole(least: int, most: int) -> ValueRule:
    words = f"a whole number from {least} to {most}"
    return ValueRule(words, lambda v: _number(v) and isinstance(v, int) and least <= v <= most, int)


def ratio() -> ValueRule:
    return ValueRule("a ratio above 0 and at most 1", lambda v: _number(v) and 0 < v <= 1, float)


def seconds(most: int) -> ValueRule:
    return ValueRule(f"a number of seconds above 0 and at most {most}", lambda v: _number(v) and 0 < v <= most, float)


def size() -> ValueRule:
    def test(value: object) -> bool:
        match = _SIZE.fullmatch(value) if isinstance(value, str) else None
        return match is not None and 0 < float(match[1]) <= (100 if match[0].endswith("%") else math.inf)

    return ValueRule("a size such as 2GB or 50%", test, str)


def one_of(names: Collection[str | None]) -> ValueRule:
    return ValueRule(f"one of {', '.join(name for name in names if name)}", lambda v: v in names, str)


def path(what: str = "directory") -> ValueRule:
    return ValueRule(f"the name of a {what}", lambda v: v is None or (isinstance(v, str) and v != ""), str)


def url() -> ValueRule:
    def test(value: object) -> bool:
        return value is None or (
            isinstance(value, str) and re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", value) is not None
        )

    return ValueRule("a URL such as https://gpuwatch.example.com", test, str)


def database() -> ValueRule:
    def test(value: object) -> bool:
        return value is None or (isinstance(value, str) and database_url.problem(value) is None)

    words = f"the URL of a PostgreSQL database such as {database_url.EXAMPLE}, with special characters percent-encoded"
    return ValueRule(words, test, str)


def peaks() -> ValueRule:
    def test(value: object) -> bool:
        try:
            return isinstance(value, str) and bool(rooflines.read(value) or not value.strip())
        except UsageError:
            return False

    return ValueRule("MODEL: NAME NUMBER, ...; MODEL: ... (see docs/understand/workload-classes.md)", test, str)
