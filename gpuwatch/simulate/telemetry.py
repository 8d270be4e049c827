"""Telemetry: the readings of every device of a node, one integer code per field and instant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpuwatch.simulate.fleet import Device, Node
from gpuwatch.simulate.levels import GPU_IDLE, LEVEL_FIELDS, LEVELS
from gpuwatch.simulate.levels_scenes import SCENE_LEVELS
from gpuwatch.simulate.loads import GAP
from gpuwatch.simulate.patches import GONE, Patch, patched
from gpuwatch.simulate.runs import Run

Codes = NDArray[np.int64]
Reals = NDArray[np.float64]

RATIO_SCALE = 10_000
WATT_SCALE = 10
ALL_LEVELS = LEVELS | SCENE_LEVELS
LEVEL_NAMES = tuple(ALL_LEVELS)
LEVEL_TABLE: Reals = np.array([[float(getattr(ALL_LEVELS[name], f)) for f in LEVEL_FIELDS] for name in LEVEL_NAMES])
"""Rows are levels, columns the fields of Level."""

SPREADS = {"engine": 0.012, "sm": 0.03, "dram": 0.035, "tensor": 0.035, "power": 0.02, "memory": 0.002}
"""Relative noise of a field; others have 5 %."""


@dataclass(frozen=True)
class Holding:
    """Instants [first, last) at which a device is labelled with a run (None = free)."""

    first: int
    last: int
    run: Run | None


@dataclass(frozen=True)
class Readings:
    """A device's history: codes by field name, whether each instant was exported, and who is on the label.

    Ratios are in 1/RATIO_SCALE, watts in 1/WATT_SCALE, the rest in their own integer unit. Of a GPU that several runs
    share, `processes` has what each run's own processes show, by run number; its holdings overlap.
    """

    device: Device
    codes: dict[str, Codes]
    exported: NDArray[np.bool_]
    holdings: list[Holding]
    processes: dict[int, dict[str, Codes]] = field(default_factory=dict)


def node_readings(node: Node, runs: Sequence[Run], steps: int, step_s: int, seed: Sequence[int]) -> list[Readings]:
    """Readings of the exported devices of a node at (k + 1/2) steps, k = 0 .. steps - 1, from its first second on.

    A value stands for the step before its instant. On MIG nodes power, temperature, clock and energy belong to the
    GPU and are the same on all its instances.
    """
    first_s = node.from_s
    rng = np.random.default_rng(list(seed))
    by_device = _runs_by_device(runs)
    devices = [device for device in node.devices if device.exported]
    idle_watts = {d.gpu: node.model.idle_w + float(rng.normal(0, 2.5)) for d in devices}
    loads: list[tuple[Device, Reals, NDArray[np.bool_], list[Holding]]] = []
    power: dict[str, Reals] = {}
    shared: list[_Shared] = []
    for device in devices:
        own = by_device.get(device.id, [])
        if node.replicas > 1:
            shared.append(shared_readings(device, own, steps, step_s, first_s, rng))
            load, exported, holdings = shared[-1].load, np.ones(steps, dtype=bool), shared[-1].holdings
        else:
            levels, exported, holdings = _levels(device, own, steps, step_s, first_s)
            exported &= _in_slot(device, first_s + (np.arange(steps, dtype=np.float64) + 0.5) * step_s)
            load = _scaled(_noisy(levels, rng), holdings)
        share = load[LEVEL_FIELDS.index("power")] * float(device.share)
        power[device.gpu] = power.get(device.gpu, np.zeros(steps)) + share
        loads.append((device, load, exported, holdings))
    board = {gpu: _board(node, load, idle_watts[gpu], step_s, rng) for gpu, load in power.items()}
    readings = [
        Readings(device, _codes(node, device, load, board[device.gpu], rng), exported, holdings)
        for device, load, exported, holdings in loads
    ]
    for reading, sharing in zip(readings, shared, strict=False):
        reading.processes.update(sharing.processes)
    _patch(node, readings, first_s + (np.arange(steps, dtype=np.float64) + 0.5) * step_s)
    return readings


def _in_slot(device: Device, seconds: Reals) -> NDArray[np.bool_]:
    until = np.inf if device.until_s is None else device.until_s
    return (seconds >= device.since_s) & (seconds < until)


def _runs_by_device(runs: Sequence[Run]) -> dict[str, list[Run]]:
    by_device: dict[str, list[Run]] = {}
    for run in runs:
        if run.start_s is not None:
            for device in run.devices:
                by_device.setdefault(device.id, []).append(run)
    return by_device


def _patch(node: Node, readings: Sequence[Readings], seconds: Reals) -> None:
    for patch in node.patches:
        for reading in readings:
            if reading.device.index == patch.index and patch.instance in (-1, reading.device.gi):
                _apply(patch, reading, seconds)


def _apply(patch: Patch, reading: Readings, seconds: Reals) -> None:
    if patch.code == GONE:
        end = seconds[-1] + 1 if patch.end_s is None else patch.end_s
        reading.exported[(seconds >= patch.start_s) & (seconds < end)] = False
        return
    reading.codes[patch.code] = patched(reading.codes[patch.code], patch, seconds)
    if patch.code == "memory_used":
        reading.codes["memory_free"] = reading.device.fb_mib - reading.codes["memory_used"]


@dataclass(frozen=True)
class _Shared:
    """The combined load of several runs on a GPU, and the readings of their processes."""

    load: Reals
    holdings: list[Holding]
    processes: dict[int, dict[str, Codes]]


def shared_readings(
    device: Device, runs: list[Run], steps: int, step_s: int, first_s: int, rng: np.random.Generator
) -> _Shared:
    """The loads of all runs on a time-sliced GPU: they add up, and are scaled down if they exceed it."""
    total = np.zeros((len(LEVEL_FIELDS), steps))
    engine, memory, util = (LEVEL_FIELDS.index(name) for name in ("engine", "memory", "util"))
    loads: dict[int, Reals] = {}
    holdings: list[Holding] = []
    for run in runs:
        levels, _, held = _levels(device, [run], steps, step_s, first_s)
        load = _scaled(_noisy(levels, rng), held)
        load[util] = np.where(load[util] >= 0, load[util], load[engine])
        loads[run.number] = load
        holdings += [holding for holding in held if holding.run is not None]
        total += load
    full = np.maximum(total[engine], 1.0)
    total[: LEVEL_FIELDS.index("memory")] /= full
    total[util] = np.minimum(total[util], 1.0)
    total[LEVEL_FIELDS.index("clock")] = np.minimum(total[LEVEL_FIELDS.index("clock")], 0.97)
    busy = np.zeros(steps, dtype=bool)
    processes = {}
    for holding in holdings:
        assert holding.run is not None
        busy[holding.first : holding.last] = True
        load = loads[holding.run.number]
        processes[holding.run.number] = {
            "util": np.rint(np.clip(load[engine] / full, 0, 1) * 100).astype(np.int64),
            "memory_used": np.rint(np.clip(load[memory], 0, 0.985) * device.fb_mib).astype(np.int64),
        }
    total[LEVEL_FIELDS.index("reasons")] = np.where(busy, 0, GPU_IDLE)
    edges = np.flatnonzero(np.diff(np.concatenate(([True], busy, [True])).astype(int)))
    free = [Holding(int(a), int(b), None) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return _Shared(total, sorted(holdings + free, key=lambda h: h.first), processes)


def _levels(
    device: Device, runs: list[Run], steps: int, step_s: int, first_s: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.bool_], list[Holding]]:
    """Level number at each instant, whether it was exported, and the label epochs."""
    ends = first_s + (np.arange(steps) + 0.5) * step_s
    middles = np.maximum(ends - step_s / 2, 0.0)
    levels = np.full(steps, LEVEL_NAMES.index("free"))
    exported = np.ones(steps, dtype=bool)
    holdings: list[Holding] = []
    free_from = 0
    for run in sorted(runs, key=lambda item: item.start_s or 0):
        start, end = run.held(first_s + int(steps * step_s))
        first, last = (int(i) for i in np.searchsorted(ends, (start, end), side="left"))
        if first == last:
            continue
        stretches = run.courses[run.devices.index(device)]
        bounds = np.array([stretch.end for stretch in stretches])
        at = np.searchsorted(bounds, np.maximum(middles[first:last] - start, 0), side="right").clip(max=len(bounds) - 1)
        numbers = np.array([-1 if s.level == GAP else LEVEL_NAMES.index(s.level) for s in stretches])
        chosen = numbers[at]
        exported[first:last] = chosen >= 0
        levels[first:last] = chosen.clip(min=0)
        if first > free_from:
            holdings.append(Holding(free_from, first, None))
        holdings.append(Holding(first, last, run))
        free_from = last
    if free_from < steps:
        holdings.append(Holding(free_from, steps, None))
    exported[0] = exported[-1] = True
    return levels, exported, holdings


def _noisy(levels: NDArray[np.int64], rng: np.random.Generator) -> Reals:
    """Fields of Level by instant: the level's means with noise; ratios keep their order engine >= SM >= tensor."""
    values = LEVEL_TABLE[levels].T.copy()
    steps = values.shape[1]
    for number, name in enumerate(LEVEL_FIELDS):
        if name not in ("reasons", "util", "clock"):
            spread = SPREADS.get(name, 0.05)
            values[number] *= 1.0 + spread * rng.standard_normal(steps, dtype=np.float32)
    engine, sm, tensor = (LEVEL_FIELDS.index(name) for name in ("engine", "sm", "tensor"))
    np.clip(values[engine], 0.0, 1.0, out=values[engine])
    np.minimum(values[sm], values[engine], out=values[sm])
    np.minimum(values[tensor], values[sm], out=values[tensor])
    quiet = values[engine] < 0.001
    values[engine, quiet] = np.abs(rng.normal(0, 0.0002, int(quiet.sum())))
    return values


