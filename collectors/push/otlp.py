"""Receiver `otlp`: converts OTLP metrics of OpenTelemetry collectors that forward DCGM to contexts and points.

Collectors write a data point as start, time, value and attributes, in this order, the first three with a fixed size. So
the bytes of the attributes are one key of a dict, as in remote_write.py. Everything else, and every new series, is
parsed as a full message. A scope that differs from an earlier one only in times and values is not parsed (otlp_repeat.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from gpuwatch.collectors.dcgm.exposition import MAX_LABEL_VALUE_BYTES, MAX_LABELS
from gpuwatch.collectors.push.otlp_json import BAD_ATTRIBUTES, MAX_RESOURCE_ATTRIBUTES
from gpuwatch.collectors.push.otlp_json import read as read_json
from gpuwatch.collectors.push.otlp_repeat import HEAD, Found, Scope, Seen, head_of
from gpuwatch.collectors.push.otlp_series import (
    MAX_KEY_BYTES,
    MAX_SAMPLES,
    NAME,
    NO_VALUE,
    NOT_NUMBERS,
    RESOURCE_BYTES,
    STALE,
    Known,
    Metric,
    Readings,
    Resource,
)
from gpuwatch.collectors.push.otlp_wire import Wire, texts_of, wire
from gpuwatch.collectors.push.remote_write_wire import varint
from gpuwatch.collectors.push.wire_count import PART_UNCOUNTED, REQUEST_UNCOUNTED, TooManyFields, check
from gpuwatch.collectors.shared.series import Samples, in_units, joined, of_devices, points
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Points, Records, Rejects
from gpuwatch.core.registry import receiver

JSON = "application/json"
"""Content type of a JSON body; any other is protobuf."""
MAX_BODY_BYTES = 16 * 1024 * 1024
"""Limit of a decompressed body: each level of a request is a copy of what it contains."""
MAX_PARTS = 200_000
"""Limit of the resources, scopes and metrics in one request."""
MAX_SERIES = 1_000_000
MAX_SERIES_BYTES = 192 * 1024 * 1024
"""Limits of the series in the cache of all clusters, in number and size; above either, all are forgotten."""
MAX_CLUSTERS = 256

BAD_PART = "part of the request is not protobuf"
NOT_TEXT = "attribute is not UTF-8 text"


@receiver(NAME)
class Otlp:
    """Decodes requests; series are cached by their bytes from one request to the next."""

    def __init__(self) -> None:
        self._wire = wire()
        self._clusters: dict[str, Known] = {}

    def __call__(
        self, body: bytes, content_type: str, cluster: str, now_us: int, rejects: Rejects
    ) -> list[Records | Points]:
        """Contexts and points of a request. Contexts repeat, since an earlier request may have been lost.

        Raises UnreadableInput if the body is not an export request, or is too large.
        """
        if len(body) > MAX_BODY_BYTES:
            raise UnreadableInput(f"{NAME}: more than {MAX_BODY_BYTES} bytes in one request; send smaller batches")
        self._bound(cluster)
        known = self._clusters.setdefault(cluster, Known(cluster))
        known.begin()
        readings = Readings(known, rejects)
        if content_type == JSON:
            read_json(body, known, readings)
            samples = readings.samples()
        else:
            samples = _Body(self._wire, known, readings).read(body)
        samples = of_devices(samples, known.numbers, NAME, rejects)
        samples = in_units(samples, known.numbers, NAME, rejects)
        found = list(points([samples], known.numbers))
        return [known.contexts.of(samples.series), *found] if found else []

    def _bound(self, cluster: str) -> None:
        """Forgets all series if there are too many; the next requests bring them again."""
        caches = self._clusters.values()
        series, size = sum(len(known.numbers) for known in caches), sum(known.memory for known in caches)
        new = cluster not in self._clusters and len(self._clusters) >= MAX_CLUSTERS
        if new or series >= MAX_SERIES or size >= MAX_SERIES_BYTES:
            self._clusters.clear()


class _Body:
    """Reads one protobuf body."""

    def __init__(self, wire: Wire, known: Known, readings: Readings) -> None:
        self._wire, self._known, self._readings = wire, known, readings
        self._parts = 0
        self._found, self._seen = Found(), Seen()

    def read(self, body: bytes) -> Samples:
        """The readings, with negative numbers for refused series. Raises UnreadableInput if it is not an export request."""
        wire, readings = self._wire, self._readings
        self._check(body, 1, REQUEST_UNCOUNTED)
        try:
            request = wire.request.FromString(body)
        except wire.broken as error:
            raise UnreadableInput(f"{NAME}: the body is not an ExportMetricsServiceRequest: {error}") from error
        if body and not request.ListFields():
            raise UnreadableInput(f"{NAME}: the body has no field of an ExportMetricsServiceRequest")
        self._count(len(request.resource_metrics))
        for raw in request.resource_metrics:
            self._check(raw, 2)
            try:
                part = wire.resource_metrics.FromString(raw)
                resource = self._resource(part.resource)
            except (wire.broken, UnicodeDecodeError):
                readings.refuse(BAD_PART)
                continue
            self._count(len(part.scope_metrics))
            for scope in part.scope_metrics:
                self._scope(scope, resource)
        return joined([*self._found.samples(), readings.samples()])

    def _scope(self, raw: bytes, resource: bytes) -> None:
        """A scope of metrics, compared with those of its resource before it is parsed."""
        known = self._known.resources[resource].scopes.get(len(raw))
        if known is not None and self._repeats(known, raw):
            return
        before, self._seen = Counter(self._readings.rejects.counts), Seen()
        self._parse_scope(raw, resource)
        self._seen.refused = Counter(self._readings.rejects.counts) - before
        if (made := self._seen.scope(raw)) is not None:
            self._known.size += self._known.resources[resource].remember(len(raw), made)

    def _repeats(self, scope: Scope, raw: bytes) -> bool:
        """Adds the points of a scope that repeats this one; False if it does not."""
        readings = self._readings
        if readings.line + scope.points > MAX_SAMPLES or (heads := scope.heads(raw)) is None:
            return False
        self._count(scope.metrics)
        self._found.repeated.append((scope, heads, readings.line))
        readings.line += scope.points
        for reason, count in scope.refused.items():
            readings.refuse(reason, count)
        return True

    def _parse_scope(self, raw: bytes, resource: bytes) -> None:
        self._check(raw, 2)
        try:
            scope = self._wire.scope_metrics.FromString(raw)
        except self._wire.broken:
            self._readings.refuse(BAD_PART)
            self._seen.odd = True
            return
        self._count(len(scope.metrics))
        self._seen.metrics = len(scope.metrics)
        for metric in scope.metrics:
            self._metric(metric, resource)

    def _check(self, raw: bytes, number: int, uncounted: int = PART_UNCOUNTED) -> None:
        """Raises UnreadableInput for a message with too many of the parts that have this field number."""
        try:
            check(raw, {number: MAX_PARTS - self._parts}, uncounted)
        except TooManyFields:
            raise _too_many_parts() from None

    def _count(self, parts: int) -> None:
        self._parts += parts
        if self._parts > MAX_PARTS:
            raise _too_many_parts()

    def _resource(self, raw: bytes) -> bytes:
        """The key of a resource in the cache. A resource that is too large has no attributes."""
        known = self._known
        key = raw if len(raw) <= MAX_KEY_BYTES else b""
        if key not in known.resources:
            pairs = self._wire.resource.FromString(key).attributes[:MAX_RESOURCE_ATTRIBUTES]
            attributes = texts_of(self._wire, pairs)
            known.resources[key] = Resource({n: v for n, v in attributes if len(v) <= MAX_LABEL_VALUE_BYTES})
            known.size += len(key) + RESOURCE_BYTES
        return key

    def _metric(self, raw: bytes, resource: bytes) -> None:
        readings = self._readings
        try:
            metric = self._wire.metric.FromString(raw)
            name = metric.name[:MAX_LABEL_VALUE_BYTES].decode()
            of_sum = metric.HasField("sum")
            if not of_sum and not metric.HasField("gauge"):
                others = (metric.histogram, metric.exponential_histogram, metric.summary)
                count = sum(len(self._numbers_of(other).data_points) for other in others)
                readings.line += count
                readings.refuse(NOT_NUMBERS, count)
                self._seen.odd |= count > 0
                return
            numbers = self._numbers_of(metric.sum if of_sum else metric.gauge)
        except (self._wire.broken, UnicodeDecodeError):
            readings.refuse(BAD_PART)
            self._seen.odd = True
            return
        found = numbers.data_points
        known_metric = self._known.metric(resource, metric.name[:MAX_LABEL_VALUE_BYTES], name)
        delta = known_metric.delta(of_sum, numbers.temporality)
        if isinstance(delta, str):
            readings.refuse(delta, len(found))
            readings.line += len(found)
            self._seen.add(found, [None] * len(found))
        elif delta:
            self._seen.odd = True
            for raw_point in found:
                readings.line += 1
                self._point(raw_point, known_metric, True)
        else:
            self._points(found, known_metric)

    def _numbers_of(self, raw: bytes) -> Any:
        """The data points of a metric. Raises UnreadableInput if there are too many, DecodeError if it is not protobuf."""
        left = MAX_SAMPLES - self._readings.line
        try:
            check(raw, {1: left})
            numbers = self._wire.numbers.FromString(raw)
            if len(numbers.data_points) > left:
                raise TooManyFields(1)
        except TooManyFields:
            raise UnreadableInput(
                f"{NAME}: more than {MAX_SAMPLES} data points in one request; send smaller batches"
            ) from None
        return numbers

    def _points(self, raws: Any, metric: Metric) -> None:
        """Adds data points that are readings, cached series by the bytes of their attributes."""
        readings, number_of, found, seen = self._readings, metric.by_attributes.get, self._found, self._seen
        line = first = readings.line
        begin = len(found.numbers)
        for line, raw in enumerate(raws, first + 1):
            head = head_of(raw)
            number = None if head is None else number_of(raw[head + HEAD :])
            if head is None or number is None:
                readings.line = line
                self._point(raw, metric, False)
                seen.odd = True
                continue
            found.heads.append(raw[head : head + HEAD])
            found.numbers.append(number)
            found.lines.append(line)
        readings.line = line
        seen.add(raws, found.numbers[begin:])

    def _point(self, raw: bytes, metric: Metric, delta: bool) -> None:
        """Adds one data point, parsed as a full message."""
        readings = self._readings
        try:
            check(raw, {7: MAX_LABELS})
            point = self._wire.point.FromString(raw)
        except TooManyFields:
            readings.refuse(BAD_ATTRIBUTES)
            return
        except self._wire.broken:
            readings.refuse(BAD_PART)
            return
        if len(point.attributes) > MAX_LABELS:
            readings.refuse(BAD_ATTRIBUTES)
            return
        if point.flags & STALE:
            return
        if point.HasField("as_double"):
            value = point.as_double
        elif point.HasField("as_int"):
            value = float(point.as_int)
        else:
            readings.refuse(NO_VALUE)
            return
        key = b"".join([b"\x3a" + varint(len(pair)) + pair for pair in point.attributes])
        if (number := metric.by_attributes.get(key)) is None:
            kept = key if len(key) <= MAX_KEY_BYTES else b""
            number = self._known.number(metric, kept, len(kept), lambda: self._attributes(point.attributes))
        readings.add(number, delta, point.start_ns // 1000, point.time_ns // 1000, value)

    def _attributes(self, pairs: Any) -> Mapping[str, str] | str:
        """Attributes of a data point, or the reason why they are invalid."""
        if len(pairs) > MAX_LABELS:
            return BAD_ATTRIBUTES
        try:
            texts = texts_of(self._wire, pairs)
        except self._wire.broken:
            return BAD_PART
        except UnicodeDecodeError:
            return NOT_TEXT
        found = dict(texts)
        long = any(len(text) > MAX_LABEL_VALUE_BYTES for text in found.values())
        return BAD_ATTRIBUTES if long or len(found) < len(texts) else found


def _too_many_parts() -> UnreadableInput:
    return UnreadableInput(
        f"{NAME}: more than {MAX_PARTS} resources, scopes and metrics in one request; lower send_batch_max_size of the "
        "collector"
    )
