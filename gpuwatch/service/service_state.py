"""What a service says about itself: its sources, its analysis, and whether it works."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

from gpuwatch.alerts.delivery.destination_guard import Guard
from gpuwatch.core.errors import StoreBusy, StoreError
from gpuwatch.quality.clocks import Clocks, WrongClock
from gpuwatch.quality.status import Sources, SourceStatus
from gpuwatch.service.after_pass import Alerting
from gpuwatch.service.analyzer import AnalysisStatus, Analyzer
from gpuwatch.service.backup import Backup, backup
from gpuwatch.service.config import Plan
from gpuwatch.service.group_commit import GroupCommit
from gpuwatch.service.holding import Always
from gpuwatch.service.mirroring import Mirroring
from gpuwatch.service.publishing import Publishing
from gpuwatch.service.read_pool import Probe, Readers
from gpuwatch.service.roles import API, Role, left_undone
from gpuwatch.service.routing import Routing
from gpuwatch.service.timekeeping import Timekeeping
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.state.lease import LEAD, is_held
from gpuwatch.store.database import Store

OPEN_ROWS_MAX = 1_000_000


class StateOfService:
    """The part of a service that only reads. `Service` makes the attributes that it reads."""

    role: Role
    holding: Always
    state: State
    settings: Settings
    plan: Plan
    own_url: str
    """The address it listens on, for links if public_url is not set; "" if others cannot use it."""
    times: Timekeeping
    mirror: Mirroring | None
    publishing: Publishing
    routing: Routing | None
    _now_us: Callable[[], int]
    _live: bool
    _sources: Sources
    _clocks: Clocks
    _writer: GroupCommit
    _analyzer: Analyzer
    _alerting: Alerting
    _readers: Readers
    _probe: Probe
    _copying: Lock

    @property
    def base_url(self) -> str:
        """The public URL of the pages, for links; "" if unknown."""
        return self.settings.public_url or self.own_url

    @property
    def channel_guard(self) -> Guard:
        """The addresses messages may be sent to."""
        return self._alerting.guard

    def now_us(self) -> int:
        """The clock of the service: that of the machine, except after a step that no source confirms."""
        return self._now_us()

    def reader(self, *, unhurried: bool = False) -> AbstractContextManager[Store]:
        """A connection for one request. Raises StoreBusy if there are too many at once, this one takes too long, or a replica
        has nothing to answer from yet.
        """
        if self.mirror is not None:
            self.mirror.check()
        state = None if self.mirror is None else self.mirror.snapshot
        return self._readers.lend(question_s=None) if unhurried else self._readers.lend(snapshot=state)

    def sources(self) -> list[SourceStatus]:
        """All live sources and senders."""
        return self._sources.all()

    def wrong_clocks(self) -> list[WrongClock]:
        """Nodes and sources with a wrong clock."""
        return self._clocks.wrong(self.now_us())

    def analysis(self) -> AnalysisStatus:
        """State of the analysis."""
        return self._analyzer.status

    def problems(self) -> list[str]:
        """Why the service cannot work; empty if it can."""
        found = []
        if self._live and self.role.analyses and not self._writer.alive:
            found.append("the writer has stopped; restart the service")
        if self._live and self.role != API and not self._analyzer.alive:
            found.append("the analyzer has stopped; restart the service")
        copied = self.mirror.problems() if self._live and self.mirror is not None else []
        return found + self.holding.problems() + copied + self._probe.problems() + self.state.problems()

    def concerns(self) -> list[str]:
        """Why the service works, but its results are not to be relied on; empty if they are."""
        failed, doubt = self.analysis().last_error, self.times.clock.doubt()
        found = [] if failed is None else [f"the last analysis failed: {failed}"]
        found += self.publishing.concerns() if self.mirror is None else self.mirror.concerns()
        found += self.routing.concerns() if self.routing is not None else []
        with suppress(StoreError):  # a state that is away is one of the problems
            found += left_undone(self.role, self.state, self.plan, is_held(self.state, LEAD))
        return found if doubt is None else [*found, doubt]

    def backup(self, target: Path) -> Backup:
        """Copies telemetry and state into an empty directory. Raises StoreBusy during another backup."""
        if not self._copying.acquire(blocking=False):
            raise StoreBusy("another backup is running; retry when it is done")
        try:
            with self._readers.lend(question_s=None) as store:
                return backup(store, self.state, target)
        finally:
            self._copying.release()

    def _open_claims(self, cluster: str, scheduler: str) -> list[dict[str, Any]]:
        with self.reader() as store:
            return store.rows("service/open_claim", cluster=cluster, scheduler=scheduler)

    def _open_rows(self, cluster: str, table: str) -> list[dict[str, Any]]:
        with self.reader() as store:
            return store.rows(f"service/open_{table}", cluster=cluster, limit=OPEN_ROWS_MAX)
