"""A node's readings as Prometheus text with dcgm-exporter's names, labels and units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuwatch.collectors.nvml.calls import Readings
from gpuwatch.collectors.nvml.processes import Process
from gpuwatch.collectors.nvml.topology import Matrix
from gpuwatch.core import fields

LINK = "gpuwatch_gpu_link_info"
PLACE = "gpuwatch_gpu_numa_info"
FABRIC = "gpuwatch_gpu_fabric_info"
PROCESS = "gpuwatch_process_fb_used_bytes"
MAX_LABEL = 256

Labels = tuple[tuple[str, str], ...]

_UNITS = {
    "CLOCK": "in MHz",
    "TEMP": "in C",
    "USAGE": "in W",
    "INSTANT": "in W",
    "LIMIT": "in W",
    "MIN": "in W",
    "MAX": "in W",
    "DEF": "in W",
    "CONSUMPTION": "in mJ since the driver was loaded",
    "UTIL": "in %",
    "VIOLATION": "time throttled, in ns",
    "NS": "time throttled, in ns",
    "ACTIVE": "ratio, average since the reading before",
    "OCCUPANCY": "ratio, average since the reading before",
}
_MEMORY = "in MiB"
_RATE = "in bytes/s, average since the reading before"


@dataclass(frozen=True)
class Row:
    """Readings of a GPU or MIG instance, with its labels."""

    labels: Labels
    readings: Readings


@dataclass(frozen=True)
class Node:
    """One round over all GPUs of a node."""

    host: str
    rows: Sequence[Row]
    processes: Sequence[tuple[Labels, Process]]
    fabrics: Sequence[tuple[Labels, str, int]]
    matrix: Matrix | None
    gpus: int
    """GPUs that the driver lists."""
    unreadable: int
    """Those that do not respond."""
    seconds: float
    """How long the round took."""


def page(node: Node, read_at_s: float) -> bytes:
    """The whole exposition; `read_at_s` is the Unix time of the round."""
    lines: list[str] = []
    names = dict.fromkeys(name for row in node.rows for name in row.readings)
    for name in sorted(names):
        lines += _head(name, _description(name), _kind(name))
        lines += [_line(name, row.labels, row.readings[name]) for row in node.rows if name in row.readings]
    if node.processes:
        lines += _head(PROCESS, "GPU memory used by a process (in bytes).", "gauge")
        lines += [
            _line(PROCESS, (*labels, *_process_labels(process)), process.used_bytes)
            for labels, process in node.processes
        ]
    if node.fabrics:
        lines += _head(FABRIC, "NVLink fabric that the GPU belongs to: cluster and clique.", "gauge")
        for labels, cluster, clique in node.fabrics:
            lines.append(_line(FABRIC, (*labels, ("cluster_uuid", cluster), ("clique", str(clique))), 1))
    lines += _matrix(node)
    for name, description, value in (
        ("gpuwatch_agent_gpus", "GPUs that the driver lists.", node.gpus),
        ("gpuwatch_agent_gpus_unreadable", "GPUs that do not respond, whose series are absent.", node.unreadable),
        ("gpuwatch_agent_round_seconds", "How long the last round of readings took.", node.seconds),
        ("gpuwatch_agent_read_timestamp_seconds", "When the readings were taken.", read_at_s),
    ):
        lines += [*_head(name, description, "gauge"), _line(name, (("Hostname", node.host),), value)]
    return ("\n".join(lines) + "\n").encode()


def _matrix(node: Node) -> list[str]:
    if node.matrix is None or not node.matrix.devices:
        return []
    uuids = {device.name: device.uuid for device in node.matrix.devices}
    lines = _head(PLACE, "Location of a device in the node: NUMA node and CPUs; name of a network card.", "gauge")
    for device in node.matrix.devices:
        labels = (("node", node.host), ("a", device.name), ("uuid", device.uuid), *sorted(device.details.items()))
        lines.append(_line(PLACE, labels, 1))
    if node.matrix.levels:
        lines += _head(LINK, "How two devices of the node are connected, as shown by `nvidia-smi topo -m`.", "gauge")
    for (a, b), level in node.matrix.levels.items():
        ends = (("a", a), ("b", b), ("level", level), ("a_uuid", uuids[a]), ("b_uuid", uuids[b]))
        lines.append(_line(LINK, (("node", node.host), *ends), 1))
    return lines


def _process_labels(process: Process) -> Iterable[tuple[str, str]]:
    yield "pid", str(process.pid)
    yield "process", process.name
    yield "container_id", process.container_id
    yield "pod_uid", process.pod_uid
    yield "job", process.job


def _head(name: str, description: str, kind: str) -> list[str]:
    return [f"# HELP {name} {description}", f"# TYPE {name} {kind}"]


def _line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels if text)
    return f"{name}{{{shown}}} {value if isinstance(value, int) else format(value, '.6f')}"


def _escaped(text: str) -> str:
    return text[:MAX_LABEL].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _kind(name: str) -> str:
    field = fields.by_name(name)
    return "counter" if field is not None and field.kind == "counter" else "gauge"


def _description(name: str) -> str:
    """The field's name as words, with the unit."""
    words = name.removeprefix("DCGM_FI_DEV_").removeprefix("DCGM_FI_").split("_")
    unit = _MEMORY if words[0] == "FB" else _UNITS.get(words[-1])
    if words[0] == "PROF" and words[-1] == "BYTES":
        unit = _RATE
    elif words[:2] == ["PCIE", "MAX"] or words[0] == "BANKS":
        unit = None
    text = " ".join(words).lower()
    return f"{text} ({unit})." if unit else f"{text}."
