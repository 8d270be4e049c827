"""Import kind `openmetrics`: files of Prometheus or OpenMetrics text with DCGM metrics, plain, .gz or .zst."""

from __future__ import annotations

import gzip
import os
import zlib
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpuwatch import fields
from gpuwatch.collectors.dcgm import context_row, field_of
from gpuwatch.collectors.exposition import MAX_SERIES, NO_TIME, Reader, Samples, Stream
from gpuwatch.errors import UnreadableInput
from gpuwatch.model import CONTEXT, POINT, SERIES, WHOLE_GPU, Points, Records, Rejects, Rows, Source
from gpuwatch.registry import importer

BATCH_POINTS = 1_000_000
MAX_PENDING_CONTEXTS = 4_096
PIECE_BYTES = 16 * 1024  # what a damaged file loses at most before the damage
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

_COLUMN_NAMES = pa.array([field.column or "" for field in fields.FIELDS], pa.string())


@importer(
    "openmetrics",
    "Prometheus or OpenMetrics text with DCGM metrics, with or without timestamps",
    suffixes=tuple(
        stem + packed for stem in (".prom", ".om", ".openmetrics", ".txt") for packed in ("", ".gz", ".zst")
    ),
)
def read(source: Source, rejects: Rejects) -> Rows:
    """Contexts and points of one file. A line without timestamp was read when the file was written.

    Raises UnreadableInput when there is no DCGM sample in it; else bad lines are counted and the good ones kept.
    """
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open(source.path, "rb"))
            stream = _decompressed(file, stack)
            written_us = os.fstat(file.fileno()).st_mtime_ns // 1000
        except OSError as error:
            raise UnreadableInput(f"{source.path}: {error.strerror or error}; check the path") from error
        default_us = written_us if source.observed_us is None else source.observed_us
        yield from read_stream(stream, source.path, source.cluster, default_us, rejects)


def read_stream(stream: Stream, name: str, cluster: str, default_us: int, rejects: Rejects) -> Rows:
    """Contexts and points of a text; `default_us` is the time of lines without one, `name` stands for it in messages.

    Raises UnreadableInput when there is no DCGM sample in it.
    """
    known = _Known(cluster)
    reader = Reader(known.number_of, name, rejects)
    batch: list[tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float64]]] = []
    waiting = found = 0
    for samples in reader.read(stream):
        samples = _of_devices(samples, known, name, rejects)
        found += len(samples.series)
        values = _stored(samples, known, name, rejects)
        good = ~np.isnan(values)
        times = np.where(samples.time_us == NO_TIME, default_us, samples.time_us)
        if good.any():
            batch.append((samples.series[good], times[good], values[good]))
            waiting += len(batch[-1][0])
        if len(known.contexts) >= MAX_PENDING_CONTEXTS:
            yield from known.take_contexts()
        if waiting >= BATCH_POINTS or len(known) >= MAX_SERIES:
            yield from known.take_contexts()
            yield from _points(batch, known)
            batch, waiting = [], 0
        if len(known) >= MAX_SERIES:
            known.forget()
            reader.forget()
    yield from known.take_contexts()
    yield from _points(batch, known)
    if not found:
        raise UnreadableInput(
            f"{name}: no DCGM sample in it; give Prometheus or OpenMetrics text of dcgm-exporter (.gz or .zst too)"
        )


