"""Tables of FOCUS rows: whole numbers of SQL become decimals and times, and every version its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from gpuwatch.billing.focus.columns import CONSTANTS, DIGITS, NUMBERS, PLACES, TIMES, columns, source
from gpuwatch.core.clock import from_us, to_us

WHOLE = pa.decimal128(DIGITS, 0)
DECIMAL = pa.decimal128(DIGITS, PLACES)
TIME = pa.timestamp("us", tz="UTC")


def schema(version: str) -> pa.Schema:
    """Names and types of a version's columns."""
    return pa.schema([(name, _type(name)) for name in columns(version)])


def table(
    rows: pa.Table, version: str, kind: Mapping[str, str], billing: tuple[int, int], more: Mapping[str, str | None]
) -> pa.Table:
    """Rows of sql/focus as rows of a version. `kind` and `more` say what all of them have in common, `billing` is their
    month; a column that nobody says is NULL.
    """
    same: dict[str, object] = {
        **CONSTANTS,
        **more,
        **kind,
        "BillingPeriodStart": billing[0],
        "BillingPeriodEnd": billing[1],
    }
    arrays = []
    for name in columns(version):
        column = source(version, name)
        if column in rows.column_names:
            arrays.append(_column(name, rows[column]))
        elif same.get(column) is not None:
            arrays.append(_column(name, pa.chunked_array([pa.repeat(pa.scalar(same[column]), rows.num_rows)])))
        else:
            arrays.append(pa.nulls(rows.num_rows, _type(name)))
    return pa.Table.from_arrays(arrays, schema=schema(version))


def of_records(records: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Few rows that were made in Python, as if they came from sql/focus: amounts are integers in units of 10^-12."""
    names = list(dict.fromkeys(name for record in records for name in record))
    kinds = {True: WHOLE, False: pa.string()}
    types = [pa.int64() if name in TIMES else kinds[name in NUMBERS] for name in names]
    return pa.table(
        [pa.array([record.get(n) for record in records], t) for n, t in zip(names, types, strict=True)], names=names
    )


def month_of(at_us: int) -> tuple[int, int]:
    """Start and end of the UTC month of an instant: the billing period."""
    start = from_us(at_us).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = datetime(start.year + start.month // 12, start.month % 12 + 1, 1, tzinfo=UTC)
    return to_us(start), to_us(following)


def _type(name: str) -> pa.DataType:
    return DECIMAL if name in NUMBERS else TIME if name in TIMES else pa.string()


def _column(name: str, values: pa.ChunkedArray) -> pa.Array:
    array = values.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # without rows
        array = pa.array([], array.type)
    if name in TIMES:
        return array.cast(pa.int64()).cast(pa.timestamp("us")).cast(TIME)
    if name not in NUMBERS:
        return array.cast(pa.string())
    if array.type != WHOLE:
        array = array.cast(WHOLE)
    # The same 128 bits read with twelve decimal places: exact, and nothing is copied.
    return pa.Array.from_buffers(DECIMAL, len(array), array.buffers(), array.null_count, array.offset)
