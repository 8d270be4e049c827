"""Reads the node at an interval, so that each scrape only returns the last page."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from gpuwatch.collectors.nvml.node import NodeReader, host_name, open_library
from gpuwatch.collectors.nvml.page import page
from gpuwatch.core.errors import SourceUnreachable

STALE_ROUNDS = 3
STALE_LEAST_S = 30.0
"""A page older than both of these is not returned, so that a driver that hangs does not look healthy."""
STOP_S = 5.0
WARM_S = 0.5
"""Time between the first two rounds, because averages need two readings."""


class Agent:
    """Reads until stopped. `page` is safe in threads."""

    def __init__(
        self,
        reader: NodeReader,
        interval_s: float,
        log: Callable[[str], None],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock_s` measures the age of a page, so it must be monotonic."""
        self._reader = reader
        self._interval_s = interval_s
        self._log = log
        self._clock_s = clock_s
        self._last = (b"", 0.0)
        """The last page and the time of its reading."""
        self._error = "no reading yet"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="nvml", daemon=True)

    def start(self) -> None:
        """Starts reading."""
        self._thread.start()

    def stop(self) -> None:
        """Stops reading and shuts NVML down, unless the driver hangs."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)
        if not self._thread.is_alive():
            self._reader.close()

    def read(self) -> None:
        """One round. If it fails, the error is logged and the last page is kept."""
        try:
            node = self._reader.read()
            self._last, self._error = (page(node, time.time()), self._clock_s()), ""
        except Exception as error:  # noqa: BLE001 - a round that fails never stops the rounds
            message = f"reading failed: {type(error).__name__}: {error}"
            if message != self._error:
                self._log(message)
            self._error = message

    def page(self) -> tuple[bytes, str]:
        """The last page, and why there is none ("" if there is one)."""
        body, read_s = self._last
        age_s = self._clock_s() - read_s
        if body and age_s <= max(STALE_ROUNDS * self._interval_s, STALE_LEAST_S):
            return body, ""
        if body:
            return b"", f"the last reading is {age_s:.0f} s old: {self._error or 'the driver does not respond'}"
        return b"", self._error

    def once(self) -> bytes:
        """A page after two rounds, which profiling averages need. Raises SourceUnreachable if a round failed."""
        self.read()
        self._ended.wait(WARM_S)
        self.read()
        body, error = self.page()
        if error:
            raise SourceUnreachable(f"agent: {error}")
        return body

    def _work(self) -> None:
        self.read()
        self._ended.wait(min(WARM_S, self._interval_s))
        while not self._ended.is_set():
            start_s = time.monotonic()
            self.read()
            self._ended.wait(max(0.0, self._interval_s - (time.monotonic() - start_s)))


def create_agent(interval_s: float, jobs: Path | None, log: Callable[[str], None]) -> Agent:
    """The agent of this node. Raises SourceUnreachable with what is missing if there is no driver or no GPU."""
    return Agent(NodeReader(open_library(), host_name(), jobs), interval_s, log)
