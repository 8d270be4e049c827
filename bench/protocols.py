"""Processor seconds per million samples by protocol: gpuwatch, VictoriaMetrics and Prometheus, the same samples to each.

`python -m bench.protocols [DIRECTORY]` prints the figures as JSON. Pushed: NODES nodes of 8 GPUs x 25 fields in requests
of REQUEST_NODES nodes, one sample a series, ROUNDS times; the first two rounds, in which every series is new, are not in
the figures. Scraped: the pages of as many exporters every second. Each server has one core, the sender another; what a
server does in the SETTLE_S after the last answer is counted too, analyses of gpuwatch are not.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa

from bench import otlp, programs
from bench.remote_write import FIELD_COUNT, GPUS, field, series_bytes
from bench.sender import NAMES, labels
from gpuwatch.collectors.push.remote_write_wire import varint

NODES, REQUEST_NODES, ROUNDS, WARM = 120, 10, 30, 2
CONNECTIONS = NODES // REQUEST_NODES
STEP_MS = 15_000
SETTLE_S = 3.0
SCRAPE_S = 20.0
EXPORTERS_PORT = 19510
SNAPPY = pa.Codec("snappy")
QUIET = "[gpuwatch]\nanalyze_interval_s = 3600\n"
WRITE_1 = (
    "Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\nX-Prometheus-Remote-Write-Version: 0.1.0\r\n"
)
WRITE_2 = (
    "Content-Type: application/x-protobuf;proto=io.prometheus.write.v2.Request\r\nContent-Encoding: snappy\r\n"
    "X-Prometheus-Remote-Write-Version: 2.0.0\r\n"
)
OTLP = "Content-Type: application/x-protobuf\r\n"

Facts = dict[str, object]
Start = Callable[[], AbstractContextManager[programs.Process]]
Body = Callable[[int, int, random.Random], bytes]
"""First node, time in milliseconds, dice -> a body of REQUEST_NODES nodes."""


def measure(directory: Path) -> Facts:
    """Every protocol that each program takes."""
    cores = sorted(os.sched_getaffinity(0))
    server = cores[0]
    os.sched_setaffinity(0, set(cores[1:]) or set(cores))
    write, metrics = "/api/v1/write", "/api/v1/otlp/v1/metrics"

    def gpuwatch(name: str, config: str = QUIET) -> Start:
        return lambda: programs.gpuwatch(directory / name, config, cpu=server)

    def victoria(name: str, config: str = "") -> Start:
        return lambda: programs.victoria(directory / name, config, cpu=server)

    def prometheus(name: str, config: str = "global: {}\n") -> Start:
        receives = "--web.enable-remote-write-receiver"
        return lambda: programs.prometheus(directory / name, config, receives, cpu=server)

    facts: Facts = {"samples": (ROUNDS - WARM) * NODES * GPUS * FIELD_COUNT}
    pushed: list[tuple[str, Start, str, str, Body]] = [
        ("gpuwatch_1", gpuwatch("g1"), f"{programs.GPUWATCH}{write}", WRITE_1, body_1),
        ("gpuwatch_2", gpuwatch("g2"), f"{programs.GPUWATCH}{write}", WRITE_2, body_2),
        ("gpuwatch_otlp", gpuwatch("go"), f"{programs.GPUWATCH}{metrics}", OTLP, body_otlp),
        ("victoria_1", victoria("v1"), f"{programs.VICTORIA}{write}", WRITE_1, body_1),
        ("prometheus_1", prometheus("p1"), f"{programs.PROMETHEUS}{write}", WRITE_1, body_1),
    ]
    for name, start, address, headers, make in pushed:
        if name.startswith("gpuwatch") or programs.installed(name.partition("_")[0]):
            facts[name] = asyncio.run(_pushed(start(), address, headers, make))
    ours = ", ".join(f'"http://127.0.0.1:{EXPORTERS_PORT}/{n}/metrics"' for n in range(NODES))
    scraped: list[tuple[str, Start]] = [
        ("gpuwatch_text", gpuwatch("gt", f"{QUIET}[[dcgm]]\ninterval_s = 1\ntargets = [{ours}]\n")),
        ("victoria_text", victoria("vt", _jobs())),
        ("prometheus_text", prometheus("pt", _jobs())),
    ]
    for name, start in scraped:
        if name.startswith("gpuwatch") or programs.installed(name.partition("_")[0]):
            facts[name] = _scraped(start())
    return facts | ratios(facts)


def ratios(facts: Facts) -> Facts:
    """Processor time of each of ours to VictoriaMetrics' for the same samples; for what it lacks, to its remote-write."""
    found: Facts = {}
    for ours, theirs in (("1", "1"), ("2", "1"), ("otlp", "1"), ("text", "text")):
        mine, peer = facts.get(f"gpuwatch_{ours}"), facts.get(f"victoria_{theirs}")
        if isinstance(mine, dict) and isinstance(peer, dict):
            found[f"ratio_{ours}"] = mine["cpu_s_a_million"] / peer["cpu_s_a_million"]
    return found


