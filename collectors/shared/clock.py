"""Clock offset of a server, from the `Date` header of its answers."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from gpuwatch.core.clock import MINUTE_US, SECOND_US, to_us

if TYPE_CHECKING:
    import aiohttp  # takes 0.2 s to import, which most commands do not need

EVERY_US = MINUTE_US
"""How often a clock is checked."""
SLOW_US = 2 * SECOND_US
"""A slower answer is ignored: its date is too uncertain."""


class ClockCheck:
    """Checks the clock of one target regularly."""

    def __init__(self, report: Callable[[int, int], None]) -> None:
        """`report(offset, at)` is called for each check, in microseconds."""
        self._report = report
        self._last_us: int | None = None

    def due(self, now_us: int) -> bool:
        """Whether the next check is due."""
        return self._last_us is None or abs(now_us - self._last_us) >= EVERY_US

    def check(self, date: str, asked_us: int, answered_us: int) -> None:
        """Takes the date of an answer, with the times of its request and its first byte."""
        self._last_us = answered_us
        found = offset_us(date, asked_us, answered_us)
        if found is not None:
            self._report(found, answered_us)


def traces(clock: ClockCheck, now_us: Callable[[], int]) -> list[aiohttp.TraceConfig]:
    """What makes an aiohttp session check the clock of its server by its answers."""
    import aiohttp

    async def asked(_: Any, context: Any, __: Any) -> None:
        context.asked_us = now_us()

    async def answered(_: Any, context: Any, end: Any) -> None:
        at_us = now_us()
        if clock.due(at_us):
            clock.check(end.response.headers.get("Date", ""), context.asked_us, at_us)

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(asked)
    trace.on_request_end.append(answered)
    return [trace]


def offset_us(date: str, asked_us: int, answered_us: int) -> int | None:
    """How far the clock that wrote `date` is ahead of ours, in microseconds; None if unknown.

    A date has whole seconds, so it stands for the middle of its second, and of the time that the answer took.
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
