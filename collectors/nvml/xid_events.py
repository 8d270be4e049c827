"""XID errors: a thread that waits for them and remembers the last one of each GPU and instance."""

from __future__ import annotations

import threading
from typing import Any

from gpuwatch.collectors.nvml.fields import ANY_INSTANCE, GpuGone, asked, done

WAIT_MS = 1_000
PAUSE_S = 5.0
"""After a wait that failed, before the next: a lost GPU fails every one."""
MAX_REMEMBERED = 1_024
STOP_S = 3.0


class XidWatch:
    """The last XID since this process started, as DCGM: 0 until there is one, sticky after."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._last: dict[tuple[str, int | None], int] = {}
        self._watched: set[str] = set()
        self._set: Any = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="xid", daemon=True)

    def watch(self, gpu: Any, uuid: str) -> None:
        """Listens to a GPU from now on. One that cannot be listened to has no XID at all. Raises GpuGone."""
        library = self._library
        if uuid in self._watched or len(self._watched) >= MAX_REMEMBERED:
            return
        if self._set is None:
            self._set = asked(library, "nvmlEventSetCreate")
        if self._set is None:
            return
        known = asked(library, "nvmlDeviceGetSupportedEventTypes", gpu) or 0
        xid = library.nvmlEventTypeXidCriticalError
        if known & xid and done(library, "nvmlDeviceRegisterEvents", gpu, xid, self._set):
            self._watched.add(uuid)
            if not self._thread.is_alive() and not self._ended.is_set():
                self._thread.start()

    def last(self, uuid: str, gi: int | None = None) -> int | None:
        """The last XID of a GPU, or of one of its instances; None where nobody listens."""
        with self._lock:
            if uuid not in self._watched:
                return None
            own = self._last.get((uuid, gi), 0)
            return own or self._last.get((uuid, None), 0)

    def take(self, wait_ms: int = WAIT_MS) -> bool:
        """Waits for one event and remembers it; False where there was none."""
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
            uuid = asked(library, "nvmlDeviceGetUUID", event.device)
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
        """Ends the thread and gives the event set back."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)
        if self._set is not None and not self._thread.is_alive():
            try:
                done(self._library, "nvmlEventSetFree", self._set)
            except GpuGone:
                return
            finally:
                self._set = None

    def _work(self) -> None:
        while not self._ended.is_set():
            self.take()
