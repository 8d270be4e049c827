"""Parses answers of the Prometheus query API: a matrix of raw samples becomes arrays.

The standard JSON parser creates four Python objects per sample, which costs more than all other steps together.
Servers write matrices in one form, without spaces and with `metric` before `values`. Such a body is split at its fixed
texts, which cannot occur inside a JSON string since quotes are escaped there, and the numbers are read as CSV. Any
other JSON is parsed the standard way.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from gpuwatch.core.errors import UnreadableInput

MAX_WARNINGS = 20
_VALUES, _END, _NEXT = b'"values":[[', b"]]", b"],["
_RESULT, _NEXT_SERIES = b'"result":[', b'},{"metric":'
_FIRST = _RESULT + b'{"metric":'
_UNUSUAL = (b'"histograms":', b'"values":[]')
_NUMBERS = pyarrow.csv.ConvertOptions(
    column_types={"t": pa.float64(), "v": pa.float64()}, null_values=["NaN", "+Inf", "-Inf", "Inf", "null"]
)
_BLOCK_BYTES = 1 << 24
_MOST_S = 9e12
"""Above it a time in microseconds does not fit into 64 bits."""


@dataclass(frozen=True)
class Matrix:
    """Raw samples by series: the next counts[k] samples belong to series k. NaN stands for a missing value."""

    keys: list[bytes]
    """The label set of each series as JSON, the metric name in `__name__`; the same text for the same series."""
    counts: NDArray[np.int64]
    time_us: NDArray[np.int64]
    value: NDArray[np.float64]
    warnings: list[str] = field(default_factory=list)
    """The server's warnings that the answer is incomplete."""

    @property
    def series(self) -> NDArray[np.int64]:
        """The index into `keys` of each sample."""
        return np.repeat(np.arange(len(self.keys)), self.counts)

    def within(self, start_us: int, end_us: int) -> Matrix:
        """The samples of [start_us, end_us) that are numbers: NaN marks the end of a series or a missing value."""
        kept = (self.time_us >= start_us) & (self.time_us < end_us) & ~np.isnan(self.value)
        if kept.all():
            return self
        counts = np.bincount(self.series[kept], minlength=len(self.keys))
        return Matrix(self.keys, counts, self.time_us[kept], self.value[kept], self.warnings)


def parse_matrix(body: bytes) -> Matrix:
    """A matrix answer as arrays. Raises UnreadableInput for any other body."""
    try:
        found = _parse_fast(body)
    except (ValueError, RecursionError, pa.ArrowInvalid):
        found = None
    return _parse_json(body) if found is None else found


def _parse_fast(body: bytes) -> Matrix | None:
    """The fast way; None, ValueError or ArrowInvalid for a body in another form."""
    if any(text in body for text in _UNUSUAL):
        return None
    parts = body.split(_VALUES)
    head, mark, first = parts[0].partition(_FIRST)
    if len(parts) < 2 or not mark:
        return None
    keys: list[bytes] = []
    numbers: list[bytes] = []
    before = _NEXT_SERIES + first
    for part in parts[1:]:
        if not before.startswith(_NEXT_SERIES) or before[-1:] != b",":
            return None
        keys.append(before[len(_NEXT_SERIES) : -1])
        text, mark, before = part.partition(_END)
        if not mark:
            return None
        numbers.append(text)
    # The text around the series is itself a small answer without series.
    envelope = json.loads(head + _RESULT + before[1:]) if before[:1] == b"}" else None
    if not isinstance(envelope, dict) or envelope.get("status") != "success":
        return None
    counts = np.array([text.count(_NEXT) for text in numbers], np.int64) + 1
    table = pyarrow.csv.read_csv(
        pa.BufferReader(b"\n".join(numbers).replace(_NEXT, b"\n")),
        read_options=pyarrow.csv.ReadOptions(column_names=["t", "v"], use_threads=False, block_size=_BLOCK_BYTES),
        convert_options=_NUMBERS,
    )
    seconds = table.column("t").to_numpy()
    if table.num_rows != counts.sum() or np.isnan(seconds).any():
        return None
    return Matrix(keys, counts, _microseconds(seconds), table.column("v").to_numpy(), warnings_of(envelope))


def _parse_json(body: bytes) -> Matrix:
    answer = envelope_of(body)
    data = answer.get("data")
    result = data.get("result") if isinstance(data, dict) else None
    if not isinstance(data, dict) or data.get("resultType") != "matrix" or not isinstance(result, list):
        raise UnreadableInput("the answer is not a matrix; check that the address is that of a Prometheus API")
    keys, counts, times, values = [], [], [], []
    for series in result:
        try:
            pairs = series.get("values") or []
            seconds = np.array([float(at) for at, _ in pairs], np.float64)
            if not np.isfinite(seconds).all():
                raise ValueError("time")
            series_values = np.array([_number(text) for _, text in pairs], np.float64)
            key = json.dumps(series["metric"], separators=(",", ":")).encode()
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise UnreadableInput("a series of the answer is not in the form of the Prometheus API") from None
        keys.append(key)
        counts.append(len(pairs))
        times.append(seconds)
        values.append(series_values)
    none = np.empty(0, np.float64)
    return Matrix(
        keys,
        np.array(counts, np.int64),
        _microseconds(np.concatenate([none, *times])),
        np.concatenate([none, *values]),
        warnings_of(answer),
    )


def envelope_of(body: bytes) -> dict[str, Any]:
    """An answer of the API as parsed JSON. Raises UnreadableInput for any other body."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or answer.get("status") != "success":
        raise UnreadableInput("this is not an answer of the Prometheus API; check the address and its path")
    return answer


def warnings_of(answer: dict[str, Any]) -> list[str]:
    """The parts that an answer lacks: stores that Thanos, or nodes that VictoriaMetrics could not reach."""
    warnings = answer.get("warnings")
    found = [str(text) for text in warnings[:MAX_WARNINGS]] if isinstance(warnings, list) else []
    if answer.get("isPartial") is True:
        found.append("the server reports a partial answer")
    return found


def _number(text: object) -> float:
    """A value as sent; NaN, a gap, if it is not a finite number."""
    try:
        value = float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan
    return value if math.isfinite(value) else math.nan


def _microseconds(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Times as sent (seconds with up to three decimals) in microseconds, exactly."""
    return np.rint(np.clip(seconds, -_MOST_S, _MOST_S) * 1000).astype(np.int64) * 1000
