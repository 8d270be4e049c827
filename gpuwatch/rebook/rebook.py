"""Computes past hours again from the lake's samples, and publishes them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from gpuwatch.analysis.pipeline import Progress, analyze
from gpuwatch.lake import guard
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.publish import Publisher
from gpuwatch.rebook.compute import FromLake, Runner, still_held
from gpuwatch.rebook.kept_samples import kept_samples
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store


@dataclass(frozen=True)
class Rebooked:
    """What a run did."""

    hours: int
    """Computed, here or from the lake."""
    days: int
    """Of these, days that were computed from the lake."""
    tasks: int
    findings: int
    corrections: int
    rows: int
    """Published afterwards."""
    failed_rules: list[str] = field(default_factory=list)


def rebook(
    lake: Lake,
    store: Store,
    state: State,
    settings: Settings,
    runner: AbstractContextManager[Runner],
    now_us: Callable[[], int],
    *,
    since_us: int | None = None,
    until_us: int | None = None,
    corrects: bool = True,
    progress: Progress | None = None,
) -> Rebooked:
    """Publishes the store, computes the hours of a window again, from the lake where it has their samples, and publishes them.

    Hours whose samples the store has deleted are among them. Without a window: all hours. Raises Fenced where another process
    takes the cell over meanwhile: what it has not stored by then is not stored, and nothing more is published; StoreError where
    tasks fail: the hours before are stored, and the same call computes the rest.
    """
    publisher = Publisher(lake.settings, now_us)
    with lake.threads():
        publisher.publish(lake, store)
    publisher.epoch = guard.read(lake).epoch
    kept = kept_samples(lake)
    with runner as there:
        compute = FromLake(lake, store, kept, there, settings.memory_limit, still_held(lake, publisher.epoch))
        report = analyze(
            store,
            state,
            settings,
            now_us=now_us(),
            since_us=0 if since_us is None else since_us,
            until_us=until_us,
            progress=progress,
            corrects=corrects,
            compute=compute,
        )
    with lake.threads():
        rows = publisher.publish(lake, store).rows
    return Rebooked(
        report.hours,
        len(compute.days),
        compute.tasks,
        report.findings,
        report.corrections,
        rows,
        report.failed_rules,
    )