def _scaled(load: Reals, holdings: Sequence[Holding]) -> Reals:
    """The load with each run's factor on its activity, but not on its memory and clock."""
    rows = [number for number, name in enumerate(LEVEL_FIELDS) if name not in ("memory", "clock", "util", "reasons")]
    for holding in holdings:
        if holding.run is not None and holding.run.factor != 1.0:
            load[rows, holding.first : holding.last] *= holding.run.factor
    return load


def _board(node: Node, load: Reals, idle_w: float, step_s: int, rng: np.random.Generator) -> dict[str, Codes]:
    """Power, energy and temperature of a GPU from its fraction of the way to TDP."""
    steps = len(load)
    watts = idle_w + load * (node.model.tdp_w - idle_w) + rng.normal(0, 0.8, steps)
    watts = np.clip(watts, 20.0, node.model.tdp_w * 1.01)
    celsius = 27 + 36 * np.clip(load, 0, 1) + rng.normal(0, 0.6, steps)
    base = int(rng.integers(10**9, 10**11))
    return {
        "power": np.rint(watts * WATT_SCALE).astype(np.int64),
        "energy": base + np.cumsum(np.rint(watts * step_s * 1000)).astype(np.int64),
        "temperature": np.rint(celsius).astype(np.int64),
    }


def _codes(
    node: Node, device: Device, load: Reals, board: dict[str, Codes], rng: np.random.Generator
) -> dict[str, Codes]:
    value = dict(zip(LEVEL_FIELDS, load, strict=True))
    model = device.model
    codes = dict(board)
    for name in ("engine", "sm", "occupancy", "tensor", "dram", "fp64", "fp32", "fp16"):
        codes[name] = np.rint(np.clip(value[name], 0, 1) * RATIO_SCALE).astype(np.int64)
    shown = np.where(value["util"] >= 0, value["util"], value["engine"])
    util = np.where(shown > 0.005, shown + rng.normal(0, 0.008, len(shown)), 0.0)
    codes["util"] = np.rint(np.clip(util, 0, 1) * 100).astype(np.int64)
    codes["clock"] = np.rint(model.idle_mhz + value["clock"] * (model.boost_mhz - model.idle_mhz)).astype(np.int64)
    codes["memory_used"] = np.rint(np.clip(value["memory"], 0, 0.985) * device.fb_mib).astype(np.int64)
    codes["memory_free"] = device.fb_mib - codes["memory_used"]
    codes["pcie_rx"] = np.rint(value["pcie"] * 1e6).astype(np.int64) * 1000 + 19_000
    codes["pcie_tx"] = np.rint(value["pcie"] * 0.3e6).astype(np.int64) * 1000 + 11_000
    link = np.rint(value["link"] * model.nvlink_bytes_s / 2e6).astype(np.int64) * 1_000_000
    codes["nvlink_tx"], codes["nvlink_rx"] = link, np.maximum(link - 1_000_000, 0)
    codes["reasons"] = value["reasons"].astype(np.int64)
    codes["xid"] = np.zeros(len(link), dtype=np.int64)
    if node.counters == "health":
        codes |= _health(device, len(link))
    return codes


def _health(device: Device, steps: int) -> dict[str, Codes]:
    """Readings of a healthy GPU."""
    model = device.model
    hopper, lanes = model.family == "hopper", 16
    steady = {
        "pcie_gen": 5 if hopper else 4,
        "pcie_gen_max": 5 if hopper else 4,
        "pcie_lanes": lanes,
        "pcie_lanes_max": lanes,
        "power_limit": int(model.tdp_w * WATT_SCALE),
        "clock_max": model.boost_mhz,
        "fabric_health": 1 if hopper and model.nvlink_bytes_s else 0,
    }
    zero = ("pcie_replays", "nvlink_crc", "nvlink_replays", "nvlink_recoveries", "remap_pending", "remap_failed")
    steady |= dict.fromkeys((*zero, "remapped_bad", "remapped_ok", "ecc_dbe"), 0)
    return {name: np.full(steps, value, dtype=np.int64) for name, value in steady.items()}
