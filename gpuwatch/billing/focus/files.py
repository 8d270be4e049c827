"""Files of FOCUS rows: CSV and Parquet, written batch by batch."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from gpuwatch.billing.focus.tables import schema
from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.output.render import FORMULA_STARTS

MEDIA = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
FORMS = tuple(MEDIA)
"""What a FOCUS file is written as."""
SLICE_ROWS = 1 << 14
"""Rows of CSV that are made into text at a time."""
GROUP_ROWS = 1 << 17
"""Rows of a row group of Parquet."""
FORMULA = f"^[{re.escape(''.join(FORMULA_STARTS))}]"
"""Text that a spreadsheet would run."""


class Sink(Protocol):
    """Where tables of one schema go, in order."""

    def write(self, rows: pa.Table) -> None:
        """Adds rows."""

    def close(self) -> None:
        """Ends the file; what was opened for it stays open."""


def sink(file: BinaryIO, form: str, version: str) -> Sink:
    """The sink of a form of FORMS. Raises UsageError for another."""
    check_form(form)
    return Csv(file, version) if form == "csv" else Parquet(file, version)


def check_form(form: str) -> None:
    """Raises UsageError for a form that is not among FORMS."""
    if form not in FORMS:
        raise UsageError(f"--focus-format {form}: unknown; use {', '.join(FORMS)}")


class Csv:
    """A header and a line a row. Text is quoted where it must be, NULL is empty, numbers are plain decimals, times end
    with Z. Text that a spreadsheet would run as a formula gets a leading apostrophe, as in every other CSV.
    """

    def __init__(self, file: BinaryIO, version: str) -> None:
        self._file = file
        file.write((",".join(schema(version).names) + "\n").encode())

    def write(self, rows: pa.Table) -> None:
        import pyarrow.compute as pc

        for start in range(0, rows.num_rows, SLICE_ROWS):
            some = rows.slice(start, SLICE_ROWS)
            cells = [*_cells(some), _large("\n")]
            lines = pc.binary_join_element_wise(*cells, _large(""), null_handling="replace")
            # Whole lines lie one behind the other in the buffer of a text column: it is the file.
            _, offsets, content = lines.buffers()
            self._file.write(content.slice(0, _end(offsets, len(lines))))

    def close(self) -> None:
        """Nothing is held back."""


class Parquet:
    """Amounts are DECIMAL(38, 12), times timestamps with UTC."""

    def __init__(self, file: BinaryIO, version: str) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(file, schema(version), compression="zstd")

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=GROUP_ROWS)

    def close(self) -> None:
        self._writer.close()


def _cells(rows: pa.Table) -> list[pa.Array | pa.Scalar]:
    """Columns as text, in order, and what stands between them. Columns that say the same in every row, which most do, are
    written once and are part of what stands between.
    """
    cells: list[pa.Array | pa.Scalar] = []
    between = ""
    for place, column in enumerate(rows.columns):
        values = column.combine_chunks()
        between += "," if place else ""
        # The first column is one of the lines' own, so that a line is never a scalar.
        if place and _all_same(values):
            between += _text(values.slice(0, 1))[0].as_py() or ""
            continue
        cells += [_large(between), _text(values)] if place else [_text(values)]
        between = ""
    return [*cells, _large(between)]


def _all_same(values: pa.Array) -> bool:
    import pyarrow.compute as pc

    if values.null_count:
        return bool(values.null_count == len(values))
    return bool(pc.all(pc.equal(values, values[0])).as_py())


def _text(values: pa.Array) -> pa.Array:
    """Cells as CSV has them; NULL stays NULL."""
    import pyarrow.compute as pc

    if pa.types.is_timestamp(values.type):
        return _mapped(values.cast(pa.int64()), rfc3339)
    if pa.types.is_decimal(values.type):
        written = values.cast(pa.large_string())
        # Arrow writes what is smaller than 10^-6 with an exponent, zero too.
        small = pc.fill_null(pc.match_substring(written, "E"), False)
        if not pc.any(small).as_py():
            return written
        plain = _mapped(written.filter(small), lambda number: f"{Decimal(number):f}")
        return pc.replace_with_mask(written, small, plain)
    written = values.cast(pa.large_string())
    formula = pc.fill_null(pc.match_substring_regex(written, FORMULA), False)
    if pc.any(formula).as_py():
        guarded = pc.binary_join_element_wise(_large("'"), written, _large(""))
        written = pc.if_else(formula, guarded, written)
    special = pc.fill_null(pc.match_substring_regex(written, '^$|[",\\r\\n]'), False)
    if not pc.any(special).as_py():
        return written
    inside = pc.replace_substring(written, '"', '""')
    quoted = pc.binary_join_element_wise(_large(""), inside, _large(""), _large('"'))
    return pc.if_else(special, quoted, written)


def _mapped(values: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    """Values of which few differ as text: each is written once."""
    codes = values.dictionary_encode()
    return pa.array([write(value) for value in codes.dictionary.to_pylist()], pa.large_string()).take(codes.indices)


def _large(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _end(offsets: pa.Buffer, count: int) -> int:
    """Where the last of `count` texts ends."""
    return int.from_bytes(offsets.slice(8 * count, 8).to_pybytes(), "little")
