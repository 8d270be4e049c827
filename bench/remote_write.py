"""How fast remote-write requests become points, and lie on disk: samples a second of processor time.

Run with `python -m bench.remote_write`. A fleet of 100 nodes of 8 GPUs, 25 fields, 11 labels, one sample a series, 500 or
2,000 samples a request, as Prometheus sends them. Decoding is the median of five runs; labels are known from the first round on, as after a minute of service.
"""

from __future__ import annotations

import json
import random
import statistics
import struct
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from gpuwatch.collectors.push.remote_write import RemoteWrite
from gpuwatch.core.fields import FIELDS
from gpuwatch.core.model import Points, Rejects
from gpuwatch.service.service import Service
from gpuwatch.settings import Settings

NODES, GPUS, FIELD_COUNT = 100, 8, 25
REQUEST_SIZES = (500, 2000)
RUNS = 5
DURABLE_ROUNDS = 10
SHARDS = 50
NOW_MS = 1_790_000_000_000
STEP_MS = 15_000
ZEROS = 0.3
"""Share of readings that are exactly 0, which the wire writes shorter."""


def body(series: Sequence[tuple[dict[str, str], Sequence[tuple[float, int]]]]) -> bytes:
    """An uncompressed prometheus.WriteRequest of (labels, [(value, time in milliseconds)])."""
    return b"".join(field(1, series_bytes(labels, samples)) for labels, samples in series)


def series_bytes(labels: dict[str, str], samples: Sequence[tuple[float, int]]) -> bytes:
    """An encoded prometheus.TimeSeries."""
    encoded = b"".join(field(1, field(1, n.encode()) + field(2, v.encode())) for n, v in sorted(labels.items()))
    return encoded + b"".join(field(2, _sample(value, at_ms)) for value, at_ms in samples)


def _sample(value: float, at_ms: int) -> bytes:
    double = struct.pack("<d", value)
    return (b"\x09" + double if any(double) else b"") + b"\x10" + _varint(at_ms % (1 << 64))


def field(number: int, content: bytes) -> bytes:
    """A protobuf field of bytes, text or a message."""
    return bytes((number << 3 | 2,)) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    return bytes((number,)) if number < 0x80 else bytes((number & 0x7F | 0x80,)) + _varint(number >> 7)


def labels_of_fleet() -> list[dict[str, str]]:
    """The label sets that Prometheus sends for the fleet."""
    names = [known.name for known in FIELDS if known.column and not known.divisor > 1][:FIELD_COUNT]
    return [
        {
            "__name__": name,
            "DCGM_FI_DRIVER_VERSION": "595.58.03",
            "Hostname": f"gpu-node-{node:04d}",
            "UUID": f"GPU-5b4e07f6-3a86-4340-{node:04x}-25f2a83cdc{gpu:02d}",
            "device": f"nvidia{gpu}",
            "exported_namespace": "research",
            "exported_pod": f"pretrain-llm-worker-{node * GPUS + gpu}",
            "gpu": str(gpu),
            "instance": f"gpu-node-{node:04d}:9400",
            "job": "dcgm-exporter",
            "modelName": "NVIDIA H100 80GB HBM3",
            "pci_bus_id": f"00000000:{gpu:02d}:07.0",
        }
        for node in range(NODES)
        for name in names
        for gpu in range(GPUS)
    ]


def requests(size: int, at_ms: int, seed: int = 1) -> list[bytes]:
    """One scrape of the fleet in requests of `size` samples."""
    dice = random.Random(seed)
    fleet = labels_of_fleet()
    readings = [(labels, [(0.0 if dice.random() < ZEROS else round(dice.random(), 6), at_ms)]) for labels in fleet]
    return [body(readings[at : at + size]) for at in range(0, len(readings), size)]


def measure() -> dict[str, float]:
    """Samples a second of processor time by request size, of decoding alone and with the Snappy decompression before it."""
    snappy = pa.Codec("snappy")
    found: dict[str, float] = {}
    for size in REQUEST_SIZES:
        decoder = RemoteWrite()
        rounds = [requests(size, NOW_MS + k * STEP_MS) for k in range(RUNS + 1)]
        seconds, unpacked = [], []
        for k, bodies in enumerate(rounds):
            packed = [(snappy.compress(data, asbytes=True), len(data)) for data in bodies]
            start = time.process_time()
            opened = [snappy.decompress(data, length, asbytes=True) for data, length in packed]
            middle = time.process_time()
            count = sum(_decoded(decoder, data, NOW_MS + k * STEP_MS) for data in opened)
            end = time.process_time()
            assert count == NODES * GPUS * FIELD_COUNT
            if k:
                seconds.append(end - middle)
                unpacked.append(middle - start)
            else:
                found[f"first_samples_per_s_{size}"] = count / (end - middle)
        found[f"decode_samples_per_s_{size}"] = count / statistics.median(seconds)
        found[f"with_snappy_samples_per_s_{size}"] = count / (statistics.median(seconds) + statistics.median(unpacked))
        with tempfile.TemporaryDirectory(prefix="gpuwatch-bench-") as folder:
            found |= durable(size, Path(folder))
    return found


def durable(size: int, directory: Path) -> dict[str, float]:
    """Samples a second, and a second of processor time, of wall and of processor time, from requests to commits."""
    now = [NOW_MS * 1000]
    service = Service.open(directory, Settings(), {}, now_us=lambda: now[0], live=False)
    service.start()
    rounds = [requests(size, NOW_MS + k * STEP_MS) for k in range(DURABLE_ROUNDS + 1)]
    _pushed(service, rounds[0])
    wall, processor = time.perf_counter(), time.process_time()
    for k, bodies in enumerate(rounds[1:], 1):
        now[0] = (NOW_MS + k * STEP_MS) * 1000
        _pushed(service, bodies)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    service.stop()
    samples = DURABLE_ROUNDS * NODES * GPUS * FIELD_COUNT
    return {
        f"durable_samples_per_s_{size}": samples / wall,
        f"durable_samples_per_processor_s_{size}": samples / processor,
    }


def _pushed(service: Service, bodies: Sequence[bytes]) -> None:
    """Sends as many requests at a time as a Prometheus with a few dozen shards does, and waits for all."""
    for at in range(0, len(bodies), SHARDS):
        sent = [
            service.receive("remote-write", data, "application/x-protobuf", "c1", "bench")
            for data in bodies[at : at + SHARDS]
        ]
        assert [0] * len(sent) == [answer.result().rejects.total for answer in sent]


def _decoded(decoder: RemoteWrite, data: bytes, now_ms: int) -> int:
    rejects = Rejects()
    batches = decoder(data, "application/x-protobuf", "c1", now_ms * 1000, rejects)
    assert rejects.total == 0, rejects
    return sum(batch.rows.num_rows for batch in batches if isinstance(batch, Points))


if __name__ == "__main__":
    print(json.dumps({name: round(value) for name, value in measure().items()}))
