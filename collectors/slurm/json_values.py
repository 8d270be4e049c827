"""Numbers, times, words and lists of Slurm's JSON, versions 21.08 to 25.11. Pure."""

from __future__ import annotations

from typing import Any

from gpuwatch.collectors.shared.json_fields import Malformed, Object, mappings, string
from gpuwatch.core.clock import SECOND_US

MAX_NUMBER = 99_999_999_999
"""Eleven digits: the last second that a time can have, and more than anything else that is read."""
NO_VALUE = frozenset(size - less for size in (1 << 32, 1 << 64) for less in (1, 2))
"""INFINITE and NO_VAL of 32 and 64 bits: versions before 23.11 print them as numbers."""


def number_of(value: Any) -> int | None:
    """The whole number of `5`, `5.0` or `{"set": true, "infinite": false, "number": 5}`; None where not set.

    Infinite, negative numbers and Slurm's markers for "no value" are not set either. Raises Malformed for other shapes.
    """
    if isinstance(value, dict):
        if not value.get("set") or value.get("infinite"):
            return None
        value = value.get("number")
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise Malformed("a number is not one")
    if value < 0 or value in NO_VALUE:
        return None
    if value > MAX_NUMBER:
        raise Malformed(f"a number is larger than {MAX_NUMBER}")
    return int(value)


def moment_us(parent: Object, key: str) -> int | None:
    """The time under `key` in microseconds, None for 0 and where not set. Raises Malformed."""
    seconds = number_of(parent.get(key))
    return seconds * SECOND_US if seconds else None


def words(value: Any) -> list[str]:
    """Words of a state, a text in old versions and a list in newer ones, in upper case. Raises Malformed."""
    listed = value if isinstance(value, list) else [value]
    told = [string({"state": word}, "state") or "" for word in listed]
    return [text.strip().upper() for text in told if text.strip()]


def texts(parent: Object, key: str, empty: bool = False) -> list[str]:
    """A list of texts, or a text with commas outside parentheses kept whole. Raises Malformed."""
    value = parent.get(key)
    listed = value if isinstance(value, list) else [value] if value else []
    told = [string({key: item}, key) or "" for item in listed]
    return told if empty else [text for text in told if text]


def tres_text(tres: Object, key: str) -> str:
    """The GPUs of a list of {type, name, id, count} as the text that `sacct -P` prints."""
    told = []
    for item in mappings(tres, key):
        name = string(item, "name") or ""
        if string(item, "type") == "gres" and name.split(":")[0] == "gpu" and (count := number_of(item.get("count"))):
            told.append(f"gres/{name}={count}")
    return ",".join(told)
