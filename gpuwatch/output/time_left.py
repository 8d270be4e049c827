"""How long a long command still takes: a number that only falls, and reaches zero at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping

PART_MIN = 0.02
"""Before this much is done, nothing is shown."""


class TimeLeft:
    """Seconds left, from the part that is done. The number never grows: where work takes longer than it looked, it falls more
    slowly, so it neither jumps nor stands at zero while work goes on.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._begun, self._seen = clock, clock(), clock()
        self._shown: float | None = None
        self._part = 0.0

    def seconds(self, part: float) -> float | None:
        """Seconds left where `part` (0..1) of the work is done; None while too little is done to say."""
        now = self._clock()
        passed, self._seen = now - self._seen, now
        part = min(max(part, 0.0), 1.0)
        if part < self._part:  # other work begins
            self._begun, self._shown = now, None
        self._part = part
        if part < PART_MIN:
            return None
        expected = (now - self._begun) * (1 - part) / part
        if self._shown is None:
            self._shown = expected
        elif expected <= 0:
            self._shown = 0.0
        else:
            # It falls by as much of itself as passed of what is expected.
            self._shown *= expected / (expected + passed)
        return self._shown


class Phases:
    """The part of the whole that is done, of work in phases that take different shares of the time."""

    def __init__(self, shares: Mapping[str, float]) -> None:
        whole = sum(shares.values())
        self._shares = {name: share / whole for name, share in shares.items()}
        self._before = 0.0
        self._phase: str | None = None
        self._most = 0.0

    def part(self, phase: str, done: int, total: int) -> float:
        """0..1 after `done` of `total` of a phase; it never falls. Phases come in the order of their shares."""
        if phase != self._phase:
            names = list(self._shares)
            self._before = sum(self._shares[name] for name in names[: names.index(phase)])
            self._phase = phase
        self._most = max(self._most, self._before + self._shares[phase] * (done / total if total else 0.0))
        return self._most
