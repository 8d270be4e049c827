"""Files of bills as batches of text columns: CSV, JSON lines and Parquet, plain or gzip, a bounded part at a time."""

from __future__ import annotations

import csv
import json
import re
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from gpuwatch.collectors.bills.values import strings
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
"""Names of files that are read of a directory: beside the parts of an export lies its manifest, a .json."""
BLOCK_BYTES = 4 << 20
"""CSV read at a time; no record may be longer."""
HEADER_BYTES = 1 << 20
COLUMNS_MAX = 4096
PARQUET_ROWS = 32_768
JSON_ROWS = 16_384
JSON_LINE_BYTES = 4 << 20
UNPACKED_BYTES = 16 << 30
"""What a Parquet file inside of gzip may unpack to."""
BLANKS = b"\xef\xbb\xbf \r\n\t"
"""What may stand before the first object of a file."""
NULLS = ("", "NULL", "null")
"""Texts that say that a value is missing."""


@dataclass(frozen=True)
class Wanted:
    """Columns to look for, by the letters and digits of their names: lineItem/UsageType is lineitemusagetype."""

    names: frozenset[str]
    needed: tuple[tuple[str, ...], ...]
    """Names of which the file must have one each, as the provider writes them."""
    tags: str | None = None
    """Start of the columns that hold a tag each."""


@dataclass(frozen=True)
class Cells:
    """Rows of a file: text columns, NULL where a value is missing. `lines` are the numbers of their records."""

    lines: pa.Array
    columns: dict[str, pa.Array]
    tags: dict[str, pa.Array]
    spelt: dict[str, str] = field(default_factory=dict)
    """The columns as the file spells them."""
    above: int = 0
    """Lines above the first record: 1 where the file has a header."""

    @property
    def rows(self) -> int:
        return len(self.lines)

    def get(self, *names: str) -> pa.Array:
        """The first of these columns that says something, row by row; NULL where the file has none of them."""
        found = [self.columns[key] for name in names if (key := plain(name)) in self.columns]
        if not found:
            return pa.nulls(self.rows, pa.string())
        return found[0] if len(found) == 1 else pc.coalesce(*found)

    def has(self, name: str) -> bool:
        """Whether the file has the column."""
        return plain(name) in self.columns

    def spelling(self, *names: str) -> str | None:
        """The first of these columns that the file has, as it spells it."""
        return next((self.spelt[key] for name in names if (key := plain(name)) in self.spelt), None)


def plain(name: str) -> str:
    """Letters and digits of a column name in lower case: the same for all spellings of an export."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def wanted(names: Iterable[str], needed: Sequence[tuple[str, ...]], tags: str | None = None) -> Wanted:
    """Columns by their names as the provider writes them."""
    return Wanted(frozenset(plain(name) for name in (*names, *(n for g in needed for n in g))), tuple(needed), tags)


def batches(path: str, kind: str, want: Wanted, rejects: Rejects) -> Iterator[Cells]:
    """The rows of a file. A record that cannot be split is refused with its number.

    Raises UnreadableInput where the file lacks a needed column (the message names those of the kind), is binary, or
    breaks off: half a bill is no bill.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            head = stream.read(4)
        if not head:
            raise UnreadableInput(f"{file}: empty")
        if head.startswith(b"PK"):
            raise UnreadableInput(f"{file}: a ZIP archive; unpack it and name the file in it")
        packed = head.startswith(b"\x1f\x8b")
        with _stream(file, packed) as opened:
            start = opened.read(HEADER_BYTES)
        if start.startswith(b"PAR1"):
            yield from _parquet(file, packed, kind, want)
        elif start.lstrip(BLANKS).startswith(b"["):
            raise UnreadableInput(
                f"{file}: a JSON list; {kind} takes one object a line: jq -c '.[]' FILE > lines.jsonl"
            )
        elif start.lstrip(BLANKS).startswith(b"{"):
            yield from _json(file, packed, kind, want, rejects)
        else:
            yield from _csv(file, packed, start, kind, want, rejects)
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        raise UnreadableInput(f"{file}: cannot be read to its end, so none of it counts: {_one_line(error)}") from error


