"""What live scraping costs: processor time a scrape and memory of the series, for many endpoints of 8 GPUs.

Run with `python -m bench.scrape [ENDPOINTS]`. A second process serves the pages (8 GPUs, 25 fields, about 60 KB, other
values each time); this one scrapes each endpoint every 15 seconds until every one was read ROUNDS times. The sink does
nothing, so that writing is not in it: HTTP, parsing and Arrow batches are.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from bench.exposition import FIELD_COUNT, GPUS, PAGES, pages
from gpuwatch.collectors.dcgm.scrape.source import configure
from gpuwatch.core.model import Points, Records, Rejects
from gpuwatch.core.registry import LiveSource

ENDPOINTS = 1000
ROUNDS = 3
INTERVAL_S = 15.0
MAX_WAIT_S = 600.0


class Counter:
    """A sink that counts."""

    def __init__(self, endpoints: int) -> None:
        self.scrapes = self.samples = self.failures = 0
        self.warm: tuple[float, float] = (0.0, 0.0)  # wall and processor seconds when every endpoint was read once
        self.done = asyncio.Event()
        self._endpoints = endpoints

    async def commit(self, source: str, batches: Sequence[Records | Points], rejects: Rejects | None = None) -> None:
        """Takes the batches as written."""
        self.samples += sum(batch.rows.num_rows for batch in batches if isinstance(batch, Points))

    def succeeded(self, source: str, at_us: int, samples: int) -> None:
        """Counts a scrape."""
        self.scrapes += 1
        if self.scrapes == self._endpoints:
            self.warm = (time.perf_counter(), time.process_time())
        if self.scrapes >= self._endpoints * (1 + ROUNDS):
            self.done.set()

    def failed(self, source: str, at_us: int, error: str) -> None:
        """Counts a failure and shows the first."""
        if not self.failures:
            print(error, file=sys.stderr)
        self.failures += 1

    def added(self, source: LiveSource) -> None:
        """Nothing is listed here."""

    def dropped(self, source: str) -> None:
        """Nothing is listed here."""

    def clock(self, cluster: str, name: str, offset_us: int, at_us: int) -> None:
        """No clock is read here."""

    async def open_claims(self, cluster: str, scheduler: str) -> list[dict[str, Any]]:
        """Nothing is scheduled here."""
        return []

    async def open_rows(self, cluster: str, table: str) -> list[dict[str, Any]]:
        """Nothing is queued here."""
        return []


def serve(connection: Connection) -> None:
    """Serves pages on a free port; each path is a node of its own."""
    marks = [at for at in range(0, PAGES, 10)]
    lines = pages().decode().splitlines()
    size = len(lines) // PAGES
    bodies = [
        "\n".join(line if line[0] == "#" else line.rpartition(" ")[0] for line in lines[at * size : at * size + size])
        + "\n"
        for at in marks
    ]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                node = request.split(b" ", 2)[1].strip(b"/").decode()
                body = bodies[time.time_ns() // 1000 % len(bodies)].replace("GPU-5b4e07f6", f"GPU-{node}").encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(body))
                writer.write(body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def work() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096)
        connection.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(work())


async def scrape(port: int, endpoints: int) -> dict[str, float]:
    """Scrapes every endpoint 1 + ROUNDS times; figures are of the last ROUNDS."""
    problems: list[str] = []
    targets = [f"http://127.0.0.1:{port}/{number:08x}" for number in range(endpoints)]
    before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    table = {"cluster": "c1", "targets": targets, "interval_s": INTERVAL_S}
    sources = configure([table], problems)
    assert problems == []
    counter = Counter(endpoints)
    tasks = [asyncio.create_task(source.run(counter, lambda: time.time_ns() // 1000)) for source in sources]
    await asyncio.wait_for(counter.done.wait(), MAX_WAIT_S)
    wall, processor = time.perf_counter() - counter.warm[0], time.process_time() - counter.warm[1]
    scrapes, samples = counter.scrapes - endpoints, counter.samples
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert samples == counter.scrapes * GPUS * FIELD_COUNT
    return {
        "endpoints": endpoints,
        "samples_per_s": scrapes * GPUS * FIELD_COUNT / wall,
        "processor_ms_per_scrape": processor / scrapes * 1000,
        "cores": processor / wall,
        "failures": counter.failures,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before_mb,
    }


def measure(endpoints: int = ENDPOINTS) -> dict[str, float]:
    """Runs server and scrapes."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    try:
        return asyncio.run(scrape(ours.recv(), endpoints))
    finally:
        server.kill()
        server.join()


if __name__ == "__main__":
    found = measure(int(sys.argv[1]) if len(sys.argv) > 1 else ENDPOINTS)
    print(json.dumps({name: round(value, 3) for name, value in found.items()}))
