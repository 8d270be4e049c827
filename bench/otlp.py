"""How fast OTLP requests become points, beside remote-write of the same samples: samples a second of processor time.

Run with `python -m bench.otlp`. The fleet of bench.remote_write as a collector's `prometheus` receiver forwards it: a
resource a target, a gauge a field, a data point a GPU; 2,000 data points a request.
"""

from __future__ import annotations

import json
import random
import statistics
import struct
import time
from collections.abc import Mapping, Sequence

from bench.remote_write import FIELD_COUNT, GPUS, NODES, NOW_MS, RUNS, STEP_MS, ZEROS, field
from gpuwatch.collectors.push.otlp import Otlp
from gpuwatch.core.fields import FIELDS
from gpuwatch.core.model import Points, Rejects

NODES_A_REQUEST = 10
GAUGE, SUM = 5, 7
CUMULATIVE = 2
NAMES = [known.name for known in FIELDS if known.column and not known.divisor > 1][:FIELD_COUNT]

Metric = tuple[str, int, Sequence[bytes]]
"""Name, GAUGE or SUM, encoded data points."""


def request(resources: Sequence[tuple[Mapping[str, object], Sequence[bytes]]]) -> bytes:
    """An ExportMetricsServiceRequest of (attributes, encoded metrics)."""
    parts = []
    for attributes, metrics in resources:
        scope = b"".join(field(2, metric) for metric in metrics)
        parts.append(
            field(1, field(1, b"".join(field(1, pair(*item)) for item in attributes.items())) + field(2, scope))
        )
    return b"".join(parts)


def metric(name: str, points: Sequence[bytes], kind: int = GAUGE, temporality: int = 0) -> bytes:
    """An encoded Metric."""
    inside = b"".join(field(1, point) for point in points)
    if temporality:
        inside += b"\x10" + bytes((temporality,)) + b"\x18\x01"
    return field(1, name.encode()) + field(kind, inside)


def point(
    attributes: Mapping[str, object], at_us: int, value: float | None, start_us: int = 0, flags: int = 0
) -> bytes:
    """An encoded NumberDataPoint, its fields in the order in which collectors write them; an int is written as one."""
    head = b"\x11" + struct.pack("<Q", start_us * 1000) if start_us else b""
    head += b"\x19" + struct.pack("<Q", at_us * 1000)
    if isinstance(value, float):
        head += b"\x21" + struct.pack("<d", value)
    elif value is not None:
        head += b"\x31" + struct.pack("<q", value)
    encoded = head + b"".join(field(7, pair(*item)) for item in attributes.items())
    return encoded + (b"\x40" + bytes((flags,)) if flags else b"")


def pair(key: str, value: object) -> bytes:
    """An encoded KeyValue of text, truth, a whole number or a number."""
    if isinstance(value, bool):
        inside = b"\x10" + bytes((value,))
    elif isinstance(value, int):
        inside = b"\x18" + bytes((value,))  # below 128
    elif isinstance(value, float):
        inside = b"\x21" + struct.pack("<d", value)
    else:
        inside = field(1, str(value).encode())
    return field(1, key.encode()) + field(2, inside)


def requests(at_ms: int, nodes: int = NODES, seed: int = 1) -> list[bytes]:
    """One scrape of the fleet."""
    dice = random.Random(seed)

    def value() -> float:
        return 0.0 if dice.random() < ZEROS else round(dice.random(), 6)

    targets = []
    for node in range(nodes):
        gpus = [_labels(node, gpu) for gpu in range(GPUS)]
        metrics = [metric(name, [point(labels, at_ms * 1000, value()) for labels in gpus]) for name in NAMES]
        targets.append((_resource(node), metrics))
    return [request(targets[at : at + NODES_A_REQUEST]) for at in range(0, nodes, NODES_A_REQUEST)]


def _resource(node: int) -> dict[str, object]:
    return {
        "service.name": "dcgm-exporter",
        "service.instance.id": f"gpu-node-{node:04d}:9400",
        "server.address": f"gpu-node-{node:04d}",
        "url.scheme": "http",
    }


def _labels(node: int, gpu: int) -> dict[str, object]:
    return {
        "DCGM_FI_DRIVER_VERSION": "595.58.03",
        "Hostname": f"gpu-node-{node:04d}",
        "UUID": f"GPU-5b4e07f6-3a86-4340-{node:04x}-25f2a83cdc{gpu:02d}",
        "device": f"nvidia{gpu}",
        "gpu": str(gpu),
        "modelName": "NVIDIA H100 80GB HBM3",
        "namespace": "research",
        "pci_bus_id": f"00000000:{gpu:02d}:07.0",
        "pod": f"pretrain-llm-worker-{node * GPUS + gpu}",
    }


def measure() -> dict[str, float]:
    """Samples a second of processor time of decoding, when every series is new and after."""
    decoder = Otlp()
    seconds = []
    for k in range(RUNS + 1):
        bodies = requests(NOW_MS + k * STEP_MS)
        start = time.process_time()
        count = sum(_decoded(decoder, body, NOW_MS + k * STEP_MS) for body in bodies)
        seconds.append(time.process_time() - start)
        assert count == NODES * GPUS * FIELD_COUNT
    return {
        "first_samples_per_s": count / seconds[0],
        "decode_samples_per_s": count / statistics.median(seconds[1:]),
        "bytes_a_sample": sum(map(len, bodies)) / count,
    }


def _decoded(decoder: Otlp, body: bytes, now_ms: int) -> int:
    batches = decoder(body, "application/x-protobuf", "bench", now_ms * 1000, Rejects())
    return sum(len(batch.rows) for batch in batches if isinstance(batch, Points))


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
