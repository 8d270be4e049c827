"""The service's time: its clock, the steps of it, and pushed data whose time cannot be checked yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from gpuwatch.core.clock import DAY_US, HOUR_US, SECOND_US, day_floor, rfc3339, second_floor
from gpuwatch.core.errors import TimeNotConfirmed
from gpuwatch.core.model import Points, Records, Rejects
from gpuwatch.quality import clock_history
from gpuwatch.quality.own_clock import AGREE_US, OwnClock, Step
from gpuwatch.service.uptime import Uptime
from gpuwatch.store.database import Store
from gpuwatch.store.retention import retired_days
from gpuwatch.store.time_bounds import AHEAD_US_LIVE, RETIRED, TOO_NEW, TOO_OLD, Span, refusals

HELD_US_MAX = {TOO_NEW: 24 * HOUR_US, TOO_OLD: HOUR_US, RETIRED: HOUR_US}
"""How long a sender is asked to keep such samples. After that they are refused for good, so that it can go on."""
FORGET_US = HOUR_US
"""A sender that sent no such samples for this long starts again."""
SENDERS_MAX = 1_000
MARK_US = 10 * SECOND_US
"""The mark of the clock is written again if it moved by more than this."""
FUTURE_EVENT = "is in the future"
"""Part of the reason why an event with a time in the future is refused."""

Batches = Sequence[Records | Points]


@dataclass
class _Held:
    since_us: int
    last_us: int


class Timekeeping:
    """The clock of a service, and decisions that depend on whether it is right. Thread-safe."""

    def __init__(self, store: Store, wall_us: Callable[[], int], uptime: Uptime | None, raw_days: int) -> None:
        self._boot_id = uptime.boot_id if uptime is not None else ""
        self._mark_us = clock_history.mark(store, self._boot_id)
        self.clock = OwnClock(wall_us, None if uptime is None else uptime.read_us, self._mark_us)
        self._raw_us = raw_days * DAY_US
        self._lock = Lock()
        self._held: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._retired: frozenset[int] = frozenset()
        self._stored_until_us: int | None = None
        self.on_steps: Callable[[list[str]], None] = lambda outcomes: None
        self.read(store)

    def read(self, store: Store) -> None:
        """Reads which days are retired, and the newest stored sample. Call it after days were retired."""
        first_us, last_us = self.clock.both_us()
        self._retired = retired_days(store, first_us - self._raw_us)
        self._stored_until_us = store.sql(
            "select max(last_us) from context_span where last_us <= $until", until=last_us + AHEAD_US_LIVE
        )[0][0]

    def record(self, store: Store) -> list[Step]:
        """Stores the steps of the clock since the last call, and its mark; returns the steps."""
        steps = self.clock.take_steps()
        if steps:
            clock_history.add(store, steps)
            self.on_steps([step.outcome for step in steps])
        if self._boot_id and self.clock.doubt() is None and self.clock.unconfirmed_step() is None:
            offset_us = self.clock.offset_us
            if self._mark_us is None or abs(offset_us - self._mark_us) > MARK_US:
                clock_history.set_mark(store, self._boot_id, offset_us)
                self._mark_us = offset_us
        return steps

    def proven_us(self) -> int | None:
        """The time if other clocks confirm it now, else None."""
        return self.clock.now_us() if self.clock.confirmed() else None

    def span(self) -> Span:
        """From when to when samples are taken: by the trusted time, and after a step by the new time too."""
        first_us, last_us = self.clock.both_us()
        return Span(first_us - self._raw_us, last_us + AHEAD_US_LIVE, self._retired)

    def check_pushed(self, source: str, batches: Batches, rejects: Rejects) -> None:
        """Raises TimeNotConfirmed for a pushed body that could be valid by a right clock, so that its sender keeps it.

        That is so only while no other clock confirms ours, and no longer than HELD_US_MAX.
        """
        times = _times(batches)
        self._note(source, times)
        refused = refusals(times, self.span())
        newest = [int(times[refused[TOO_NEW]].max())] if TOO_NEW in refused else []
        future_events = any(FUTURE_EVENT in reason for reason in rejects.counts)
        if (newest or future_events) and not self.clock.confirmed():
            self._hold(
                source, TOO_NEW, f"its newest time is {rfc3339(newest[0])}" if newest else "it has future events"
            )
        if TOO_OLD in refused and not self.clock.confirmed() and self._kept(int(times[refused[TOO_OLD]].max())):
            self._hold(source, TOO_OLD, f"it has samples of {rfc3339(int(times[refused[TOO_OLD]].max()))}")
        if RETIRED in refused:
            day_us = day_floor(int(times[refused[RETIRED]].max()))
            self._hold(
                source,
                RETIRED,
                f"the raw samples of {rfc3339(day_us)[:10]} are already deleted, although it is within raw_retention_days",
                "if a wrong clock did that, stop the server and run gpuwatch repair",
            )

    def _kept(self, time_us: int) -> bool:
        """Whether a sample would be kept by the newest stored sample: too old only by our own clock."""
        return self._stored_until_us is None or time_us >= self._stored_until_us - self._raw_us

    def _note(self, source: str, times: NDArray[np.int64]) -> None:
        """Notes the time of a body as evidence: the sample nearest to our clock, or else its newest one."""
        if not len(times):
            return
        for own_us in reversed(self.clock.both_us()):
            nearest = int(times[np.abs(times - own_us).argmin()])
            if abs(nearest - own_us) <= AGREE_US:
                self.clock.record_pushed(source, nearest)
                return
        self.clock.record_pushed(source, int(times.max()))

    def _hold(self, source: str, reason: str, what: str, fix: str = "") -> None:
        """Raises TimeNotConfirmed unless the sender was asked to keep such samples for long enough."""
        now_us = self.clock.uptime_us()
        with self._lock:
            held = self._held.get((source, reason))
            if held is None or now_us - held.last_us > FORGET_US:
                held = self._held[source, reason] = _Held(now_us, now_us)
            held.last_us = now_us
            self._held.move_to_end((source, reason))
            if len(self._held) > SENDERS_MAX:
                self._held.popitem(last=False)
            if now_us - held.since_us > HELD_US_MAX[reason]:
                return
        own = rfc3339(second_floor(self.clock.now_us()))
        fix = fix or (
            f"this server's clock shows {own}, and no source confirms that: check the clocks of server and sender "
            "(timedatectl)"
        )
        raise TimeNotConfirmed(f"nothing of this body was stored: {what}; {fix}. Send it again later")


def _times(batches: Batches) -> NDArray[np.int64]:
    """The plausible times of the samples of a body."""
    found = [b.rows.column("observed_us").to_numpy() for b in batches if isinstance(b, Points) and b.rows.num_rows]
    return np.concatenate(found) if found else np.empty(0, np.int64)
