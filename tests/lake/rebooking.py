"""A published fleet whose roofs have changed since: every hour of it has other buckets."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.core.clock import DAY_US
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.ledger.parts import WRITTEN
from gpuwatch.rebook import compute, part
from gpuwatch.rebook.compute import Runner
from gpuwatch.rebook.rebook import Rebooked, rebook
from gpuwatch.state import State
from gpuwatch.store.connection import identifier
from gpuwatch.store.database import Store
from tests.lake.conftest import SETTINGS, START_US, Fleet

NOW_US = START_US + 4 * DAY_US
"""The samples of both days are settled."""
CHANGED = replace(SETTINGS, tensor_roof=0.03, dram_roof=0.05)
COMPARED = (*WRITTEN, "segment", "stranding", "verdict", "verdict_claim", "granted_claim", "finding", "finding_amount")
COMPARED += ("book_day", "team_day", "word_day", "device", "run", "capacity")

Rows = dict[str, list[tuple[Any, ...]]]


@dataclass
class Spoiled:
    """Runs tasks here, as if there were several CPUs. `spoil` may change what they return."""

    spoil: Any = None
    cpus: int = 2

    def run(self, calls: Sequence[Mapping[str, Any]]) -> list[list[str]]:
        found = [part.compute(**call) for call in reversed(calls)][::-1]
        if self.spoil is not None:
            self.spoil(calls[0]["folder"], found)
        return found


def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several parts of a small fleet."""
    monkeypatch.setattr(compute, "PART_SAMPLES_MIN", 1000)


def rows_of(store: Store) -> Rows:
    """Every row of the compared tables, sorted."""
    return {name: store.sql(f"from {identifier(name)} order by all") for name in COMPARED}


def plainly(fleet: Fleet, folder: Path) -> Rows:
    """What an analysis of the store's own samples gives after the change."""
    shutil.copytree(fleet.directory, folder)
    with Store.open(folder) as store, State.open(folder) as state:
        before = rows_of(store)
        assert [] == analyze(store, state, CHANGED, now_us=NOW_US, since_us=0).failed_rules
        after = rows_of(store)
    assert all(before[name] != after[name] for name in ("device_minute", "ledger_hour", "workload_hour", "book_day"))
    return after


@contextmanager
def opened(directory: Path, settings: LakeSettings) -> Iterator[tuple[Lake, Store, State]]:
    """The lake, which is made if there is none, and a directory."""
    with Lake.open(settings, create=True) as lake, Store.open(directory) as store, State.open(directory) as state:
        yield lake, store, state


def rebooked(
    lake: Lake, store: Store, state: State, runner: Runner | AbstractContextManager[Runner], **window: int
) -> Rebooked:
    """Computes again after the change."""
    where = runner if isinstance(runner, AbstractContextManager) else nullcontext(runner)
    return rebook(lake, store, state, CHANGED, where, lambda: NOW_US, **window)
