"""The bundle: simulates a fleet and writes what an operator could dump from it."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpuwatch.core.clock import SECOND_US, to_us
from gpuwatch.core.errors import UsageError
from gpuwatch.simulate import kubernetes, slurm, tables
from gpuwatch.simulate.exposition import chunk_gzip
from gpuwatch.simulate.fleet import Fleet, build_fleet
from gpuwatch.simulate.fleet_scenes import Staged, stage
from gpuwatch.simulate.moments import DAY_S, Epoch
from gpuwatch.simulate.runs import Run
from gpuwatch.simulate.schedule import schedule
from gpuwatch.simulate.staging import Json
from gpuwatch.simulate.telemetry import Readings, node_readings
from gpuwatch.simulate.truth import Truth
from gpuwatch.simulate.truth_builder import build_truth

CLUSTER = "sim"
DEFAULT_START = datetime(2026, 11, 9, tzinfo=UTC)
CHUNK_STEPS = 720
"""Instants of a file: six hours of samples each 30 s."""
FILE_SAMPLES = 900_000
"""Samples of a packed file. An import reads more at once, so that all samples of an instant are in one of its batches."""
STEP_S_MIN, STEP_S_MAX = 1, 300
DAYS_MIN, DAYS_MAX = 0.25, 400.0
DROP_MAX = 0.9

Progress = Callable[[int, int], None]


def simulate(
    out: Path,
    gpus: int = 64,
    days: float = 7,
    seed: int = 1,
    step_s: int = 30,
    start: datetime | None = None,
    progress: Progress | None = None,
    scenes: str = "none",
    without: Collection[str] = (),
    drop: float = 0.0,
) -> Truth:
    """Writes a bundle (contract.md section 2) and truth.json to `out`, and returns the truth.

    `scenes` says which scenes are staged (see scenes.choose), on GPUs that count within `gpus`. Metrics whose names
    contain a word of `without` are left out, and of every device a random part `drop` of its samples.

    The same arguments give the same bytes. Times of files are the window's end, when the bundle was "dumped".
    `progress(done, total)` is called after each node. Raises UsageError for a size that cannot be simulated.
    """
    if not STEP_S_MIN <= step_s <= STEP_S_MAX:
        raise UsageError(f"simulate: a step of {step_s} s; give {STEP_S_MIN} to {STEP_S_MAX}")
    if not DAYS_MIN <= days <= DAYS_MAX:
        raise UsageError(f"simulate: {days} days; give {DAYS_MIN} to {DAYS_MAX}")
    if not 0 <= drop <= DROP_MAX:
        raise UsageError(f"simulate: a part of {drop} of the samples; give 0 to {DROP_MAX}")
    if out.is_dir() and any(out.iterdir()):
        raise UsageError(f"simulate: {out} is not empty; name a new directory, or remove this one")
    steps = int(days * DAY_S) // step_s
    epoch = Epoch(to_us(start or DEFAULT_START), steps * step_s)
    staged = stage(scenes, gpus, epoch, step_s, seed)
    fleet = build_fleet(gpus - staged.gpus, seed)
    runs = schedule(fleet, epoch.window_s, step_s, seed)
    return write_bundle(out, fleet, runs, epoch, step_s, seed, progress, staged, Lack(tuple(without), drop))


@dataclass(frozen=True)
class Lack:
    """What an exporter omits: words in names of metrics, and the share of samples that is lost."""

    without: tuple[str, ...] = ()
    drop: float = 0.0


def write_bundle(
    out: Path,
    fleet: Fleet,
    runs: list[Run],
    epoch: Epoch,
    step_s: int,
    seed: int,
    progress: Progress | None,
    staged: Staged | None = None,
    lack: Lack | None = None,
) -> Truth:
    """Writes the bundle and the truth of runs that were scheduled already, as `simulate` does."""
    staged = staged or Staged()
    fleet, runs = Fleet(fleet.nodes + staged.nodes), [*runs, *staged.runs]
    card = tables.rates(epoch, {node.model for node in staged.nodes})
    samples = write_history(out, fleet, runs, epoch, step_s, (seed, 3), progress, lack or Lack())
    truth = replace(build_truth(CLUSTER, seed, step_s, epoch, fleet, runs, card, staged.labels), samples=samples)
    write_texts(out, fleet, runs, epoch, step_s, card, staged.objects)
    write_file(out / "truth.json", truth.json().encode(), epoch)
    return truth


def write_texts(
    out: Path,
    fleet: Fleet,
    runs: list[Run],
    epoch: Epoch,
    step_s: int,
    card: list[tables.Rate],
    objects: Sequence[Json],
) -> None:
    """Everything of a bundle but the metrics, as dumped at the end of the window."""
    gres = {node.pool: node.model.gres for node in fleet.nodes if node.scheduler == "slurm"}
    texts = {
        "bundle.toml": tables.bundle_toml(CLUSTER, step_s),
        "slurm/sacct.txt": slurm.sacct(runs, epoch, CLUSTER, gres),
        "slurm/scontrol_job.txt": slurm.scontrol_jobs(runs, epoch, gres),
        "slurm/scontrol_node.txt": slurm.scontrol_nodes(fleet, runs, epoch),
        "slurm/topology.conf": slurm.topology_conf(fleet),
        "k8s/pods.json": kubernetes.pods(runs, epoch),
        "k8s/nodes.json": kubernetes.nodes(fleet, epoch),
        "k8s/events.json": kubernetes.events(runs, epoch),
        "rates.csv": tables.rates_csv(card, epoch),
        "teams.csv": tables.teams_csv(),
        **{f"topo/{node.name}.txt": tables.topo_text(node) for node in fleet.nodes},
    }
    if objects:
        texts["k8s/queues.json"] = kubernetes.listing(list(objects))
    if any(run.scheduler == "slurm" and run.reason for run in runs):
        texts["slurm/squeue.json"] = slurm.squeue(runs, epoch, CLUSTER, gres)
    for name, text in texts.items():
        write_file(out / name, text.encode(), epoch)


@dataclass
class Packed:
    """Puts several chunks of a node into one file, which saves an import most of its commits."""

    _sizes: dict[str, list[int]] = field(default_factory=dict)

    def file_of(self, node: str, samples: int) -> tuple[str, bool]:
        """The file of the node's next chunk, and whether it has others already."""
        sizes = self._sizes.setdefault(node, [])
        more = bool(sizes) and sizes[-1] + samples <= FILE_SAMPLES
        if not more:
            sizes.append(0)
        sizes[-1] += samples
        return f"{node}-{len(sizes) - 1:04d}.prom.gz", more


