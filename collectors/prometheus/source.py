"""Live source `prometheus`: DCGM metrics and kube-state-metrics of a server that has them already (`[[prometheus]]`)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from gpuwatch.collectors.prometheus.chunking import Asker
from gpuwatch.collectors.prometheus.http import Client, Refused
from gpuwatch.collectors.prometheus.ksm_changes import Book
from gpuwatch.collectors.prometheus.kube_state_metrics import LOOK_BACK_US, Records
from gpuwatch.collectors.prometheus.metrics import History
from gpuwatch.collectors.prometheus.options import access_of, match_of, most_of
from gpuwatch.collectors.shared.live_options import Options, backoff_s
from gpuwatch.collectors.shared.live_write import write
from gpuwatch.collectors.shared.records import table_batches
from gpuwatch.core.clock import HOUR_US, MINUTE_US, SECOND_US
from gpuwatch.core.errors import GpuwatchError, SourceUnreachable
from gpuwatch.core.model import Points
from gpuwatch.core.model import Records as Batch
from gpuwatch.core.registry import LiveSource, Sink, live

KIND = "prometheus"
MAX_SOURCES = 100
TIMEOUT_S = 30.0
FIRST_WAIT_S, MAX_WAIT_S = 5.0, 300.0
CHUNK_SAMPLES = 500_000
"""About as many samples are read and stored at a time when there is much to catch up with."""
LONGEST_US, SHORTEST_US = HOUR_US, 10 * SECOND_US
FIND_US = 10 * MINUTE_US
"""How often to ask which metrics there are."""
RECORDS_LONGEST_US = 6 * HOUR_US
T = TypeVar("T")


@live(KIND, "Prometheus, VictoriaMetrics, Thanos or Mimir: DCGM metrics and kube-state-metrics by query")
def configure(tables: Sequence[Mapping[str, Any]], problems: list[str]) -> Sequence[LiveSource]:
    """One source a `[[prometheus]]` table; two of one server must differ in cluster."""
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
    """One server, asked on a steady beat for what is new since the last answer."""

    kind = KIND

    def __init__(self, options: Options) -> None:
        """Reads its options; what is wrong is told there."""
        self.cluster = options.text("cluster", "default")
        if not self.cluster:
            options.wrong("cluster", "must not be empty")
        self.interval_s = options.number("interval_s", 30, 1, 3600)
        self._access = access_of(options)
        self._match, self._most = match_of(options), most_of(options)
        self._overlap_us = round(options.number("overlap_s", 120, 0, 3600) * SECOND_US)
        self._catch_up_us = round(options.number("catch_up_s", 3600, 60, 14 * 86_400) * SECOND_US)
        self._records = options.flag("kube_state_metrics", True)
        self._records_s = options.number("records_interval_s", 120, 15, 3600)
        self.name = f"{KIND} {self._access.url} {self.cluster}"

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Asks for ever. Samples and scheduler records are asked for apart: one that is slow keeps nobody waiting."""
        stop = threading.Event()
        client = Client(self._access)
        asker = Asker(client, self._match, self._most, stop, tries=1)
        try:
            async with asyncio.TaskGroup() as tasks:
                samples = _Samples(self, History(asker, self.cluster), self._overlap_us, now_us() - self._catch_up_us)
                tasks.create_task(self._beat(samples.round, self.interval_s, sink, now_us))
                if self._records:
                    records = _Records(self, Records(asker, self.cluster), now_us() - self._catch_up_us)
                    tasks.create_task(self._beat(records.round, self._records_s, sink, now_us))
        finally:
            stop.set()
            client.close()

    async def _beat(
        self,
        work: Callable[[Sink, Callable[[], int]], Any],
        interval_s: float,
        sink: Sink,
        now_us: Callable[[], int],
    ) -> None:
        """Rounds at a steady distance, further apart while they fail."""
        failures = 0
        while True:
            begun_us = now_us()
            wait_s = interval_s
            try:
                await work(sink, now_us)
                failures = 0
            except Exception as error:  # noqa: BLE001 - a round that fails never stops the rounds
                failures += 1
                told = str(error) if isinstance(error, GpuwatchError) else f"{type(error).__name__}: {error}"
                sink.failed(self.name, now_us(), told)
                wait_s = max(interval_s, backoff_s(failures, FIRST_WAIT_S, MAX_WAIT_S))
                if isinstance(error, Refused) and error.retry_after_s is not None:
                    wait_s = max(wait_s, error.retry_after_s)
            spent_s = max((now_us() - begun_us) / SECOND_US, 0.0)  # below 0 where the clock was set back
            await asyncio.sleep(max(wait_s - spent_s, 0.0))


class _Samples:
    """The DCGM samples of a source: how far they were read."""

    def __init__(self, source: PrometheusSource, history: History, overlap_us: int, since_us: int) -> None:
        self._source, self._history, self._overlap_us = source, history, overlap_us
        self._since_us = since_us
        self._found_us: int | None = None

    async def round(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Reads and stores what is new, a span at a time. Raises what the server or its answer made wrong."""
        name, history = self._source.name, self._history
        until_us = -(-now_us() // SECOND_US) * SECOND_US
        # What was missed for longer is for `gpuwatch backfill`.
        start_us = max(self._since_us, until_us - self._source._catch_up_us)
        # A clock that was set back does not stop the reading until it has caught up.
        start_us = min(start_us, until_us - self._overlap_us) // SECOND_US * SECOND_US
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
            raise SourceUnreachable(f"{history.name}: its answer lacks something: {lacking[0]}; what it had is stored")
        sink.succeeded(name, now_us(), samples)


class _Records:
    """The scheduler records of a source: how far they were read, and what the store was told."""

    def __init__(self, source: PrometheusSource, records: Records, since_us: int) -> None:
        self._source, self._records = source, records
        self._since_us = since_us
        self._book: Book | None = None

    async def round(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Reads and stores what is new, a span at a time."""
        source, records = self._source, self._records
        until_us = now_us() // SECOND_US * SECOND_US
        if self._book is None:
            book = Book(await sink.open_claims(source.cluster, "kubernetes"))
            self._since_us = max(self._since_us, min(book.newest_us or 0, until_us))
            self._book = book
        if not await in_thread(lambda: records.find(self._since_us - LOOK_BACK_US, until_us)):
            self._since_us = until_us
            return
        start_us = max(self._since_us, until_us - source._catch_up_us) // SECOND_US * SECOND_US
        while start_us < until_us:
            span = start_us - LOOK_BACK_US, min(start_us + RECORDS_LONGEST_US, until_us)
            told = await in_thread(lambda span=span: records.tell(*span))  # type: ignore[misc]
            last = span[1] >= until_us
            tables = self._book.news(told, span[1], last)
            found: list[Batch | Points] = [
                batch for table, rows in tables.items() for batch in table_batches(table, rows, source.cluster)
            ]
            await write(sink, source.name, found, told.rejects, now_us)
            start_us = self._since_us = span[1]
            if told.lacking:
                raise SourceUnreachable(f"{records.name}: its answer lacks something: {told.lacking[0]}")


def _step(samples_a_second: float) -> int:
    """Length of a span with about CHUNK_SAMPLES, microseconds, whole seconds."""
    if samples_a_second <= 0:
        return LONGEST_US
    return min(max(int(CHUNK_SAMPLES / samples_a_second) * SECOND_US, SHORTEST_US), LONGEST_US)


async def in_thread(work: Callable[[], T]) -> T:
    """What `work` returns, done in a thread of its own that dies with the process: a server that hangs holds neither
    the threads that other sources share nor the end of the program."""
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
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="prometheus", daemon=True).start()
    return await done
