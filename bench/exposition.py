"""How fast exporter pages become points: samples a second on one core, median of five runs.

Run with `python bench/exposition.py`. The pages are like a scrape of 8 GPUs: 25 fields, 9 labels, about 70 KB.
"""

from __future__ import annotations

import io
import json
import random
import statistics
import time
from collections.abc import Callable

from gpuwatch.collectors.dcgm.exposition import Reader
from gpuwatch.collectors.dcgm.openmetrics import read_stream
from gpuwatch.core.fields import FIELDS
from gpuwatch.core.model import Points, Rejects

GPUS = 8
FIELD_COUNT = 25
PAGES = 200
RUNS = 5
START_MS = 1_790_000_000_000
STEP_MS = 15_000


def pages(seed: int = 1) -> bytes:
    """PAGES scrapes one after another, with changing values and timestamps in milliseconds."""
    dice = random.Random(seed)
    names = [field.name for field in FIELDS if field.column and not field.divisor > 1]
    labels = [
        f'gpu="{gpu}",UUID="GPU-5b4e07f6-3a86-4340-039d-25f2a83cdc{gpu:02d}",pci_bus_id="00000000:{gpu:02d}:07.0",'
        f'device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-node-0017",'
        f'DCGM_FI_DRIVER_VERSION="595.58.03",namespace="research",pod="pretrain-llm-worker-{gpu}"'
        for gpu in range(GPUS)
    ]
    lines = []
    for page in range(PAGES):
        stamp = START_MS + page * STEP_MS
        for name in names[:FIELD_COUNT]:
            lines.append(f"# HELP {name} a field\n# TYPE {name} gauge\n")
            lines += [f"{name}{{{label}}} {dice.random():.6f} {stamp}\n" for label in labels]
    return "".join(lines).encode()


def measure() -> dict[str, float]:
    """Samples a second of the parser alone (`parse`) and of the whole way to points (`points`); bytes of a page."""
    text = pages()
    samples = GPUS * FIELD_COUNT * PAGES
    return {
        "parse_samples_per_s": samples / _median(lambda: _parse(text, samples)),
        "points_samples_per_s": samples / _median(lambda: _import(text, samples)),
        "page_bytes": len(text) / PAGES,
        "samples": samples,
    }


def _parse(text: bytes, expected: int) -> None:
    numbers: dict[tuple[str, str], int] = {}
    reader = Reader(
        lambda name, labels: numbers.setdefault((name, labels["gpu"]), len(numbers)), "pages", rejects := Rejects()
    )
    found = sum(len(block.series) for block in reader.read(io.BytesIO(text)))
    assert (found, rejects.total) == (expected, 0)


def _import(text: bytes, expected: int) -> None:
    rejects = Rejects()
    batches = read_stream(io.BytesIO(text), "pages", "c1", 0, rejects)
    found = sum(batch.rows.num_rows for batch in batches if isinstance(batch, Points))
    assert (found, rejects.total) == (expected, 0)


def _median(work: Callable[[], None]) -> float:
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


if __name__ == "__main__":
    print(json.dumps({name: round(value) for name, value in measure().items()}))
