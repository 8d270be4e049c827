"""Processes that hold GPU memory, and the container, pod or Slurm job in their cgroup."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuwatch.collectors.nvml.calls import ANY_INSTANCE, query
from gpuwatch.collectors.nvml.mig import Instance

PROC = Path("/proc")
MAX_PROCESSES = 256
"""The most processes per GPU; those with the most memory are kept."""
MAX_NAME = 64
MAX_CGROUP_BYTES = 16 * 1024
_CONTAINER = re.compile(r"(?<![0-9a-f])([0-9a-f]{64})(?![0-9a-f])")
_POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")
_SLURM = re.compile(r"/job_(\d+)(?:/|$)", re.MULTILINE)


@dataclass(frozen=True)
class Process:
    """A process that holds memory of a GPU or instance. Unknown texts are empty."""

    pid: int
    used_bytes: int
    gi: int | None
    name: str
    container_id: str
    pod_uid: str
    job: str


def processes(library: Any, gpu: Any, parts: list[Instance], proc: Path = PROC) -> list[Process]:
    """Compute processes of a GPU, those with the most memory first. Raises GpuGone.

    A process whose memory the driver does not report is omitted, because unknown is not zero.
    """
    listed = query(library, "nvmlDeviceGetComputeRunningProcesses", gpu)
    seen: list[tuple[Any, int | None]] = [(each, _instance(each)) for each in listed or ()]
    if listed is None:
        for part in parts:
            if part.device is not None:
                listed = query(library, "nvmlDeviceGetComputeRunningProcesses", part.device)
                seen += [(each, part.gi) for each in listed or ()]
    measured = [(each, gi) for each, gi in seen if each.usedGpuMemory is not None]
    measured.sort(key=lambda pair: (-pair[0].usedGpuMemory, pair[0].pid))
    return [_process(each, gi, proc) for each, gi in measured[:MAX_PROCESSES]]


def owner(cgroup: str) -> tuple[str, str, str]:
    """(container id, pod uid, Slurm job id) in the text of /proc/<pid>/cgroup, "" for those that it lacks."""
    container, pod, job = _CONTAINER.search(cgroup), _POD.search(cgroup), _SLURM.search(cgroup)
    return (
        container[1] if container else "",
        pod[1].replace("_", "-") if pod else "",
        job[1] if job else "",
    )


def _process(record: Any, gi: int | None, proc: Path) -> Process:
    folder = proc / str(record.pid)
    name = _text(folder / "comm").strip()[:MAX_NAME]
    return Process(record.pid, record.usedGpuMemory, gi, name, *owner(_text(folder / "cgroup")))


def _instance(record: Any) -> int | None:
    gi = getattr(record, "gpuInstanceId", None)
    return None if gi is None or gi == ANY_INSTANCE else int(gi)


def _text(path: Path) -> str:
    """The start of a file, empty if it cannot be read (in another PID namespace, or the process ended)."""
    try:
        with open(path, "rb") as file:
            return file.read(MAX_CGROUP_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