def _stream(file: Path, packed: bool) -> pa.NativeFile:
    return pa.input_stream(str(file), compression="gzip" if packed else None)


# CSV ---------------------------------------------------------------------------------------------------------------


def _csv(file: Path, packed: bool, start: bytes, kind: str, want: Wanted, rejects: Rejects) -> Iterator[Cells]:
    names = _header(file, start, kind)
    chosen = _chosen(file, names, kind, want)
    unique = [f"{place}" for place in range(len(names))]
    skipped: list[int] = []

    def refuse(row: pacsv.InvalidRow) -> str:
        number = (row.number or 1) - 1
        skipped.append(number)
        reason = f"row has {row.actual_columns} columns, not {row.expected_columns}"
        rejects.add(reason, str(file), number + 1, row.text or "")
        return "skip"

    kept = [unique[place] for place in chosen]
    with _stream(file, packed) as stream:
        reader = pacsv.open_csv(
            stream,
            # One thread: only then does the reader tell the number of a row that it cannot split.
            read_options=pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=unique, skip_rows=1),
            parse_options=pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=refuse),
            convert_options=pacsv.ConvertOptions(
                include_columns=kept,
                column_types=dict.fromkeys(kept, pa.binary()),
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )
        number, used = 1, 0
        for batch in reader:
            lines = np.arange(number, number + batch.num_rows, dtype=np.int64)
            while used < len(skipped) and len(lines) and skipped[used] <= lines[-1]:
                lines[lines >= skipped[used]] += 1
                used += 1
            number = int(lines[-1]) + 1 if len(lines) else number
            columns = [batch.column(place) for place in range(batch.num_columns)]
            yield _cells(file, pa.array(lines), [names[place] for place in chosen], columns, want, rejects, above=1)


