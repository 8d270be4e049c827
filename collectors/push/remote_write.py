"""Receiver `remote-write`: converts Prometheus remote-write bodies, 1.0 and 2.0, to contexts and points.

A sender repeats the same labels with every sample, and a series with one sample ends with it. So the bytes before that
sample are one key of a dict, as in exposition.py; most series are not even looked up (see series_order.py). Everything else is
parsed as a full message. In version 2.0 the labels are indexes into a table of each request (see remote_write_2.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwatch.collectors.dcgm.exposition import MAX_LABEL_VALUE_BYTES, MAX_LABELS
from gpuwatch.collectors.push.key_order import KeyOrder
from gpuwatch.collectors.push.remote_write_2 import HEAD, MAX_SYMBOLS, ONE_SAMPLE, Texts, split
from gpuwatch.collectors.push.remote_write_wire import Wire, varint, wire
from gpuwatch.collectors.push.series_order import SeriesOrder
from gpuwatch.collectors.push.wire_count import MAX_FIELDS, REQUEST_UNCOUNTED, TooManyFields, check
from gpuwatch.collectors.shared.series import Contexts, Samples, SeriesNumbers, in_units, joined, of_devices, points
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Points, Records, Rejects
from gpuwatch.core.registry import receiver

NAME = "remote-write"
VERSION_2 = "io.prometheus.write.v2.Request"
"""Part of the content type of version 2.0."""
MAX_BODY_BYTES = 32 * 1024 * 1024
"""Limit of a decompressed body."""
MAX_SAMPLES = 500_000
"""Limit of the samples in one request."""
MAX_SERIES_A_REQUEST = 50_000
"""Limit of the series in one request: each new one takes up to 4 kB of memory on its way into the store."""
MAX_METADATA = 100_000
MAX_SERIES = 1_000_000
MAX_SERIES_BYTES = 192 * 1024 * 1024
"""Limits of the series in the cache of all clusters, in number and size; above either, all are forgotten."""
MAX_ORDER_BYTES = 96 * 1024 * 1024
"""Limit of the memory for the order of series (see series_order.py). Series beyond it are looked up."""
MAX_KEY_BYTES = 64 * 1024
"""Maximum size of a cached key; longer labels are parsed each time."""
MAX_LABEL_BYTES = 2 * MAX_LABEL_VALUE_BYTES + 16
"""Maximum size of the name and value of a label together."""
KEY_BYTES = 200
"""Memory of a series in addition to its key."""
CONTEXT_BYTES = 1000
"""Memory of a label set that no other series shares."""
MAX_CLUSTERS = 256

STALE_BITS = 0x7FF0000000000002
"""The NaN with which Prometheus marks the end of a series: a gap, not a reading."""

NO_NAME = "series without a metric name"
BAD_LABELS = f"label twice, or beyond {MAX_LABELS} labels or {MAX_LABEL_VALUE_BYTES} bytes a value"
BAD_REFERENCE = "label refers to no symbol"
BAD_SERIES = "series is not protobuf"
NOT_TEXT = "label is not UTF-8 text"

_UNKNOWN = np.iinfo(np.int32).min
_VARINT_BYTES = 5
_MOST_MS = (1 << 63) // 1000 - 1  # above it a time in microseconds does not fit into 64 bits
_HEAD, _HEAD_BYTES = np.uint32(int.from_bytes(HEAD, "little")), np.uint32(0xFFFFFF)
_TIME, _TIME_BITS = np.uint64(0x0080_8080_8080_1000), np.uint64(0x8080_8080_8080_FF00)
"""What the last eight bytes of a sample must be, and which bits count: the tag of the time and the top bits of its six bytes."""


@receiver(NAME)
class RemoteWrite:
    """Decodes requests; series are cached by their bytes from one request to the next."""

    def __init__(self) -> None:
        self._wire = wire()
        self._clusters: dict[str, _Known] = {}

    def __call__(
        self, body: bytes, content_type: str, cluster: str, now_us: int, rejects: Rejects
    ) -> list[Records | Points]:
        """Contexts and points of a request. Contexts repeat, since an earlier request may have been lost.

        `content_type` has the version. Raises UnreadableInput if the body is not a write request, or is too large.
        """
        if len(body) > MAX_BODY_BYTES:
            raise _too_large(f"{MAX_BODY_BYTES} bytes")
        self._bound(cluster)
        known = self._clusters.setdefault(cluster, _Known(cluster, self._wire))
        if VERSION_2 in content_type:
            _count(body, {4: (MAX_SYMBOLS, "symbols"), 5: (MAX_SERIES_A_REQUEST, "series")})
            samples = self._samples_2(self._parsed(body, self._wire.request_2, "2.0"), known, rejects)
        else:
            _count(body, {1: (MAX_SERIES_A_REQUEST, "series"), 3: (MAX_METADATA, "metadata entries")})
            samples = self._samples(self._parsed(body, self._wire.request, "1.0").timeseries, known, rejects)
        samples = samples.where(samples.value.view(np.uint64) != STALE_BITS)
        samples = of_devices(samples, known.numbers, NAME, rejects)
        samples = in_units(samples, known.numbers, NAME, rejects)
        found = list(points([samples], known.numbers))
        return [known.contexts.of(samples.series), *found] if found else []

    def _parsed(self, body: bytes, kind: Any, version: str) -> Any:
        try:
            request = kind.FromString(body)
        except self._wire.broken as error:
            raise UnreadableInput(f"{NAME}: the body is not a write request of version {version}: {error}") from error
        if body and not request.ListFields():
            raise UnreadableInput(f"{NAME}: the body has no field of a write request of version {version}")
        if len(request.timeseries) > MAX_SERIES_A_REQUEST:  # a small body was not counted before
            raise _too_large(f"{MAX_SERIES_A_REQUEST} series")
        return request

    def _bound(self, cluster: str) -> None:
        """Forgets all series if there are too many; the next requests bring them again."""
        caches = self._clusters.values()
        series = sum(len(known.by_bytes) for known in caches)
        size = sum(known.size + known.texts.size + CONTEXT_BYTES * len(known.contexts) for known in caches)
        new = cluster not in self._clusters and len(self._clusters) >= MAX_CLUSTERS
        if new or series >= MAX_SERIES or size >= MAX_SERIES_BYTES:
            self._clusters.clear()

    def _may_learn(self) -> bool:
        """Whether there is memory left for the order of series."""
        return sum(each.order.size + each.key_order.size for each in self._clusters.values()) < MAX_ORDER_BYTES

    def _samples(self, series: Any, known: _Known, rejects: Rejects) -> Samples:
        """The readable samples of version 1.0."""
        found = known.order.split(series, known.by_bytes.get, self._may_learn())
        samples, odd = _fast(found.numbers, found.tails, found.lines)
        if found.others or odd:
            more = [(line, series[line - 1]) for line in sorted([*found.others, *odd])]
            others = self._read(more, self._wire.series, lambda message, _: known.number_1(message), rejects)
            samples = joined([samples, others])
        return samples

    def _samples_2(self, request: Any, known: _Known, rejects: Rejects) -> Samples:
        """The readable samples of version 2.0."""
        if len(request.symbols) > MAX_SYMBOLS:
            raise _too_large(f"{MAX_SYMBOLS} symbols")
        symbols, series = list(request.symbols), request.timeseries
        found = split(series, known.texts.numbers(symbols), known.texts.trailers)
        numbers = known.key_order.numbers(found.keys, known.by_texts.get, _UNKNOWN, self._may_learn())
        at_hand = numbers != _UNKNOWN
        samples, odd = _fast(numbers[at_hand], found.tails[at_hand], found.lines[at_hand])
        if len(samples.line) == len(series):
            return samples
        place_of = {line: place for place, line in enumerate(found.lines.tolist())}
        read = {*odd, *found.others, *found.lines[~at_hand].tolist()}
        for line in found.others:
            known.learn(series[line - 1])

        def number(message: Any, line: int) -> int:
            return known.number_2(message, symbols, found.keys.of(place_of[line]) if line in place_of else b"")

        more = [(line, series[line - 1]) for line in sorted(read)]
        return joined([samples, self._read(more, self._wire.series_2, number, rejects)])

    def _read(
        self, series: Iterable[tuple[int, bytes]], kind: Any, number_of: Callable[[Any, int], int], rejects: Rejects
    ) -> Samples:
        """Samples of (line, series) parsed as full messages: new series, and those with several samples."""
        numbers: list[int] = []
        values: list[float] = []
        times: list[int] = []
        lines: list[int] = []
        packed = 1 if kind is self._wire.series_2 else 0
        most = {1: 2 * _VARINT_BYTES * MAX_LABELS if packed else MAX_LABELS, 2: MAX_SAMPLES}
        for line, raw in series:
            try:
                check(raw, most, packed=packed)
                message = kind.FromString(raw)
            except TooManyFields as error:
                if error.number == 2:
                    raise _too_large(f"{MAX_SAMPLES} samples") from None
                rejects.add(BAD_LABELS, NAME, line)
                continue
            except self._wire.broken:
                rejects.add(BAD_SERIES, NAME, line)
                continue
            count = len(message.samples)
            if len(values) + count > MAX_SAMPLES:
                raise _too_large(f"{MAX_SAMPLES} samples")
            number = number_of(message, line)
            values += [sample.value for sample in message.samples]
            times += [max(min(sample.timestamp, _MOST_MS), -_MOST_MS) * 1000 for sample in message.samples]
            numbers += [number] * count
            lines += [line] * count
        series_of, line_of = np.array(numbers, np.int32), np.array(lines, np.int64)
        return Samples(series_of, np.array(values, np.float64), np.array(times, np.int64), line_of)


class _Known:
    """The series of one cluster by the bytes of their labels."""

    def __init__(self, cluster: str, wire: Wire) -> None:
        self.numbers = SeriesNumbers(cluster)
        self.by_bytes: dict[bytes, int] = {}
        self.by_texts: dict[bytes, int] = {}
        self.texts = Texts()
        self.order = SeriesOrder()
        self.key_order = KeyOrder()
        self.size = 0  # bytes of the keys
        self._wire = wire
        self.contexts = Contexts(self.numbers)

    def number_1(self, message: Any) -> int:
        """The number of a series of version 1.0, cached by the bytes of its labels on the wire."""
        labels = message.labels
        if len(labels) > MAX_LABELS or any(len(label) > MAX_LABEL_BYTES for label in labels):
            return self.numbers.refuse(BAD_LABELS)
        key = b"".join([b"\n" + varint(len(label)) + label for label in labels])
        return self._number(key, ((pair.name, pair.value) for pair in map(self._wire.label.FromString, labels)))

    def learn(self, raw: bytes) -> None:
        """Learns the trailer of a series of version 2.0 that could not be split."""
        with suppress(self._wire.broken):
            self.texts.learn(raw, self._wire.series_2)

    def number_2(self, message: Any, symbols: list[bytes], short: bytes) -> int:
        """The number of a series of version 2.0 from the texts of its labels, cached by the numbers of these texts if it
        has such a key.
        """
        number = self._number_2(message, symbols)
        if short and short not in self.by_texts:
            self.by_texts[short] = number
            self.size += len(short) + KEY_BYTES
        return number

    def _number_2(self, message: Any, symbols: list[bytes]) -> int:
        references = message.labels_refs
        if len(references) > 2 * MAX_LABELS:
            return self.numbers.refuse(BAD_LABELS)
        try:
            texts = [symbols[reference] for reference in references]
        except IndexError:
            return self.numbers.refuse(BAD_REFERENCE)
        if len(texts) % 2:
            return self.numbers.refuse(BAD_REFERENCE)
        if sum(map(len, texts)) > MAX_KEY_BYTES:  # many references to one long symbol: refused before copying
            return self.numbers.refuse(BAD_LABELS)
        # UTF-8 text never contains the separator, and no key of version 1.0 begins with it.
        return self._number(b"\xff" + b"\xff".join(texts), zip(texts[::2], texts[1::2], strict=True))

    def _number(self, key: bytes, labels: Iterable[tuple[bytes, bytes]]) -> int:
        if (number := self.by_bytes.get(key)) is None:
            number = self._new(labels)
            # An empty key would match a series without labels.
            if 0 < len(key) <= MAX_KEY_BYTES:
                self.by_bytes[key] = number
                self.size += len(key) + KEY_BYTES
        return number

    def _new(self, labels: Iterable[tuple[bytes, bytes]]) -> int:
        found: dict[str, str] = {}
        try:
            for name_bytes, value in labels:
                name = name_bytes.decode()
                if name in found or len(found) >= MAX_LABELS or len(value) > MAX_LABEL_VALUE_BYTES:
                    return self.numbers.refuse(BAD_LABELS)
                found[name] = value.decode()
        except self._wire.broken:
            return self.numbers.refuse(BAD_SERIES)
        except UnicodeDecodeError:
            return self.numbers.refuse(NOT_TEXT)
        name = found.pop("__name__", "")
        return self.numbers.number_of(name, found) if name else self.numbers.refuse(NO_NAME)


def _fast(numbers: NDArray[np.int32], tails: NDArray[np.uint8], lines: NDArray[np.int64]) -> tuple[Samples, list[int]]:
    """Samples from the last bytes of series, and the lines of those that are not samples."""
    rows = tails.reshape(-1, ONE_SAMPLE)
    head, value, last = (
        np.ascontiguousarray(rows[:, begin:end]).view(kind)[:, 0]
        for begin, end, kind in ((0, 4, "<u4"), (3, 11, "<f8"), (10, ONE_SAMPLE, "<u8"))
    )
    good = ((head & _HEAD_BYTES) == _HEAD) & ((last & _TIME_BITS) == _TIME)
    time_ms = np.zeros(len(rows), np.uint64)
    for place in range(6):
        time_ms |= (last >> np.uint64(16 + place)) & np.uint64(0x7F << 7 * place)
    samples = Samples(numbers, value, time_ms.astype(np.int64) * 1000, lines)
    return (samples, []) if good.all() else (samples.where(good), lines[~good].tolist())


def _count(body: bytes, most: Mapping[int, tuple[int, str]]) -> None:
    """Raises UnreadableInput for a body with more of a field than allowed, by its number."""
    try:
        check(body, {number: count for number, (count, _) in most.items()}, REQUEST_UNCOUNTED)
    except TooManyFields as error:
        count, name = most.get(error.number, (MAX_FIELDS, "fields"))
        raise _too_large(f"{count} {name}") from None


def _too_large(what: str) -> UnreadableInput:
    return UnreadableInput(f"{NAME}: more than {what} in one request; lower max_samples_per_send of the sender")
