"""Reloads the configuration on request, one call at a time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class Again:
    """Calls a function in a thread on each request. Requests during a call, or before the start, cause one more call."""

    def __init__(self) -> None:
        self.call: Callable[[], object] = lambda: None
        # SimpleQueue.put is reentrant, so a signal handler may interrupt it; a lock would deadlock.
        self._requests: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._ended = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread; again after a stop too."""
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="reload", daemon=True)
        self._thread.start()

    def ask(self) -> None:
        """Requests one call; safe in a signal handler."""
        if self._requests.empty():
            self._requests.put(None)

    def stop(self) -> None:
        """Stops after the current call."""
        self._ended = True
        self._requests.put(None)
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while True:
            self._requests.get()
            while not self._requests.empty():
                self._requests.get()
            if self._ended:
                return
            self.call()
