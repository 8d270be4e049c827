"""Lines of a TOML document by the path of what stands there, for messages."""

from __future__ import annotations

import re
from collections.abc import Mapping

_HEADER = re.compile(r"\s*(\[\[?)\s*([\w-]+)(?:\.([\w-]+))?\s*\]")
LONG_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){32}""")
"""A key of more than 32 parts: reading one takes the square of its parts."""
_KEY = re.compile(r"""\s*(?:([\w-]+)|"([^"\n]*)"|'([^'\n]*)')\s*=""")


def lines(text: str) -> dict[str, int]:
    """The line, from 1 on, of each table and key as a problem names them: `policies.0.quotas.1.gpus`. What stands within
    an inline table has the line of that table's key.
    """
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    path = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            path = _table(counts, *header.groups())
            found.setdefault(path, number)
        elif key := _KEY.match(line):
            name = next(word for word in key.groups() if word is not None)
            found.setdefault(f"{path}.{name}" if path else name, number)
    return found


def line_of(found: Mapping[str, int], path: str) -> int | None:
    """The line of a path, or of the nearest thing that it stands in; None where nothing of it is known."""
    while path:
        if path in found:
            return found[path]
        path = path.rpartition(".")[0]
    return None


def _table(counts: dict[str, int], brackets: str, outer: str, inner: str | None) -> str:
    """The path that a header begins, counted on in `counts`."""
    if inner is None:
        if brackets == "[":
            return outer
        counts[outer] = counts.get(outer, -1) + 1
        return f"{outer}.{counts[outer]}"
    within = f"{outer}.{counts.get(outer, 0)}.{inner}"
    if brackets == "[":
        return within
    counts[within] = counts.get(within, -1) + 1
    return f"{within}.{counts[within]}"
