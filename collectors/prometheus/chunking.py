"""Asking a Prometheus server for all of something in pieces that it answers: smaller ones, and later, when it refuses."""

from __future__ import annotations

import math
import random
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gpuwatch.collectors.prometheus.http import LARGE, LATER, NEVER, Client, Refused
from gpuwatch.collectors.prometheus.response import Matrix, matrix
from gpuwatch.collectors.shared.live_options import backoff_s
from gpuwatch.core.clock import SECOND_US

TRIES = 8
FIRST_WAIT_S, MOST_WAIT_S = 1.0, 60.0
LEAST_SAMPLES = 100
"""A server that refuses so few is not asked for fewer."""
LEAST_S = 1
GROW_AFTER, GROWTH = 50, 1.25
MAX_NAMES = 1_000
MARGIN_S = 1
"""Prometheus before 3 takes a range with both its ends, from 3 on without its start: more is asked for, and cut here."""
MAX_QUERY_BYTES = 4_000
"""Proxies refuse addresses of more than 8 KiB, VictoriaMetrics queries of more than 16."""
_MATCHER = r'\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"\s*'
_MATCHERS = re.compile(rf"{_MATCHER}(?:,{_MATCHER})*,?\s*")
T = TypeVar("T")


class Asker:
    """Queries one server patiently. May be used from many threads: what one learns of a limit holds for all."""

    def __init__(
        self,
        client: Client,
        match: str = "",
        most_samples: int = 250_000,
        stop: threading.Event | None = None,
        tries: int = TRIES,
    ) -> None:
        """`match` are further matchers (see matchers_of); `most_samples` is the most to ask for in one query; `tries`
        is how often to ask a server that says "later"."""
        self.client = client
        self.match = match
        self._tries = tries
        self.most_samples = self._wished = most_samples
        self._good = 0
        self._of_series = False
        self._answered = False
        """Whether the server ever did: one that cannot be reached at first is told at once."""
        self._stop = stop or threading.Event()

    def selector(self, names: Sequence[str], more: str = "") -> str:
        """The series of some metrics that this source is about."""
        if len(names) == 1:
            found = [f'__name__="{names[0]}"']
        else:
            found = [f'__name__=~"{"|".join(map(re.escape, names))}"']
        return "{" + ",".join([*found, *filter(None, (self.match, more))]) + "}"

    def patient(self, ask: Callable[[], T]) -> T:
        """What `ask` answers, tried again after a pause where that helps. Raises Refused."""
        for attempt in range(1, self._tries + 1):
            try:
                found = ask()
                self._answered = True
                return found
            except Refused as refused:
                first = not self._answered and not refused.status
                if refused.helps != LATER or first or attempt == self._tries or self._stop.is_set():
                    raise
                told = (refused.retry_after_s or 0.0) + random.random()
                self._stop.wait(max(backoff_s(attempt, FIRST_WAIT_S, MOST_WAIT_S), told))
        raise AssertionError("no tries")

    def raw(
        self, names: Sequence[str], start_us: int, end_us: int, samples_a_second: float, more: str = ""
    ) -> Iterator[tuple[Matrix, int]]:
        """Every raw sample of [start_us, end_us), whole seconds, as matrices with the bytes of their answers.

        `samples_a_second` is about what a query of all names meets. What is no number is left out.
        Raises Refused when the server does not answer the smallest question either.
        """
        each = samples_a_second / max(len(names), 1)
        todo = [_Piece(group, start_us, end_us) for group in _groups(names, self._share(each, start_us, end_us))]
        todo.reverse()
        while todo:
            piece = todo.pop()
            if self._stop.is_set():
                raise Refused(f"{self.client.access.url}: stopped", NEVER)
            expected = each * piece.weight
            if expected > self.most_samples and (halves := piece.halves(self._of_series)):
                todo += reversed(halves)
                continue
            seconds = math.ceil((piece.end_us - piece.start_us) / SECOND_US) + MARGIN_S
            selector = self.selector(piece.names, ",".join(filter(None, (more, *piece.matchers))))
            query, at_s = f"{selector}[{seconds}s]", math.ceil(piece.end_us / SECOND_US)
            try:
                body = self.patient(lambda query=query, at=at_s: self.client.matrix(query, at))  # type: ignore[misc]
            except Refused as refused:
                halves = piece.halves(refused.of_series) if refused.helps == LARGE else []
                self._of_series |= refused.of_series
                if not halves:
                    raise
                self._learn(expected)
                todo += reversed(halves)
            else:
                self._learn(None)
                yield matrix(body).within(piece.start_us, piece.end_us), len(body)

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


@dataclass(frozen=True)
class _Piece:
    """A question: some metrics in a span, of the devices that matchers leave."""

    names: list[str]
    start_us: int
    end_us: int
    matchers: tuple[str, ...] = ()

    @property
    def weight(self) -> float:
        """Its share of the samples of a metric in a second, times seconds."""
        return len(self.names) * (self.end_us - self.start_us) / SECOND_US / (1 << len(self.matchers))

    def halves(self, of_series: bool) -> list[_Piece]:
        """The question in two: by metrics, then one metric by time, then by devices; `of_series` changes the last two.

        None where it cannot be smaller.
        """
        if len(self.names) > 1:
            middle = len(self.names) // 2
            return [replace(self, names=self.names[:middle]), replace(self, names=self.names[middle:])]
        ways = [self._by_time, self._by_devices]
        return next((found for way in (reversed(ways) if of_series else ways) if (found := way())), [])

    def _by_time(self) -> list[_Piece]:
        seconds = (self.end_us - self.start_us) // SECOND_US
        at_us = self.start_us + seconds // 2 * SECOND_US
        return [replace(self, end_us=at_us), replace(self, start_us=at_us)] if seconds > LEAST_S else []

    def _by_devices(self) -> list[_Piece]:
        if len(self.matchers) >= len(_DEVICES):
            return []
        devices = _DEVICES[len(self.matchers)]
        both = (f'UUID{sign}"{devices}"' for sign in ("=~", "!~"))  # the second has also what has no such label
        return [replace(self, matchers=(*self.matchers, one)) for one in both]


_DEVICES = tuple(
    f".*[{''.join(c for c in '0123456789abcdefABCDEF' if int(c, 16) >> bit & 1)}]{'.' * place}"
    for place in range(2)
    for bit in range(4)
)
"""Regular expressions of about half of all UUIDs each, independent of each other: a bit of their last digits."""


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
