"""The times of a run, from local times that may mean two instants: clocks repeat an hour when they are set back. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from gpuwatch.collectors.slurm.text import CACHED_TIMES, known, possible_times
from gpuwatch.core.clock import MINUTE_US, to_us
from gpuwatch.core.model import RUN_US_MAX

RUNNING_STATES = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "CONFIGURING", "SIGNALING"})
"""States in which End is not an end: it is unknown, or the end of the requested window (`sacct -T`)."""
TIME_LABEL = "gpuwatch.io/local-time"
"""The label of a run whose times could be others as well."""
ESTIMATED = {TIME_LABEL: "estimated"}


def is_estimated(labels: str) -> bool:
    """Whether the labels of a row say so: a comment of the user may have the same words as a value."""
    return TIME_LABEL in labels and json.loads(labels).get(TIME_LABEL) is not None


class RunTimes(NamedTuple):
    """Instants (µs), each None when unset."""

    submit_us: int | None
    start_us: int | None
    end_us: int | None
    guessed: bool = False
    """Start or end could be another instant as well."""
    submit_guessed: bool = False


def run_times(submit: str | None, start: str | None, end: str | None, length_us: int | None, tz: ZoneInfo) -> RunTimes:
    """The reading in which the end follows the start, the start the submission, and the length comes nearest to `length_us`.

    Where several fit, it is the one whose spans are as long as the printed times differ: never longer. Raises ValueError when the
    end always precedes the start, or comes years after it.
    """
    submits, starts, ends = (possible_times(text, tz) or (None,) for text in (submit, start, end))
    readings = [RunTimes(a, b, c) for a, b, c in product(submits, starts, ends)]
    if len(readings) == 1:
        return _checked(readings[0])
    printed = RunTimes(naive_us(known(submit) or ""), naive_us(known(start) or ""), naive_us(known(end) or ""))
    fitting = _least(readings, lambda one: (_span(one.start_us, one.end_us) or 0) < 0)
    fitting = _least(fitting, lambda one: _missed(one, length_us), MINUTE_US)
    # A job that was resized has a record whose submission is the time of the change.
    fitting = _least(fitting, lambda one: (_span(one.submit_us, one.start_us) or 0) < 0)
    chosen = min(fitting, key=lambda one: (*_difference(one, printed), one.start_us or 0))
    return _checked(
        chosen._replace(
            guessed=len({one[1:3] for one in fitting}) > 1,
            submit_guessed=len({one.submit_us for one in fitting}) > 1,
        )
    )


def submission(submit: str | None, seen: Iterable[str | None], tz: ZoneInfo) -> tuple[int | None, int | None]:
    """When a request that waits was submitted, and the last of the times at which it was seen, None where it has none.

    Of two readings of a submission it is the later one, unless the request was seen before: no wait is longer than what is certain.
    """
    submits, times = possible_times(submit, tz), [readings for text in seen if (readings := possible_times(text, tz))]
    possible = [us for us in submits if all(max(readings) >= us for readings in times)] or list(submits[:1])
    submit_us = max(possible, default=None)
    later = [next((us for us in sorted(one) if us >= (submit_us or 0)), max(one)) for one in times]
    return submit_us, max(later, default=None)


def check_span(start_us: int, end_us: int) -> None:
    """Raises ValueError for a run that ends before it starts, or years later."""
    if end_us < start_us:
        raise ValueError("end precedes start")
    if end_us - start_us > RUN_US_MAX:
        raise ValueError("lasts longer than five years")


def _least(readings: list[RunTimes], badness: Callable[[RunTimes], int], slack: int = 0) -> list[RunTimes]:
    """The readings that are as good as the best one."""
    best = min(badness(one) for one in readings)
    return [one for one in readings if badness(one) <= best + slack]


def _missed(one: RunTimes, length_us: int | None) -> int:
    """How far the length is from the known one. It is printed in seconds; readings differ by half an hour at least."""
    length = _span(one.start_us, one.end_us)
    return 0 if length is None or length_us is None else abs(length - length_us)


def _difference(one: RunTimes, printed: RunTimes) -> tuple[int, int]:
    """How far the length and the wait are from those between the printed times."""
    lengths, waits = (
        [max(0, _span(times[first], times[first + 1]) or 0) for times in (one, printed)] for first in (1, 0)
    )
    return abs(lengths[0] - lengths[1]), abs(waits[0] - waits[1])


def _span(from_us: int | None, to_us: int | None) -> int | None:
    return None if from_us is None or to_us is None else to_us - from_us


def _checked(times: RunTimes) -> RunTimes:
    if times.start_us is not None and times.end_us is not None:
        check_span(times.start_us, times.end_us)
    return times


def as_printed(text: str | None, tz: ZoneInfo) -> dict[str, Any]:
    """The columns `naive_us` and `naive_zone` of a local time; none for a time with an offset."""
    naive = naive_us(known(text) or "")
    return {} if naive is None else {"naive_us": naive, "naive_zone": tz.key}


@lru_cache(CACHED_TIMES)
def naive_us(printed: str) -> int | None:
    """A local time as if it were UTC, None for one with an offset."""
    try:
        moment = None if printed.isdigit() else datetime.fromisoformat(printed)
    except ValueError:
        return None
    return None if moment is None or moment.tzinfo is not None else to_us(moment.replace(tzinfo=UTC))