class _Known:
    """The series of a file by number: their contexts, devices and fields. Refused series have negative numbers."""

    def __init__(self, cluster: str) -> None:
        self.contexts: list[dict[str, object]] = []
        self.refusals: list[str] = []  # number -1-k is refused for refusals[k]
        self._cluster = cluster
        self.forget()

    def forget(self) -> None:
        """Drops all numbers, after their points went out."""
        self._device, self._context = array("q"), array("q")
        self._code, self._mig = array("h"), array("b")
        self._seen: set[int] = set()

    def __len__(self) -> int:
        return len(self._device)

    def number_of(self, name: str, labels: dict[str, str]) -> int:
        """The number of a new series; its context is noted where it is new too."""
        field = field_of(name)
        row = field if isinstance(field, str) else context_row(labels, self._cluster)
        if isinstance(field, str) or isinstance(row, str):
            return self._refusal(str(row))
        context_id = cast(int, row["context_id"])
        if context_id not in self._seen:
            self._seen.add(context_id)
            self.contexts.append(row)
        self._device.append(cast(int, row["device_id"]))
        self._context.append(context_id)
        self._code.append(fields.code_of(field))
        self._mig.append(row["gi"] != WHOLE_GPU)
        return len(self._device) - 1

    def _refusal(self, reason: str) -> int:
        if reason not in self.refusals:
            self.refusals.append(reason)
        return -1 - self.refusals.index(reason)

    def codes(self, series: NDArray[np.int32]) -> NDArray[np.int16]:
        """Field codes of series numbers."""
        return np.frombuffer(self._code, np.int16)[series] if len(self) else np.empty(0, np.int16)

    def on_mig(self, series: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether the series are of MIG instances."""
        return np.frombuffer(self._mig, np.bool_)[series] if len(self) else np.empty(0, np.bool_)

    def take_contexts(self) -> Iterator[Records]:
        """The contexts that were not given out yet, if any."""
        if self.contexts:
            rows, self.contexts = self.contexts, []
            yield Records("context", pa.Table.from_pylist(rows, schema=CONTEXT))

    def table(self, numbers: NDArray[np.int32]) -> pa.Table:
        """Rows of model.SERIES for the numbers."""
        return pa.table(
            [
                pa.array(numbers),
                pa.array(np.frombuffer(self._device, np.int64)[numbers]),
                pa.array(np.frombuffer(self._context, np.int64)[numbers]),
                _COLUMN_NAMES.take(pa.array(self.codes(numbers))),
            ],
            schema=SERIES,
        )


def _of_devices(samples: Samples, known: _Known, file: str, rejects: Rejects) -> Samples:
    """The samples of stored fields of named devices; the others are counted by reason."""
    refused = samples.series < 0
    if not refused.any():
        return samples
    for k, reason in enumerate(known.refusals):
        of_reason = np.flatnonzero(samples.series == -1 - k)
        if len(of_reason):
            rejects.add(reason, file, int(samples.line[of_reason[0]]), count=len(of_reason))
    kept = ~refused
    return Samples(samples.series[kept], samples.value[kept], samples.time_us[kept], samples.line[kept])


def _stored(samples: Samples, known: _Known, file: str, rejects: Rejects) -> NDArray[np.float64]:
    """Values in stored units, NaN where refused; refusals are counted with the raw value of the first."""
    codes = known.codes(samples.series)
    values, reasons = fields.normalise_codes(codes, samples.value, known.on_mig(samples.series))
    if reasons.any():
        for reason in range(1, len(fields.REASONS)):
            at = np.flatnonzero(reasons == reason)
            if len(at):
                example = f"{fields.FIELDS[codes[at[0]]].name} {samples.value[at[0]]!s}"
                rejects.add(fields.REASONS[reason], file, int(samples.line[at[0]]), example, count=len(at))
    return values


def _points(
    batch: list[tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float64]]], known: _Known
) -> Iterator[Points]:
    """One batch of points with the series they use, if there are any."""
    if not batch:
        return
    series, times, values = (np.concatenate(arrays) for arrays in zip(*batch, strict=True))
    used = np.flatnonzero(np.bincount(series)).astype(np.int32)
    yield Points(known.table(used), pa.table([pa.array(series), pa.array(times), pa.array(values)], schema=POINT))


def _decompressed(file: BinaryIO, stack: ExitStack) -> Stream:
    """The text of a file; compression is known by its first bytes, not by its name."""
    magic = file.read(4)
    file.seek(0)
    if magic.startswith(GZIP_MAGIC):
        return _Unpacked(stack.enter_context(gzip.GzipFile(fileobj=file)).read1)
    if magic == ZSTD_MAGIC:
        return _Unpacked(stack.enter_context(pa.CompressedInputStream(file, "zstd")).read)
    return file


class _Unpacked:
    """Decompressed text that gives out what came before a damaged place, and only then raises."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._error: Exception | None = None

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; raises what the decompressor raised."""
        if self._error is not None:
            raise self._error
        pieces: list[bytes] = []
        try:
            while size > 0 and (piece := self._read(min(size, PIECE_BYTES))):
                pieces.append(piece)
                size -= len(piece)
        except (EOFError, OSError, zlib.error) as error:
            self._error = error
            if not pieces:
                raise
        return b"".join(pieces)
