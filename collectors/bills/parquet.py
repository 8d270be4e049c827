"""Reads bills in Parquet, also inside gzip."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpuwatch.collectors.bills.cells import (
    BLOCK_BYTES,
    COLUMNS_MAX,
    Cells,
    Wanted,
    choose_columns,
    open_stream,
    plain,
    text_cells,
)
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects

PARQUET_ROWS = 32_768
UNPACKED_BYTES = 16 << 30
"""The most bytes that a gzipped Parquet file may unpack to."""


def parquet_cells(file: Path, packed: bool, kind: str, want: Wanted) -> Iterator[Cells]:
    with ExitStack() as stack:
        source: Any = str(file)
        if packed:
            source = stack.enter_context(tempfile.TemporaryFile())
            with open_stream(file, packed) as stream:
                _unpack(stream, source, file)
        opened = stack.enter_context(pq.ParquetFile(source))
        names = opened.schema_arrow.names
        places = choose_columns(file, _column_names(opened.schema_arrow), kind, want)
        below = _column_names(opened.schema_arrow)
        roots = {below[place].split(".")[0] for place in places} | {n for n in names if plain(n) in want.names}
        number = 1
        for batch in opened.iter_batches(PARQUET_ROWS, columns=[name for name in names if name in roots]):
            table = pa.Table.from_batches([batch])
            while any(pa.types.is_struct(column.type) for column in table.columns):
                table = table.flatten()
            lines = pa.array(np.arange(number, number + batch.num_rows, dtype=np.int64))
            number += batch.num_rows
            chosen = choose_columns(file, table.column_names, kind, Wanted(want.names, (), want.tags))
            texts = [_text(table.column(place).combine_chunks()) for place in chosen]
            yield text_cells(file, lines, [table.column_names[place] for place in chosen], texts, want, Rejects())


def _column_names(schema: pa.Schema) -> list[str]:
    """The names of the columns, those in structs as service.id."""
    found: list[str] = []
    remaining = [(field.name, field.type) for field in schema]
    while remaining and len(found) <= COLUMNS_MAX:
        name, kind = remaining.pop(0)
        if pa.types.is_struct(kind):
            remaining += [(f"{name}.{kind.field(n).name}", kind.field(n).type) for n in range(kind.num_fields)]
        else:
            found.append(name)
    return found


def _text(column: pa.Array) -> pa.Array:
    """Values as text: numbers with all their digits, lists and maps as JSON."""
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
