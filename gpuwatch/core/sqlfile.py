"""Loads SQL files by name: `ledger/minute` is sql/ledger/minute.sql, read once and split into statements."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"\$([a-z_][a-z0-9_]*)")
# A statement ends at a semicolon outside quotes and comments.
_TOKEN = re.compile(r"'(?:[^']|'')*'|--[^\n]*|\"[^\"]*\"|;|[^'\";-]+|-", re.DOTALL)
_WRITES = re.compile(r"\s*(create (?:or replace )?(?:temp )?table|insert into) ([a-z_][a-z0-9_]*)\b")


@dataclass(frozen=True)
class Statement:
    """A SQL statement, the `$names` that it needs, and the table that it creates or inserts into, if any."""

    text: str
    names: frozenset[str]
    writes: str | None = None
    inserts: bool = False

    def pick(self, parameters: dict[str, object]) -> dict[str, object]:
        """The parameters that this statement uses. Raises KeyError with the missing one."""
        return {name: parameters[name] for name in self.names}


def split(text: str) -> tuple[Statement, ...]:
    """The statements of a SQL text in order; comments stay with the statement that follows."""
    statements: list[Statement] = []
    current: list[str] = []
    code: list[str] = []
    for token in _TOKEN.findall(text) + [";"]:
        if token != ";":
            current.append(token)
            if not token.startswith("--"):
                code.append(token)
            continue
        if "".join(code).strip():
            names = frozenset(n for part in code if not part.startswith("'") for n in _NAME.findall(part))
            text = "".join(current).strip()
            writes = _WRITES.match("".join(code))
            target = (None, False) if writes is None else (writes[2], writes[1] == "insert into")
            statements.append(Statement(text, names, *target))
        current, code = [], []
    return tuple(statements)


@cache
def load(name: str) -> tuple[Statement, ...]:
    """The statements of the SQL file `name` (without `.sql`) in the package gpuwatch.sql."""
    return split((files("gpuwatch.sql") / f"{name}.sql").read_text("utf-8"))


def names_in(folder: str) -> list[str]:
    """The names of the SQL files in a folder of gpuwatch.sql, sorted: `schema` -> `schema/0001_initial`, ..."""
    found = (files("gpuwatch.sql") / folder).iterdir()
    return sorted(f"{folder}/{item.name[:-4]}" for item in found if item.name.endswith(".sql"))
