"""Exposition: readings written as Prometheus text, with dcgm-exporter's names and labels."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwatch.core.clock import SECOND_US
from gpuwatch.simulate.fleet import WHOLE, Device, Node
from gpuwatch.simulate.moments import Epoch
from gpuwatch.simulate.runs import Run
from gpuwatch.simulate.telemetry import RATIO_SCALE, WATT_SCALE, Holding, Readings

GZIP_LEVEL = 1
GZIP_WINDOW = 31
WATTS_MAX = 1000
SMALL_MAX = 200_000

_RATIO_TEXT = np.array([f"{code / RATIO_SCALE:.6f}" for code in range(RATIO_SCALE + 1)], dtype=object)
_WATT_TEXT = np.array([f"{code / WATT_SCALE:.6f}" for code in range(WATTS_MAX * WATT_SCALE)], dtype=object)
_SMALL_TEXT = np.array([str(code) for code in range(SMALL_MAX)], dtype=object)


@dataclass(frozen=True)
class Metric:
    """A metric family: its code in Readings, its name, type and help, and how its codes are printed."""

    code: str
    name: str
    type: str
    help: str
    text: str
    every: int = 1
    """It is included in every `every`-th scrape."""


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

SLOW = 10
_HEALTH = tuple(
    Metric(code, f"DCGM_FI_DEV_{name}", kind, text, "watt" if code == "power_limit" else "big", SLOW)
    for code, name, kind, text in (
        ("pcie_gen", "PCIE_LINK_GEN", "gauge", "PCIe current link generation."),
        ("pcie_gen_max", "PCIE_MAX_LINK_GEN", "gauge", "PCIe max link generation."),
        ("pcie_lanes", "PCIE_LINK_WIDTH", "gauge", "PCIe current link width."),
        ("pcie_lanes_max", "PCIE_MAX_LINK_WIDTH", "gauge", "PCIe max link width."),
        ("pcie_replays", "PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries."),
        (
            "nvlink_crc",
            "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
            "counter",
            "Total number of NVLink flow-control CRC errors.",
        ),
        ("nvlink_replays", "NVLINK_REPLAY_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink retries."),
        (
            "nvlink_recoveries",
            "NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
            "counter",
            "Total number of NVLink recovery errors.",
        ),
        ("remap_pending", "ROW_REMAP_PENDING", "gauge", "Whether remapping of rows is pending."),
        ("remap_failed", "ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed."),
        ("remapped_bad", "UNCORRECTABLE_REMAPPED_ROWS", "counter", "Number of remapped rows for uncorrectable errors."),
        ("remapped_ok", "CORRECTABLE_REMAPPED_ROWS", "counter", "Number of remapped rows for correctable errors."),
        ("ecc_dbe", "ECC_DBE_VOL_TOTAL", "counter", "Total number of double-bit volatile ECC errors."),
        ("power_limit", "ENFORCED_POWER_LIMIT", "gauge", "Effective power limit (in W)."),
        ("clock_max", "MAX_SM_CLOCK", "gauge", "Maximum supported SM clock (in MHz)."),
        ("fabric_health", "FABRIC_HEALTH_SUMMARY", "gauge", "Fabric health summary."),
    )
)
_LINKED = frozenset({"nvlink_tx", "nvlink_rx", "nvlink_crc", "nvlink_replays", "nvlink_recoveries", "fabric_health"})
"""Codes of NVLink: a model without it has no such series."""
OWN = ("util", "memory_used")
"""Metrics of each process on a shared GPU, in addition to those of the GPU."""

COUNTERS: dict[str, tuple[Metric, ...]] = {
    "default": _DEFAULT,
    "standard": (*_DEFAULT, _REASONS, _SM, _OCCUPANCY, *_NVLINK),
    "training": (*_DEFAULT, _REASONS, _SM, _OCCUPANCY, *_PIPES, *_NVLINK),
    "health": (*_DEFAULT, _REASONS, _SM, _OCCUPANCY, *_PIPES, *_NVLINK, *_HEALTH),
    "mig": (_CLOCK, _TEMP, _POWER, _ENERGY, _XID, _FREE, _USED, _ENGINE, _SM, _OCCUPANCY, _TENSOR, _DRAM),
}
"""The metrics that an exporter is configured to collect. Under MIG there is no GPU_UTIL, PCIe or NVLink."""


def counters_of(node: Node, without: Collection[str] = ()) -> tuple[Metric, ...]:
    """The metrics of a node's exporter: its field set, without those that its model lacks or that are in `without`.

    A name is a part of the metric's: SM_ACTIVE.
    """
    return tuple(
        metric
        for metric in COUNTERS[node.counters]
        if (node.model.nvlink_bytes_s or metric.code not in _LINKED)
        and not any(name in metric.name for name in without)
    )


def chunk_gzip(
    node: Node,
    readings: Sequence[Readings],
    first: int,
    last: int,
    stamps_ms: NDArray[np.int64],
    epoch: Epoch,
    without: Collection[str] = (),
) -> tuple[bytes, int]:
    """The gzip file of a node's samples at instants [first, last) with these timestamps, and their number.

    The same input gives the same bytes: the gzip header has no time and no name.
    """
    pack = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_WINDOW)
    millis = stamps_ms[first:last].tolist()
    stamps = [f" {stamp}\n" for stamp in millis]
    drivers = _driver_turns(node, [(stamp * 1000 - epoch.start_us) // SECOND_US for stamp in millis])
    parts, samples = [], 0
    for metric in counters_of(node, without):
        lines = [f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.type}\n"]
        for reading in readings:
            for driver, low, high in drivers:
                text, count = _series(metric, reading, first, first + low, first + high, stamps, driver)
                lines += text
                samples += count
        parts.append(pack.compress("".join(lines).encode()))
    parts.append(pack.flush())
    return b"".join(parts), samples


def page(node: Node, readings: Sequence[Readings], index: int) -> bytes:
    """The response of a node's exporter at one instant: text without timestamps."""
    parts = []
    for metric in COUNTERS[node.counters]:
        parts.append(f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.type}\n")
        for reading in readings:
            if reading.exported[index]:
                for holding in _label_groups(metric, reading):
                    if holding.first <= index < holding.last:
                        value = _texts(metric.text, _own(metric, reading, holding)[index : index + 1])[0]
                        parts.append(f"{metric.name}{{{_labels(reading.device, holding.run, node.driver)}}} {value}\n")
    return "".join(parts).encode()


