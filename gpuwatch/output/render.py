"""Answers as files: CSV, JSON, Parquet and XLSX of one listing."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from gpuwatch.core.errors import UsageError
from gpuwatch.output.listing import Listing, visible

if TYPE_CHECKING:
    import pyarrow as pa

PLACES: Mapping[str, int] = {
    "gpu_seconds": 6,
    "device_seconds": 6,
    "idle_seconds": 6,
    "wasted_gpu_seconds": 6,
    "cost": 2,
    "wasted_cost": 2,
    "cost_exact": 12,
}
"""Columns whose decimal text is a number, and its decimal places. All other text is text: a job id has no sum."""
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes a cell that begins so for a formula."""
XLSX_ROWS_MAX = 1_048_575
"""Rows below the header of a sheet: the format's own limit."""
XLSX_TEXT_MAX = 32_767
"""Characters of a cell: the format's own limit."""
WIDTH_MIN, WIDTH_MAX = 8, 60
"""Characters a column of a sheet is wide."""
DECIMAL_DIGITS = 38
CREATED = datetime(1980, 1, 1, tzinfo=UTC)
"""The same answer gives the same bytes, so a file does not say when it was written."""


def check_format(form: str, formats: Sequence[str]) -> None:
    """Raises UsageError for a format that is not among `formats`."""
    if form not in formats:
        raise UsageError(f"--format {form}: unknown; use {', '.join(formats)}")


def render(listing: Listing, form: str) -> tuple[bytes, str]:
    """(content, media type) of a listing in one of FORMATS. Raises UsageError for another, or too many rows for it."""
    check_format(form, FORMATS)
    write, media_type = _WRITERS[form]
    return write(listing), media_type


def _json(listing: Listing) -> bytes:
    return json.dumps({"items": list(listing.items), **listing.extra}, indent=2, ensure_ascii=False).encode() + b"\n"


def _csv(listing: Listing) -> bytes:
    """A header and a line a record; NULL is empty, nested values are JSON. Text that a spreadsheet would run as a formula
    gets an apostrophe before it, as spreadsheets themselves mark text; numbers stay as they are.
    """
    stream = io.StringIO()
    plain = csv.writer(stream, lineterminator="\n")
    # The plain one leaves a carriage return bare, which readers take for the end of a line.
    quoting = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_ALL)
    plain.writerow(listing.columns)
    for item in listing.items:
        cells = [_csv_cell(name, item.get(name)) for name in listing.columns]
        (quoting if any("\r" in cell for cell in cells) else plain).writerow(cells)
    return stream.getvalue().encode()


def _csv_cell(name: str, value: object) -> str:
    text = _text(value)
    return f"'{text}" if text.startswith(FORMULA_STARTS) and _number(name, value) is None else text


def _parquet(listing: Listing) -> bytes:
    """Amounts are decimals, flags and counts their own types, all else text; NULL is null."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = [_array([item.get(name) for item in listing.items], name) for name in listing.columns]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays, names=list(listing.columns)), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _array(values: Sequence[object], name: str) -> pa.Array:
    import pyarrow as pa

    if name in PLACES:
        numbers = [None if value is None else Decimal(str(value)) for value in values]
        return pa.array(numbers, pa.decimal128(DECIMAL_DIGITS, PLACES[name]))
    known = [value for value in values if value is not None]
    for python, arrow in ((bool, pa.bool_()), (int, pa.int64()), (float, pa.float64())):
        if known and all(type(value) is python for value in known):
            return pa.array(values, arrow)
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _xlsx(listing: Listing) -> bytes:
    """A sheet of records with a frozen header, filters and real numbers, and one of what stands beside them."""
    from xlsxwriter import Workbook  # type: ignore[import-untyped]

    if len(listing.items) > XLSX_ROWS_MAX:
        raise UsageError(
            f"--format xlsx: {len(listing.items)} rows, a sheet holds {XLSX_ROWS_MAX}; use csv or parquet, or group more"
        )
    stream = io.BytesIO()
    book = Workbook(stream, {"in_memory": True, "constant_memory": True})
    book.set_properties({"created": CREATED})
    bold = book.add_format({"bold": True, "bottom": 1})
    formats = {
        name: book.add_format({"num_format": f"#,##0.{'0' * min(places, 6)}"}) for name, places in PLACES.items()
    }
    sheet = book.add_worksheet("Rows")
    sheet.freeze_panes(1, 0)
    for column, name in enumerate(listing.columns):
        texts = [_text(item.get(name)) for item in listing.items]
        width = max([len(name) + 2, *map(len, texts)])
        sheet.set_column(column, column, min(max(width, WIDTH_MIN), WIDTH_MAX))
    if listing.columns:
        sheet.autofilter(0, 0, len(listing.items), len(listing.columns) - 1)
    for column, name in enumerate(listing.columns):
        sheet.write_string(0, column, name, bold)
    for row, item in enumerate(listing.items, 1):
        for column, name in enumerate(listing.columns):
            value = item.get(name)
            number = _number(name, value)
            if number is not None:
                sheet.write_number(row, column, number, formats.get(name))
            elif isinstance(value, bool):
                sheet.write_boolean(row, column, value)
            elif value is not None:
                sheet.write_string(row, column, visible(_text(value))[:XLSX_TEXT_MAX])
    if listing.extra:
        _beside(book, listing, bold)
    book.close()
    return stream.getvalue()


def _beside(book: Any, listing: Listing, bold: Any) -> None:
    sheet = book.add_worksheet("Totals")
    sheet.set_column(0, 0, 28)
    sheet.set_column(1, 1, 28)
    for row, (name, value) in enumerate(_flat(listing.extra)):
        sheet.write_string(row, 0, name, bold)
        number = _number(name.rsplit(" ", 1)[-1], value)
        if number is not None:
            sheet.write_number(row, 1, number)
        elif value is not None:
            sheet.write_string(row, 1, visible(_text(value))[:XLSX_TEXT_MAX])


def _flat(extra: Mapping[str, Any], before: str = "") -> list[tuple[str, object]]:
    """Nested names become words: {"total": {"cost": 1}} is ("total cost", 1)."""
    rows: list[tuple[str, object]] = []
    for name, value in extra.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{before}{name} ")
        else:
            rows.append((f"{before}{name}", value))
    return rows


def _number(name: str, value: object) -> float | None:
    """The number a cell holds, None for text, flags and NULL."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return value
    if name not in PLACES and not name.endswith("_gpu_seconds"):
        return None
    try:
        return float(Decimal(str(value)))
    except InvalidOperation:
        return None


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (dict, list, bool)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


_WRITERS: dict[str, tuple[Callable[[Listing], bytes], str]] = {
    "csv": (_csv, "text/csv; charset=utf-8"),
    "json": (_json, "application/json"),
    "parquet": (_parquet, "application/vnd.apache.parquet"),
    "xlsx": (_xlsx, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
}
FORMATS = tuple(_WRITERS)
"""What an answer can be rendered as."""
