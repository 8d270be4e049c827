"""Reads bills of one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from gpuwatch.collectors.bills.cells import (
    BLOCK_BYTES,
    COLUMNS_MAX,
    Cells,
    Wanted,
    choose_columns,
    one_line,
    open_stream,
    text_cells,
)
from gpuwatch.collectors.bills.values import strings
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects

JSON_ROWS = 16_384
JSON_LINE_BYTES = 4 << 20


def json_cells(file: Path, packed: bool, kind: str, want: Wanted, rejects: Rejects) -> Iterator[Cells]:
    """One object per line. Nested objects become columns such as service.id, lists stay JSON text."""
    rows: list[dict[str, str | None]] = []
    lines: list[int] = []
    seen: set[str] = set()

    def flush() -> Cells:
        names = list(dict.fromkeys(name for row in rows for name in row))
        kept = [names[place] for place in choose_columns(file, names, kind, Wanted(want.names, (), want.tags))]
        columns = [strings([row.get(name) for row in rows]) for name in kept]
        return text_cells(file, pa.array(lines, pa.int64()), kept, columns, want, rejects)

    with open_stream(file, packed) as stream:
        for number, line in enumerate(_lines(stream, file), 1):
            if not line.strip():
                continue
            try:
                found = json.loads(line, parse_float=str, parse_int=str)
            except (ValueError, RecursionError) as error:
                rejects.add("line is not JSON", str(file), number, one_line(error))
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
    choose_columns(file, sorted(seen)[:COLUMNS_MAX], kind, want)
    if rows:
        yield flush()


def _lines(stream: pa.NativeFile, file: Path) -> Iterator[bytes]:
    """Lines of a stream, each at most JSON_LINE_BYTES."""
    rest = b""
    while block := stream.read(BLOCK_BYTES):
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
        if len(rest) > JSON_LINE_BYTES:
            raise UnreadableInput(f"{file}: a line of more than {JSON_LINE_BYTES} bytes; is this one object per line?")
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
