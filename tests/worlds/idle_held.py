"""Runs of samples in which a device held memory and did nothing: the raw fact, before any judgement."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuwatch.store.database import Store

SQL = (Path(__file__).parent / "idle_held_runs.sql").read_text("utf-8")


@dataclass(frozen=True)
class IdleHeldRun:
    """From the first to the last sample of a run, both included; nothing is added at either end."""

    gpu: str
    gi: int
    start_us: int
    end_us: int
    samples: int


def idle_held_runs(
    store: Store,
    cluster: str,
    *,
    held_bytes: int = 1_000_000_000,
    max_gap_us: int = 114_000_000,
    run_us_min: int = 900_000_000,
) -> list[IdleHeldRun]:
    """Idle-held runs of at least `run_us_min`, by device and time.

    A sample is idle-held when GPU_UTIL is 0 and more than `held_bytes` of memory are used; samples without both
    readings do not count. Samples further apart than `max_gap_us` are of two runs. Reads sealed raw samples only.
    """
    rows = store.sql(SQL, cluster=cluster, held_bytes=held_bytes, max_gap_us=max_gap_us, run_us_min=run_us_min)
    return [IdleHeldRun(*row) for row in rows]
