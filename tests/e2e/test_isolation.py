"""Sources that are down, slow, lying and flooding, all at once, beside three good ones that keep their beat."""

from __future__ import annotations

import asyncio
import functools
import gzip
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

from bench.remote_write import body
from gpuwatch.core.clock import SECOND_US
from gpuwatch.core.errors import StoreBusy
from gpuwatch.service.pushed import Received
from gpuwatch.service.service import Service
from gpuwatch.settings import Settings
from tests.e2e.process import gpu_labels
from tests.worlds.patience import FACTOR, PATIENCE_S, wait_until

BEATS = 6
"""Beats that each good source must have kept."""
BEATS_S = [beat_s * max(1.0, FACTOR) for beat_s in (1, 5, 25)]
"""Seconds of a beat. A machine that is too busy for one tries the next: bad sources that hold others up do so at every pace."""
GOOD = 3
FLOOD_AT_ONCE, FLOOD_SERIES = 8, 2_000
MIB = 1 << 20
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def says(*pieces: bytes, endless: bytes = b"") -> Answer:
    """Answers each connection's first request with the pieces, then with `endless` again and again, and hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
        while endless:
            writer.write(endless)
            await writer.drain()

    return answer


async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes the request and never answers."""
    await asyncio.sleep(3600)


async def drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers a byte at a time."""
    writer.write(OK + b"Content-Length: 100000\r\n\r\n")
    while True:
        writer.write(b"#")
        await writer.drain()
        await asyncio.sleep(0.05)


def page(gpu: int) -> bytes:
    """A whole answer of a good exporter."""
    labels = f'gpu="0",UUID="GPU-good-{gpu}",Hostname="good-{gpu}"'
    body = f"DCGM_FI_PROF_SM_ACTIVE{{{labels}}} 0.5\nDCGM_FI_DEV_GPU_UTIL{{{labels}}} 50\n".encode()
    return OK + b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


@functools.cache
def bomb() -> bytes:
    """200 MiB of zeros, packed."""
    return gzip.compress(bytes(200 * MIB), 1)


async def explodes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers with more than it seems."""
    body = bomb()
    await says(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body), body)(reader, writer)


BAD: dict[str, Answer] = {
    "hangs": hangs,
    "drips": drips,
    "garbage": says(bytes(range(256)) * 4),
    "endless": says(OK + b"\r\n", endless=b"DCGM_FI_DEV_GPU_UTIL 1\n" * 3_000),
    "too_short": says(OK + b"Content-Length: 999999\r\n\r\nDCGM_FI_DEV_GPU_UTIL 1\n"),
    "bomb": explodes,
    "html": says(OK + b"Content-Length: 6\r\n\r\n<html>"),
    "nothing_of_ours": says(OK + b"Content-Length: 5\r\n\r\nup 1\n"),
}


@contextmanager
def exporters() -> Iterator[dict[str, str]]:
    """Every exporter, good and bad, in a thread of their own: addresses by name."""
    addresses: dict[str, str] = {}
    ready = threading.Event()

    bomb()

    async def open_all() -> None:
        kinds = BAD | {f"good_{gpu}": says(page(gpu)) for gpu in range(GOOD)}
        for name, answer in kinds.items():
            server = await asyncio.start_server(closing(answer), "127.0.0.1", 0)
            addresses[name] = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/{name}"
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            addresses["down"] = f"http://127.0.0.1:{nobody.getsockname()[1]}/down"
        ready.set()

    async def run() -> None:
        await open_all()
        await stopping.wait()

    stopping = asyncio.Event()
    thread = threading.Thread(target=lambda: runner.run(run()), daemon=True)
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread.start()
        assert ready.wait(PATIENCE_S)
        yield addresses
        loop.call_soon_threadsafe(stopping.set)
        thread.join(PATIENCE_S)


def closing(answer: Answer) -> Answer:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    return serve


class Flood(threading.Thread):
    """Remote-write as fast as it is taken, and beyond what is taken at once."""

    def __init__(self, service: Service) -> None:
        super().__init__(daemon=True)
        self._service = service
        at_ms = time.time_ns() // 1_000_000
        self._bodies = [  # made before: the sender's own work is not what is tested
            body([(gpu_labels(f"GPU-flood-{n}"), [(0.5, at_ms - 1000 * k)]) for n in range(FLOOD_SERIES)])
            for k in range(FLOOD_AT_ONCE)
        ]
        self.stopping = threading.Event()
        self.taken = self.refused = 0

    def run(self) -> None:
        waiting: list[Future[Received]] = []
        number = 0
        while not self.stopping.is_set():
            number += 1
            try:
                waiting.append(
                    self._service.receive("remote-write", self._bodies[number % FLOOD_AT_ONCE], "", "c2", "flood")
                )
            except StoreBusy:
                self.refused += 1
                self.taken += len([each.result(PATIENCE_S) for each in waiting])
                waiting.clear()


def beats(service: Service, gpu: int, beat_s: float) -> list[int]:
    """Beats, from the second reading, at which a good exporter was read, as stored. The first one waits for the start."""
    with service.reader() as store:
        rows = store.sql(
            "select observed_us from sample_tail join context using (context_id) where gpu = $gpu order by 1",
            gpu=f"GPU-good-{gpu}",
        )
    times = [row[0] for row in rows[1:]]
    return [round((at_us - times[0]) / SECOND_US / beat_s) for at_us in times]


@dataclass
class Seen:
    """What was read beside bad sources and a flood."""

    beats: list[list[int]]
    """Of each good exporter."""
    good: list[str]
    """States of the good exporters."""
    without_error: dict[str, str]
    """Bad exporters that nothing is reported of, and their states."""
    flood: Flood

    @property
    def on_time(self) -> bool:
        """Whether no beat was missed, and none came twice."""
        return self.beats == [list(range(len(each))) for each in self.beats]


def seen_at(beat_s: float) -> Seen:
    """Reads all exporters every `beat_s` seconds until the good ones have their beats."""
    with exporters() as addresses:
        table = {"cluster": "c1", "targets": list(addresses.values()), "interval_s": beat_s, "timeout_s": 0.9 * beat_s}
        service = Service.open(
            None,
            Settings(),
            {"dcgm": [table | {"max_bytes": MIB}]},
            now_us=lambda: time.time_ns() // 1000,
        )
        service.start()
        flood = Flood(service)
        flood.start()
        try:
            wait_until(
                lambda: all(len(beats(service, gpu, beat_s)) > BEATS for gpu in range(GOOD)),
                "beats of the good ones",
                120 + 4 * BEATS * beat_s,
            )
            kept = [beats(service, gpu, beat_s) for gpu in range(GOOD)]
            states = {source.name.rpartition("/")[2]: source for source in service.sources()}
            now_us = service.now_us()
        finally:
            flood.stopping.set()
            flood.join(PATIENCE_S)
            service.stop()
    good = [states[f"good_{gpu}"].state(now_us) for gpu in range(GOOD)]
    silent = {name: states[name].state(now_us) for name in (*BAD, "down") if states[name].error is None}
    return Seen(kept, good, silent, flood)


def test_bad_sources_leave_the_good_ones_on_time() -> None:
    for beat_s in BEATS_S:
        seen = seen_at(beat_s)
        if seen.on_time:
            break

    assert seen.on_time, seen.beats
    assert ["ok"] * GOOD == seen.good
    assert {} == seen.without_error
    assert seen.flood.refused > 0 and seen.flood.taken > FLOOD_AT_ONCE, "the flood was none"
