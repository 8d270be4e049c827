"""How each live source fares: what readiness, quality and the metrics tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock

from gpuwatch.core.model import Rejects

SOURCES_MAX = 20_000
"""Sources that are kept apart; a flood of further names is counted under OTHERS."""
OTHERS = "others"
UNREADABLE = "body cannot be read"
LATE_INTERVALS = 3
"""Intervals without a success after which a source is late."""


@dataclass
class SourceStatus:
    """One source since this process started. Times are microseconds, None where it never happened."""

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
        """Names a source before it has said anything."""
        with self._lock:
            self._get(name, kind, cluster, interval_s)

    def forget(self, name: str) -> None:
        """A source that is read no more."""
        with self._lock:
            self._known.pop(name, None)

    def succeeded(self, name: str, at_us: int, samples: int, kind: str = "", cluster: str = "") -> None:
        """A round went well."""
        with self._lock:
            source = self._get(name, kind, cluster, 0.0)
            source.last_attempt_us = source.last_success_us = at_us
            source.error = None
            source.samples += samples

    def failed(self, name: str, at_us: int, error: str, kind: str = "", cluster: str = "") -> None:
        """A round failed."""
        with self._lock:
            source = self._get(name, kind, cluster, 0.0)
            source.last_attempt_us = at_us
            source.error = " ".join(error.split())

    def rejected(self, name: str, rejects: Rejects, kind: str = "", cluster: str = "") -> None:
        """Pieces of its input were refused."""
        with self._lock:
            mine = self._get(name, kind, cluster, 0.0).rejects
            for reason, count in rejects.counts.items():
                where, line, example = rejects.first.get(reason, (name, 0, ""))
                mine.add(reason, where, line, example, count)

    def unreadable(self, name: str, at_us: int, error: str, kind: str = "", cluster: str = "") -> None:
        """A body that was pushed could not be read: that sender's mistake. It is refused like a piece of input where its
        sender was understood before, and a failure where it never was.
        """
        told = Rejects()
        told.add(UNREADABLE, name, 0, " ".join(error.split()))
        with self._lock:
            source = self._get(name, kind, cluster, 0.0)
            source.last_attempt_us = at_us
            understood = source.last_success_us is not None
        if not understood:
            self.failed(name, at_us, error, kind, cluster)
        self.rejected(name, told, kind, cluster)

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
