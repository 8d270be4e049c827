"""The history of a cluster on a server with the Prometheus API, as a backfill reads it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event
from typing import Any, Protocol

from gpuwatch.core.errors import UsageError
from gpuwatch.core.model import Points, Records, Rejects


class Chunk(Protocol):
    """The content of a span; see collectors/prometheus/metrics.py."""

    batches: list[Records | Points]
    samples: int
    bytes: int
    rejects: Rejects
    lacking: list[str]


class Source(Protocol):
    """A source of history, used from many threads. Raises SourceUnreachable and UnreadableInput."""

    name: str
    fields: list[str]
    step_s: int

    def find(self, start_us: int, end_us: int) -> list[str]: ...

    def measure(self, start_us: int, end_us: int) -> float: ...

    def thin(self, step_s: int) -> float: ...

    def chunk(self, start_us: int, end_us: int) -> Chunk: ...


class Scheduler(Protocol):
    """The records of kube-state-metrics on the same server."""

    name: str

    def find(self, start_us: int, end_us: int) -> list[str]: ...

    def chunk(self, start_us: int, end_us: int) -> Chunk: ...


@dataclass(frozen=True)
class History:
    """The history of a cluster on a server."""

    samples: Source
    records: Scheduler
    identity: str
    """Hash of address, tenant, cluster and selector, by which completed spans are recorded."""
    stop: Event
    close: Callable[[], None]


def open_history(options: Mapping[str, Any], cluster: str) -> History:
    """The history selected by command-line options; see collectors/prometheus/options.py. Raises UsageError."""
    problems: list[str] = []
    found = importlib.import_module("gpuwatch.collectors.prometheus.options").history(options, cluster, problems)
    if problems:
        raise UsageError("; ".join(problems))
    return History(*found)
