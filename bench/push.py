"""Remote-write at work: how much a core takes, how soon it answers while the books are made, how soon Slack hears.

`python -m bench.push durable|ack|alert DIRECTORY [STORE]` prints the figures of one of them as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench import programs, sender
from bench.remote_write import FIELD_COUNT, GPUS, series_bytes
from bench.remote_write import field as protobuf
from gpuwatch.core.clock import MINUTE_US, SECOND_US

NODES = 125
SHARDS, SCRAPES_A_BODY = 50, 4
"""50 connections and 2,000 samples a request: what Prometheus sends with when it catches up."""
BODIES = 32
"""Requests of each connection; the first of each, in which every series is new, is not in the figures."""
STEP_MS = 15_000

PACE_NODES, PACE_BODY = 1000, 500
"""1,000 exporters of 8 GPUs x 25 fields every 15 s: 13,333 samples a second, in requests of 500."""
IDLE_S = 30
PACE_SECONDS_MIN, PACE_SECONDS_MAX = 30, 240

ALERT_MINUTES = 40
ALERT_WAIT_S = 300
SLACK_PORT = 19504

Facts = dict[str, object]


def durable(directory: Path) -> Facts:
    """The same bodies posted to gpuwatch, Prometheus and VictoriaMetrics, each on one core, the sender on another."""
    cores = sorted(os.sched_getaffinity(0))
    server, own = cores[0], set(cores[1:]) or set(cores)
    os.sched_setaffinity(0, own)
    shards = _shards(time.time_ns() // 1_000_000)
    a_body = NODES * GPUS * FIELD_COUNT // SHARDS * SCRAPES_A_BODY
    facts: Facts = {"samples": SHARDS * (BODIES - 1) * a_body, "samples_a_request": a_body, "connections": SHARDS}
    runs: dict[str, tuple[Callable[[], AbstractContextManager[programs.Process]], int]] = {
        "gpuwatch": (lambda: programs.gpuwatch(directory / "gpuwatch", "", cpu=server), programs.GPUWATCH),
        "prometheus": (
            lambda: programs.prometheus(
                directory / "prometheus", "global: {}\n", "--web.enable-remote-write-receiver", cpu=server
            ),
            programs.PROMETHEUS,
        ),
        "victoria": (lambda: programs.victoria(directory / "victoria", cpu=server), programs.VICTORIA),
    }
    for name, (start, port) in runs.items():
        if name == "gpuwatch" or programs.installed(name):
            facts[name] = _post(start(), f"http://127.0.0.1:{port}/api/v1/write", shards, a_body)
    return facts


def _shards(now_ms: int) -> list[list[bytes]]:
    """The bodies of each connection: SCRAPES_A_BODY scrapes of the same series each, up to now."""
    dice = random.Random(1)
    series = sender.fleet_series(NODES)
    size = len(series) // SHARDS
    first_ms = now_ms - BODIES * SCRAPES_A_BODY * STEP_MS
    times = [
        [first_ms + (number * SCRAPES_A_BODY + k) * STEP_MS for k in range(SCRAPES_A_BODY)] for number in range(BODIES)
    ]
    return [[sender.body(series[at : at + size], some, dice) for some in times] for at in range(0, len(series), size)]


def _post(
    running: AbstractContextManager[programs.Process], address: str, shards: list[list[bytes]], a_body: int
) -> Facts:
    with running as process:
        asyncio.run(sender.send_all(address, [bodies[:1] for bodies in shards], a_body))
        before, start = programs.cpu_s(process.pid), time.perf_counter()
        sent = asyncio.run(sender.send_all(address, [bodies[1:] for bodies in shards], a_body))
        wall, used = time.perf_counter() - start, programs.cpu_s(process.pid) - before
        return {
            "samples_a_s": sent.samples / wall,
            "cpu_s_a_million": used / sent.samples * 1e6 if sent.samples else None,
            "refused": sent.refused,
            "ack_p50_ms": statistics.median(sent.seconds) * 1000,
            "peak_rss_mb": programs.peak_mb(process.pid),
        }


def ack(directory: Path, store: Path, now_us: int) -> Facts:
    """Acks at the pace of 1,000 exporters while the week of `store`, which ends at `now_us`, is analysed."""
    series = sender.fleet_series(PACE_NODES)
    with programs.gpuwatch(directory, "", data=store, now_us=now_us) as process:
        before, start = programs.cpu_s(process.pid), time.perf_counter()
        sent = asyncio.run(_paced(series, now_us))
        wall, used = time.perf_counter() - start, programs.cpu_s(process.pid) - before
        metrics = programs.own_metrics()
        peak = programs.peak_mb(process.pid)
    first = len(series) // PACE_BODY
    times = sorted(sent.seconds[first:])
    return {
        "requests": len(times),
        "first_round_max_ms": max(sent.seconds[:first]) * 1000,
        "samples_a_s": sent.samples / wall,
        "refused": sent.refused,
        **{f"p{share}_ms": times[int(len(times) * share / 100)] * 1000 for share in (50, 95, 99)},
        "max_ms": times[-1] * 1000,
        "seconds": wall,
        "analysis_s": metrics["gpuwatch_analysis_seconds"],
        "cores": used / wall,
        "peak_rss_mb": peak,
    }


async def _paced(series: list[bytes], now_us: int) -> sender.Sent:
    """Requests at even distances, each on a free connection, until the first analysis has ended."""
    sent = sender.Sent()
    dice = random.Random(2)
    address = f"http://127.0.0.1:{programs.GPUWATCH}/api/v1/write?cluster=push"
    free: list[tuple[float, sender.Connection]] = []
    waiting: set[asyncio.Task[None]] = set()
    pause = PACE_BODY / (len(series) * 1000 / STEP_MS)
    begun, number, looked, done_us = time.perf_counter(), 0, 0.0, now_us

    async def post(content: bytes) -> None:
        last, connection = free.pop() if free else (time.perf_counter(), None)
        if connection is None or time.perf_counter() - last > IDLE_S:  # the server closes what is idle for long
            connection = await sender.Connection.open(address)
        await connection.post(content, PACE_BODY, sent)
        free.append((time.perf_counter(), connection))

    while (elapsed := time.perf_counter() - begun) < PACE_SECONDS_MAX:
        if elapsed > looked + 2:
            looked = elapsed
            metrics = await asyncio.to_thread(programs.own_metrics)
            ended = metrics.get('gpuwatch_analyses_total{outcome="ok"}', 0) > 0
            if ended and elapsed > PACE_SECONDS_MIN:
                break
        at = number * PACE_BODY % len(series)
        done_us = now_us + int(elapsed * SECOND_US)
        content = sender.body(series[at : at + PACE_BODY], [done_us // 1000], dice)
        task = asyncio.create_task(post(content))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
        number += 1
        await asyncio.sleep(max(0.0, begun + number * pause - time.perf_counter()))
    await asyncio.gather(*waiting)
    return sent


def alert(directory: Path) -> Facts:
    """Seconds from the ack of the samples of an idle, held node to the message at the channel."""
    heard = threading.Event()
    messages: list[str] = []

    class Slack(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")
            heard.set()

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    receiver = ThreadingHTTPServer(("127.0.0.1", SLACK_PORT), Slack)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    config = (
        '[alerts]\nallow_private = ["127.0.0.1"]\n\n[[channel]]\nname = "bench"\nkind = "slack"\n'
        f'url = "http://127.0.0.1:{SLACK_PORT}/services/T0/B0/secret"\n'
    )
    try:
        with programs.gpuwatch(directory, config):
            _set_rate()
            sent = asyncio.run(
                sender.send_all(
                    f"http://127.0.0.1:{programs.GPUWATCH}/api/v1/write", [_idle_node(time.time_ns() // 1000)], 1
                )
            )
            acked = time.perf_counter()
            arrived = heard.wait(ALERT_WAIT_S)
            seconds = time.perf_counter() - acked
    finally:
        receiver.shutdown()
        receiver.server_close()
    text = messages[0] if messages else ""
    return {"seconds": seconds if arrived else None, "names_the_rule": "idle" in text, "refused": sent.refused}


def _set_rate() -> None:
    """A price: how bad a finding is follows from money a day."""
    rate = {"gpu_model": sender.MODEL, "pricing": "owned", "usd_per_gpu_hour": "2.49"}
    rate["valid_from"] = "2020-01-01T00:00:00Z"
    request = urllib.request.Request(
        f"http://127.0.0.1:{programs.GPUWATCH}/api/v1/rates",
        json.dumps({"items": [rate]}).encode(),
        {"Content-Type": "application/json"},
        method="PUT",
    )
    urllib.request.urlopen(request, timeout=60).read()


def _idle_node(now_us: int) -> list[bytes]:
    """ALERT_MINUTES of the scrapes of a node whose GPUs one pod holds and nothing uses, a minute a body."""
    encoded = [
        series_bytes(
            sender.labels(0, gpu, name, "notebook-0"),
            [(_idle(name), (now_us - minute * MINUTE_US) // 1000 + k * STEP_MS) for k in range(4)],
        )
        for minute in range(ALERT_MINUTES, 0, -1)
        for name in sender.NAMES
        for gpu in range(GPUS)
    ]
    size = len(sender.NAMES) * GPUS
    return [
        bytes(sender.SNAPPY.compress(b"".join(protobuf(1, one) for one in encoded[at : at + size]), asbytes=True))
        for at in range(0, len(encoded), size)
    ]


def _idle(name: str) -> float:
    if "POWER" in name:
        return 70.0
    if "CLOCK" in name:
        return 345.0
    return 30.0 if "TEMP" in name else 0.0


def main(name: str, directory: str, store: str = "", now_us: str = "0") -> None:
    """Prints the figures of one measurement."""
    base = Path(directory)
    found = {
        "durable": lambda: durable(base),
        "ack": lambda: ack(base, Path(store), int(now_us)),
        "alert": lambda: alert(base),
    }
    print(json.dumps(found[name]()))


if __name__ == "__main__":
    main(*sys.argv[1:])
