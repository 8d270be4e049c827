"""Files of FOCUS rows: CSV and Parquet, written batch by batch."""

from __future__ import annotations

from typing import BinaryIO, Protocol

import pyarrow as pa

from gpuwatch.clock import rfc3339
from gpuwatch.errors import UsageError
from gpuwatch.focus_columns import TIMES
from gpuwatch.focus_table import schema

MEDIA = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
FORMS = tuple(MEDIA)
"""What a FOCUS file is written as."""
GROUP_ROWS = 1 << 17
"""Rows of a row group of Parquet."""


class Sink(Protocol):
    """Where tables of one schema go, in order."""

    def write(self, rows: pa.Table) -> None:
        """Adds rows."""

    def close(self) -> None:
        """Ends the file; what was opened for it stays open."""


def sink(file: BinaryIO, form: str, version: str) -> Sink:
    """The sink of a form of FORMS. Raises UsageError for another."""
    if form not in FORMS:
        raise UsageError(f"--focus-format {form}: unknown; use {', '.join(FORMS)}")
    return Csv(file, version) if form == "csv" else Parquet(file, version)


class Csv:
    """A header and a line a row. Text is quoted, NULL is empty, numbers are plain decimals, times end with Z."""

    def __init__(self, file: BinaryIO, version: str) -> None:
        from pyarrow import csv

        fields = [pa.field(f.name, pa.string()) if f.name in TIMES else f for f in schema(version)]
        self._writer = csv.CSVWriter(file, pa.schema(fields), write_options=csv.WriteOptions(quoting_style="needed"))

    def write(self, rows: pa.Table) -> None:
        for name in TIMES:
            place = rows.column_names.index(name)
            rows = rows.set_column(place, name, _written(rows.column(place)))
        self._writer.write_table(rows)

    def close(self) -> None:
        self._writer.close()


class Parquet:
    """Amounts are DECIMAL(38, 12), times timestamps with UTC."""

    def __init__(self, file: BinaryIO, version: str) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(file, schema(version), compression="zstd")

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=GROUP_ROWS)

    def close(self) -> None:
        self._writer.close()


def _written(times: pa.ChunkedArray) -> pa.Array:
    """Times as text; few differ, so each is written once."""
    codes = times.cast(pa.int64()).combine_chunks().dictionary_encode()
    if isinstance(codes, pa.ChunkedArray):  # without rows
        return pa.array([], pa.string())
    return pa.array([rfc3339(us) for us in codes.dictionary.to_pylist()], pa.string()).take(codes.indices)