def write_history(
    out: Path,
    fleet: Fleet,
    runs: Sequence[Run],
    epoch: Epoch,
    step_s: int,
    seeds: tuple[int, ...],
    progress: Progress | None,
    lack: Lack,
    packed: Packed | None = None,
) -> int:
    """The metrics: one file per node and CHUNK_STEPS, or `packed`; returns the number of samples."""
    on_node: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        for name in run.nodes:
            on_node[name].append(run)
    samples = 0
    for number, node in enumerate(fleet.nodes):
        if node.counters != "none" and node.from_s < epoch.window_s:
            spacing = step_s * node.every
            steps = (epoch.window_s - node.from_s) // spacing
            readings = node_readings(node, on_node[node.name], steps, spacing, (*seeds, number))
            if lack.drop:
                _lose(readings, lack.drop, np.random.default_rng([seeds[0], 5, number]))
            millis = _millis(Epoch(epoch.us(node.from_s), epoch.window_s), 0, steps, spacing)
            for file, first in enumerate(range(0, steps, CHUNK_STEPS)):
                last = min(first + CHUNK_STEPS, steps)
                content, count = chunk_gzip(node, readings, first, last, millis, epoch, lack.without)
                samples += count
                name, more = f"{node.name}-{file:04d}.prom.gz", False
                if packed is not None:
                    name, more = packed.file_of(node.name, count)
                write_file(out / "metrics" / name, content, epoch, more)
        if progress is not None:
            progress(number + 1, len(fleet.nodes))
    return samples


def _lose(readings: Sequence[Readings], drop: float, rng: np.random.Generator) -> None:
    """Removes a random part of the instants, the same for all devices of the node, like a failed scrape.

    The first and the last stay: they bound what the fleet owned.
    """
    if readings:
        lost = rng.random(len(readings[0].exported)) < drop
        lost[0] = lost[-1] = False
        for reading in readings:
            reading.exported[lost] = False


def write_metrics(
    out: Path,
    fleet: Fleet,
    readings: dict[str, list[Readings]],
    epoch: Epoch,
    first: int,
    last: int,
    step_s: int,
    zero: int,
) -> None:
    """One file per node with the steps [first, last) of readings that begin at step `zero`."""
    millis = _millis(epoch, zero, last, step_s)
    for node in fleet.nodes:
        if node.name in readings and first < last:
            content, _ = chunk_gzip(node, readings[node.name], first - zero, last - zero, millis, epoch)
            name = f"{node.name}-{first:06d}.prom.gz"
            write_file(out / "metrics" / name, content, Epoch(epoch.start_us, last * step_s))


def _millis(epoch: Epoch, first: int, last: int, step_s: int) -> NDArray[np.int64]:
    """Timestamps of the steps: the middle of each."""
    steps = np.arange(first, last, dtype=np.int64)
    return (epoch.start_us + (2 * steps + 1) * (step_s * SECOND_US // 2)) // 1000


def write_file(path: Path, content: bytes, epoch: Epoch, more: bool = False) -> None:
    """Writes a file whose time is the end of the window; with `more` at the end of what it has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab" if more else "wb") as stream:
        stream.write(content)
    dumped = epoch.us(epoch.window_s) / SECOND_US
    os.utime(path, (dumped, dumped))
