"""Exposition: readings written as Prometheus text, with dcgm-exporter's names and labels."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwatch.simulate.fleet import WHOLE, Device, Node
from gpuwatch.simulate.runs import Run
from gpuwatch.simulate.telemetry import RATIO_SCALE, WATT_SCALE, Readings

DRIVER = "550.90.07"
GZIP_LEVEL = 1
GZIP_WINDOW = 31
WATTS_MAX = 1000

_RATIO_TEXT = np.array([f"{code / RATIO_SCALE:.6f}" for code in range(RATIO_SCALE + 1)], dtype=object)
_WATT_TEXT = np.array([f"{code / WATT_SCALE:.6f}" for code in range(WATTS_MAX * WATT_SCALE)], dtype=object)
_SMALL_TEXT = np.array([str(code) for code in range(100_000)], dtype=object)


@dataclass(frozen=True)
class Metric:
    """A metric family: its code in Readings, its name, type and help, and how its codes are printed."""

    code: str
    name: str
    type: str
    help: str
    text: str


_CLOCK = Metric("clock", "DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", "int")
_TEMP = Metric("temperature", "DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", "int")
_POWER = Metric("power", "DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", "watt")
_ENERGY = Metric(
    "energy", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Total energy consumption since boot (in mJ).", "big"
)
_UTIL = Metric("util", "DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", "int")
_XID = Metric("xid", "DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered.", "int")
_FREE = Metric("memory_free", "DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).", "int")
_USED = Metric("memory_used", "DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", "int")
_REASONS = Metric("reasons", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "gauge", "Current clock event reasons.", "int")
_ENGINE = Metric(
    "engine", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active.", "ratio"
)
_SM = Metric("sm", "DCGM_FI_PROF_SM_ACTIVE", "gauge", "Ratio of cycles an SM has at least 1 warp assigned.", "ratio")
_OCCUPANCY = Metric(
    "occupancy", "DCGM_FI_PROF_SM_OCCUPANCY", "gauge", "Ratio of number of warps resident on an SM.", "ratio"
)
_TENSOR = Metric(
    "tensor", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of cycles the tensor pipe is active.", "ratio"
)
_DRAM = Metric(
    "dram", "DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Ratio of cycles the device memory interface is active.", "ratio"
)
_PIPES = tuple(
    Metric(
        f"fp{bits}",
        f"DCGM_FI_PROF_PIPE_FP{bits}_ACTIVE",
        "gauge",
        f"Ratio of cycles the fp{bits} pipe is active.",
        "ratio",
    )
    for bits in (64, 32, 16)
)
_PCIE = tuple(
    Metric(
        f"pcie_{way}",
        f"DCGM_FI_PROF_PCIE_{way.upper()}_BYTES",
        "gauge",
        f"Rate of PCIe {way} data, headers included (in B/s).",
        "big",
    )
    for way in ("tx", "rx")
)
_NVLINK = tuple(
    Metric(
        f"nvlink_{way}",
        f"DCGM_FI_PROF_NVLINK_{way.upper()}_BYTES",
        "gauge",
        f"Rate of NVLink {way} data (in B/s).",
        "big",
    )
    for way in ("tx", "rx")
)
_DEFAULT = (_CLOCK, _TEMP, _POWER, _ENERGY, _UTIL, _XID, _FREE, _USED, _ENGINE, _TENSOR, _DRAM, *_PCIE)

COUNTERS: dict[str, tuple[Metric, ...]] = {
    "default": _DEFAULT,
    "standard": (*_DEFAULT, _REASONS, _SM, _OCCUPANCY, *_NVLINK),
    "training": (*_DEFAULT, _REASONS, _SM, _OCCUPANCY, *_PIPES, *_NVLINK),
    "mig": (_CLOCK, _TEMP, _POWER, _ENERGY, _XID, _FREE, _USED, _ENGINE, _SM, _OCCUPANCY, _TENSOR, _DRAM),
}
"""The metrics an exporter is told to collect. Under MIG there is no GPU_UTIL, and PCIe and NVLink are left out."""


def chunk_gzip(node: Node, readings: Sequence[Readings], first: int, last: int, millis: NDArray[np.int64]) -> bytes:
    """The gzip file of a node's samples at instants [first, last); `millis` are their timestamps.

    The same input gives the same bytes: the gzip header has no time and no name.
    """
    pack = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_WINDOW)
    stamps = [f" {stamp}\n" for stamp in millis[first:last].tolist()]
    parts = []
    for metric in COUNTERS[node.counters]:
        lines = [f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.type}\n"]
        for reading in readings:
            lines += _series(metric, reading, first, last, stamps)
        parts.append(pack.compress("".join(lines).encode()))
    parts.append(pack.flush())
    return b"".join(parts)


def page(node: Node, readings: Sequence[Readings], index: int) -> bytes:
    """What the exporter of a node answers at one instant: text without timestamps."""
    parts = []
    for metric in COUNTERS[node.counters]:
        parts.append(f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.type}\n")
        for reading in readings:
            if reading.exported[index]:
                run = next((h.run for h in reading.holdings if h.first <= index < h.last), None)
                value = _texts(metric.text, reading.codes[metric.code][index : index + 1])[0]
                parts.append(f"{metric.name}{{{_labels(reading.device, run)}}} {value}\n")
    return "".join(parts).encode()


def _series(metric: Metric, reading: Readings, first: int, last: int, stamps: list[str]) -> list[str]:
    """The lines of one metric and device: one text a label epoch."""
    texts = []
    for holding in reading.holdings:
        start, end = max(holding.first, first), min(holding.last, last)
        if start >= end:
            continue
        codes = reading.codes[metric.code][start:end]
        shown = stamps[start - first : end - first]
        kept = reading.exported[start:end]
        if not kept.all():
            codes = codes[kept]
            shown = [stamps[start - first + int(i)] for i in np.flatnonzero(kept)]
        pieces = [f"{metric.name}{{{_labels(reading.device, holding.run)}}} "] * (3 * len(shown))
        pieces[1::3] = _texts(metric.text, codes)
        pieces[2::3] = shown
        texts.append("".join(pieces))
    return texts


def _texts(kind: str, codes: NDArray[np.int64]) -> list[str]:
    if kind == "big":
        return list(map(str, codes.tolist()))
    table = {"ratio": _RATIO_TEXT, "watt": _WATT_TEXT, "int": _SMALL_TEXT}[kind]
    texts: list[str] = table[codes].tolist()
    return texts


def _labels(device: Device, run: Run | None) -> str:
    parts = [
        f'gpu="{device.index}"',
        f'UUID="{device.gpu}"',
        f'pci_bus_id="{pci_bus_id(device.index)}"',
        f'device="nvidia{device.index}"',
        f'modelName="{device.model.name}"',
    ]
    if device.gi != WHOLE:
        parts += [f'GPU_I_PROFILE="{device.profile}"', f'GPU_I_ID="{device.gi}"']
    parts += [f'Hostname="{device.node}"', f'DCGM_FI_DRIVER_VERSION="{DRIVER}"']
    if run is not None and run.scheduler == "slurm":
        parts.append(f'hpc_job="{run.number}"')
    elif run is not None:
        parts.append(f'container="main",namespace="{run.owner.namespace}",pod="{run.pod}"')
    return ",".join(parts)


def pci_bus_id(index: int) -> str:
    """PCI address of the GPU at `index` on any simulated node."""
    return f"00000000:{(0x19, 0x3B, 0x4C, 0x5D, 0x9B, 0xBB, 0xCB, 0xDB)[index % 8]:02X}:00.0"
