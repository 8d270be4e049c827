"""Waits for XID errors in a thread and keeps the last one of each GPU and instance."""

from __future__ import annotations

import threading
from typing import Any

from gpuwatch.collectors.nvml.calls import ANY_INSTANCE, GpuGone, query, succeeds

WAIT_MS = 1_000
PAUSE_S = 5.0
"""The pause after a failed wait: with a lost GPU every wait fails."""
MAX_REMEMBERED = 1_024
STOP_S = 3.0


class XidWatch:
    """The last XID since this process started, like DCGM: 0 until there is one, then the last one."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._last: dict[tuple[str, int | None], int] = {}
        self._watched: set[str] = set()
        self._set: Any = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="xid", daemon=True)

    def watch(self, gpu: Any, uuid: str) -> None:
        """Starts listening to a GPU. A GPU without XID events has no XID reading. Raises GpuGone."""
        library = self._library
        if uuid in self._watched or len(self._watched) >= MAX_REMEMBERED:
            return
        if self._set is None:
            self._set = query(library, "nvmlEventSetCreate")
        if self._set is None:
            return
        known = query(library, "nvmlDeviceGetSupportedEventTypes", gpu) or 0
        xid = library.nvmlEventTypeXidCriticalError
        if known & xid and succeeds(library, "nvmlDeviceRegisterEvents", gpu, xid, self._set):
            self._watched.add(uuid)
            if not self._thread.is_alive() and not self._ended.is_set():
                self._thread.start()

    def last(self, uuid: str, gi: int | None = None) -> int | None:
        """The last XID of a GPU or one of its instances, None for a GPU that is not watched."""
        with self._lock:
            if uuid not in self._watched:
                return None
            own = self._last.get((uuid, gi), 0)
            return own or self._last.get((uuid, None), 0)

    def wait(self, wait_ms: int = WAIT_MS) -> bool:
        """Waits for an event and stores it; False if there was none."""
        library = self._library
        try:
            event = library.nvmlEventSetWait_v2(self._set, wait_ms)
        except library.NVMLError as error:
            if error.value != library.NVML_ERROR_TIMEOUT:
                self._ended.wait(PAUSE_S)
            return False
        if event.eventType != library.nvmlEventTypeXidCriticalError:
            return False
        try:
            uuid = query(library, "nvmlDeviceGetUUID", event.device)
        except GpuGone:
            uuid = None
        if uuid is None:
            return False
        gi = None if event.gpuInstanceId == ANY_INSTANCE else int(event.gpuInstanceId)
        with self._lock:
            if len(self._last) < MAX_REMEMBERED or (uuid, gi) in self._last:
                self._last[uuid, gi] = int(event.eventData)
        return True

    def stop(self) -> None:
        """Stops the thread and frees the event set."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)
        if self._set is not None and not self._thread.is_alive():
            try:
                succeeds(self._library, "nvmlEventSetFree", self._set)
            except GpuGone:
                return
            finally:
                self._set = None

    def _work(self) -> None:
        while not self._ended.is_set():
            self.wait()
