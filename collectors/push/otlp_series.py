"""Series of OTLP by resource, metric and attributes, and what a data point is worth: a reading, an increment, a gap."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import numpy as np

from gpuwatch.collectors.push.otlp_labels import dcgm_field, labels_of
from gpuwatch.collectors.shared.device_labels import IGNORED
from gpuwatch.collectors.shared.series import Contexts, Samples, SeriesNumbers
from gpuwatch.core.fields import Field
from gpuwatch.core.model import Rejects

NAME = "otlp"
MAX_SAMPLES = 500_000
"""Data points of one request."""
MAX_KEY_BYTES = 64 * 1024
"""Attributes of a resource or a data point that are looked at."""
RESOURCE_BYTES, METRIC_BYTES, SERIES_BYTES = 1_000, 500, 200
"""What one of each takes in memory beside its texts."""
MAX_DELTAS = 200_000
"""Increments that are summed up at a time; beyond it all begin anew, which reads as a restart of their counters."""
STALE = 1
"""The flag "no recorded value": the end of a series, a gap."""
CUMULATIVE, DELTA = 2, 1
HIGHEST_US = (1 << 63) - 1

NOT_NUMBERS = f"{IGNORED}histogram or summary"
NO_VALUE = "data point without a value"
NO_TEMPORALITY = "sum of a counter that is neither cumulative nor delta"
DELTA_OF_GAUGE = "delta sum of what is no counter: leave the temporality of this metric alone"
LATE_DELTA = "delta sum out of order: it cannot be added any more"
OVERLAP = "delta sum that begins before the one before it ends: two senders of one series"


class Resource:
    """What sends: its attributes, its metrics, and the label sets of their data points by their attributes."""

    __slots__ = ("attributes", "labels", "metrics")

    def __init__(self, attributes: Mapping[str, str]) -> None:
        self.attributes = attributes
        self.metrics: dict[Hashable, Metric] = {}
        self.labels: dict[Hashable, dict[str, str] | str] = {}
        """The fields of a device share theirs. A text is the reason why attributes cannot be read."""


class Metric:
    """One metric of one resource."""

    __slots__ = ("by_attributes", "field", "name", "resource")

    def __init__(self, name: str, resource: Resource) -> None:
        self.name = name.replace(".", "_")
        self.field: Field | str = dcgm_field(name)
        """The stored field, or the reason why there is none."""
        self.resource = resource
        self.by_attributes: dict[Hashable, int] = {}
        """Numbers of its series; a body in protobuf looks for the bytes of their attributes."""

    def delta(self, of_sum: bool, temporality: int) -> bool | str:
        """Whether its points are increments, or why they cannot be read."""
        if isinstance(self.field, str):
            return self.field
        counter = self.field.kind != "gauge"
        if not of_sum or temporality == CUMULATIVE:
            return False
        if temporality == DELTA:
            return True if counter else DELTA_OF_GAUGE
        return NO_TEMPORALITY if counter else False


class Known:
    """What is known of the senders of one cluster from one request to the next."""

    def __init__(self, cluster: str) -> None:
        self.numbers = SeriesNumbers(cluster)
        self.contexts = Contexts(self.numbers)
        self.resources: dict[Hashable, Resource] = {}
        self.size = 0  # bytes of the keys, about
        self._deltas: dict[int, tuple[int, float]] = {}  # time and sum of the last increment of a series

    def metric(self, resource: Hashable, name: Hashable, text: str) -> Metric:
        """A metric of a resource that is in `resources`; `name` is what it is looked up by."""
        of = self.resources[resource]
        if (found := of.metrics.get(name)) is None:
            found = of.metrics[name] = Metric(text, of)
            self.size += len(text) + METRIC_BYTES
        return found

    def number(self, metric: Metric, key: Hashable, size: int, read: Callable[[], Mapping[str, str] | str]) -> int:
        """The number of a new series, kept under its key where it is not empty. `read` gives its attributes, or the
        reason why they cannot be read.
        """
        of = metric.resource
        if (labels := of.labels.get(key)) is None:
            attributes = read()
            labels = attributes if isinstance(attributes, str) else labels_of(of.attributes, attributes)
            if key:
                of.labels[key] = labels
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
        """The sum of the increments of a series up to this one, or why it cannot be added.

        An increment that comes again gives the sum it gave before. A hole before it is a restart: what happened in it
        is unknown, and a counter that begins anew says so.
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
    """Readings of one request as they are found, one by one; `line` counts its data points from 1."""

    def __init__(self, known: Known, rejects: Rejects) -> None:
        self._known = known
        self.rejects = rejects
        self.line = 0
        self._numbers: list[int] = []
        self._values: list[float] = []
        self._times: list[int] = []
        self._lines: list[int] = []

    def refuse(self, reason: str, count: int = 1) -> None:
        """Counts data points that are left out at the current line."""
        if count:
            self.rejects.add(reason, NAME, self.line, count=count)

    def add(self, number: int, delta: bool, start_us: int, time_us: int, value: float) -> None:
        """Takes a reading of a series; an increment becomes the sum so far. Times beyond all years are cut to the last."""
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
        """All of them."""
        return Samples(
            np.array(self._numbers, np.int32),
            np.array(self._values, np.float64),
            np.array(self._times, np.int64),
            np.array(self._lines, np.int64),
        )
