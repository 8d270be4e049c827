"""The server's own clock: its steps, and whether other clocks confirm the time."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock

from gpuwatch.core.clock import HOUR_US, MINUTE_US, SECOND_US, rfc3339, second_floor

STEP_US = MINUTE_US
"""The wall clock stepped if it moves away from the uptime by more than this between two readings."""
AGREE_US = 10 * MINUTE_US
"""Another clock confirms a time that differs by no more than this."""
FRESH_US = 15 * MINUTE_US
"""How long a reading of another clock counts."""
OPINIONS_US = SECOND_US
"""How long the opinions of other clocks are not counted again, if none of them was read: each scrape asks for them."""
UNWITNESSED_US = HOUR_US
"""After this time without any other clock to compare with, a step is accepted."""
SOURCES_MAX = 1_000
STEPS_MAX = 1_000
"""Steps kept until they are stored; the oldest go first."""
CONFIRMED, WITHDRAWN, WRONG, UNCONFIRMED = "confirmed", "withdrawn", "wrong", "unconfirmed"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Step:
    """A step of the wall clock: when (by the time before it), how far (above 0: ahead), its outcome and who decided it."""

    at_us: int
    shift_us: int
    outcome: str = UNCONFIRMED
    source: str | None = None


@dataclass(frozen=True)
class _Reading:
    """Another clock, as its distance from the uptime. `direct`: a clock that was read, not the time of a pushed sample."""

    offset_us: int
    at_us: int
    direct: bool


@dataclass(frozen=True)
class _Time:
    """The clocks at one instant: uptime, and how far the trusted time and the wall clock are ahead of it."""

    uptime_us: int
    trusted_us: int
    wall_us: int

    def near(self, before: _Time) -> bool:
        """Whether so little has passed since `before` that other clocks have the same opinion of the trusted time."""
        passed_us = self.uptime_us - before.uptime_us
        return 0 <= passed_us < OPINIONS_US and abs(self.trusted_us - before.trusted_us) < OPINIONS_US


@dataclass(frozen=True)
class _Opinions:
    """The sources that confirm the trusted time, those that contradict it, and those that outvote it."""

    counted: _Time
    agree: list[str]
    contradict: list[str]
    outvoting: list[str]


class OwnClock:
    """The time that gpuwatch works with. Thread-safe.

    It follows the wall clock, except after a step: until another clock confirms the new time, it goes on from the time
    before the step. `uptime_us` is a clock that cannot be set; without it, steps are not detected.
    """

    def __init__(
        self, wall_us: Callable[[], int], uptime_us: Callable[[], int] | None = None, offset_us: int | None = None
    ) -> None:
        """`offset_us` is how far the wall clock was ahead of this uptime when it was last trusted, by an earlier process."""
        self._wall_us = wall_us
        self._uptime_us = uptime_us
        self._lock = Lock()
        self._readings: OrderedDict[str, _Reading] = OrderedDict()
        self._finished: list[Step] = []
        self._step: Step | None = None  # not confirmed yet
        self._step_at_us = 0  # by the uptime
        self._counted: _Opinions | None = None
        wall, uptime = self._read()
        self._wall_offset_us = wall - uptime
        self._offset_us = self._wall_offset_us if offset_us is None else offset_us
        if abs(self._wall_offset_us - self._offset_us) > STEP_US:
            self._begin(uptime)
        else:
            self._offset_us = self._wall_offset_us

    def now_us(self) -> int:
        """The trusted time."""
        with self._lock:
            now = self._now()
            return now.uptime_us + now.trusted_us

    def both_us(self) -> tuple[int, int]:
        """The trusted time and the wall clock, the earlier first: they differ after a step that is not confirmed."""
        with self._lock:
            now = self._now()
            times = now.uptime_us + now.trusted_us, now.uptime_us + now.wall_us
            return min(times), max(times)

    def uptime_us(self) -> int:
        """The uptime: a clock for durations."""
        return self._read()[1]

    @property
    def offset_us(self) -> int:
        """How far the trusted time is ahead of the uptime."""
        return self._offset_us

    def record(self, source: str, ahead_us: int) -> None:
        """Records a clock that was read directly: it was `ahead_us` ahead of the trusted time just now."""
        with self._lock:
            now = self._now()
            self._note(source, _Reading(now.trusted_us + ahead_us, now.uptime_us, direct=True), now)

    def record_pushed(self, source: str, time_us: int) -> None:
        """Records the time of a pushed sample. It may be late, so it never shows that a clock is ahead of the sender's."""
        with self._lock:
            now = self._now()
            self._note(source, _Reading(time_us - now.uptime_us, now.uptime_us, direct=False), now)

    def confirmed(self) -> bool:
        """Whether other clocks confirm the trusted time now: at least as many as contradict it."""
        with self._lock:
            found = self._opinions(self._now())
            return 0 < len(found.agree) >= len(found.contradict)

    def doubt(self) -> str | None:
        """Why a time that only our own clock gives cannot be trusted now; None if it can."""
        with self._lock:
            now = self._now()
            if self._step is not None and not self._kept_is_proven(now):
                return (
                    f"this machine's clock stepped {shift_text(self._step.shift_us)} and no source has confirmed the new time yet: "
                    "check it (timedatectl, chronyc tracking)"
                )
            found = self._opinions(now)
            contradict = found.outvoting or ([] if found.agree else found.contradict)
            if not contradict or self._uptime_us is None:
                return None
            name = contradict[0]
            ahead_us = self._readings[name].offset_us - now.trusted_us
            return (
                f"this machine's clock ({rfc3339(second_floor(now.uptime_us + now.trusted_us))}) is confirmed by no source, and "
                f"differs from that of {name} ({shift_text(ahead_us)}): set it (timedatectl, chronyc tracking)"
            )

    def unconfirmed_step(self) -> Step | None:
        """The step that is not confirmed yet, while the wall clock is not followed."""
        with self._lock:
            self._now()
            return self._step

    def take_steps(self) -> list[Step]:
        """The steps whose outcome is known since the last call, oldest first."""
        with self._lock:
            self._now()
            finished, self._finished = self._finished, []
            return finished

    # ------------------------------------------------------------------------------------------------------------------

    def _read(self) -> tuple[int, int]:
        wall = self._wall_us()
        return wall, wall if self._uptime_us is None else self._uptime_us()

    def _now(self) -> _Time:
        """Reads the clocks, and notices a step."""
        wall, uptime = self._read()
        offset_us = wall - uptime
        stepped = abs(offset_us - self._wall_offset_us) > STEP_US
        self._wall_offset_us = offset_us
        if self._step is None:
            if stepped:
                self._begin(uptime)
            else:
                self._offset_us = offset_us  # small corrections
        elif abs(offset_us - self._offset_us) <= STEP_US:
            self._end(WITHDRAWN, None)
        elif stepped:
            self._end(WRONG if self._kept_is_proven(self._time(uptime)) else UNCONFIRMED, None, accept=False)
            self._begin(uptime)
        elif uptime - self._step_at_us > UNWITNESSED_US and not self._fresh(uptime):
            self._end(UNCONFIRMED, None)
        return self._time(uptime)

    def _time(self, uptime: int) -> _Time:
        return _Time(uptime, self._offset_us, self._wall_offset_us)

    def _begin(self, uptime: int) -> None:
        self._step = Step(uptime + self._offset_us, self._wall_offset_us - self._offset_us)
        self._step_at_us = uptime
        self._counted = None
        self._readings.clear()  # read before the step, so they do not show which time is right
        log.warning(
            "the clock stepped",
            extra={"by": shift_text(self._step.shift_us), "at": rfc3339(second_floor(self._step.at_us))},
        )

    def _end(self, outcome: str, source: str | None, accept: bool = True) -> None:
        assert self._step is not None
        step = replace(self._step, outcome=outcome, source=source)
        self._finished = [*self._finished, step][-STEPS_MAX:]
        self._step = self._counted = None
        if accept:
            self._offset_us = self._wall_offset_us
        log.warning("clock step", extra={"by": shift_text(step.shift_us), "outcome": outcome, "source": source})

    def _note(self, source: str, reading: _Reading, now: _Time) -> None:
        known = self._readings.get(source)
        agrees = [False]
        if known is not None and now.uptime_us - known.at_us <= FRESH_US:
            agrees = [abs(each.offset_us - now.trusted_us) <= AGREE_US for each in (known, reading)]
            # Of a sender that confirms our time, some samples may still be wrong.
            if not reading.direct and (known.direct or (self._step is None and agrees == [True, False])):
                return
        if known is None or not all(agrees) or abs(reading.offset_us - known.offset_us) > STEP_US:
            self._counted = None
        self._readings[source] = reading
        self._readings.move_to_end(source)
        if len(self._readings) > SOURCES_MAX:
            self._readings.popitem(last=False)
        if self._step is None:
            return
        from_wall, from_kept = (abs(reading.offset_us - each) for each in (now.wall_us, now.trusted_us))
        if from_wall <= AGREE_US and from_wall < from_kept:
            self._end(CONFIRMED, source)

    def _fresh(self, uptime: int) -> list[str]:
        return [name for name, reading in self._readings.items() if uptime - reading.at_us <= FRESH_US]

    def _kept_is_proven(self, now: _Time) -> bool:
        """Whether a source shows that the time before the step is the right one.

        A late sample looks like one of the time before a step ahead, so only a clock that was read proves that.
        """
        return any(
            (reading.direct or now.wall_us < now.trusted_us) and abs(reading.offset_us - now.trusted_us) <= AGREE_US
            for reading in map(self._readings.__getitem__, self._fresh(now.uptime_us))
        )

    def _outvoted(self, now: _Time) -> list[str]:
        """Sources that differ from the trusted time by more than a minute and agree with one another, at least two, where none
        is within a minute of it."""
        ahead = {name: self._readings[name].offset_us - now.trusted_us for name in self._fresh(now.uptime_us)}
        if any(abs(each) <= STEP_US for each in ahead.values()):
            return []
        known = [name for name, each in ahead.items() if self._readings[name].direct or each > 0]
        return next(
            (
                pair
                for one in known
                if len(pair := [two for two in known if abs(ahead[one] - ahead[two]) <= STEP_US]) > 1
            ),
            [],
        )

    def _opinions(self, now: _Time) -> _Opinions:
        known = self._counted
        if known is not None and now.near(known.counted):
            return known
        agree, contradict = [], []
        for name in self._fresh(now.uptime_us):
            reading = self._readings[name]
            ahead_us = reading.offset_us - now.trusted_us
            if abs(ahead_us) <= AGREE_US:
                agree.append(name)
            elif reading.direct or ahead_us > 0:
                contradict.append(name)
        self._counted = _Opinions(now, agree, contradict, self._outvoted(now))
        return self._counted


def shift_text(shift_us: int) -> str:
    """`25.0 days ahead`, `90 s back`."""
    way = "ahead" if shift_us > 0 else "back"
    seconds = abs(shift_us) / SECOND_US
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit} {way}"
    return f"{seconds:.0f} s {way}"
