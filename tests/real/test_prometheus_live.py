"""The live source `prometheus` beside a real Prometheus and a real VictoriaMetrics that scrape every second."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.prometheus.source import configure
from gpuwatch.core.model import Points, Records, Rejects
from gpuwatch.core.registry import LiveSource
from gpuwatch.imports.files import seal_all
from gpuwatch.store.database import Store
from tests.real.test_backfill import running
from tests.worlds.patience import wait_until_on_loop
from tests.worlds.ports import free_port

LATE_MS = 3_000
LABELS = 'UUID="{gpu}",gpu="{index}",Hostname="n1",exported_namespace="lab",exported_pod="train"'
KSM = """\
kube_pod_container_resource_requests{namespace="lab",pod="train",uid="u1",node="n1",container="c",resource="nvidia_com_gpu"} 2
kube_pod_info{namespace="lab",pod="train",uid="u1",node="n1"} 1
kube_pod_owner{namespace="lab",pod="train",uid="u1",owner_kind="Job",owner_name="fit",owner_is_controller="true"} 1
kube_pod_status_phase{namespace="lab",pod="train",uid="u1",phase="Running"} 1
"""
SCRAPE = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
- {{job_name: dcgm, metrics_path: /dcgm, static_configs: [{{targets: ['{at}']}}]}}
- {{job_name: ksm, metrics_path: /ksm, honor_labels: true, static_configs: [{{targets: ['{at}']}}]}}
"""

Reading = tuple[str, int, float]
"""GPU, milliseconds, watts."""
Start = Callable[[Path, str, int], list[str]]
"""Directory, target, port -> the command of a server."""


class Exporters(ThreadingHTTPServer):
    """A page of two GPUs with times of their own and one of kube-state-metrics; notes what it served.

    The second GPU is told of an instant ago, and each third page has an older reading that was not told before.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.served: list[set[Reading]] = []
        self.start_s = time.time() - 60

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def page(self, path: str) -> str:
        """What a scrape gets."""
        if path == "/ksm":
            started = (
                f'kube_pod_container_state_started{{namespace="lab",pod="train",uid="u1",container="c"}} {self.start_s}'
            )
            return f"{KSM}{started}\n"
        number, now_ms = len(self.served), time.time_ns() // 1_000_000
        late = number % 3 == 2
        readings = {("GPU-a", now_ms, 100.5 + number), ("GPU-b", now_ms - late * LATE_MS - 1, 200.25 + number)}
        self.served.append(readings)
        return "".join(
            f"DCGM_FI_DEV_POWER_USAGE{{{LABELS.format(gpu=gpu, index='ab'.index(gpu[-1]))}}} {value} {at_ms}\n"
            for gpu, at_ms, value in sorted(readings)
        )


class _Handler(BaseHTTPRequestHandler):
    server: Exporters

    def do_GET(self) -> None:
        body = self.server.page(self.path).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@contextmanager
def exporters() -> Iterator[Exporters]:
    server = Exporters()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def prometheus(directory: Path, target: str, port: int) -> list[str]:
    """The command of a Prometheus that scrapes the target, and takes what is late."""
    file = directory / "prometheus.yml"
    file.write_text(SCRAPE.format(at=target) + "storage: {tsdb: {out_of_order_time_window: 10m}}\n")
    data = f"--storage.tsdb.path={directory / 'tsdb'}"
    return ["prometheus", f"--config.file={file}", data, f"--web.listen-address=127.0.0.1:{port}"]


def victoria(directory: Path, target: str, port: int) -> list[str]:
    """The command of a VictoriaMetrics that scrapes the target."""
    file = directory / "scrape.yml"
    file.write_text(SCRAPE.format(at=target))
    data = f"-storageDataPath={directory / 'vm'}"
    return ["victoria-metrics", f"-promscrape.config={file}", data, f"-httpListenAddr=127.0.0.1:{port}"]


class StoreSink:
    """Appends what a source commits to a store; remembers what it says of itself."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.good = 0
        self.errors: list[str] = []
        self.refused: dict[str, int] = {}

    async def commit(self, source: str, batches: Sequence[Records | Points], rejects: Rejects | None = None) -> None:
        self.refused |= rejects.counts if rejects else {}
        with self.store.transaction():
            for batch in batches:
                self.store.append(batch)

    def succeeded(self, source: str, at_us: int, samples: int) -> None:
        self.good += 1

    def failed(self, source: str, at_us: int, error: str) -> None:
        self.errors.append(error)

    def added(self, source: LiveSource) -> None:
        raise AssertionError("it finds no other sources")

    def dropped(self, source: str) -> None:
        raise AssertionError("it finds no other sources")

    def clock(self, cluster: str, name: str, offset_us: int, at_us: int) -> None:
        assert abs(offset_us) < 60_000_000  # both are on this machine

    async def open_claims(self, cluster: str, scheduler: str) -> list[dict[str, Any]]:
        return self.store.rows("service/open_claim", cluster=cluster, scheduler=scheduler)

    async def open_rows(self, cluster: str, table: str) -> list[dict[str, Any]]:
        raise AssertionError("it remembers nothing of queues")

    def readings(self) -> list[Reading]:
        """What is stored, every row."""
        return self.store.sql(
            "select gpu, observed_us // 1000, power_watts from (from sample_tail union all by name from sample)"
            " join context using (context_id) order by all"
        )

    def claims(self) -> list[tuple[object, ...]]:
        """What claims say, each once."""
        return self.store.sql(
            "select distinct job_id, pod, node, device_count, start_us, end_us from claim order by all"
        )


