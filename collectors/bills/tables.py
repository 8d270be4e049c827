"""Reads bills as batches of text columns: CSV, JSON lines and Parquet, plain or gzip, a bounded part at a time."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from gpuwatch.collectors.bills.cells import (
    BLOCK_BYTES,
    Cells,
    Wanted,
    choose_columns,
    one_line,
    open_stream,
    text_cells,
)
from gpuwatch.collectors.bills.json_lines import json_cells
from gpuwatch.collectors.bills.parquet import parquet_cells
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
"""The files that are read in a directory; the .json next to the parts of an export is its manifest."""
HEADER_BYTES = 1 << 20
BLANKS = b"\xef\xbb\xbf \r\n\t"
"""Bytes that may precede the first object of a file."""


def batches(path: str, kind: str, want: Wanted, rejects: Rejects) -> Iterator[Cells]:
    """The rows of a file. A record that cannot be split into columns is rejected with its number.

    Raises UnreadableInput for a file that lacks a required column (the message names them), is binary, or is
    incomplete.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            head = stream.read(4)
        if not head:
            raise UnreadableInput(f"{file}: empty")
        if head.startswith(b"PK"):
            raise UnreadableInput(f"{file}: a ZIP archive; unpack it and pass the file in it")
        packed = head.startswith(b"\x1f\x8b")
        with open_stream(file, packed) as opened:
            start = opened.read(HEADER_BYTES)
        if start.startswith(b"PAR1"):
            yield from parquet_cells(file, packed, kind, want)
        elif start.lstrip(BLANKS).startswith(b"["):
            raise UnreadableInput(
                f"{file}: a JSON list; {kind} needs one object per line: jq -c '.[]' FILE > lines.jsonl"
            )
        elif start.lstrip(BLANKS).startswith(b"{"):
            yield from json_cells(file, packed, kind, want, rejects)
        else:
            yield from _csv(file, packed, start, kind, want, rejects)
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        raise UnreadableInput(
            f"{file}: cannot be read completely, so nothing is imported: {one_line(error)}"
        ) from error


def _csv(file: Path, packed: bool, start: bytes, kind: str, want: Wanted, rejects: Rejects) -> Iterator[Cells]:
    names = _header(file, start, kind)
    chosen = choose_columns(file, names, kind, want)
    unique = [f"{place}" for place in range(len(names))]
    skipped: list[int] = []

    def refuse(row: pacsv.InvalidRow) -> str:
        number = (row.number or 1) - 1
        skipped.append(number)
        reason = f"row has {row.actual_columns} columns, not {row.expected_columns}"
        rejects.add(reason, str(file), number + 1, row.text or "")
        return "skip"

    kept = [unique[place] for place in chosen]
    with open_stream(file, packed) as stream:
        reader = pacsv.open_csv(
            stream,
            # With one thread only, the reader reports the number of a row that it cannot split.
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
            yield text_cells(file, pa.array(lines), [names[place] for place in chosen], columns, want, rejects, above=1)


def _header(file: Path, start: bytes, kind: str) -> list[str]:
    line, _, rest = start.partition(b"\n")
    if b"\0" in line or (not rest and len(start) >= HEADER_BYTES):
        raise UnreadableInput(f"{file}: neither CSV nor Parquet; {kind} takes these and their .gz")
    try:
        names = next(csv.reader([line.decode("utf-8-sig").rstrip("\r")]), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise UnreadableInput(f"{file}: line 1 is not the header of a CSV file: {one_line(error)}") from error
    for mark, separator in ((";", "semicolons"), ("\t", "tabs")):
        if len(names) == 1 and mark in names[0]:
            raise UnreadableInput(
                f"{file}: cells are separated by {separator}; {kind} needs the cloud's original export, with commas"
            )
    return names
