"""The polling loop of a source: a regular interval, and longer pauses while it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gpuwatch.collectors.shared.live_options import backoff_s
from gpuwatch.core.clock import SECOND_US

MAX_WAIT_S = 30.0
"""Maximum pause that failures add to the interval."""
LEAST_WAIT_S = 0.1


async def rounds(poll: Callable[[], Awaitable[bool]], interval_s: float, now_us: Callable[[], int]) -> None:
    """Polls forever, `interval_s` seconds from start to start, with longer pauses after polls that return False."""
    failures = 0
    while True:
        started_us = now_us()
        failures = 0 if await poll() else failures + 1
        spent_s = max(0, now_us() - started_us) / SECOND_US
        wait_s = interval_s + (backoff_s(failures, interval_s, MAX_WAIT_S) if failures else 0.0)
        await asyncio.sleep(max(LEAST_WAIT_S, wait_s - spent_s))