@asynccontextmanager
async def watched(url: str, sink: StoreSink) -> AsyncIterator[None]:
    """The source, new, until the end of the block."""
    problems: list[str] = []
    [source] = configure([{"url": url, "cluster": "c1", "interval_s": 1, "catch_up_s": 600}], problems)
    assert [] == problems
    task = asyncio.create_task(source.run(sink, lambda: time.time_ns() // 1000))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def read_through_restarts(directory: Path, server: Start, pages: Exporters, sink: StoreSink) -> None:
    """A source that starts while its server runs; starts again; and whose server is away for a while.

    At its end the sink has every page but those that were on their way when the server went.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    def has(page: int) -> Callable[[], bool]:
        return lambda: len(pages.served) > page and pages.served[page] <= set(sink.readings())

    def up(name: str) -> AbstractContextManager[None]:
        return running(server(directory, pages.address, port), f"{url}/-/healthy", directory / name)

    with up("first.log"):
        await wait_until_on_loop(lambda: len(pages.served) > 2, "pages were scraped")
        async with watched(url, sink):
            await wait_until_on_loop(has(4), "what was scraped before and after the start")
            await wait_until_on_loop(lambda: bool(sink.claims()), "a claim")
        rows = sink.readings()
        assert sorted(set(rows)) == rows
        seen = len(pages.served)
        async with watched(url, sink):
            await wait_until_on_loop(has(seen + 1), "what was scraped while it was away and after")
    gone = len(pages.served)
    async with watched(url, sink):
        await wait_until_on_loop(
            lambda: any("cannot be reached" in error for error in sink.errors), "told that it is away"
        )
    with up("second.log"):
        await wait_until_on_loop(lambda: len(pages.served) > gone + 2, "pages were scraped again")
        async with watched(url, sink):
            last = len(pages.served)
            await wait_until_on_loop(has(last), "what came after the return")
    stored = set(sink.readings())
    lost = {number for number, page in enumerate(pages.served) if not page <= stored}
    assert set() == stored - {reading for page in pages.served for reading in page}
    # On their way when the server went, or served after the last look.
    assert set() == lost - {gone - 2, gone - 1, *range(last + 1, len(pages.served))}


def test_what_was_served_is_stored_once_whatever_stops(tmp_path: Path) -> None:
    servers = {"prometheus": prometheus, "victoria-metrics": victoria}
    here = [name for name in servers if shutil.which(name)]
    if not here:
        pytest.skip(f"not installed: {', '.join(servers)}")
    for name in here:
        (tmp_path / name).mkdir()

    async def together(tellings: Sequence[Coroutine[Any, Any, None]]) -> None:
        await asyncio.gather(*tellings)

    with ExitStack() as open_until_end:
        pages = [open_until_end.enter_context(exporters()) for _ in here]
        sinks = [StoreSink(open_until_end.enter_context(Store.open(None, threads=1))) for _ in here]
        every = zip(here, pages, sinks, strict=True)
        asyncio.run(
            together([read_through_restarts(tmp_path / name, servers[name], own, sink) for name, own, sink in every])
        )
        for sink, own in zip(sinks, pages, strict=True):
            seal_all(sink.store)

            rows = sink.readings()
            assert sorted(set(rows)) == rows
            assert {} == sink.refused
            [(job, pod, node, count, began_us, end_us)] = sink.claims()
            assert ("lab/fit", "train", "n1", 2, None) == (job, pod, node, count, end_us)
            assert abs(int(str(began_us)) - round(own.start_s * 1_000_000)) <= 1_000_000
