"""Imports taken back: what is left equals a store that never had them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.billing.chargeback import chargeback
from gpuwatch.core.clock import Window, rfc3339
from gpuwatch.imports.files import ImportReport, import_paths
from gpuwatch.imports.forget import forget, imports
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds.world import HOUR, us

SETTINGS = Settings(default_interval_s=60.0)
COMPUTED = ("device", "capacity", "run", "segment", "ledger_hour", "run_team", "context_span", "context", "sealed_day")
RECORDS = ("claim", "pending", "node", "event", "link", "queue", "workload", "reservation", "bill", "bill_file")
NOW_US = us(90 * 24 * HOUR)
HEADER = "JobID|JobIDRaw|User|Account|Partition|State|Submit|Start|End|ElapsedRaw|NNodes|NodeList|ReqTRES|AllocTRES"


@dataclass
class Desk:
    """A store and state with imports."""

    store: Store
    state: State

    def load(self, kind: str, *paths: Path, timezone: str | None = None, cluster: str | None = "c1") -> ImportReport:
        name = None if kind == "bundle" else cluster
        return import_paths(self.store, self.state, kind, paths, cluster=name, now_us=NOW_US, timezone=timezone)

    def ids(self) -> list[int]:
        return [one["id"] for one in imports(self.store)]

    def forget(self, import_id: int) -> dict[str, Any]:
        return forget(self.store, import_id, NOW_US)

    def books(self) -> dict[str, Any]:
        """All that is computed, the records it came from, and the charges."""
        assert [] == analyze(self.store, self.state, SETTINGS, now_us=NOW_US, detectors=("blind-spot",)).failed_rules
        window = Window(us(-30 * HOUR), us(80 * 24 * HOUR))
        charged = chargeback(self.store, self.state, window, ("cluster", "user", "job"))
        lines = sorted(str(line) for line in charged.items)
        return {"charges": lines, **self.rows(COMPUTED), **self.rows(RECORDS), **self.samples()}

    def rows(self, tables: tuple[str, ...]) -> dict[str, Any]:
        """Rows and an order-free checksum of tables, without what says from which file a row is."""
        return {
            name: self.store.sql(
                f"select count(*), coalesce(sum(hash(t)::hugeint), 0) from (select {self.columns(name)} from {name}) t"
            )[0]
            for name in tables
        }

    def columns(self, table: str) -> str:
        names = [row[0] for row in self.store.sql(f"select column_name from (describe {table})")]
        return ", ".join(name for name in names if name != "file_id")

    def samples(self) -> dict[str, Any]:
        """The samples, from which file each is, and the readings that are kept apart."""
        return {
            name: self.store.sql(f"select count(*), coalesce(sum(hash({name})::hugeint), 0) from {name}")[0]
            for name in ("sample", "sample_origin", "sample_tail", "replaced_claim", "replaced_pending")
        }


@contextmanager
def empty_desk(path: Path) -> Iterator[Desk]:
    with Store.open(None, threads=1) as store, State.open(path) as state:
        yield Desk(store, state)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with empty_desk(tmp_path / "state") as made:
        yield made


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Desk]:
    with empty_desk(tmp_path / "other") as made:
        yield made


def metrics(path: Path, start: int, end: int, busy: float = 0.9, gpus: tuple[str, ...] = ("GPU-a", "GPU-b")) -> Path:
    """Samples of node n1, one a minute."""
    lines = ["# TYPE DCGM_FI_DEV_GPU_UTIL gauge"]
    for minute in range(start * 60, end * 60):
        at_ms = us(minute * 60) // 1000
        for index, gpu in enumerate(gpus):
            labels = (
                f'gpu="{index}",UUID="{gpu}",device="nvidia{index}",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"'
            )
            lines.append(f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} {busy} {at_ms}")
            lines.append(f"DCGM_FI_PROF_SM_ACTIVE{{{labels}}} {busy / 2} {at_ms}")
    path.write_text("\n".join(lines) + "\n")
    return path


def sacct(path: Path, *jobs: tuple[int, int, int], blank: bool = False) -> Path:
    """Jobs (id, first hour, last hour) with both GPUs of n1, with naive times."""
    lines = [HEADER]
    for job, start, end in jobs:
        times = "|".join(rfc3339(us(hour * HOUR)).removesuffix("Z") for hour in (start, start, end))
        seconds = (end - start) * HOUR
        lines.append(f"{job}|{job}|ann|acc|p|COMPLETED|{times}|{seconds}|1|n1|gres/gpu=2|gres/gpu=2")
    path.write_text("\n".join(lines) + "\n" * (2 if blank else 1))
    return path


def test_an_import_taken_back_leaves_what_the_other_gave(desk: Desk, other: Desk, tmp_path: Path) -> None:
    """A and B overlap in samples and jobs; B alone is what is left."""
    a = metrics(tmp_path / "a.prom", 0, 6, busy=0.9), sacct(tmp_path / "a.txt", (1, 0, 2), (2, 3, 5))
    b = metrics(tmp_path / "b.prom", 4, 9, busy=0.3), sacct(tmp_path / "b.txt", (2, 3, 5), (3, 6, 8))
    desk.load("openmetrics", a[0])
    desk.load("sacct", a[1])
    desk.load("openmetrics", b[0])
    desk.load("sacct", b[1])
    desk.books()
    for kind, path in zip(("openmetrics", "sacct"), b, strict=True):
        other.load(kind, path)
    expected = other.books()

    assert [4, 3, 2, 1] == desk.ids()

    desk.forget(1)
    desk.forget(2)

    assert expected == desk.books()
    assert [4, 3] == desk.ids()