def _header(file: Path, start: bytes, kind: str) -> list[str]:
    line, _, rest = start.partition(b"\n")
    if b"\0" in line or (not rest and len(start) >= HEADER_BYTES):
        raise UnreadableInput(f"{file}: neither CSV nor Parquet; {kind} takes these and their .gz")
    try:
        names = next(csv.reader([line.decode("utf-8-sig").rstrip("\r")]), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise UnreadableInput(f"{file}: line 1 is not the header of a CSV file: {_one_line(error)}") from error
    for mark, said in ((";", "semicolons"), ("\t", "tabs")):
        if len(names) == 1 and mark in names[0]:
            raise UnreadableInput(
                f"{file}: cells are separated by {said}; {kind} takes the export as the cloud writes it, with commas"
            )
    return names


def _chosen(file: Path, names: Sequence[str], kind: str, want: Wanted) -> list[int]:
    """Places of the columns that are read, the first of each name."""
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


def _cells(
    file: Path,
    lines: pa.Array,
    names: Sequence[str],
    columns: Sequence[pa.Array],
    want: Wanted,
    rejects: Rejects,
    above: int = 0,
) -> Cells:
    """Columns as text, without blanks at their ends; rows that are not UTF-8 are refused."""
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


# JSON lines --------------------------------------------------------------------------------------------------------


def _json(file: Path, packed: bool, kind: str, want: Wanted, rejects: Rejects) -> Iterator[Cells]:
    """One object a line; objects within it are columns such as service.id, lists stay JSON text. No number is a float."""
    rows: list[dict[str, str | None]] = []
    lines: list[int] = []
    seen: set[str] = set()

    def flush() -> Cells:
        names = list(dict.fromkeys(name for row in rows for name in row))
        kept = [names[place] for place in _chosen(file, names, kind, Wanted(want.names, (), want.tags))]
        columns = [strings([row.get(name) for row in rows]) for name in kept]
        return _cells(file, pa.array(lines, pa.int64()), kept, columns, want, rejects)

    with _stream(file, packed) as stream:
        for number, line in enumerate(_lines(stream, file), 1):
            if not line.strip():
                continue
            try:
                found = json.loads(line, parse_float=str, parse_int=str)
            except (ValueError, RecursionError) as error:
                rejects.add("line is not JSON", str(file), number, _one_line(error))
                continue
            if not isinstance(found, dict):
                rejects.add("line is not a JSON object", str(file), number)
                continue
            row: dict[str, str | None] = {}
            _flatten(found, "", row)
            seen.update(row)
            rows.append(row)
            lines.append(number)
            if len(rows) == JSON_ROWS:
                yield flush()
                rows, lines = [], []
    _chosen(file, sorted(seen)[:COLUMNS_MAX], kind, want)
    if rows:
        yield flush()


def _lines(stream: pa.NativeFile, file: Path) -> Iterator[bytes]:
    """Lines of a stream, each at most JSON_LINE_BYTES."""
    rest = b""
    while block := stream.read(BLOCK_BYTES):
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
        if len(rest) > JSON_LINE_BYTES:
            raise UnreadableInput(f"{file}: a line of more than {JSON_LINE_BYTES} bytes; is this one object a line?")
    if rest:
        yield rest


def _flatten(found: dict[str, Any], prefix: str, row: dict[str, str | None]) -> None:
    for key, value in found.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and name.lower() not in ("tags", "labels"):
            _flatten(value, f"{name}.", row)
        elif value is None or isinstance(value, str):
            row[name] = value
        else:
            row[name] = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


# Parquet -----------------------------------------------------------------------------------------------------------


def _parquet(file: Path, packed: bool, kind: str, want: Wanted) -> Iterator[Cells]:
    with ExitStack() as stack:
        source: Any = str(file)
        if packed:
            source = stack.enter_context(tempfile.TemporaryFile())
            with _stream(file, packed) as stream:
                _unpack(stream, source, file)
        opened = stack.enter_context(pq.ParquetFile(source))
        names = opened.schema_arrow.names
        places = _chosen(file, _below(opened.schema_arrow), kind, want)
        below = _below(opened.schema_arrow)
        roots = {below[place].split(".")[0] for place in places} | {n for n in names if plain(n) in want.names}
        number = 1
        for batch in opened.iter_batches(PARQUET_ROWS, columns=[name for name in names if name in roots]):
            table = pa.Table.from_batches([batch])
            while any(pa.types.is_struct(column.type) for column in table.columns):
                table = table.flatten()
            lines = pa.array(np.arange(number, number + batch.num_rows, dtype=np.int64))
            number += batch.num_rows
            chosen = _chosen(file, table.column_names, kind, Wanted(want.names, (), want.tags))
            texts = [_text(table.column(place).combine_chunks()) for place in chosen]
            yield _cells(file, lines, [table.column_names[place] for place in chosen], texts, want, Rejects())


def _below(schema: pa.Schema) -> list[str]:
    """Names of the columns, those within structs as service.id."""
    found: list[str] = []
    waiting = [(field.name, field.type) for field in schema]
    while waiting and len(found) <= COLUMNS_MAX:
        name, kind = waiting.pop(0)
        if pa.types.is_struct(kind):
            waiting += [(f"{name}.{kind.field(n).name}", kind.field(n).type) for n in range(kind.num_fields)]
        else:
            found.append(name)
    return found


def _text(column: pa.Array) -> pa.Array:
    """Values as text: numbers by the digits that they have, lists and maps as JSON."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_map(column.type):
        rows = (None if row is None else dict(row) for row in column.to_pylist())
        return pa.array([None if row is None else json.dumps(row, default=str) for row in rows], pa.string())
    if pa.types.is_nested(column.type):
        listed = column.to_pylist()
        return pa.array([None if row is None else json.dumps(row, default=str) for row in listed], pa.string())
    return column.cast(pa.string())


def _unpack(stream: pa.NativeFile, target: IO[bytes], file: Path) -> None:
    while block := stream.read(BLOCK_BYTES):
        target.write(block)
        if target.tell() > UNPACKED_BYTES:
            raise UnreadableInput(f"{file}: unpacks to more than {UNPACKED_BYTES} bytes; write Parquet without gzip")
    target.seek(0)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
