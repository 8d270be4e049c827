"""The status of each live source, as readiness, quality and the service's metrics report it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock

from gpuwatch.core.model import Rejects

SOURCES_MAX = 20_000
"""Sources tracked separately; any further names are counted under OTHERS."""
OTHERS = "others"
UNREADABLE = "body cannot be read"
LATE_INTERVALS = 3
"""Intervals without a success after which a source is late."""


@dataclass
class SourceStatus:
    """One source since this process started. Times are microseconds; None: never."""

    name: str
    kind: str
    cluster: str
    interval_s: float
    since_us: int
    last_success_us: int | None = None
    last_attempt_us: int | None = None
    error: str | None = None
    samples: int = 0
    rejects: Rejects = field(default_factory=Rejects)

    def state(self, now_us: int) -> str:
        """ok, late (no success for LATE_INTERVALS), failing (the last try failed) or never (no success yet)."""
        if self.error is not None:
            return "failing"
        if self.last_success_us is None:
            return "never"
        return "late" if now_us - self.last_success_us > LATE_INTERVALS * self.interval_s * 1e6 else "ok"


class Sources:
    """Every source by name; safe in threads."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._lock = Lock()
        self._known: dict[str, SourceStatus] = {}

    def add(self, name: str, kind: str, cluster: str, interval_s: float) -> None:
        """Registers a source before its first round."""
        with self._lock:
            self._get(name, kind, cluster, interval_s)

    def forget(self, name: str) -> None:
        """Removes a source that is no longer read."""
        with self._lock:
            self._known.pop(name, None)

    def succeeded(self, name: str, at_us: int, samples: int, kind: str = "", cluster: str = "") -> None:
        """Records a successful round."""
        with self._lock:
            source = self._get(name, kind, cluster, 0.0)
            source.last_attempt_us = source.last_success_us = at_us
            source.error = None
            source.samples += samples

    def failed(self, name: str, at_us: int, error: str, kind: str = "", cluster: str = "") -> None:
        """Records a failed round."""
        with self._lock:
            source = self._get(name, kind, cluster, 0.0)
            source.last_attempt_us = at_us
            source.error = " ".join(error.split())

    def rejected(self, name: str, rejects: Rejects, kind: str = "", cluster: str = "") -> None:
        """Records refused input items."""
        with self._lock:
            mine = self._get(name, kind, cluster, 0.0).rejects
            for reason, count in rejects.counts.items():
                where, line, example = rejects.first.get(reason, (name, 0, ""))
                mine.add(reason, where, line, example, count)

    def unreadable(self, name: str, at_us: int, error: str, kind: str = "", cluster: str = "") -> None:
        """Records a pushed body that could not be read.

        It counts as refused input if an earlier body of the source was readable, and as a failure otherwise.
        """
        rejects = Rejects()
        rejects.add(UNREADABLE, name, 0, " ".join(error.split()))
        with self._lock:
            source = self._get(name, kind, cluster, 0.0)
            source.last_attempt_us = at_us
            readable_before = source.last_success_us is not None
        if not readable_before:
            self.failed(name, at_us, error, kind, cluster)
        self.rejected(name, rejects, kind, cluster)

    def all(self) -> list[SourceStatus]:
        """A copy of every status, by name."""
        with self._lock:
            return [
                replace(source, rejects=Rejects(dict(source.rejects.counts), dict(source.rejects.first)))
                for _, source in sorted(self._known.items())
            ]

    def _get(self, name: str, kind: str, cluster: str, interval_s: float) -> SourceStatus:
        if name not in self._known:
            if len(self._known) >= SOURCES_MAX:
                name = OTHERS
            self._known.setdefault(name, SourceStatus(name, kind, cluster, interval_s, self._now_us()))
        return self._known[name]
