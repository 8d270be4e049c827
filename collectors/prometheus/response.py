"""Answers of the Prometheus query API: a matrix of raw samples to arrays, and what else an answer says.

A stock JSON parser makes four Python objects of every sample, which costs more than all the rest of the way to the
disk. Servers write matrices one way, without spaces and `metric` before `values`: such a body is cut at its fixed
texts, which cannot stand inside a JSON string since a quote is escaped there, and the numbers are read as CSV. Any
other JSON is read the stock way.
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
"""Beyond it a time in microseconds has no 64 bits."""


@dataclass(frozen=True)
class Matrix:
    """Raw samples by series: series k has counts[k] of the samples, one after the other. NaN where no number was sent."""

    keys: list[bytes]
    """The label set of each series as JSON, the metric name in `__name__`; the same text for the same series."""
    counts: NDArray[np.int64]
    time_us: NDArray[np.int64]
    value: NDArray[np.float64]
    warnings: list[str] = field(default_factory=list)
    """What the server says that the answer lacks. Empty: the answer is whole."""

    @property
    def series(self) -> NDArray[np.int64]:
        """The place among `keys` of each sample."""
        return np.repeat(np.arange(len(self.keys)), self.counts)

    def within(self, start_us: int, end_us: int) -> Matrix:
        """The samples of [start_us, end_us) that are numbers: NaN ends a series or says that there is no value."""
        kept = (self.time_us >= start_us) & (self.time_us < end_us) & ~np.isnan(self.value)
        if kept.all():
            return self
        counts = np.bincount(self.series[kept], minlength=len(self.keys))
        return Matrix(self.keys, counts, self.time_us[kept], self.value[kept], self.warnings)


def matrix(body: bytes) -> Matrix:
    """A matrix answer as arrays. Raises UnreadableInput for a body that is none."""
    try:
        found = _cut(body)
    except (ValueError, RecursionError, pa.ArrowInvalid):
        found = None
    return _stock(body) if found is None else found


def _cut(body: bytes) -> Matrix | None:
    """The fast way; None, ValueError or ArrowInvalid where the body is written otherwise."""
    if any(text in body for text in _UNUSUAL):
        return None
    pieces = body.split(_VALUES)
    head, mark, first = pieces[0].partition(_FIRST)
    if len(pieces) < 2 or not mark:
        return None
    keys: list[bytes] = []
    numbers: list[bytes] = []
    before = _NEXT_SERIES + first
    for piece in pieces[1:]:
        if not before.startswith(_NEXT_SERIES) or before[-1:] != b",":
            return None
        keys.append(before[len(_NEXT_SERIES) : -1])
        text, mark, before = piece.partition(_END)
        if not mark:
            return None
        numbers.append(text)
    # What stands round the series is a small answer of its own, without any.
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


def _stock(body: bytes) -> Matrix:
    answer = envelope_of(body)
    data = answer.get("data")
    result = data.get("result") if isinstance(data, dict) else None
    if not isinstance(data, dict) or data.get("resultType") != "matrix" or not isinstance(result, list):
        raise UnreadableInput("the answer is no matrix; check that the address is that of a Prometheus API")
    keys, counts, times, values = [], [], [], []
    for series in result:
        try:
            pairs = series.get("values") or []
            own = np.array([float(at) for at, _ in pairs], np.float64)
            if not np.isfinite(own).all():
                raise ValueError("time")
            read = np.array([_number(text) for _, text in pairs], np.float64)
            key = json.dumps(series["metric"], separators=(",", ":")).encode()
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise UnreadableInput("a series of the answer is not of the Prometheus API's form") from None
        keys.append(key)
        counts.append(len(pairs))
        times.append(own)
        values.append(read)
    none = np.empty(0, np.float64)
    return Matrix(
        keys,
        np.array(counts, np.int64),
        _microseconds(np.concatenate([none, *times])),
        np.concatenate([none, *values]),
        warnings_of(answer),
    )


def envelope_of(body: bytes) -> dict[str, Any]:
    """An answer of the API as parsed JSON. Raises UnreadableInput for a body that is none."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or answer.get("status") != "success":
        raise UnreadableInput("the answer is not of the Prometheus API; check the address and its path")
    return answer


def warnings_of(answer: dict[str, Any]) -> list[str]:
    """What an answer says that it lacks: stores that Thanos did not reach, nodes that VictoriaMetrics did not."""
    said = answer.get("warnings")
    found = [str(text) for text in said[:MAX_WARNINGS]] if isinstance(said, list) else []
    if answer.get("isPartial") is True:
        found.append("the server says that the answer is partial")
    return found


def _number(text: object) -> float:
    """A value as sent; NaN for what is no finite number, which is a gap."""
    try:
        value = float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan
    return value if math.isfinite(value) else math.nan


def _microseconds(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Times as sent (seconds with up to three decimals) in microseconds, exactly."""
    return np.rint(np.clip(seconds, -_MOST_S, _MOST_S) * 1000).astype(np.int64) * 1000
