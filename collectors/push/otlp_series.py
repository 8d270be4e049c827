"""OTLP series by resource, metric and attributes, and the values of data points: readings, increments or gaps."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import numpy as np

from gpuwatch.collectors.push.otlp_labels import dcgm_field, series_labels
from gpuwatch.collectors.push.otlp_repeat import SCOPES_MAX, Scope
from gpuwatch.collectors.shared.series import Contexts, Samples, SeriesNumbers
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.fields import Field
from gpuwatch.core.model import Rejects

NAME = "otlp"
MAX_SAMPLES = 500_000
"""Limit of the data points in one request."""
MAX_NEW_SERIES = 50_000
"""Limit of the series in one request that are not in the cache: each takes up to 4 kB of memory on its way into the store."""
MAX_KEY_BYTES = 64 * 1024
"""Maximum size of the attributes of a resource or data point."""
RESOURCE_BYTES, METRIC_BYTES, SERIES_BYTES, CONTEXT_BYTES = 1_000, 500, 300, 1_000
"""Memory of one of each in addition to its texts."""
MAX_DELTAS = 200_000
"""Limit of the counters summed from increments; above it all start again, like restarted counters."""
STALE = 1
"""The flag "no recorded value": the end of a series, hence a gap."""
CUMULATIVE, DELTA = 2, 1
HIGHEST_US = (1 << 63) - 1

NOT_NUMBERS = f"{Rejects.IGNORED}histogram or summary"
NO_VALUE = "data point without a value"
NO_TEMPORALITY = "sum of a counter that is neither cumulative nor delta"
DELTA_OF_GAUGE = "delta sum of a gauge: do not change the temporality of this metric"
LATE_DELTA = "delta sum out of order: it can no longer be added"
OVERLAP = "delta sum that overlaps the previous one: one series has two senders"


class Resource:
    """A sender: its attributes, its metrics, and the label sets of their data points by attributes."""

    __slots__ = ("attributes", "labels", "metrics", "scopes")

    def __init__(self, attributes: Mapping[str, str]) -> None:
        self.attributes = attributes
        self.metrics: dict[Hashable, Metric] = {}
        self.scopes: dict[int, Scope] = {}
        """Scopes as they were the last time, by their length."""
        self.labels: dict[Hashable, dict[str, str] | str] = {}
        """Shared by the fields of a device. A text is the reason why the attributes are invalid."""

    def remember(self, length: int, scope: Scope) -> int:
        """Keeps a scope in place of the last one of its length, or of the oldest; returns the bytes of memory that it adds."""
        gone = self.scopes.pop(length, None)
        if gone is None and len(self.scopes) >= SCOPES_MAX:
            gone = self.scopes.pop(next(iter(self.scopes)))
        self.scopes[length] = scope
        return scope.memory - (0 if gone is None else gone.memory)


class Metric:
    """One metric of one resource."""

    __slots__ = ("by_attributes", "field", "name", "resource")

    def __init__(self, name: str, resource: Resource) -> None:
        self.name = name.replace(".", "_")
        self.field: Field | str = dcgm_field(name)
        """The stored field, or the reason why there is none."""
        self.resource = resource
        self.by_attributes: dict[Hashable, int] = {}
        """Numbers of its series; for protobuf the keys are the bytes of the attributes."""

    def delta(self, of_sum: bool, temporality: int) -> bool | str:
        """Whether its points are increments, or the reason why they are invalid."""
        if isinstance(self.field, str):
            return self.field
        counter = self.field.kind != "gauge"
        if not of_sum or temporality == CUMULATIVE:
            return False
        if temporality == DELTA:
            return True if counter else DELTA_OF_GAUGE
        return NO_TEMPORALITY if counter else False


class Known:
    """The senders of one cluster, cached from one request to the next."""

    def __init__(self, cluster: str) -> None:
        self.numbers = SeriesNumbers(cluster)
        self.contexts = Contexts(self.numbers)
        self.resources: dict[Hashable, Resource] = {}
        self.size = 0  # bytes of the keys, about
        self._new = 0  # series of this request that were not in the cache
        self._deltas: dict[int, tuple[int, float]] = {}  # time and sum of the last increment of a series

    @property
    def memory(self) -> int:
        """Bytes that the cache takes, about."""
        return self.size + CONTEXT_BYTES * len(self.contexts)

    def begin(self) -> None:
        """Another request begins."""
        self._new = 0

    def metric(self, resource: Hashable, name: Hashable, text: str) -> Metric:
        """A metric of a resource in `resources`, found by the key `name`."""
        sender = self.resources[resource]
        if (found := sender.metrics.get(name)) is None:
            found = sender.metrics[name] = Metric(text, sender)
            self.size += len(text) + METRIC_BYTES
        return found

    def number(self, metric: Metric, key: Hashable, size: int, read: Callable[[], Mapping[str, str] | str]) -> int:
        """The number of a new series, cached by its key unless that is empty. `read` returns its attributes, or the reason
        why they are invalid.
        """
        self._new += 1
        if self._new > MAX_NEW_SERIES:
            raise UnreadableInput(f"{NAME}: more than {MAX_NEW_SERIES} new series in one request; send smaller batches")
        sender = metric.resource
        if (labels := sender.labels.get(key)) is None:
            attributes = read()
            labels = attributes if isinstance(attributes, str) else series_labels(sender.attributes, attributes)
            if key:
                sender.labels[key] = labels
                self.size += size + SERIES_BYTES
        if isinstance(labels, str):
            number = self.numbers.refuse(labels)
        else:
            number = self.numbers.number_of(metric.name, labels)
        if key:
            metric.by_attributes[key] = number
            self.size += size + SERIES_BYTES
        return number

    def total(self, number: int, start_us: int, time_us: int, value: float) -> float | str:
        """The sum of the increments of a series up to this one, or the reason why it cannot be added.

        A repeated increment returns the same sum. A gap before it counts as a restart of the counter, since the value
        within the gap is unknown.
        """
        if number not in self._deltas and len(self._deltas) >= MAX_DELTAS:
            self._deltas.clear()
        last_us, total = self._deltas.get(number, (0, 0.0))
        if time_us == last_us:
            return total
        if time_us < last_us:
            return LATE_DELTA
        if last_us and 0 < start_us < last_us:
            return OVERLAP
        total = value if start_us > last_us else total + value
        self._deltas[number] = (time_us, total)
        return total


class Readings:
    """Collects the readings of one request; `line` counts its data points from 1."""

    def __init__(self, known: Known, rejects: Rejects) -> None:
        self._known = known
        self.rejects = rejects
        self.line = 0
        self._numbers: list[int] = []
        self._values: list[float] = []
        self._times: list[int] = []
        self._lines: list[int] = []

    def refuse(self, reason: str, count: int = 1) -> None:
        """Counts refused data points at the current line."""
        if count:
            self.rejects.add(reason, NAME, self.line, count=count)

    def add(self, number: int, delta: bool, start_us: int, time_us: int, value: float) -> None:
        """Adds a reading of a series; an increment becomes the sum so far. Times are limited to HIGHEST_US."""
        time_us = min(time_us, HIGHEST_US)
        if delta and number >= 0:
            total = self._known.total(number, start_us, time_us, value)
            if isinstance(total, str):
                self.refuse(total)
                return
            value = total
        self._numbers.append(number)
        self._values.append(value)
        self._times.append(time_us)
        self._lines.append(self.line)

    def samples(self) -> Samples:
        """All readings."""
        return Samples(
            np.array(self._numbers, np.int32),
            np.array(self._values, np.float64),
            np.array(self._times, np.int64),
            np.array(self._lines, np.int64),
        )
