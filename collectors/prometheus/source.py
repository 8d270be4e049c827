"""Live source `prometheus`: DCGM metrics and kube-state-metrics from an existing server (`[[prometheus]]`)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from gpuwatch.collectors.prometheus.chunking import QueryRunner
from gpuwatch.collectors.prometheus.http import Client
from gpuwatch.collectors.prometheus.ksm_changes import KsmChanges
from gpuwatch.collectors.prometheus.kube_state_metrics import LOOK_BACK_US, SchedulerRecords
from gpuwatch.collectors.prometheus.metrics import History
from gpuwatch.collectors.prometheus.options import access_options, match_option, max_samples_option
from gpuwatch.collectors.prometheus.refusals import Refused
from gpuwatch.collectors.shared.clock import ClockCheck
from gpuwatch.collectors.shared.live_options import Options, backoff_s
from gpuwatch.collectors.shared.live_write import write
from gpuwatch.collectors.shared.records import table_batches
from gpuwatch.core.clock import HOUR_US, MINUTE_US, SECOND_US, second_floor
from gpuwatch.core.errors import GpuwatchError, SourceUnreachable
from gpuwatch.core.model import Points
from gpuwatch.core.model import Records as Batch
from gpuwatch.core.registry import LiveSource, Sink, live

KIND = "prometheus"
MAX_SOURCES = 100
TIMEOUT_S = 30.0
FIRST_WAIT_S, MAX_WAIT_S = 5.0, 30.0
CHUNK_SAMPLES = 500_000
"""Approximate number of samples to read and store at a time while catching up."""
LONGEST_US, SHORTEST_US = HOUR_US, 10 * SECOND_US
FIND_US = 10 * MINUTE_US
"""How often the available metrics are listed."""
RECORDS_LONGEST_US = 6 * HOUR_US
T = TypeVar("T")


@live(KIND, "Prometheus, VictoriaMetrics, Thanos or Mimir: DCGM metrics and kube-state-metrics by query")
def configure(tables: Sequence[Mapping[str, Any]], problems: list[str]) -> Sequence[LiveSource]:
    """One source per `[[prometheus]]` table; two tables of one server need different clusters."""
    sources: dict[str, PrometheusSource] = {}
    if len(tables) > MAX_SOURCES:
        problems.append(f"[[prometheus]]: more than {MAX_SOURCES} tables")
    for number, table in enumerate(tables[:MAX_SOURCES], start=1):
        options = Options({"timeout_s": TIMEOUT_S} | dict(table), f"[[prometheus]] {number}", problems)
        source = PrometheusSource(options)
        options.finish()
        if source.name in sources:
            options.wrong("cluster", "must differ from that of the other [[prometheus]] tables of the same server")
        sources[source.name] = source
    return list(sources.values())


class PrometheusSource:
    """One server, queried at a regular interval for new samples and records."""

    kind = KIND

    def __init__(self, options: Options) -> None:
        """Reads the options and reports wrong ones there."""
        self.cluster = options.text("cluster", "default")
        if not self.cluster:
            options.wrong("cluster", "must not be empty")
        self.interval_s = options.number("interval_s", 30, 1, 3600)
        self._access = access_options(options)
        self._match, self._most = match_option(options), max_samples_option(options)
        self._overlap_us = round(options.number("overlap_s", 120, 0, 3600) * SECOND_US)
        self._catch_up_us = round(options.number("catch_up_s", 3600, 60, 14 * 86_400) * SECOND_US)
        self._records = options.flag("kube_state_metrics", True)
        self._records_s = options.number("records_interval_s", 120, 15, 3600)
        self.name = f"{KIND} {self._access.url} {self.cluster}"

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Queries forever. Samples and scheduler records have separate loops, so that neither delays the other."""
        stop = threading.Event()
        clock = ClockCheck(lambda offset_us, at_us: sink.clock(self.cluster, self.name, offset_us, at_us))

        def dated(date: str, took_us: int) -> None:
            at_us = now_us()
            if clock.due(at_us):
                clock.check(date, at_us - took_us, at_us)

        client = Client(self._access, dated)
        asker = QueryRunner(client, self._match, self._most, stop, tries=1)
        try:
            async with asyncio.TaskGroup() as tasks:
                samples = _Samples(self, History(asker, self.cluster), self._overlap_us, now_us() - self._catch_up_us)
                tasks.create_task(self._repeat(samples.round, self.interval_s, sink, now_us))
                if self._records:
                    records = _Records(self, SchedulerRecords(asker, self.cluster), now_us() - self._catch_up_us)
                    tasks.create_task(self._repeat(records.round, self._records_s, sink, now_us))
        finally:
            stop.set()
            client.close()

    async def _repeat(
        self,
        work: Callable[[Sink, Callable[[], int]], Any],
        interval_s: float,
        sink: Sink,
        now_us: Callable[[], int],
    ) -> None:
        """Repeats a round at the interval, with longer pauses while it fails."""
        failures = 0
        while True:
            started_us = now_us()
            wait_s = interval_s
            try:
                await work(sink, now_us)
                failures = 0
            except Exception as error:  # noqa: BLE001 - a round that fails never stops the rounds
                failures += 1
                message = str(error) if isinstance(error, GpuwatchError) else f"{type(error).__name__}: {error}"
                sink.failed(self.name, now_us(), message)
                wait_s = max(interval_s, backoff_s(failures, FIRST_WAIT_S, MAX_WAIT_S))
                if isinstance(error, Refused) and error.retry_after_s is not None:
                    wait_s = max(wait_s, error.retry_after_s)
            spent_s = max((now_us() - started_us) / SECOND_US, 0.0)  # negative after the clock was set back
            await asyncio.sleep(max(wait_s - spent_s, 0.0))


