"""The analyzer's thread: updates the ledger and findings in passes, on its own connection."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.billing import chargeback
from gpuwatch.billing.periods.repository import Periods
from gpuwatch.core.clock import DAY_US
from gpuwatch.core.errors import GpuwatchError, StoreBusy
from gpuwatch.service.priority import yield_to_others
from gpuwatch.service.timekeeping import Timekeeping
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.store.time_bounds import AHEAD_US_RECORD

REST_SHARE = 1.0
"""After a pass the analyzer rests at least as long as the pass took, so it uses at most half a core on average."""
RETAIN_AGAIN_S = 3600.0
"""Retention runs once a day, and again after this while more than one day is past its retention."""
log = logging.getLogger(__name__)

AfterPass = Callable[[Store], None]


@dataclass(frozen=True)
class AnalysisStatus:
    """State of the analysis: times in microseconds, None if it never happened."""

    running: bool = False
    last_success_us: int | None = None
    last_error: str | None = None
    seconds: float = 0.0
    ledger_until_us: int | None = None
    failed_rules: tuple[str, ...] = ()


class Analyzer:
    """Runs analyze() every `interval_s` if there is new data, and `after` (alerts, reports) after each pass."""

    def __init__(
        self,
        store: Store,
        state: State,
        settings: Settings,
        times: Timekeeping,
        after: AfterPass,
        on_pass: Callable[[AnalysisStatus], None],
        commits: Callable[[], int],
        analyses: bool = True,
        corrects: Callable[[], bool] = lambda: True,
    ) -> None:
        """Without `analyses`, a pass runs only `after`, on what another process analyzed. Without `corrects`, another process
        compares closed periods.
        """
        self._corrects = corrects
        self._store = store
        self._state = state
        self._settings = settings
        self._times = times
        self._now_us = times.clock.now_us
        self._after = after
        self._on_pass = on_pass
        self._commits = commits
        self._analyses = analyses
        self._seen: tuple[int, dict[str, int], Settings] | None = None
        self._wake = threading.Event()
        self._stopping = False
        self._writing = threading.Lock()  # held while derived tables are written
        self._status = AnalysisStatus()
        self.passes = 0
        """Passes with news so far."""
        self._retained_day = -1
        self._retain_again_s = 0.0
        self._thread = threading.Thread(target=self._work, name="analyzer", daemon=True)

    @property
    def status(self) -> AnalysisStatus:
        """State of the analysis."""
        return self._status

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Starts the first pass."""
        self._thread.start()

    def stop(self) -> None:
        """Interrupts the pass at its next query and waits for it; uncommitted work is repeated after the next start."""
        self._stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            while self._thread.is_alive():
                self._store.interrupt()
                self._thread.join(0.2)

    def use(self, settings: Settings) -> None:
        """Applies new settings from the next pass on."""
        self._settings = settings
        self._wake.set()

    def wake(self) -> None:
        """Requests a pass now."""
        self._wake.set()

    def reprice(self, store: Store, wait_s: float) -> bool:
        """Prices with the latest rates and rules on the caller's connection; False if a pass is running."""
        if not self._writing.acquire(timeout=wait_s):
            self._wake.set()
            return False
        try:
            chargeback.price_all(store, self._state)
        finally:
            self._writing.release()
        return True

    @contextmanager
    def paused(self, wait_s: float) -> Iterator[None]:
        """A block in which no pass runs. Raises StoreBusy if the running one does not end in time."""
        if not self._writing.acquire(timeout=wait_s):
            raise StoreBusy("an analysis is running; retry when it is done")
        try:
            yield
        finally:
            self._writing.release()

    def run_once(self) -> None:
        """One pass in the caller's thread; only `after` if data, rates, rules and settings are unchanged."""
        began = time.monotonic()
        now_us = self._now_us()
        settings = self._settings
        try:
            new = (self._commits(), Periods(self._state).versions(), settings)
            self._times.record(self._store)
            if self._analyses and new != self._seen:
                self._pass(settings, began, now_us)
                self._seen = new
                self.passes += 1
            else:
                self._status = replace(self._status, last_success_us=now_us, last_error=None)
            self._after(self._store)
        except (Exception, KeyboardInterrupt) as error:  # the latter is an interrupted transaction of the store
            if self._stopping:
                return
            known = isinstance(error, GpuwatchError)
            log.error("analysis failed", extra={"error": str(error)}, exc_info=None if known else error)
            message = str(error) if known else f"{type(error).__name__}: {error}"
            self._status = replace(self._status, running=False, last_error=message, seconds=time.monotonic() - began)
        self._on_pass(self._status)

    def _pass(self, settings: Settings, began: float, now_us: int) -> None:
        self._status = replace(self._status, running=True)
        day = now_us // DAY_US
        due = day != self._retained_day or (0 < self._retain_again_s <= began)
        retention = due and self._times.clock.doubt() is None
        with self._writing:
            proven_us = self._times.proven_us()
            report = analyze(
                self._store,
                self._state,
                settings,
                now_us=now_us,
                retention=retention,
                corrects=self._corrects(),
                samples_until_us=None if proven_us is None else proven_us + AHEAD_US_RECORD,
            )
        if retention:
            self._retained_day = day
            self._retain_again_s = began + RETAIN_AGAIN_S if report.more_to_retain else 0.0
            self._times.read(self._store)
        until = self._store.rows("service/ledger_until", now_us=now_us)[0]["until_us"]
        self._status = AnalysisStatus(
            running=False,
            last_success_us=self._now_us(),
            seconds=time.monotonic() - began,
            ledger_until_us=until,
            failed_rules=tuple(report.failed_rules),
        )
        for failed in report.failed_rules:
            log.error("rule failed", extra={"rule": failed})

    def _work(self) -> None:
        yield_to_others()
        while not self._stopping:
            self.run_once()
            rest_s = max(self._settings.analyze_interval_s, self._status.seconds * REST_SHARE)
            self._wake.wait(rest_s)
            self._wake.clear()
