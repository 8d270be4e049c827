"""Retention, run again and again until nothing is left to delete."""

from __future__ import annotations

from gpuwatch.settings import Settings
from gpuwatch.store.database import Store
from gpuwatch.store.retention import Retained, retain

RUNS_MAX = 60


def retain_all(store: Store, settings: Settings, now_us: int) -> Retained:
    """Deletes all that is past its retention, a day a run; returns the sum."""
    samples = minutes = 0
    for _ in range(RUNS_MAX):
        gone = retain(store, settings, now_us)
        samples, minutes = samples + gone.samples, minutes + gone.minutes
        if not gone.more:
            return Retained(samples, minutes)
    return Retained(samples, minutes, more=True)
