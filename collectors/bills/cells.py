"""Text columns of bills, selected by name, and helpers to read them from any format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects

COLUMNS_MAX = 4096
BLOCK_BYTES = 4 << 20
"""The bytes that are read at a time; no CSV record may be longer."""
NULLS = ("", "NULL", "null")
"""Texts that mean a missing value."""


@dataclass(frozen=True)
class Wanted:
    """The columns to read, by the letters and digits of their names: lineItem/UsageType is lineitemusagetype."""

    names: frozenset[str]
    needed: tuple[tuple[str, ...], ...]
    """Alternative names of required columns, as the provider spells them."""
    tags: str | None = None
    """Prefix of the columns with a tag each."""


@dataclass(frozen=True)
class Cells:
    """Rows of a file as text columns, NULL where a value is missing. `lines` has the record numbers."""

    lines: pa.Array
    columns: dict[str, pa.Array]
    tags: dict[str, pa.Array]
    spelt: dict[str, str] = field(default_factory=dict)
    """The column names as the file spells them."""
    above: int = 0
    """Lines above the first record: 1 for a file with a header."""

    @property
    def rows(self) -> int:
        return len(self.lines)

    def get(self, *names: str) -> pa.Array:
        """The first of these columns that has a value, row by row; NULL if the file has none of them."""
        found = [self.columns[key] for name in names if (key := plain(name)) in self.columns]
        if not found:
            return pa.nulls(self.rows, pa.string())
        return found[0] if len(found) == 1 else pc.coalesce(*found)

    def has(self, name: str) -> bool:
        """Whether the file has the column."""
        return plain(name) in self.columns

    def spelling(self, *names: str) -> str | None:
        """The file's spelling of the first of these columns that it has."""
        return next((self.spelt[key] for name in names if (key := plain(name)) in self.spelt), None)


def plain(name: str) -> str:
    """The letters and digits of a column name in lower case, which are the same in all variants of an export."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def wanted(names: Iterable[str], needed: Sequence[tuple[str, ...]], tags: str | None = None) -> Wanted:
    """Columns by their names as the provider spells them."""
    return Wanted(frozenset(plain(name) for name in (*names, *(n for g in needed for n in g))), tuple(needed), tags)


def open_stream(file: Path, packed: bool) -> pa.NativeFile:
    return pa.input_stream(str(file), compression="gzip" if packed else None)


def choose_columns(file: Path, names: Sequence[str], kind: str, want: Wanted) -> list[int]:
    """Positions of the columns to read, the first of each name."""
    if len(names) > COLUMNS_MAX:
        raise UnreadableInput(f"{file}: more than {COLUMNS_MAX} columns; is this an export of {kind}?")
    present = {plain(name) for name in names}
    missing = [group for group in want.needed if not present & {plain(name) for name in group}]
    if missing:
        expected = ", ".join(" or ".join(group) for group in want.needed)
        lacks = ", ".join(" or ".join(group) for group in missing)
        raise UnreadableInput(f"{file}: no column {lacks}; {kind} has {expected}")
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        key = plain(name)
        if key in want.names:
            places.setdefault(key, place)
        elif want.tags is not None and key.startswith(want.tags):
            places.setdefault(name, place)
    return sorted(places.values())


def text_cells(
    file: Path,
    lines: pa.Array,
    names: Sequence[str],
    columns: Sequence[pa.Array],
    want: Wanted,
    rejects: Rejects,
    above: int = 0,
) -> Cells:
    """Columns as text without surrounding blanks; rows that are not UTF-8 are rejected."""
    texts: list[pa.Array] = []
    bad = np.zeros(len(lines), dtype=bool)
    for column in columns:
        try:
            text = column.cast(pa.string())
        except pa.ArrowInvalid:
            decoded = [_decoded(value) for value in column.to_pylist()]
            bad |= np.array([value is None for value in decoded])
            text = pa.array(decoded, pa.string())
        texts.append(text)
    if bad.any():
        rejects.add("row is not UTF-8", str(file), int(lines.to_numpy()[bad][0]) + above, count=int(bad.sum()))
        good = pa.array(~bad)
        lines, texts = lines.filter(good), [text.filter(good) for text in texts]
    known: dict[str, pa.Array] = {}
    tags: dict[str, pa.Array] = {}
    spelt: dict[str, str] = {}
    for name, text in zip(names, texts, strict=True):
        trimmed = pc.utf8_trim_whitespace(text)
        missing = pc.is_in(trimmed, value_set=pa.array(NULLS))
        value = pc.if_else(missing, pa.scalar(None, pa.string()), trimmed)
        if plain(name) in want.names:
            known[plain(name)] = value
            spelt[plain(name)] = name
        else:
            tags[_tag_name(name)] = value
    return Cells(lines, known, tags, spelt, above)


def _decoded(value: bytes | None) -> str | None:
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        return None


def _tag_name(name: str) -> str:
    """resourceTags/user:Team -> user:Team, resource_tags_user_team -> user_team, tags/Ops.Team -> Ops.Team."""
    return re.sub(r"^(?:resource_?tags?|tags)[/_.]", "", name, flags=re.IGNORECASE)


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
