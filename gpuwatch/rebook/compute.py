"""Computes the parts of a slice from the lake's samples, and takes their rows into the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from gpuwatch.core.clock import DAY_US
from gpuwatch.lake import guard
from gpuwatch.lake.connection import Lake
from gpuwatch.ledger import parts
from gpuwatch.rebook import part
from gpuwatch.rebook.files import folder_for_slice, take_results, write_inputs
from gpuwatch.rebook.kept_samples import KeptSamples
from gpuwatch.store.database import Store

BATCH_SAMPLES_MAX = 20_000_000
PART_SAMPLES_MIN = 1_000_000
"""A task with fewer samples takes longer to begin than it saves."""
PARTS_PER_CPU = 2
"""More parts than CPUs, so that none waits long for the last one."""
PARTS_MAX = 10_000


class Runner(Protocol):
    """Where tasks run."""

    @property
    def cpus(self) -> int: ...

    def run(self, calls: Sequence[Mapping[str, Any]]) -> list[list[str]]:
        """Calls `part.compute` with each of the arguments; returns what they return, in the same order. Raises StoreError."""


class InTurn:
    """Runs tasks in this process, one after the other."""

    cpus = 1

    def run(self, calls: Sequence[Mapping[str, Any]]) -> list[list[str]]:
        return [part.compute(**call) for call in calls]


class FromLake:
    """See ledger.parts.Compute. Days that the lake does not have are computed from the store.

    `check` is called before rows are taken; it raises where the cell has another holder.
    """

    batch_samples_max = BATCH_SAMPLES_MAX

    def __init__(
        self,
        lake: Lake,
        store: Store,
        kept: KeptSamples,
        runner: Runner,
        memory_limit: str,
        check: Callable[[], None],
    ) -> None:
        self._lake, self._kept, self._runner, self._memory, self._check = lake, kept, runner, memory_limit, check
        self.elsewhere = kept.computable(store)
        self.tasks = 0
        """How many have ended."""
        self.days: set[int] = set()
        """Those that tasks have computed."""

    def __call__(self, store: Store, parameters: Mapping[str, Any]) -> None:
        """Computes the rows of a slice. Raises StoreError; then nothing of the slice is stored."""
        days = range(parameters["slice_from_us"] // DAY_US, (parameters["slice_until_us"] - 1) // DAY_US + 1)
        if days[0] not in self.elsewhere:
            parts.HERE(store, parameters)
            return
        read = range(parameters["read_from_us"] // DAY_US, (parameters["read_until_us"] - 1) // DAY_US + 1)
        samples = [file for day in read for file in self._kept.files.get(day, ())]
        ranges = parts.ranges(store, parameters["cluster"], self._number(sum(self.elsewhere[day] for day in days)))
        with folder_for_slice(self._lake) as folder:
            write_inputs(self._lake, store, folder, parameters)
            calls = [
                {
                    "lake": part.plain(self._lake.settings),
                    "folder": folder,
                    "samples": samples,
                    "number": number,
                    "devices": devices,
                    "parameters": dict(parameters),
                    "memory_limit": self._memory,
                    "expected": part.versions(),
                }
                for number, devices in enumerate(ranges)
            ]
            found = self._runner.run(calls)
            self._check()
            take_results(self._lake, store, folder, found)
        self.tasks += len(found)
        self.days.update(days)

    def _number(self, samples: int) -> int:
        """In how many parts so many samples are computed."""
        fit = min(PARTS_PER_CPU * self._runner.cpus, samples // PART_SAMPLES_MIN)
        return min(max(parts.number(samples), fit), PARTS_MAX)


def still_held(lake: Lake, epoch: int) -> Callable[[], None]:
    """A check that this process has the cell as before. It raises Fenced where another one has taken it over."""

    def check() -> None:
        found = guard.read(lake)
        if found.epoch != epoch:
            raise guard.Fenced(guard.taken(found, lake.settings), found.epoch)

    return check
