"""History out of VictoriaMetrics onto the disk: samples a second from the first query to sealed rows.

Run with `python -m bench.backfill DIRECTORY [HOURS]`. 1,000 GPUs with 25 fields every 30 s; a share of the week is
measured, as spans are alike. Loading the server is not part of the time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

from bench.programs import cpu_s, program
from gpuwatch.core.clock import rfc3339
from gpuwatch.core.fields import FIELDS, columns
from gpuwatch.store.database import Store

GPUS, GPUS_A_NODE, FIELD_COUNT, STEP_S = 1_000, 8, 25, 30
HOURS, WEEK_HOURS = 12, 168
ZEROS = 0.3
"""Share of readings that are exactly 0."""
PORT = 19_461
START_S = 1_793_577_600
"""2026-11-02T00:00:00Z."""

Facts = dict[str, object]


def measure(directory: Path, hours: int = HOURS) -> Facts:
    """Loads the hours into a new VictoriaMetrics and brings them back. `share` is the part of a week."""
    url = f"http://127.0.0.1:{PORT}"
    command = ["victoria-metrics", f"-storageDataPath={directory / 'victoria'}", f"-httpListenAddr=127.0.0.1:{PORT}"]
    directory.mkdir(parents=True, exist_ok=True)
    with program([*command, "-retentionPeriod=100y"], directory, f"{url}/health", None) as server:
        for gpu in range(GPUS):
            _post(f"{url}/api/v1/import", history(gpu, hours))
        _post(f"{url}/internal/force_flush", b"")
        span = (rfc3339((START_S + hour * 3600) * 1_000_000) for hour in (0, hours))
        since, until = span
        data = directory / "data"
        run = [sys.executable, "-m", "gpuwatch", "backfill", "--prometheus", url, "--since", since, "--until", until]
        before, start = cpu_s(server.pid), time.perf_counter()
        with open(directory / "answer.json", "wb") as answer:
            process = subprocess.Popen([*run, "--data", str(data), "--format", "json"], stdout=answer)
            _, status, used = os.wait4(process.pid, 0)
        seconds, theirs = time.perf_counter() - start, cpu_s(server.pid) - before
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"gpuwatch backfill ended with {process.returncode}")
    with Store.open(data, create=False) as store:
        counts = ", ".join(f"count({name})" for name in columns())
        samples = sum(store.sql(f"select {counts} from sample")[0])
    expected = GPUS * FIELD_COUNT * hours * 3600 // STEP_S
    if samples != expected:
        raise RuntimeError(f"{samples:,} samples are in the store, not {expected:,}")
    return {
        "gpus": GPUS,
        "hours": hours,
        "share": hours / WEEK_HOURS,
        "samples": samples,
        "backfill_s": seconds,
        "samples_a_s": samples / seconds,
        "cpu_s": used.ru_utime + used.ru_stime,
        "server_cpu_s": theirs,
        "backfill_rss_mb": used.ru_maxrss / 1000,
    }


def history(gpu: int, hours: int) -> bytes:
    """Every field of a GPU as VictoriaMetrics imports it."""
    dice = np.random.default_rng(gpu)
    count = hours * 3600 // STEP_S
    times = (START_S * 1000 + np.arange(count) * STEP_S * 1000).tolist()
    node, index = divmod(gpu, GPUS_A_NODE)
    labels = {
        "DCGM_FI_DRIVER_VERSION": "595.58.03",
        "Hostname": f"gpu-node-{node:04d}",
        "UUID": f"GPU-5b4e07f6-3a86-4340-{node:04x}-25f2a83cdc{index:02d}",
        "device": f"nvidia{index}",
        "exported_namespace": "research",
        "exported_pod": f"pretrain-llm-worker-{gpu}",
        "gpu": str(index),
        "instance": f"gpu-node-{node:04d}:9400",
        "job": "dcgm-exporter",
        "modelName": "NVIDIA H100 80GB HBM3",
        "pci_bus_id": f"00000000:{index:02d}:07.0",
    }
    names = [known.name for known in FIELDS if known.column and not known.divisor > 1][:FIELD_COUNT]
    lines = []
    for name in names:
        values = np.where(dice.random(count) < ZEROS, 0, np.round(dice.random(count), 6)).tolist()
        lines.append(json.dumps({"metric": {"__name__": name} | labels, "values": values, "timestamps": times}))
    return "\n".join(lines).encode()


def _post(url: str, body: bytes) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=300) as answer:
        answer.read()


def main(directory: str | None = None, hours: str = str(HOURS)) -> None:
    """Prints the facts as JSON."""
    with tempfile.TemporaryDirectory(prefix="gpuwatch-bench-") as folder:
        print(json.dumps(measure(Path(directory or folder), int(hours))))


if __name__ == "__main__":
    main(*sys.argv[1:])