def _driver_turns(node: Node, seconds: Sequence[int]) -> list[tuple[str, int, int]]:
    """(driver, first, last) of the instants of a chunk."""
    turns: list[tuple[str, int, int]] = []
    for index, second in enumerate(seconds):
        driver = node.driver_at(second)
        if turns and turns[-1][0] == driver:
            turns[-1] = (driver, turns[-1][1], index + 1)
        else:
            turns.append((driver, index, index + 1))
    return turns


def _label_groups(metric: Metric, reading: Readings) -> list[Holding]:
    """The labels of a reading; a shared GPU also has readings of the whole GPU, without an owner."""
    if reading.processes and metric.code in OWN:
        whole = Holding(0, len(reading.exported), None)
        return [whole, *(holding for holding in reading.holdings if holding.run is not None)]
    return reading.holdings


def _own(metric: Metric, reading: Readings, holding: Holding) -> NDArray[np.int64]:
    """The codes with that label."""
    if holding.run is not None and metric.code in OWN and holding.run.number in reading.processes:
        return reading.processes[holding.run.number][metric.code]
    return reading.codes[metric.code]


def _series(
    metric: Metric, reading: Readings, chunk: int, first: int, last: int, stamps: list[str], driver: str
) -> tuple[list[str], int]:
    """The lines of a metric and device in [first, last), one text per label epoch; `chunk` is the instant of stamps[0]."""
    texts, samples = [], 0
    for holding in _label_groups(metric, reading):
        start, end = max(holding.first, first), min(holding.last, last)
        if start >= end:
            continue
        codes = _own(metric, reading, holding)[start:end]
        shown = stamps[start - chunk : end - chunk]
        kept = reading.exported[start:end]
        if metric.every > 1:
            kept = kept & (np.arange(start, end) % metric.every == 0)
        if not kept.all():
            codes = codes[kept]
            shown = [stamps[start - chunk + int(i)] for i in np.flatnonzero(kept)]
        pieces = [f"{metric.name}{{{_labels(reading.device, holding.run, driver)}}} "] * (3 * len(shown))
        pieces[1::3] = _texts(metric.text, codes)
        pieces[2::3] = shown
        texts.append("".join(pieces))
        samples += len(shown)
    return texts, samples


def _texts(kind: str, codes: NDArray[np.int64]) -> list[str]:
    if kind == "big":
        return list(map(str, codes.tolist()))
    table = {"ratio": _RATIO_TEXT, "watt": _WATT_TEXT, "int": _SMALL_TEXT}[kind]
    texts: list[str] = table[codes].tolist()
    return texts


def _labels(device: Device, run: Run | None, driver: str) -> str:
    parts = [
        f'gpu="{device.index}"',
        f'UUID="{device.gpu}"',
        f'pci_bus_id="{pci_bus_id(device.index)}"',
        f'device="nvidia{device.index}"',
        f'modelName="{device.model.name}"',
    ]
    if device.gi != WHOLE:
        parts += [f'GPU_I_PROFILE="{device.profile}"', f'GPU_I_ID="{device.gi}"']
    parts += [f'Hostname="{device.node}"', f'DCGM_FI_DRIVER_VERSION="{driver}"']
    if run is not None and run.scheduler == "slurm":
        parts.append(f'hpc_job="{run.number}"')
    elif run is not None:
        parts.append(f'container="main",namespace="{run.owner.namespace}",pod="{run.pod}"')
    return ",".join(parts)


def pci_bus_id(index: int) -> str:
    """PCI address of the GPU at `index` on any simulated node."""
    return f"00000000:{(0x19, 0x3B, 0x4C, 0x5D, 0x9B, 0xBB, 0xCB, 0xDB)[index % 8]:02X}:00.0"
