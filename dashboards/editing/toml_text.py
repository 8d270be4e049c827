"""Documents as TOML, so that people edit them line by line and the server's errors name a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def written(document: Mapping[str, Any]) -> str:
    """A document as TOML. What is null is left out, as TOML has no word for it."""
    return "\n".join(_table(document, ())).strip() + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """The lines of a table: its own values first, then its tables, then its lists of tables."""
    known = {name: value for name, value in table.items() if value is not None}
    for name, value in known.items():
        if not isinstance(value, Mapping) and not _is_tables(value):
            yield f"{_key(name)} = {_value(value)}"
    for name, value in known.items():
        where = (*path, _key(name))
        if isinstance(value, Mapping) and value:
            yield from ("", f"[{'.'.join(where)}]")
            yield from _table(value, where)
        elif _is_tables(value):
            for row in value:
                yield from ("", f"[[{'.'.join(where)}]]")
                yield from _table(row, where)


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(one) for one in value)}]"
    return str(value) if isinstance(value, int | float) else _text(str(value))


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
