"""How far the clock of a target differs from ours, by the header `Date` of its answers."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import parsedate_to_datetime

from gpuwatch.core.clock import MINUTE_US, SECOND_US, to_us

EVERY_US = MINUTE_US
"""A clock is looked at that often."""
SLOW_US = 2 * SECOND_US
"""An answer that takes longer says too little of when its date was written."""


class Look:
    """Looks at the clock of one target now and then."""

    def __init__(self, told: Callable[[int, int], None]) -> None:
        """`told(offset, at)` is called with each look, microseconds."""
        self._told = told
        self._last_us: int | None = None

    def due(self, now_us: int) -> bool:
        """Whether it is time for another look."""
        return self._last_us is None or abs(now_us - self._last_us) >= EVERY_US

    def at(self, date: str, asked_us: int, answered_us: int) -> None:
        """Takes the date of an answer that was asked for and began to come at these times."""
        self._last_us = answered_us
        found = offset_us(date, asked_us, answered_us)
        if found is not None:
            self._told(found, answered_us)


def offset_us(date: str, asked_us: int, answered_us: int) -> int | None:
    """How far a clock is ahead of ours that wrote `date` meanwhile, microseconds; None where that cannot be told.

    A date has whole seconds: it stands for the middle of its second, and for the middle of the time the answer took.
    """
    if not 0 <= answered_us - asked_us <= SLOW_US:
        return None
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        return None
    return to_us(moment) + SECOND_US // 2 - (asked_us + answered_us) // 2
