"""Historical DCGM metrics from a server of the Prometheus API: Prometheus, VictoriaMetrics, Thanos, Mimir.

Raw samples with their own times come from an instant query for a range selector. A range query is unsuitable: it has a
value at every step, even where nothing was measured.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpuwatch.collectors.dcgm.exposition import MAX_LABELS
from gpuwatch.collectors.prometheus.chunking import QueryRunner
from gpuwatch.collectors.prometheus.http import string_labels
from gpuwatch.collectors.prometheus.refusals import LARGE, Refused
from gpuwatch.collectors.prometheus.response import Matrix
from gpuwatch.collectors.shared.device_labels import NOT_DCGM, field_of
from gpuwatch.collectors.shared.series import Contexts, Samples, SeriesNumbers, in_units, of_devices, points
from gpuwatch.core.clock import SECOND_US
from gpuwatch.core.fields import FIELDS, Field
from gpuwatch.core.model import Points, Records, Rejects

EVERY_NAME = '__name__=~"(?i)dcgm_.*"'
"""DCGM metrics in any case: some exporters use lower case."""
PROBE_S = 300
PROBES = 5
"""Instants of a span at which the series and their samples in PROBE_S are counted; the maximum sets the size of queries."""
USUAL_INTERVAL_S = 15
"""Assumed interval of samples if the first metric has none."""
MAX_SERIES = 1_000_000
MAX_KEY_BYTES = 128 * 1024 * 1024
"""Limits of the series remembered by their labels, in number and size; above either, all are forgotten."""
_TIME = (1 << 32) - 1
BAD_LABELS = f"series whose labels are not text, or more than {MAX_LABELS}"


@dataclass
class Chunk:
    """The samples of a span: batches for the store, and their counts."""

    batches: list[Records | Points]
    samples: int
    bytes: int
    rejects: Rejects = field(default_factory=Rejects)
    lacking: list[str] = field(default_factory=list)
    """The server's warnings about incomplete answers: such a span is read again."""
    new: list[Samples] = field(default_factory=list)
    """With `only_new`: the samples to pass to History.remember."""


