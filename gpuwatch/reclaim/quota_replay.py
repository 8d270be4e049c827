"""Replays a team's own runs under a quota of GPUs. Pure; a run keeps its length and never starts before it did."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Held:
    """A run that held GPUs, from its start to its end or to the end of the window."""

    number: int
    gpus: Fraction
    start_us: int
    end_us: int


@dataclass(frozen=True)
class Moved:
    """A run under the quota: when it starts, or None if it asks for more than the quota."""

    run: Held
    start_us: int | None

    @property
    def delay_us(self) -> int:
        return 0 if self.start_us is None else self.start_us - self.run.start_us


def under_quota(runs: Iterable[Held], quota: Fraction, from_us: int) -> list[Moved]:
    """Every run with its start under the quota, in order of its own start.

    Runs that began before `from_us` go on as they are. Later ones start when the team's runs leave enough of the quota, in the
    order in which they started; one that does not fit does not hold up the others.
    """
    found: list[Moved] = []
    waiting: dict[Fraction, deque[Held]] = defaultdict(deque)
    ends: list[tuple[int, int, Fraction]] = []
    used = Fraction(0)

    def start(run: Held, at_us: int) -> None:
        nonlocal used
        used += run.gpus
        heapq.heappush(ends, (at_us + run.end_us - run.start_us, run.number, run.gpus))
        found.append(Moved(run, at_us))

    def start_waiting(at_us: int) -> None:
        while True:
            fitting = [line[0] for size, line in waiting.items() if line and used + size <= quota]
            if not fitting:
                return
            run = min(fitting, key=lambda one: (one.start_us, one.number))
            waiting[run.gpus].popleft()
            start(run, at_us)

    def end_until(at_us: int | None) -> None:
        nonlocal used
        while ends and (at_us is None or ends[0][0] <= at_us):
            ended_us = ends[0][0]
            while ends and ends[0][0] == ended_us:
                used -= heapq.heappop(ends)[2]
            start_waiting(ended_us)

    for run in sorted(runs, key=lambda one: (one.start_us, one.number)):
        end_until(run.start_us)
        if run.start_us < from_us:
            start(run, run.start_us)
        elif run.gpus > quota:
            found.append(Moved(run, None))
        else:
            waiting[run.gpus].append(run)
            start_waiting(run.start_us)
    end_until(None)
    return sorted(found, key=lambda one: (one.run.start_us, one.run.number))


def peak(runs: Iterable[Held]) -> Fraction:
    """The most GPUs that were held at once."""
    changes = sorted(change for one in runs for change in ((one.start_us, one.gpus), (one.end_us, -one.gpus)))
    most = held = Fraction(0)
    for _, gpus in changes:
        held += gpus
        most = max(most, held)
    return most
