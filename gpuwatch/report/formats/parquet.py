"""The report as one Parquet table."""

from __future__ import annotations

from decimal import Decimal

from gpuwatch.core.money import fraction_to_decimal
from gpuwatch.report.format_registry import Report, report_format

DECIMAL_DIGITS = 38


@report_format("parquet", "parquet", "application/vnd.apache.parquet", order=6, label="Parquet")
def parquet(report: Report) -> bytes:
    """Every number of the report, unrounded and typed: amounts are DECIMAL, a ratio is a double, unknown is NULL."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from gpuwatch.report.flat_table import COLUMNS, PLACES, column_texts, plain_text

    arrays = []
    for name in COLUMNS:
        values = [row.get(name) for row in report.rows]
        if name in PLACES:
            kind = pa.decimal128(DECIMAL_DIGITS, PLACES[name])
            arrays.append(pa.array([None if v is None else _decimal(v, PLACES[name]) for v in values], kind))
        elif name == "busy_ratio":
            arrays.append(pa.array(values, pa.float64()))
        else:
            texts = column_texts(values, lambda value: None if value is None else plain_text(value))
            arrays.append(pa.array(texts, pa.string()))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays, names=list(COLUMNS)), sink)
    return bytes(sink.getvalue().to_pybytes())


def _decimal(value: object, places: int) -> Decimal:
    if isinstance(value, Decimal) and -int(value.as_tuple().exponent) <= places:
        return value
    return fraction_to_decimal(Decimal(str(value)), places)
