"""Import kind `openmetrics`: files of Prometheus or OpenMetrics text with DCGM metrics, plain, .gz or .zst."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from typing import BinaryIO

import pyarrow as pa

from gpuwatch.collectors.dcgm.exposition import MAX_LINE_BYTES, MAX_SERIES, Reader, Stream, timed
from gpuwatch.collectors.dcgm.link_metrics import Links
from gpuwatch.collectors.shared.series import Samples, SeriesNumbers, in_units, of_devices, points
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer

BATCH_POINTS = 1_000_000
MAX_PENDING_CONTEXTS = 4_096
READ_BYTES = 16 * 1024  # maximum loss before a damaged place
LINK_LINE = b"gpuwatch_gpu_"
"""Prefix of the link lines of `gpuwatch agent`."""
MAX_LINK_LINES = 100_000
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


@importer(
    "openmetrics",
    "Prometheus or OpenMetrics text with DCGM metrics, with or without timestamps",
    suffixes=tuple(
        stem + packed for stem in (".prom", ".om", ".openmetrics", ".txt") for packed in ("", ".gz", ".zst")
    ),
)
def read(source: Source, rejects: Rejects) -> Rows:
    """Contexts and points of one file. Lines without timestamp get the time when the file was written.

    Bad lines are counted and the others kept. Raises UnreadableInput without any DCGM sample.
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
    """Contexts and points of a text; `default_us` is the time of lines without one, `name` is used in messages.

    Raises UnreadableInput without any DCGM sample.
    """
    known = SeriesNumbers(cluster)
    reader = Reader(known.number_of, name, rejects)
    batch: list[Samples] = []
    waiting = found = 0
    link_lines = _LinkLines(stream)
    for samples in reader.read(link_lines):
        samples = of_devices(samples, known, name, rejects)
        found += len(samples.series)
        batch.append(in_units(timed(samples, default_us), known, name, rejects))
        waiting += len(batch[-1].series)
        if len(known.new_contexts) >= MAX_PENDING_CONTEXTS:
            yield from known.take_contexts()
        if waiting >= BATCH_POINTS or len(known) >= MAX_SERIES:
            yield from known.take_contexts()
            yield from points(batch, known)
            batch, waiting = [], 0
        if len(known) >= MAX_SERIES:
            known.forget()
            reader.forget()
    yield from known.take_contexts()
    yield from points(batch, known)
    yield from Links().records(b"\n".join(link_lines.lines), cluster, default_us)
    if not found:
        raise UnreadableInput(
            f"{name}: no DCGM sample in it; give Prometheus or OpenMetrics text of dcgm-exporter (.gz or .zst too)"
        )


def _decompressed(file: BinaryIO, stack: ExitStack) -> Stream:
    """The text of a file; compression is detected by its first bytes, not by its name."""
    magic = file.read(4)
    file.seek(0)
    if magic.startswith(GZIP_MAGIC):
        return _Unpacked(stack.enter_context(gzip.GzipFile(fileobj=file)).read1)
    if magic == ZSTD_MAGIC:
        return _Unpacked(stack.enter_context(pa.CompressedInputStream(file, "zstd")).read)
    return file


class _LinkLines:
    """Passes a text through and collects its link lines, each once."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._carry = b""  # an incomplete link line
        self.lines: dict[bytes, None] = {}

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes of the text."""
        data = self._stream.read(size)
        partial = data[data.rfind(b"\n") + 1 :]
        begins = bool(partial) and LINK_LINE.startswith(partial[: len(LINK_LINE)])
        if (self._carry or begins or LINK_LINE in data) and len(self.lines) < MAX_LINK_LINES:
            *whole, last = (self._carry + data).split(b"\n") if data else [self._carry, b""]
            self.lines |= dict.fromkeys(line for line in whole if line.startswith(LINK_LINE))
            kept = last.startswith(LINK_LINE) or LINK_LINE.startswith(last)
            self._carry = last if kept and len(last) <= MAX_LINE_BYTES else b""
        return data


class _Unpacked:
    """Decompressed text that returns everything before a damaged place, and only then raises."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._error: Exception | None = None

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; raises the decompressor's error."""
        if self._error is not None:
            raise self._error
        chunks: list[bytes] = []
        try:
            while size > 0 and (chunk := self._read(min(size, READ_BYTES))):
                chunks.append(chunk)
                size -= len(chunk)
        except (EOFError, OSError, zlib.error) as error:
            self._error = error
            if not chunks:
                raise
        return b"".join(chunks)