class _Samples:
    """The DCGM samples of a source, read up to `_since_us`."""

    def __init__(self, source: PrometheusSource, history: History, overlap_us: int, since_us: int) -> None:
        self._source, self._history, self._overlap_us = source, history, overlap_us
        self._since_us = since_us
        self._found_us: int | None = None

    async def round(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Reads and stores new samples, a span at a time. Raises errors of the server and its answers."""
        name, history = self._source.name, self._history
        until_us = -(-now_us() // SECOND_US) * SECOND_US
        # For older gaps there is `gpuwatch backfill`.
        start_us = max(self._since_us, until_us - self._source._catch_up_us)
        # After the clock was set back, reading goes on at the new time.
        start_us = second_floor(min(start_us, until_us - self._overlap_us))
        if self._found_us is None or abs(until_us - self._found_us) >= FIND_US or not history.fields:
            await in_thread(lambda: history.find(until_us - self._source._catch_up_us, until_us))
            await in_thread(lambda: history.measure(until_us - LONGEST_US, until_us))
            self._found_us = until_us
        if not history.fields and not self._source._records:
            raise SourceUnreachable(
                f"{history.name} answers, but has no DCGM metric (DCGM_FI_...); check match, tenant, and that it scrapes "
                "dcgm-exporter"
            )
        step_us = _step(history.samples_a_second)
        samples = 0
        lacking: list[str] = []
        while start_us < until_us:
            end_us = min(start_us + step_us, until_us)
            span = start_us, end_us
            chunk = await in_thread(lambda span=span: history.chunk(*span, only_new=True))  # type: ignore[misc]
            await write(sink, name, chunk.batches, chunk.rejects, now_us)
            self._since_us = end_us - self._overlap_us
            history.remember(chunk, self._since_us)
            samples += chunk.samples
            lacking += chunk.lacking
            start_us = end_us
        if lacking:
            raise SourceUnreachable(f"{history.name}: its answer is incomplete: {lacking[0]}; the rest is stored")
        sink.succeeded(name, now_us(), samples)


class _Records:
    """The scheduler records of a source, read up to `_since_us`, and their changes."""

    def __init__(self, source: PrometheusSource, records: SchedulerRecords, since_us: int) -> None:
        self._source, self._records = source, records
        self._since_us = since_us
        self._changes: KsmChanges | None = None

    async def round(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Reads and stores new records, a span at a time."""
        source, records = self._source, self._records
        until_us = second_floor(now_us())
        if self._changes is None:
            changes = KsmChanges(await sink.open_claims(source.cluster, "kubernetes"))
            self._since_us = max(self._since_us, min(changes.newest_us or 0, until_us))
            self._changes = changes
        if not await in_thread(lambda: records.find(self._since_us - LOOK_BACK_US, until_us)):
            self._since_us = until_us
            return
        start_us = second_floor(max(self._since_us, until_us - source._catch_up_us))
        while start_us < until_us:
            span = start_us - LOOK_BACK_US, min(start_us + RECORDS_LONGEST_US, until_us)
            read = await in_thread(lambda span=span: records.read(*span))  # type: ignore[misc]
            last = span[1] >= until_us
            tables = self._changes.changed_rows(read, span[1], last)
            found: list[Batch | Points] = [
                batch for table, rows in tables.items() for batch in table_batches(table, rows, source.cluster)
            ]
            await write(sink, source.name, found, read.rejects, now_us)
            start_us = self._since_us = span[1]
            if read.lacking:
                raise SourceUnreachable(f"{records.name}: its answer is incomplete: {read.lacking[0]}")


def _step(samples_a_second: float) -> int:
    """Length of a span of about CHUNK_SAMPLES, in microseconds of whole seconds."""
    if samples_a_second <= 0:
        return LONGEST_US
    return min(max(int(CHUNK_SAMPLES / samples_a_second) * SECOND_US, SHORTEST_US), LONGEST_US)


async def in_thread(work: Callable[[], T]) -> T:
    """Runs `work` in a daemon thread of its own, so that a hanging server blocks neither the shared thread pool nor the
    end of the process."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if not done.cancelled():
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = work()
        except BaseException as caught:  # noqa: BLE001 - raised again by who waits
            error = caught
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="prometheus", daemon=True).start()
    return await done
