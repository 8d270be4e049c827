"""Clients that write to a server as fast as it answers, and what of it is in the store."""

from __future__ import annotations

import threading
from collections import Counter
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self

from gpuwatch.store.database import Store
from tests.e2e.process import Server, gpu_labels, now_ms
from tests.worlds.patience import wait_until

CLIENTS = 4
Sample = tuple[str, int]  # GPU, time in milliseconds


class Load:
    """Clients with a GPU each that send samples, every one at a time of its own; one without an answer ends."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(n,), daemon=True) for n in range(CLIENTS)]
        self.acknowledged: Counter[Sample] = Counter()
        self.statuses: Counter[int] = Counter()
        self.broken: list[Exception] = []

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def more(self, count: int) -> None:
        """Waits until so many more samples are acknowledged."""
        wanted = self.statuses[204] + count
        wait_until(lambda: self.statuses[204] >= wanted, f"{count} more samples that are acknowledged")

    def _send(self, client: int) -> None:
        gpu, at_ms = f"GPU-{client}", now_ms()
        while not self._ended.is_set():
            at_ms += 1
            try:
                status = self._server.write([(gpu_labels(gpu), [(0.5, at_ms)])]).status
            except (OSError, HTTPException) as error:
                self.broken.append(error)
                return
            if status == 204:
                self.acknowledged[gpu, at_ms] += 1
            self.statuses[status] += 1


def stored(directory: Path, like: str = "GPU-_") -> Counter[Sample]:
    """How often each sample of the GPUs so named that were pushed is in the store."""
    with Store.open(directory, create=False) as store:
        rows = store.sql(
            """select gpu, observed_us // 1000, count(*)
            from (select * from sample union all by name select * from sample_tail)
            join context using (context_id)
            where gpu like $like and node like 'node-%'
            group by all""",
            like=like,
        )
    return Counter({(gpu, at_ms): count for gpu, at_ms, count in rows})
