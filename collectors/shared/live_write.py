"""Writes the rows of a live source, retrying until they are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gpuwatch.collectors.shared.live_options import backoff_s
from gpuwatch.core.errors import StoreError
from gpuwatch.core.model import Points, Records, Rejects
from gpuwatch.core.registry import Sink

FIRST_WAIT_S = 0.5
MAX_WAIT_S = 60.0


async def write(
    sink: Sink, source: str, batches: Sequence[Records | Points], rejects: Rejects, now_us: Callable[[], int]
) -> None:
    """Returns once the batches are on disk, at once if there is nothing to write.

    Waits while the queue or disk is full; the source reads nothing meanwhile, so at most one round waits. The first
    failure is reported to the sink.
    """
    if not batches and not rejects.counts:
        return
    failures = 0
    while True:
        try:
            return await sink.commit(source, batches, rejects)
        except StoreError as error:
            failures += 1
            if failures == 1:
                sink.failed(source, now_us(), str(error))
            await asyncio.sleep(backoff_s(failures, FIRST_WAIT_S, MAX_WAIT_S))