async def _pushed(running: AbstractContextManager[programs.Process], address: str, headers: str, make: Body) -> Facts:
    """Sends rounds over CONNECTIONS connections, each with its nodes."""
    dice = random.Random(1)
    first_ms = time.time_ns() // 1_000_000 - ROUNDS * STEP_MS
    bodies = [
        [make(node, first_ms + number * STEP_MS, dice) for number in range(ROUNDS)]
        for node in range(0, NODES, REQUEST_NODES)
    ]
    with running as process:
        await asyncio.gather(*(_send(address, headers, each[:WARM]) for each in bodies))
        before, start = programs.cpu_s(process.pid), time.perf_counter()
        taken = await asyncio.gather(*(_send(address, headers, each[WARM:]) for each in bodies))
        wall = time.perf_counter() - start
        await asyncio.sleep(SETTLE_S)
        used = programs.cpu_s(process.pid) - before
        samples = (ROUNDS - WARM) * NODES * GPUS * FIELD_COUNT
        return {
            "cpu_s_a_million": used / samples * 1e6,
            "samples_a_s": samples / wall,
            "bytes_a_sample": sum(len(data) for each in bodies for data in each) / samples * (ROUNDS - WARM) / ROUNDS,
            "ack_p50_ms": statistics.median(seconds for each in taken for seconds in each) * 1000,
            "peak_rss_mb": programs.peak_mb(process.pid),
        }


async def _send(address: str, headers: str, bodies: Sequence[bytes]) -> list[float]:
    """Posts bodies one after the other over one connection; seconds of each. Raises RuntimeError for another answer than 2xx."""
    place, _, path = address.partition("/")
    reader, writer = await asyncio.open_connection("127.0.0.1", int(place))
    taken = []
    for data in bodies:
        start = time.perf_counter()
        head = f"POST /{path} HTTP/1.1\r\nHost: 127.0.0.1:{place}\r\n{headers}Content-Length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        length = next((int(line.split(":")[1]) for line in lines if line.startswith("content-length:")), 0)
        answer = await reader.readexactly(length)
        if not lines[0].split(" ")[1].startswith("2"):
            raise RuntimeError(f"{address}: {lines[0]} {answer[:300]!r}")
        taken.append(time.perf_counter() - start)
    writer.close()
    return taken


def _scraped(running: AbstractContextManager[programs.Process]) -> Facts:
    """Every exporter each second for SCRAPE_S, after a round that opens the connections."""
    with _exporters(), running as process:
        time.sleep(3)
        before, count = programs.cpu_s(process.pid), _scrapes()
        time.sleep(SCRAPE_S)
        samples = (_scrapes() - count) * GPUS * FIELD_COUNT
        used = programs.cpu_s(process.pid) - before
        return {
            "cpu_s_a_million": used / samples * 1e6,
            "samples_a_s": samples / SCRAPE_S,
            "peak_rss_mb": programs.peak_mb(process.pid),
        }


@contextmanager
def _exporters() -> Iterator[None]:
    command = [sys.executable, "-m", "bench.exporters", str(EXPORTERS_PORT), str(NODES)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        programs.end(process)


def _scrapes() -> int:
    times = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{EXPORTERS_PORT}/scrapes", timeout=60).read())
    return sum(map(len, times))


def _jobs() -> str:
    jobs = [
        f"- job_name: n{n}\n  metrics_path: /{n}/metrics\n  static_configs:\n  - targets: ['127.0.0.1:{EXPORTERS_PORT}']\n"
        for n in range(NODES)
    ]
    return f"global:\n  scrape_interval: 1s\nscrape_configs:\n{''.join(jobs)}"


# Bodies ----------------------------------------------------------------------------------------------------------------


def _readings(first: int, dice: random.Random) -> Iterator[tuple[dict[str, str], float]]:
    for node in range(first, first + REQUEST_NODES):
        for name in NAMES:
            for gpu in range(GPUS):
                yield labels(node, gpu, name, f"pretrain-worker-{node * GPUS + gpu}"), round(dice.random(), 3)


def body_1(first: int, at_ms: int, dice: random.Random) -> bytes:
    """Remote-write 1.0."""
    parts = [field(1, series_bytes(of, [(value, at_ms)])) for of, value in _readings(first, dice)]
    return bytes(SNAPPY.compress(b"".join(parts), asbytes=True))


def body_2(first: int, at_ms: int, dice: random.Random) -> bytes:
    """Remote-write 2.0: each text once, and what kind each series is, as Prometheus 3 writes it."""
    symbols: dict[str, int] = {"": 0}
    series = []
    for of, value in _readings(first, dice):
        texts = [text for pair in sorted(of.items()) for text in pair]
        numbers = b"".join(varint(symbols.setdefault(text, len(symbols))) for text in texts)
        series.append(field(5, field(1, numbers) + series_bytes({}, [(value, at_ms)]) + field(5, b"\x08\x02")))
    table = b"".join(field(4, text.encode()) for text in symbols)
    return bytes(SNAPPY.compress(table + b"".join(series), asbytes=True))


def body_otlp(first: int, at_ms: int, dice: random.Random) -> bytes:
    """OTLP as a collector's `prometheus` receiver forwards what it scraped."""
    resources = []
    for node in range(first, first + REQUEST_NODES):
        metrics = []
        for name in NAMES:
            points = []
            for gpu in range(GPUS):
                of = labels(node, gpu, name, f"pretrain-worker-{node * GPUS + gpu}")
                kept = {key: value for key, value in of.items() if key not in ("__name__", "instance", "job")}
                kept["pod"], kept["namespace"] = kept.pop("exported_pod"), kept.pop("exported_namespace")
                points.append(otlp.point(kept, at_ms * 1000, round(dice.random(), 3)))
            metrics.append(otlp.metric(name, points))
        attributes = {"service.name": "dcgm-exporter", "service.instance.id": f"push-node-{node:04d}:9400"}
        resources.append((attributes, metrics))
    return otlp.request(resources)


def main() -> None:
    """Prints the figures."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(Path(sys.argv[1])), indent=1))
        return
    with tempfile.TemporaryDirectory(prefix="gpuwatch-protocols-") as folder:
        print(json.dumps(measure(Path(folder)), indent=1))


if __name__ == "__main__":
    main()
