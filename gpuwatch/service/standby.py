"""Waits for the lease of a cell, and makes the data directory ready once this process has it."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuwatch.core.errors import GpuwatchError, StoreError, UsageError
from gpuwatch.service.config import Plan
from gpuwatch.service.holding import RENEW_SHARE, Holding, not_holder, seconds
from gpuwatch.service.mirroring import Mirroring
from gpuwatch.service.roles import Role
from gpuwatch.state import State
from gpuwatch.state.lease import LEAD, Lease, Leases, cell_lease
from gpuwatch.state.server import Server
from gpuwatch.store import lockfile
from gpuwatch.store.database import FILE_NAME, Store

if TYPE_CHECKING:
    from gpuwatch.lake.connection import Lake

SHORTEST_S = 0.1
RAISES_MAX = 5
"""How often the epoch of a lease is raised above that of publishes without a lease."""
log = logging.getLogger(__name__)


def address_of(host: str, port: int) -> str:
    """The address that others reach this process at, as far as it knows."""
    return lockfile.url_of(socket.gethostname() if host in lockfile.ANYWHERE else host, port)


def leases_of(role: Role, plan: Plan, address: str) -> Leases | None:
    """The lease that a process needs with a lake and the state on a server: of its cell, or of the lead; None without."""
    server = Server.of(plan.settings)
    if server is None or plan.lake is None or not (role.analyses or role.leads):
        return None
    name = cell_lease(plan.lake.cell) if role.analyses else LEAD
    return Leases(server, name, plan.lake.address or address, plan.lake.lease_s)


@dataclass
class Standby:
    """A process that waits. `directory` may be empty: then it is made from the lake."""

    leases: Leases
    plan: Plan
    directory: Path
    now_us: Callable[[], int]
    new_store: bool = False
    copy: Mirroring | None = None
    """What keeps the copy of a lead that waits as new as a replica's; None while nothing is copied."""
    _seen: Lease | None = None
    _error: str = ""

    def refusal(self) -> GpuwatchError:
        """What a sender gets meanwhile."""
        return not_holder(self.leases.name, self._seen, self._error or "it waits for it")

    def migrate(self) -> None:
        """Brings the state to this version, which has the table of leases. Raises StoreError."""
        server = Server.of(self.plan.settings)
        assert server is not None
        State.open(server, create=self.leases.name != LEAD and not (self.directory / FILE_NAME).exists()).close()

    def wait(self, stopping: threading.Event) -> Holding | None:
        """The lease, once this process has it and its directory is ready; None if it is stopped before.

        Raises UsageError for a directory that cannot become that of the cell.
        """
        with ExitStack() as copying:
            while not stopping.is_set():
                pause_s = self.leases.length_s / RENEW_SHARE
                try:
                    if (holding := self._taken()) is not None:
                        if self._made_ready(holding):
                            return holding
                        pause_s = self.leases.length_s
                    elif self._seen is not None:
                        pause_s = min(pause_s, max(self._seen.left_us / 1e6, SHORTEST_S))
                        if self.leases.name == LEAD and self.copy is None:
                            copying.enter_context(self._copied())
                except UsageError:
                    raise
                except GpuwatchError as error:
                    if str(error) != self._error:
                        log.error("waits for the lease", extra={"lease": self.leases.name, "error": str(error)})
                    self._error = str(error)
                stopping.wait(pause_s)
            return None

    @contextmanager
    def _copied(self) -> Iterator[None]:
        """Copies the lake within the block: a lead that has waited sends as soon as it has the lease."""
        assert self.plan.lake is not None
        with self._open_store() as store:
            self.copy = Mirroring(store.cursor(), self.plan.lake, self.now_us)
            self.copy.start()
            try:
                yield
            finally:
                self.copy.stop()
                self.copy = None

    def _open_store(self) -> Store:
        settings = self.plan.settings
        own = {"memory_limit": settings.memory_limit, "threads": settings.threads}
        return Store.open(self.directory, temp_directory=settings.temp_directory, **own)  # type: ignore[arg-type]

    def _taken(self) -> Holding | None:
        asked_s = seconds()
        taken = self.leases.take()
        if taken is None:
            seen = self.leases.read()
            if self._seen is None or (seen is not None and seen.epoch != self._seen.epoch):
                log.info("waits for the lease", extra={"lease": self.leases.name, "holder": seen and seen.holder})
            self._seen, self._error = seen, ""
            return None
        log.info("took the lease", extra={"lease": self.leases.name, "epoch": taken.epoch})
        self._seen = None
        return Holding(self.leases, taken, asked_s)

    def _made_ready(self, holding: Holding) -> bool:
        """Makes the directory the cell's own while the lease is renewed; without success the lease is given up."""
        ready = False
        holding.start()
        try:
            self._prepare(holding)
            ready = True
        except UsageError:
            raise
        except GpuwatchError as error:
            self._error = str(error)
            log.error("did not take over", extra={"lease": self.leases.name, "error": self._error})
        finally:
            if not ready:
                holding.stop()
        return ready

    def _prepare(self, holding: Holding) -> None:
        if self.leases.name == LEAD:  # its directory is a copy that anyone may make
            return
        from gpuwatch.lake import volume

        lake = self.plan.lake
        assert lake is not None
        if not self.new_store:
            made = volume.prepare(
                lake,
                self.directory,
                holding.before,
                lambda lake: fence(holding, lake, self.now_us()),
                self._open_store,
                self.now_us,
            )
            if made is not None:
                log.info("made from the lake", extra={"rows": made.rows, "lost_hours": made.lost_hours})
        if not holding.leases.note_volume(holding.epoch, volume.mark(self.directory)):
            raise StoreError("the lease ended before the data directory was ready")


def fence(holding: Holding, lake: Lake, now_us: int) -> None:
    """Makes the lake refuse whatever earlier holders of the lease have not published by now. Raises LakeError, StoreError if the lease is lost."""
    from gpuwatch.lake import guard

    assert holding.holder is not None
    for _ in range(RAISES_MAX):
        try:
            return guard.fence(lake, holding.epoch, holding.holder, now_us)
        except guard.Fenced as error:
            if not holding.higher(error.epoch + 1):
                raise
    raise StoreError("the lake is published by other processes all the time; stop them")
