"""Asking a Prometheus server for all of something in pieces that it answers: smaller ones, and later, when it refuses."""

from __future__ import annotations

import math
import random
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from gpuwatch.clock import SECOND_US
from gpuwatch.collectors.live_options import backoff_s
from gpuwatch.collectors.prometheus_http import LARGE, LATER, NEVER, Client, Refused
from gpuwatch.collectors.prometheus_wire import Matrix, matrix

TRIES = 8
FIRST_WAIT_S, MOST_WAIT_S = 1.0, 60.0
LEAST_SAMPLES = 100
"""A server that refuses so few is not asked for fewer."""
LEAST_S = 1
GROW_AFTER, GROWTH = 50, 1.25
MAX_NAMES = 1_000
MARGIN_S = 1
"""Prometheus before 3 takes a range with both its ends, from 3 on without its start: more is asked for, and cut here."""
MAX_QUERY_BYTES = 12_000
"""VictoriaMetrics refuses queries of more than 16 KiB."""
_MATCHER = r'\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"\s*'
_MATCHERS = re.compile(rf"{_MATCHER}(?:,{_MATCHER})*,?\s*")
T = TypeVar("T")


class Asker:
    """Queries one server patiently. May be used from many threads: what one learns of a limit holds for all."""

    def __init__(
        self, client: Client, match: str = "", most_samples: int = 250_000, stop: threading.Event | None = None
    ) -> None:
        """`match` are further matchers (see matchers_of); `most_samples` is the most to ask for in one query."""
        self.client = client
        self.match = match
        self.most_samples = self._wished = most_samples
        self._good = 0
        self._stop = stop or threading.Event()

    def selector(self, names: Sequence[str], more: str = "") -> str:
        """The series of some metrics that this source is about."""
        if len(names) == 1:
            found = [f'__name__="{names[0]}"']
        else:
            found = [f'__name__=~"{"|".join(map(re.escape, names))}"']
        return "{" + ",".join([*found, *filter(None, (self.match, more))]) + "}"

    def patient(self, ask: Callable[[], T], tries: int = TRIES) -> T:
        """What `ask` answers, tried again after a pause where that helps. Raises Refused."""
        for attempt in range(1, tries + 1):
            try:
                return ask()
            except Refused as refused:
                if refused.helps != LATER or attempt == tries or self._stop.is_set():
                    raise
                told = (refused.retry_after_s or 0.0) + random.random()
                self._stop.wait(max(backoff_s(attempt, FIRST_WAIT_S, MOST_WAIT_S), told))
        raise AssertionError("no tries")

    def raw(
        self, names: Sequence[str], start_us: int, end_us: int, samples_a_second: float, more: str = ""
    ) -> Iterator[tuple[Matrix, int]]:
        """Every raw sample of [start_us, end_us), whole seconds, as matrices with the bytes of their answers.

        `samples_a_second` is about what a query of all names meets. A sample may come that lies outside: see MARGIN_S.
        Raises Refused when the server does not answer the smallest question either.
        """
        each = samples_a_second / max(len(names), 1)
        todo = [(group, start_us, end_us) for group in _groups(names, self._share(each, start_us, end_us))]
        todo.reverse()
        while todo:
            group, start, end = todo.pop()
            if self._stop.is_set():
                raise Refused(f"{self.client.access.url}: stopped", NEVER)
            expected = each * len(group) * (end - start) / SECOND_US
            if expected > self.most_samples and (halves := _halves(group, start, end)):
                todo += reversed(halves)
                continue
            seconds = math.ceil((end - start) / SECOND_US) + MARGIN_S
            query, at = f"{self.selector(group, more)}[{seconds}s]", math.ceil(end / SECOND_US)
            try:
                body = self.patient(lambda query=query, at=at: self.client.matrix(query, at))  # type: ignore[misc]
            except Refused as refused:
                halves = _halves(group, start, end) if refused.helps == LARGE else []
                if not halves:
                    raise
                self._learn(expected)
                todo += reversed(halves)
            else:
                self._learn(None)
                yield matrix(body), len(body)

    def _learn(self, refused: float | None) -> None:
        """Asks for less from now on after a refusal, and for a little more after many answers: it may have been slow."""
        if refused is not None:
            self._good = 0
            if refused > 0:
                self.most_samples = min(self.most_samples, max(int(refused / 2), LEAST_SAMPLES))
            return
        self._good += 1
        if self._good >= GROW_AFTER and self.most_samples < self._wished:
            self._good = 0
            self.most_samples = min(self._wished, math.ceil(self.most_samples * GROWTH))

    def _share(self, each: float, start_us: int, end_us: int) -> int:
        """How many metrics to ask for at a time: as many as stay below the limit over the whole span."""
        one = each * (end_us - start_us) / SECOND_US
        return max(int(self.most_samples / one), 1) if one > 0 else MAX_NAMES


def _groups(names: Sequence[str], size: int) -> list[list[str]]:
    """Names in groups of at most `size`, whose queries are not too long either."""
    groups: list[list[str]] = [[]]
    length = 0
    for name in names:
        if len(groups[-1]) >= size or (groups[-1] and length + len(name) > MAX_QUERY_BYTES):
            groups.append([])
            length = 0
        groups[-1].append(name)
        length += len(name) + 1
    return [group for group in groups if group]


def _halves(names: Sequence[str], start_us: int, end_us: int) -> list[tuple[list[str], int, int]]:
    """A question in two: by metrics, and one metric by time; none where it cannot be smaller."""
    if len(names) > 1:
        middle = len(names) // 2
        return [(list(names[:middle]), start_us, end_us), (list(names[middle:]), start_us, end_us)]
    seconds = (end_us - start_us) // SECOND_US
    if seconds <= LEAST_S:
        return []
    at = start_us + seconds // 2 * SECOND_US
    return [(list(names), start_us, at), (list(names), at, end_us)]


def matchers_of(text: str) -> str:
    """Label matchers as they stand in a selector, with or without its braces. Raises ValueError for anything else."""
    inside = text.strip()
    if inside.startswith("{") and inside.endswith("}"):
        inside = inside[1:-1]
    inside = inside.strip().rstrip(",")
    if inside and not _MATCHERS.fullmatch(inside):
        raise ValueError(f'{text!r} is no selector of labels; write {{cluster="c1",job="dcgm-exporter"}}')
    if "__name__" in inside:
        raise ValueError(f"{text!r} names metrics: gpuwatch asks for those that it needs itself")
    return inside
