"""How long tests wait: until something happens, under one generous ceiling.

A wait ends when its condition holds, so the ceiling costs nothing where all goes well; it only ends what hangs.
GPUWATCH_TEST_PATIENCE multiplies every ceiling, for a machine that is slow or busy: `GPUWATCH_TEST_PATIENCE=4 make test`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

FACTOR = float(os.environ.get("GPUWATCH_TEST_PATIENCE", "1"))
PATIENCE_S = 120.0 * FACTOR
"""The ceiling of one wait: for an answer, a thread, a process or a condition."""
PATIENCE_MS = PATIENCE_S * 1000
HANG_S = 0.5 * FACTOR
"""The time-out under which something is to be found hanging; what answers in such a test gets PATIENCE_S."""
POLL_S = 0.02
"""Pause between two checks of a condition."""
NOT_YET = (OSError, ValueError, LookupError)
"""What a condition may raise while what it asks is starting."""


def wait_until(
    condition: Callable[[], T],
    what: str,
    seconds: float = 120.0,
    *,
    poll_s: float = POLL_S,
) -> T:
    """Checks a condition until it is true, and returns its value. Fails naming `what` after `seconds` times the factor.

    An error of a server that is not up yet, or of an answer that is not complete yet, is tried again.
    """
    end, last = time.monotonic() + seconds * FACTOR, None
    while True:
        try:
            if found := condition():
                return found
        except NOT_YET as error:
            last = error
        if time.monotonic() >= end:
            raise AssertionError(f"not within {seconds * FACTOR:g} s: {what}" + (f" ({last!r})" if last else ""))
        time.sleep(poll_s)


async def wait_until_async(condition: Callable[[], T], what: str, seconds: float = 120.0) -> T:
    """The same on an event loop: the condition runs in a thread, so it may block."""
    return await asyncio.to_thread(wait_until, condition, what, seconds, poll_s=0.1)


async def wait_until_on_loop(condition: Callable[[], T], what: str, seconds: float = 120.0) -> T:
    """The same for a condition that reads what the event loop itself writes: it runs on the loop and must not block."""
    end = time.monotonic() + seconds * FACTOR
    while not (found := condition()):
        if time.monotonic() >= end:
            raise AssertionError(f"not within {seconds * FACTOR:g} s: {what}")
        await asyncio.sleep(0.1)
    return found
