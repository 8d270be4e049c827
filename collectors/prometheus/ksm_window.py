"""Queries of kube-state-metrics series within one span of time."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpuwatch.collectors.prometheus.chunking import QueryRunner
from gpuwatch.collectors.prometheus.http import string_labels
from gpuwatch.collectors.prometheus.ksm_names import original_labels
from gpuwatch.collectors.prometheus.ksm_objects import Fact, SeriesSpan
from gpuwatch.core.clock import SECOND_US
from gpuwatch.core.errors import UnreadableInput

STEP_S = 60

Times = NDArray[np.int64]
Values = NDArray[np.float64]


class Window:
    """One span of a server, queried for the series of some metrics."""

    def __init__(self, asker: QueryRunner, start_us: int, end_us: int) -> None:
        self.start_us, self.end_us = start_us, end_us
        self.seconds = -(-(end_us - start_us) // SECOND_US)
        self.bytes = 0
        self.lacking: dict[str, None] = {}
        self.moved = self.moved_nodes = False
        """Whether labels of pods, or of nodes, were renamed to exported_...; set once such series were read."""
        self._asker = asker

    def series(self, names: Sequence[str], more: str) -> list[tuple[dict[str, str], Times, Values]]:
        """Series with their samples in the span; empty series are left out."""
        parts: dict[bytes, list[tuple[Times, Values]]] = defaultdict(list)
        for answer, size in self._asker.raw_samples(names, self.start_us, self.end_us, 0.0, more):
            self.bytes += size
            self.lacking |= dict.fromkeys(answer.warnings)
            ends = np.cumsum(answer.counts)
            for key, start, end in zip(answer.keys, ends - answer.counts, ends, strict=True):
                if end > start:
                    parts[key].append((answer.time_us[start:end], answer.value[start:end]))
        try:
            labels = self._original([string_labels(json.loads(key)) for key in parts])
        except (ValueError, RecursionError):
            raise UnreadableInput(f"{self._asker.client.access.url}: the labels of a series are not text") from None
        return [
            (
                series_labels,
                np.concatenate([times for times, _ in chunks]),
                np.concatenate([values for _, values in chunks]),
            )
            for series_labels, chunks in zip(labels, parts.values(), strict=True)
        ]

    def spans(self, names: Sequence[str], more: str) -> list[SeriesSpan]:
        """Series by their first and last samples."""
        return [
            SeriesSpan(labels, float(values[np.argmax(times)]), int(times.min()), int(times.max()))
            for labels, times, values in self.series(names, more)
        ]

    def states(self, names: Sequence[str], more: str) -> dict[str, tuple[Times, Values]]:
        """The samples of each node, from all its series, ordered by time."""
        parts: dict[str, list[tuple[Times, Values]]] = defaultdict(list)
        for labels, times, values in self.series(names, more):
            parts[labels.get("node", "")].append((times, values))
        found = {}
        for node, chunks in parts.items():
            times = np.concatenate([times for times, _ in chunks])
            order = np.argsort(times, kind="stable")
            found[node] = times[order], np.concatenate([values for _, values in chunks])[order]
        return found

    def facts(self, names: Sequence[str], more: str) -> list[Fact]:
        """The last value of each series in the span."""
        rows = self.vector(f"last_over_time({self._asker.selector(names, more)}[{self.seconds}s])")
        labels = self._original([series for series, _ in rows])
        return [(series, value) for series, (_, value) in zip(labels, rows, strict=True)]

    def targets(self) -> dict[tuple[str, str], tuple[int, int]]:
        """First and last samples in the span of each kube-state-metrics target, by (instance, job)."""
        selector = self._asker.selector(("kube_pod_info",))
        spans = f"timestamp({selector})[{self.seconds}s:{STEP_S}s]"
        found: dict[tuple[str, str], list[int]] = {}
        for function in ("min", "max"):
            for labels, value in self.vector(f"{function} by (instance, job) ({function}_over_time({spans}))"):
                key = labels.get("instance", ""), labels.get("job", "")
                found.setdefault(key, []).append(round(value * SECOND_US))
        return {key: (times[0], times[-1]) for key, times in found.items()}

    def vector(self, query: str) -> list[Fact]:
        """The answer to a query at the end of the span."""
        at_s = -(-self.end_us // SECOND_US)
        return self._asker.with_retries(lambda: self._asker.client.vector(query, at_s))

    def _original(self, labels: list[dict[str, str]]) -> list[dict[str, str]]:
        self.moved |= any("exported_pod" in series for series in labels)
        self.moved_nodes |= any("exported_node" in series and "pod" not in series for series in labels)
        return original_labels(labels)


def node_states(
    ready: tuple[Times, Values] | None, cordoned: tuple[Times, Values] | None, end_us: int
) -> list[tuple[int, bool | None, bool, int | None]]:
    """(time, ready, cordoned, since when or None) of a node: at its first sample, at each change, and at its last sample.

    A node without state metrics has one entry, at the end of the span.
    """
    if ready is None and cordoned is None:
        return [(end_us, None, False, None)]
    times = np.unique(np.concatenate([samples[0] for samples in (ready, cordoned) if samples is not None]))
    up, out = _state_at(ready, times, 1.0), _state_at(cordoned, times, 0.0)
    changed = np.flatnonzero((up[1:] != up[:-1]) | (out[1:] != out[:-1])) + 1
    found: list[tuple[int, bool | None, bool, int | None]] = []
    since_us: int | None = None
    for place in sorted({0, *changed.tolist(), len(times) - 1}):
        if place in changed:
            since_us = int(times[place])
        found.append((int(times[place]), None if ready is None else bool(up[place]), bool(out[place]), since_us))
    return found


def _state_at(samples: tuple[Times, Values] | None, times: Times, default: float) -> NDArray[np.bool_]:
    """Whether a state was 1 at each time, by the latest sample before it, or the first one."""
    if samples is None:
        return np.full(len(times), default == 1.0)
    place = np.clip(np.searchsorted(samples[0], times, side="right") - 1, 0, None)
    return np.asarray(samples[1][place] == 1)


def any_of(texts: Iterable[str]) -> str:
    """A regular expression that matches any of the texts, escaped for a matcher."""
    return "|".join(re.escape(text).replace("\\", "\\\\") for text in dict.fromkeys(texts))
