"""The spans of time in which a backfill reads history, and their length."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from gpuwatch.core.clock import SECOND_US, second_floor

CHUNK_SAMPLES = 500_000
"""The approximate number of samples per transaction."""
LENGTHS_S = (60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""Possible lengths of a span; each divides a day."""


def missing_spans(
    since_us: int, until_us: int, settled_us: int, length_us: int, done: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """The missing spans of [since_us, until_us), in order: at most `length_us` long, split at its multiples.

    The time after `settled_us` is a separate span, so that only this one must be read again.
    """
    settled_us = second_floor(settled_us)
    at = since_us
    skip = deque(done)
    while at < until_us:
        while skip and skip[0][1] <= at:
            skip.popleft()
        if skip and skip[0][0] <= at:
            at = skip[0][1]
            continue
        end = min(until_us, (at // length_us + 1) * length_us)
        if skip:
            end = min(end, skip[0][0])
        if at < settled_us:
            end = min(end, settled_us)
        yield at, end
        at = end


def span_length(samples_a_second: float) -> int:
    """The longest of LENGTHS_S with at most CHUNK_SAMPLES, in microseconds."""
    fitting = [s for s in LENGTHS_S if s * samples_a_second <= CHUNK_SAMPLES]
    return max(fitting, default=LENGTHS_S[0]) * SECOND_US
