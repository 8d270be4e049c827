"""Recorded requests again on fewer GPUs: how long they would have waited."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

from gpuwatch.core.clock import MINUTE_US


@dataclass(frozen=True)
class Request:
    """GPUs that were held from start_us to end_us."""

    start_us: int
    end_us: int
    units: int


@dataclass(frozen=True)
class Waits:
    """Requests of a replay: how many, how many waited, how long on average over all and at most, and how many never fit."""

    requests: int
    delayed: int
    mean_us: int
    longest_us: int
    too_large: int

    def sentence(self) -> str:
        """What the waits are, in minutes."""
        if not self.delayed and not self.too_large:
            return f"none of {self.requests} requests would wait"
        text = (
            f"{self.delayed} of {self.requests} requests would wait, {self.mean_us / MINUTE_US:.1f} minutes on average over all "
            f"and {self.longest_us / MINUTE_US:.1f} at most"
        )
        return f"{text}; {self.too_large} would not fit at all" if self.too_large else text


def replay(requests: Iterable[Request], capacity: int) -> Waits:
    """Requests in the order of their start on `capacity` units, each as long as it was; none overtakes an earlier one."""
    free, clock, running = capacity, 0, list[tuple[int, int]]()
    count = delayed = total = longest = too_large = 0
    for one in sorted(requests, key=lambda request: request.start_us):
        count += 1
        if one.units > capacity:
            too_large += 1
            continue
        clock = max(clock, one.start_us)
        while running and (running[0][0] <= clock or free < one.units):
            end_us, units = heappop(running)
            clock, free = max(clock, end_us), free + units
        free -= one.units
        heappush(running, (clock + one.end_us - one.start_us, one.units))
        wait = clock - one.start_us
        delayed, total, longest = delayed + (wait > 0), total + wait, max(longest, wait)
    return Waits(count, delayed, total // max(count - too_large, 1), longest, too_large)
