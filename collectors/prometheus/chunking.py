"""Reads everything from a Prometheus server: splits queries that are too large, and retries those that come too early."""

from __future__ import annotations

import logging
import math
import random
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gpuwatch.collectors.prometheus.http import Client
from gpuwatch.collectors.prometheus.refusals import LARGE, LATER, NEVER, Refused
from gpuwatch.collectors.prometheus.response import Matrix, parse_matrix
from gpuwatch.collectors.shared.live_options import backoff_s
from gpuwatch.core.clock import SECOND_US

TRIES = 8
FIRST_WAIT_S, MOST_WAIT_S = 1.0, 60.0
LEAST_SAMPLES = 100
"""The lower limit for the samples of one query."""
LEAST_S = 1
GROW_AFTER, GROWTH = 50, 1.25
MAX_NAMES = 1_000
MARGIN_S = 1
"""Ranges include their start before Prometheus 3, and exclude it from 3 on: this margin is requested and cut off here."""
MAX_QUERY_BYTES = 4_000
"""Proxies refuse addresses above 8 KiB, VictoriaMetrics queries above 16 KiB."""
_MATCHER = r'\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"\s*'
_MATCHERS = re.compile(rf"{_MATCHER}(?:,{_MATCHER})*,?\s*")
T = TypeVar("T")
_log = logging.getLogger(__name__)


class QueryRunner:
    """Queries one server with retries. Threads share it, and the limits that it learns."""

    def __init__(
        self,
        client: Client,
        match: str = "",
        most_samples: int = 250_000,
        stop: threading.Event | None = None,
        tries: int = TRIES,
    ) -> None:
        """`match` are additional matchers (see matchers_of); `most_samples` is the limit for one query; `tries`
        is the number of attempts while a server answers "later"."""
        self.client = client
        self.match = match
        self._tries = tries
        self.most_samples = self._max_samples = most_samples
        self._good = 0
        self._of_series = False
        self._answered = False
        """Whether the server ever answered: if it is unreachable at first, there is no retry."""
        self._stop = stop or threading.Event()

    def selector(self, names: Sequence[str], more: str = "") -> str:
        """A selector of the series of some metrics."""
        if len(names) == 1:
            found = [f'__name__="{names[0]}"']
        else:
            found = [f'__name__=~"{"|".join(map(re.escape, names))}"']
        return "{" + ",".join([*found, *filter(None, (self.match, more))]) + "}"

    def with_retries(self, ask: Callable[[], T]) -> T:
        """The result of `ask`, retried after a pause if that helps. Raises Refused."""
        for attempt in range(1, self._tries + 1):
            try:
                found = ask()
                self._answered = True
                return found
            except Refused as refused:
                first = not self._answered and not refused.status
                if refused.remedy != LATER or first or attempt == self._tries or self._stop.is_set():
                    raise
                requested_s = (refused.retry_after_s or 0.0) + random.random()
                wait_s = max(backoff_s(attempt, FIRST_WAIT_S, MOST_WAIT_S), requested_s)
                _log.warning("%s; trying again in %.0f s (%d of %d)", refused, wait_s, attempt, self._tries - 1)
                self._stop.wait(wait_s)
        raise AssertionError("no tries")

    def raw_samples(
        self,
        names: Sequence[str],
        start_us: int,
        end_us: int,
        samples_a_second: float,
        more: str = "",
        step_s: int = 0,
    ) -> Iterator[tuple[Matrix, int]]:
        """Every raw sample of [start_us, end_us), whole seconds, as matrices with the bytes of their answers.

        `samples_a_second` is an estimate for all names together. Values that are not numbers are left out. With
        `step_s`, the latest sample of every `step_s` seconds instead, at multiples of `step_s`.
        Raises Refused if the server refuses the smallest query too.
        """
        each = samples_a_second / max(len(names), 1)
        todo = [_Query(group, start_us, end_us) for group in _groups(names, self._share(each, start_us, end_us))]
        todo.reverse()
        while todo:
            query = todo.pop()
            if self._stop.is_set():
                raise Refused(f"{self.client.access.url}: stopped", NEVER)
            expected = each * query.weight
            if expected > self.most_samples and (halves := query.halves(self._of_series)):
                todo += reversed(halves)
                continue
            selector = self.selector(query.names, ",".join(filter(None, (more, *query.matchers))))
            text, at_s = _span_query(selector, query.start_us, query.end_us, step_s)
            try:
                body = self.with_retries(lambda text=text, at=at_s: self.client.matrix(text, at))  # type: ignore[misc]
            except Refused as refused:
                halves = query.halves(refused.of_series) if refused.remedy == LARGE else []
                self._of_series |= refused.of_series
                if not halves:
                    raise
                self._learn(expected)
                todo += reversed(halves)
            else:
                self._learn(None)
                yield parse_matrix(body).within(query.start_us, query.end_us), len(body)

    def _learn(self, refused: float | None) -> None:
        """Lowers the limit after a refusal, and raises it slowly after many answers: the server may have been busy."""
        if refused is not None:
            self._good = 0
            if refused > 0:
                self.most_samples = min(self.most_samples, max(int(refused / 2), LEAST_SAMPLES))
            return
        self._good += 1
        if self._good >= GROW_AFTER and self.most_samples < self._max_samples:
            self._good = 0
            self.most_samples = min(self._max_samples, math.ceil(self.most_samples * GROWTH))

    def _share(self, each: float, start_us: int, end_us: int) -> int:
        """How many metrics fit into one query over the whole span."""
        one = each * (end_us - start_us) / SECOND_US
        return max(int(self.most_samples / one), 1) if one > 0 else MAX_NAMES