class History:
    """The DCGM samples of one server and cluster, by span of time. Spans may be read by many threads at a time."""

    def __init__(self, asker: QueryRunner, cluster: str) -> None:
        self.name = asker.client.access.url
        self.cluster = cluster
        self.fields: list[str] = []
        """Metric names with a stored field that the server has; see find()."""
        self.samples_a_second = 0.0
        self.interval_s = 0.0
        """Seconds between the samples of a series; 0 until measure()."""
        self.step_s = 0
        """With a number, only the latest sample of every so many seconds is read; see thin()."""
        self._asker = asker
        self._every = "{" + ",".join(filter(None, (EVERY_NAME, asker.match))) + "}"
        self._lock = threading.Lock()
        self._numbers = SeriesNumbers(cluster)
        self._contexts = Contexts(self._numbers)
        self._by_key: dict[bytes, int] = {}
        self._size = 0
        self._stored = np.empty(0, np.int64)
        """Samples that are already stored, sorted; see _marks()."""

    def find(self, start_us: int, end_us: int) -> list[str]:
        """All DCGM metric names of a span; remembers those with a stored field. Raises Refused, UnreadableInput.

        If the server has too many series to list their names over the span, they are listed at a few instants, and if
        that fails too, every known name is assumed to exist.
        """
        first, last = start_us // SECOND_US, -(-end_us // SECOND_US)
        names: set[str] = set()
        try:
            names |= self._names(first, last)
        except Refused as refused:
            if refused.remedy != LARGE:
                raise
            try:
                for at_s in _instants(first, last):
                    names |= self._names(max(at_s - PROBE_S, first), at_s)
            except Refused as again:
                if again.remedy != LARGE:
                    raise
                names |= {name for known in FIELDS for name in _spellings(known)}
        self.fields = sorted(name for name in names if not isinstance(field_of(name), str))
        return sorted(name for name in names if field_of(name) != NOT_DCGM)

    def _names(self, start_s: int, end_s: int) -> set[str]:
        return set(self._asker.with_retries(lambda: self._asker.client.names(self._every, start_s, end_s)))

    def measure(self, start_us: int, end_us: int) -> float:
        """Estimates the maximum number of samples per second in a span; 0 without samples, or if counting is refused.

        Raises Refused for any other refusal.
        """
        self.samples_a_second = self.interval_s = 0.0
        if not self.fields:
            return 0.0
        one = f"{self._asker.selector(self.fields[:1])}[{PROBE_S}s]"
        for at_s in _instants(start_us // SECOND_US, end_us // SECOND_US):
            series = self._count(f"count({self._every})", at_s)
            if series:
                samples = self._count(f"avg(count_over_time({one}))", at_s) or PROBE_S / USUAL_INTERVAL_S
                self.samples_a_second = max(self.samples_a_second, series * samples / PROBE_S)
                self.interval_s = max(self.interval_s, PROBE_S / samples)
        return self.samples_a_second

    def thin(self, step_s: int) -> float:
        """Reads only the latest sample of every `step_s` seconds, if there are more. Returns the samples a second."""
        if 0 < self.interval_s < step_s:
            self.samples_a_second *= self.interval_s / step_s
            self.interval_s, self.step_s = float(step_s), step_s
        return self.samples_a_second

    def chunk(self, start_us: int, end_us: int, only_new: bool = False) -> Chunk:
        """Every sample of [start_us, end_us), both whole seconds; with `only_new` without those remembered.

        Raises Refused, UnreadableInput.
        """
        answers: list[Matrix] = []
        size = 0
        if self.fields:
            for answer, length in self._asker.raw_samples(
                self.fields, start_us, end_us, self.samples_a_second, step_s=self.step_s
            ):
                answers.append(answer)
                size += length
        chunk = Chunk([], 0, size)
        chunk.lacking = list(dict.fromkeys(text for answer in answers for text in answer.warnings))
        with self._lock:  # series numbers are shared by all threads
            self._bound()
            found = [self._samples(answer, only_new, chunk) for answer in answers]
            rows = list(points(found, self._numbers))
            if rows:
                numbers = np.unique(np.concatenate([part.series for part in found]))
                chunk.batches = [self._contexts.of(numbers), *rows]
        chunk.samples = sum(part.rows.num_rows for part in rows)
        return chunk

    def _count(self, query: str, at_s: int) -> float | None:
        """The single number of an answer, 0 without one; None if the server refuses the query as too large."""
        try:
            rows = self._asker.with_retries(lambda: self._asker.client.vector(query, at_s))
        except Refused as refused:
            if refused.remedy != LARGE:
                raise
            return None
        return rows[0][1] if rows else 0.0

    def _samples(self, answer: Matrix, only_new: bool, chunk: Chunk) -> Samples:
        """The usable samples of an answer, in stored units."""
        numbers = np.fromiter(map(self._number, answer.keys), np.int32, len(answer.keys))
        line = answer.series
        samples = Samples(numbers[line], answer.value, answer.time_us, line + 1)
        if only_new:  # refused samples are remembered too, so that each is counted once
            samples = samples.where(self._is_new(samples))
            chunk.new.append(samples)
        samples = of_devices(samples, self._numbers, self.name, chunk.rejects)
        return in_units(samples, self._numbers, self.name, chunk.rejects)

    def _is_new(self, samples: Samples) -> NDArray[np.bool_]:
        marks = _marks(samples)
        place = np.searchsorted(self._stored, marks)
        known = np.append(self._stored, np.iinfo(np.int64).max)
        return np.asarray(known[place] != marks)

    def remember(self, chunk: Chunk, since_us: int) -> None:
        """Marks a chunk read with `only_new` as stored, so that its samples are skipped. Samples before `since_us` are
        forgotten, since they are not queried again."""
        known = np.concatenate([self._stored, *(_marks(part) for part in chunk.new)])
        age_ms = ((known & _TIME) - since_us // 1000) & _TIME
        self._stored = np.unique(known[age_ms <= _TIME >> 1])

    def _number(self, key: bytes) -> int:
        """The number of a series by its labels."""
        if (number := self._by_key.get(key)) is None:
            number = self._by_key[key] = self._new(key)
            self._size += len(key)
        return number

    def _new(self, key: bytes) -> int:
        try:
            labels = dict(string_labels(json.loads(key)))
        except (ValueError, RecursionError):
            return self._numbers.refuse(BAD_LABELS)
        if len(labels) > MAX_LABELS:
            return self._numbers.refuse(BAD_LABELS)
        return self._numbers.number_of(labels.pop("__name__", ""), labels)

    def _bound(self) -> None:
        if len(self._by_key) >= MAX_SERIES or self._size >= MAX_KEY_BYTES:
            self._numbers = SeriesNumbers(self.cluster)
            self._by_key.clear()
            self._contexts = Contexts(self._numbers)
            self._stored = np.empty(0, np.int64)
            self._size = 0


def _marks(samples: Samples) -> NDArray[np.int64]:
    """A number for each sample: its series, and its time in milliseconds modulo 49 days."""
    return samples.series.astype(np.int64) << 32 | samples.time_us // 1000 & _TIME


def _instants(start_s: int, end_s: int) -> list[int]:
    """PROBES instants of a span, including its end."""
    return [start_s + (end_s - start_s) * probe // PROBES for probe in range(1, PROBES + 1)]


def _spellings(known: Field) -> set[str]:
    """The names that a field may have."""
    names = {known.name, *known.aliases, *([known.new_name] if known.new_name else [])}
    return names | {name.lower() for name in names}
