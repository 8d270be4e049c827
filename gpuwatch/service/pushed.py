"""Pushed bodies: decoded one after the other, checked, and handed to the writer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from prometheus_client import Counter

from gpuwatch.core.errors import StoreBusy, TimeNotConfirmed, UnreadableInput, light
from gpuwatch.core.model import Points, Rejects
from gpuwatch.core.registry import Receive, make_receiver
from gpuwatch.quality.clocks import Clocks
from gpuwatch.quality.status import Sources
from gpuwatch.service.group_commit import Batches
from gpuwatch.service.timekeeping import Timekeeping

BODIES_QUEUED_MAX = 64
"""Limit of pushed bodies waiting to be decoded; above it, senders are asked to retry later."""
PUSH_INTERVAL_S = 60.0
"""Interval used to decide whether a pushing sender is late."""

Submit = Callable[[str, Batches, Rejects], Future[None]]


@dataclass(frozen=True)
class Received:
    """The result of a pushed body: samples or rows written, and what was rejected."""

    rows: int
    rejects: Rejects


class Pushed:
    """Decodes pushed bodies in a thread of its own."""

    def __init__(self, submit: Submit, times: Timekeeping, sources: Sources, clocks: Clocks, refused: Counter) -> None:
        self._submit = submit
        self._times = times
        self._sources = sources
        self._clocks = clocks
        self._refused = refused
        self._decoder = ThreadPoolExecutor(1, thread_name_prefix="decoder")
        self._decoding = threading.BoundedSemaphore(BODIES_QUEUED_MAX)
        self.receivers: dict[str, Receive] = {}

    def stop(self) -> None:
        """Decodes what was accepted, then stops."""
        self._decoder.shutdown(wait=True)

    def receive(
        self, name: str, body: bytes, content_type: str, cluster: str, source: str, decoded: Callable[[], None]
    ) -> Future[Received]:
        """See Service.receive."""
        if not self._decoding.acquire(blocking=False):
            self._refused.labels("queue full").inc()
            raise StoreBusy(f"{BODIES_QUEUED_MAX} bodies are waiting to be decoded; retry in a few seconds")
        answer: Future[Received] = Future()
        answer.set_running_or_notify_cancel()
        try:
            self._decoder.submit(self._decode, answer, decoded, name, body, content_type, cluster, source)
        except RuntimeError:
            self._decoding.release()
            raise StoreBusy("the service is stopping; retry in a moment") from None
        return answer

    def _decode(
        self,
        answer: Future[Received],
        decoded: Callable[[], None],
        name: str,
        body: bytes,
        content_type: str,
        cluster: str,
        source: str,
    ) -> None:
        rejects, kind = Rejects(), name
        try:
            if name not in self.receivers:
                self.receivers[name] = make_receiver(name)
            now_us = self._times.clock.now_us()
            try:
                batches = self.receivers[name](body, content_type, cluster, now_us, rejects)
            finally:
                del body
                decoded()
            self._clocks.record_pushed(source, batches, now_us)
            self._times.check_pushed(source, batches, rejects)
            # Every request repeats the contexts, so they are not counted.
            rows = sum(b.rows.num_rows for b in batches if isinstance(b, Points) or b.table != "context")
            refused = rejects.total
            stored = self._submit(source, batches, rejects)
            rows -= rejects.total - refused
        except Exception as error:  # noqa: BLE001 - reported to the sender
            self._decoding.release()
            if isinstance(error, TimeNotConfirmed):
                self._refused.labels("time not confirmed").inc()
            record = self._sources.unreadable if isinstance(error, UnreadableInput) else self._sources.failed
            record(source, self._times.clock.now_us(), str(error), kind, cluster)
            answer.set_exception(light(error))
            return

        def finished(future: Future[None]) -> None:
            self._decoding.release()
            error = future.exception()
            if error is not None:
                self._sources.failed(source, self._times.clock.now_us(), str(error), kind, cluster)
                answer.set_exception(error)
                return
            self._sources.add(source, kind, cluster, PUSH_INTERVAL_S)
            self._sources.succeeded(source, now_us, rows, kind, cluster)
            if rejects.total:
                self._sources.rejected(source, rejects, kind, cluster)
            answer.set_result(Received(rows, rejects))

        stored.add_done_callback(finished)
