"""Writes a listing as CSV, JSON, Parquet or XLSX."""

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
    "gpu_seconds": 6, "device_seconds": 6, "idle_seconds": 6, "wasted_gpu_seconds": 6, "cost": 2, "wasted_cost": 2,
    "cost_exact": 12,
}  # fmt: skip
"""Numeric columns and their decimal places. Every other column is text, such as job ids made of digits."""
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""A spreadsheet treats a cell that starts with one of these as a formula; the last four are full-width forms."""
XLSX_ROWS_MAX = 1_048_575
"""The format's limit of rows below the header."""
XLSX_TEXT_MAX = 32_767
"""The format's limit of characters in a cell."""
WIDTH_MIN, WIDTH_MAX = 8, 60
"""Bounds of a column's width in characters."""
FLAGS = frozenset({"inferred", "partly_inferred"})
"""Columns of true and false, in a listing without rows too."""
DECIMAL_DIGITS = 38
CREATED = datetime(1980, 1, 1, tzinfo=UTC)
"""A fixed creation time, so that the same data gives the same bytes."""


def check_format(form: str, formats: Sequence[str]) -> None:
    """Raises UsageError for a format not in `formats`."""
    if form not in formats:
        raise UsageError(f"--format {form}: unknown; use {', '.join(formats)}")


def render(listing: Listing, form: str) -> tuple[bytes, str]:
    """(content, media type) of a listing. Raises UsageError for an unknown format or too many rows for it."""
    check_format(form, FORMATS)
    write, media_type = _WRITERS[form]
    return write(listing), media_type


def _json(listing: Listing) -> bytes:
    return json.dumps({"items": list(listing.items), **listing.extra}, indent=2, ensure_ascii=False).encode() + b"\n"


def _csv(listing: Listing) -> bytes:
    """A header and one line per record; NULL is empty, nested values are JSON. Text that a spreadsheet would run as a
    formula gets a leading apostrophe, which spreadsheets use to mark text; numbers are unchanged.
    """
    stream = io.StringIO()
    plain = csv.writer(stream, lineterminator="\n")
    # The plain writer does not quote a carriage return, which readers take for the end of a line.
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
    """Parquet: amounts as decimals, flags and counts with their own types, all else as text."""
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
    if name in FLAGS:
        return pa.array(values, pa.bool_())
    known = [value for value in values if value is not None]
    for python, arrow in ((bool, pa.bool_()), (int, pa.int64()), (float, pa.float64())):
        if known and all(type(value) is python for value in known):
            return pa.array(values, arrow)
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _xlsx(listing: Listing) -> bytes:
    """Excel: a sheet of records with a frozen header, filters and numbers, and a sheet of totals."""
    from xlsxwriter import Workbook  # type: ignore[import-untyped]

    if len(listing.items) > XLSX_ROWS_MAX:
        raise UsageError(
            f"--format xlsx: {len(listing.items)} rows are more than a sheet can hold ({XLSX_ROWS_MAX}); use csv or parquet, or group more"
        )
    stream = io.BytesIO()
    workbook = Workbook(stream, {"in_memory": True, "constant_memory": True})
    workbook.set_properties({"created": CREATED})
    bold = workbook.add_format({"bold": True, "bottom": 1})
    formats = {
        name: workbook.add_format({"num_format": f"#,##0.{'0' * min(places, 6)}"}) for name, places in PLACES.items()
    }
    sheet = workbook.add_worksheet("Rows")
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
        _totals(workbook, listing, bold)
    workbook.close()
    return stream.getvalue()


def _totals(workbook: Any, listing: Listing, bold: Any) -> None:
    sheet = workbook.add_worksheet("Totals")
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
    """Joins nested names: {"total": {"cost": 1}} becomes ("total cost", 1)."""
    rows: list[tuple[str, object]] = []
    for name, value in extra.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{before}{name} ")
        else:
            rows.append((f"{before}{name}", value))
    return rows


def _number(name: str, value: object) -> float | None:
    """The number in a cell; None for text, flags and NULL."""
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
"""The supported formats."""
