"""Known loads on a real GPU, read through the agent: `python -m bench.gpu_workloads --out DIR`.

Each load runs for some seconds while the agent's code reads the GPU every second. The result is a fixture:
`metrics.prom.gz` (exposition text with timestamps, the load as `hpc_job`) and `labels.json` (the time and the expected ledger
buckets of each load, and the GPU, driver and versions). `python -m bench.gpu_check DIR` reads it. Without a GPU it exits with
code 3.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.gpu_cuda import LOADS
from gpuwatch.collectors.nvml.node import NodeReader, open_library
from gpuwatch.collectors.nvml.page import page
from gpuwatch.core.errors import SourceUnreachable

HOST = "node0"
"""The machine's name in a fixture."""
METRICS, LABELS = "metrics.prom.gz", "labels.json"
STEP_S = 1.0
SETTLE_S = 3.0
"""Seconds skipped after a load starts and before the next one, so that a sample belongs to one load only."""
READY_S = 120.0
STOP_S = 20.0
_SAMPLE = re.compile(r"^DCGM_FI_[A-Z0-9_]+\{.*\} \S+$")
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Expected:
    """The expected result of a load: the buckets with most of its time, and whether false-utilization reports it."""

    buckets: tuple[str, ...]
    false_utilization: bool
    why: str


EXPECTED: dict[str, Expected] = {
    "gemm": Expected(("compute", "below_roof"), False, "tensor cores work all the time"),
    "copy": Expected(("memory_roof", "below_roof"), False, "memory is the limit, and it is used"),
    "chase": Expected(("stalled", "below_roof"), True, "one SM waits for memory; the others have nothing"),
    "spin": Expected(("stalled", "below_roof"), True, "GPU_UTIL says 100 %, one SM spins"),
    "parked": Expected(("hoarded", "gap"), False, "memory is held, nothing runs"),
    "idle": Expected(("schedulable",), False, "nobody holds the GPU"),
    "loader": Expected(("gap",), False, "the card waits for its data most of the time"),
}
"""Every load, in the order in which they run."""


@dataclass(frozen=True)
class Ran:
    """One load: when, microseconds since the epoch, and what is expected of it."""

    load: str
    start_us: int
    end_us: int
    buckets: tuple[str, ...]
    false_utilization: bool
    why: str


Run = Callable[[str, float], AbstractContextManager[None]]


def record(
    read: Callable[[], str],
    run: Run,
    loads: Sequence[str],
    seconds: float,
    jobs: Path,
    now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[tuple[Ran, list[str]]]:
    """Runs the loads one by one; yields each with its sample lines, which carry their time.

    `read` gives a page, `run` holds a load for the time of a with block, `jobs` is the job mapping directory.
    """
    for load in loads:
        job = jobs / "0"
        if load == "idle":
            job.unlink(missing_ok=True)
        else:
            job.write_text(f"{load}\n")
        lines: list[str] = []
        with run(load, seconds + 2 * SETTLE_S):
            sleep(SETTLE_S)
            read()
            start_us = now_us()
            for _ in range(round(seconds / STEP_S)):
                sleep(STEP_S)
                lines += stamped(read(), now_us() // 1000)
            end_us = now_us()
        expected = EXPECTED[load]
        yield Ran(load, start_us, end_us, expected.buckets, expected.false_utilization, expected.why), lines


def stamped(text: str, at_ms: int) -> list[str]:
    """The samples of a page with their time, UUIDs of real cards replaced."""
    names: dict[str, str] = {}

    def masked(match: re.Match[str]) -> str:
        return names.setdefault(match[0], f"GPU-00000000-0000-0000-0000-{len(names):012d}")

    return [f"{_UUID.sub(masked, line)} {at_ms}" for line in text.splitlines() if _SAMPLE.match(line)]


def write(out: Path, told: Sequence[tuple[Ran, list[str]]], provenance: dict[str, str]) -> None:
    """Writes the two files of a fixture."""
    out.mkdir(parents=True, exist_ok=True)
    with open(out / METRICS, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        for _, lines in told:
            packed.write("".join(f"{line}\n" for line in lines).encode())
    labels: dict[str, Any] = {"provenance": provenance, "step_s": STEP_S, "ran": [asdict(ran) for ran, _ in told]}
    (out / LABELS).write_text(json.dumps(labels, indent=1) + "\n")


@contextmanager
def process(load: str, seconds: float) -> Iterator[None]:
    """A load in a process of its own, from when it says that it works."""
    if load == "idle":
        yield
        return
    command = [sys.executable, "-m", "bench.gpu_cuda", load, str(seconds + READY_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            if running.stdout is None or running.stdout.readline().strip() != "ready":
                raise SourceUnreachable(f"gpu loads: {load} did not start; see the line above")
            yield
        finally:
            running.terminate()
            running.wait(STOP_S)


def provenance(library: Any) -> dict[str, str]:
    """Card, driver, versions and day of a recording."""
    gpu = library.nvmlDeviceGetHandleByIndex(0)
    torch = find_spec("torch") is not None
    return {
        "gpu": str(library.nvmlDeviceGetName(gpu)),
        "gpus": str(library.nvmlDeviceGetCount()),
        "driver": str(library.nvmlSystemGetDriverVersion()),
        "nvml": str(library.nvmlSystemGetNVMLVersion()),
        "nvidia-ml-py": version("nvidia-ml-py"),
        "gpuwatch": version("gpuwatch"),
        "python": platform.python_version(),
        "gemm": f"torch {version('torch')}" if torch else "mma.sync.m16n8k16 bf16, PTX",
        "recorded": datetime.now(UTC).date().isoformat(),
    }


def main(arguments: Sequence[str]) -> int:
    """Records a fixture. 3 where there is no GPU."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_workloads", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load")
    parser.add_argument("--loads", nargs="*", choices=list(EXPECTED), default=list(EXPECTED))
    asked = parser.parse_args(arguments)
    try:
        library = open_library()
        with tempfile.TemporaryDirectory(prefix="gpuwatch-jobs-") as folder:
            reader = NodeReader(library, HOST, Path(folder))
            try:
                told = []
                for ran, lines in record(
                    lambda: page(reader.read(), time.time()).decode(), process, asked.loads, asked.seconds, Path(folder)
                ):
                    print(f"{ran.load}: {len(lines)} samples", flush=True)
                    told.append((ran, lines))
                write(asked.out, told, provenance(library))
            finally:
                reader.close()
    except SourceUnreachable as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"wrote {asked.out / METRICS} and {LABELS}")
    return 0


if __name__ == "__main__":
    if set(EXPECTED) != {*LOADS, "idle"}:
        raise SystemExit("every load needs an expectation")
    sys.exit(main(sys.argv[1:]))