def _span_query(selector: str, start_us: int, end_us: int, step_s: int) -> tuple[str, int]:
    """A query for the samples of a span, and its time. With a step, at its multiples, where each server evaluates it."""
    if not step_s:
        return f"{selector}[{math.ceil((end_us - start_us) / SECOND_US) + MARGIN_S}s]", math.ceil(end_us / SECOND_US)
    first, last = start_us // SECOND_US // step_s - 1, -(-end_us // (SECOND_US * step_s))
    return f"last_over_time({selector}[{step_s}s])[{(last - first) * step_s}s:{step_s}s]", last * step_s


def _groups(names: Sequence[str], size: int) -> list[list[str]]:
    """Names in groups of at most `size`, and short enough for one query."""
    groups: list[list[str]] = [[]]
    length = 0
    for name in names:
        if len(groups[-1]) >= size or (groups[-1] and length + len(name) > MAX_QUERY_BYTES):
            groups.append([])
            length = 0
        groups[-1].append(name)
        length += len(name) + 1
    return [group for group in groups if group]


@dataclass(frozen=True)
class _Query:
    """A query: some metrics in a span, of the devices that match."""

    names: list[str]
    start_us: int
    end_us: int
    matchers: tuple[str, ...] = ()

    @property
    def weight(self) -> float:
        """Its share of the samples of a metric in a second, times seconds."""
        return len(self.names) * (self.end_us - self.start_us) / SECOND_US / (1 << len(self.matchers))

    def halves(self, of_series: bool) -> list[_Query]:
        """Splits the query by metrics; a single metric by time, then by devices; with `of_series` by devices first.

        Empty if it cannot be split.
        """
        if len(self.names) > 1:
            middle = len(self.names) // 2
            return [replace(self, names=self.names[:middle]), replace(self, names=self.names[middle:])]
        ways = [self._by_time, self._by_devices]
        return next((found for way in (reversed(ways) if of_series else ways) if (found := way())), [])

    def _by_time(self) -> list[_Query]:
        seconds = (self.end_us - self.start_us) // SECOND_US
        at_us = self.start_us + seconds // 2 * SECOND_US
        return [replace(self, end_us=at_us), replace(self, start_us=at_us)] if seconds > LEAST_S else []

    def _by_devices(self) -> list[_Query]:
        if len(self.matchers) >= len(_DEVICES):
            return []
        devices = _DEVICES[len(self.matchers)]
        both = (f'UUID{sign}"{devices}"' for sign in ("=~", "!~"))  # the second also matches series without that label
        return [replace(self, matchers=(*self.matchers, one)) for one in both]


_DEVICES = tuple(
    f".*[{''.join(c for c in '0123456789abcdefABCDEF' if int(c, 16) >> bit & 1)}]{'.' * place}"
    for place in range(2)
    for bit in range(4)
)
"""Regular expressions of about half of all UUIDs each, independent of each other: a bit of their last digits."""


def parse_matchers(text: str) -> str:
    """Checks label matchers of a selector, with or without braces. Raises ValueError."""
    inside = text.strip()
    if inside.startswith("{") and inside.endswith("}"):
        inside = inside[1:-1]
    inside = inside.strip().rstrip(",")
    if inside and not _MATCHERS.fullmatch(inside):
        raise ValueError(f'{text!r} is not a label selector; write {{cluster="c1",job="dcgm-exporter"}}')
    if "__name__" in inside:
        raise ValueError(f"{text!r} names metrics: gpuwatch selects the metrics it needs itself")
    return inside
