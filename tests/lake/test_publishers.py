"""Four cells that publish small changes to one lake at once: none of them ever meets another one's commit."""

from __future__ import annotations

import multiprocessing
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpuwatch.lake.connection import Lake, LakeConflict
from gpuwatch.lake.publish import Published, Publisher
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.lake.verify import verify
from gpuwatch.store.connection import Connection
from gpuwatch.store.database import Store
from tests.lake.conftest import Make
from tests.lake.publishing import NOW_US, now_us

pytestmark = pytest.mark.slow
CELLS = 4
SECONDS = float(os.environ.get("GPUWATCH_TEST_PUBLISH_S", "20"))
CPU_MS_MAX = 150.0
"""Of gpuwatch for one small publish: several times what a quiet machine needs."""


@dataclass
class Counting(Publisher):
    """A publisher that counts the commits that were overtaken."""

    conflicts: int = 0
    cpu_s: list[float] = field(default_factory=list)

    def _once(self, lake: Lake, store: Connection, store_id: str) -> Published:
        try:
            return super()._once(lake, store, store_id)
        except LakeConflict:
            self.conflicts += 1
            raise


def publish_for(settings: LakeSettings, directory: Path, seconds: float) -> tuple[int, list[float]]:
    """Publishes one new row again and again; returns conflicts, and the CPU seconds of each publish."""
    with Store.open(directory) as store, Lake.open(settings) as lake:
        publisher = Counting(settings, now_us)
        publisher.publish(lake, store)
        until, number = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            number += 1
            store.sql("insert into event (cluster, event_id, first_us, last_us) select 'c', 'e' || $n, 1, 1", n=number)
            began = time.process_time()
            assert 1 == publisher.publish(lake, store).units
            publisher.cpu_s.append(time.process_time() - began)
        return publisher.conflicts, publisher.cpu_s


def test_four_cells_publish_at_once(make_lake: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = make_lake("postgresql")
    cells = {f"cell{number}": tmp_path / f"cell{number}" for number in range(CELLS)}
    found = [(LakeSettings(**{**made.__dict__, "cell": name}), directory) for name, directory in cells.items()]
    for settings, directory in found:
        with Store.open(directory) as store, Lake.open(settings, create=True) as lake:
            Publisher(settings, now_us).publish(lake, store)
    with multiprocessing.get_context("spawn").Pool(CELLS) as pool:
        done = pool.starmap(publish_for, [(*each, SECONDS) for each in found])
    cpu_ms = sorted(1000 * each for _, seconds in done for each in seconds)
    with capsys.disabled():
        middle, late = cpu_ms[len(cpu_ms) // 2], cpu_ms[int(len(cpu_ms) * 0.99)]
        print(f"\n{len(cpu_ms)} publishes in {SECONDS:g} s: CPU-ms median {middle:.0f}, p99 {late:.0f}", end=" ")
    assert [0] * CELLS == [conflicts for conflicts, _ in done]
    assert len(cpu_ms) >= CELLS and middle < CPU_MS_MAX
    for settings, directory in found:
        with Store.open(directory) as store, Lake.open(settings) as lake:
            assert [] == [one for report in verify(lake, store, NOW_US) for one in report.differences]
