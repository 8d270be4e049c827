"""A lease that this process has: renewed in a thread, and asked before anything is done that one process may do."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from gpuwatch.core.errors import NotHolder, StoreError
from gpuwatch.state import State
from gpuwatch.state.lease import Fence, Lease, Leases, Taken, fenced

RENEW_SHARE = 3
"""A lease is renewed when this share of its length has passed; a failed renewal is repeated after the same share of that."""
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while the machine sleeps."""
log = logging.getLogger(__name__)


def seconds() -> float:
    """A clock that nobody sets."""
    return time.clock_gettime(_CLOCK)


class Always:
    """For a process that needs no lease."""

    epoch: int | None = None
    holder: str | None = None
    leases: Leases | None = None
    lost = False
    on_lost: Callable[[], None] = staticmethod(lambda: None)

    @property
    def valid(self) -> bool:
        """Whether this process has the lease now."""
        return True

    def check(self) -> None:
        """Raises NotHolder if this process does not have the lease now."""

    def problems(self) -> list[str]:
        """Why this process must not work; empty if it may."""
        return []

    def fenced(self, state: State) -> State:
        """A state that refuses writes without the lease, even of a process that was paused."""
        return state

    def higher(self, least: int) -> bool:
        """Raises the epoch to `least` if that is higher; False without a lease."""
        return False


ALWAYS = Always()


class Holding(Always):
    """Valid for the length of the lease from the moment *before* the server was last asked for it: never longer than there."""

    def __init__(self, leases: Leases, taken: Taken, asked_s: float) -> None:
        """`asked_s` is the time of `seconds` before the lease was taken."""
        self.leases: Leases = leases
        self.epoch: int = taken.epoch
        self.holder = leases.holder
        self.before = taken.volume
        """The directory of the holder before."""
        self._until_s = asked_s + leases.length_s
        self._error = ""
        self._other: Lease | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="lease", daemon=True)

    @property
    def valid(self) -> bool:
        """Whether this process has the lease now."""
        return not self.lost and seconds() < self._until_s

    def check(self) -> None:
        """Raises NotHolder if this process does not have the lease now."""
        if not self.valid:
            raise not_holder(self.leases.name, self._other, self._error)

    def problems(self) -> list[str]:
        """Why this process must not work; empty if it may."""
        try:
            self.check()
        except NotHolder as error:
            return [str(error)]
        return []

    def fenced(self, state: State) -> State:
        """A state that refuses writes without the lease, even of a process that was paused."""
        return fenced(state, Fence(self.leases.name, self.holder or "", self.epoch))

    def start(self) -> None:
        """Starts to renew it."""
        self._thread.start()

    def higher(self, least: int) -> bool:
        """Raises the epoch to `least` if that is higher; False if the lease was lost."""
        if least <= self.epoch:
            return True
        if not self.leases.higher(self.epoch, least):
            return False
        self.epoch = least
        return True

    def stop(self) -> None:
        """Gives the lease up. Call when nothing is written any more."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        try:
            self.leases.release(self.epoch)
        except StoreError as error:
            log.warning("the lease was not given up: it ends by itself", extra={"error": str(error)})

    def _work(self) -> None:
        pause_s = self.leases.length_s / RENEW_SHARE
        while not self._stopping.wait(pause_s):
            asked_s, lapsed = seconds(), not self.valid
            try:
                mine = self.leases.renew(self.epoch)
                self._other = None if mine else self.leases.read()
            except StoreError as error:
                if not self._error:
                    log.error("the lease was not renewed", extra={"lease": self.leases.name, "error": str(error)})
                self._error = str(error)
                pause_s = self.leases.length_s / RENEW_SHARE**2
                continue
            if not mine:
                self.lost = True
                holder = None if self._other is None else self._other.holder
                log.error("the lease was lost", extra={"lease": self.leases.name, "holder": holder})
                self.on_lost()
                return
            if lapsed:
                log.warning("the lease ran out, and nobody took it: it goes on", extra={"lease": self.leases.name})
            self._until_s, self._error = asked_s + self.leases.length_s, ""
            pause_s = self.leases.length_s / RENEW_SHARE


def not_holder(name: str, other: Lease | None, error: str = "") -> NotHolder:
    """The words for a sender, with the address of the holder if it is known."""
    if other is not None:
        words = f"{other.holder} has the lease of {name}: send it to {other.address}"
        return NotHolder(words, other.address)
    why = f" ({error})" if error else ""
    return NotHolder(f"this process could not renew its lease of {name} in time{why}; retry in a few seconds", "")
