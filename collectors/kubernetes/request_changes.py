"""Tracks which jobs wait for GPUs, so that a request is written when it changes, hourly, and when it ends. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuwatch.collectors.kubernetes.pods import sum_by_job
from gpuwatch.collectors.shared.changes import NO_LONGER_WAITS, LastWritten
from gpuwatch.collectors.shared.records import Columns

MAX_REQUESTS = 1_000_000


class RequestChanges:
    """The waiting pods of each job, and the request rows they add up to."""

    def __init__(self) -> None:
        self._waiting_pods: dict[str, set[str]] = {}
        """Pod UIDs by job."""
        self._changed_jobs: set[str] = set()
        self._written = LastWritten(MAX_REQUESTS)
        self._profiles: dict[str, set[str | None]] = {}
        """MIG profiles that each job was last waiting for."""

    def update_pod(self, uid: str, old: list[Columns], new: list[Columns]) -> None:
        """Replaces what a pod waits for."""
        if not old and not new:
            return
        jobs = {row["job_id"] for row in (*old, *new)}
        if old != new:
            self._changed_jobs |= jobs
        for job in jobs:
            pods = self._waiting_pods.setdefault(job, set())
            (pods.add if new else pods.discard)(uid)
            if not pods:
                del self._waiting_pods[job]

    def take(self, rows_of: Callable[[str], list[Columns]], at_us: int) -> Iterator[Columns]:
        """Yields the pending rows to write now; `rows_of` gives what a pod waits for."""
        for job in self._changed_jobs:
            yield from self._job(job, rows_of, at_us)
        self._changed_jobs.clear()
        for row in self._written.due(at_us):
            yield row | {"evidence_us": at_us}

    def _job(self, job: str, rows_of: Callable[[str], list[Columns]], at_us: int) -> Iterator[Columns]:
        """The request that the job's waiting pods add up to, and a last row for each profile nothing waits for."""
        waiting = (row.copy() for uid in sorted(self._waiting_pods.get(job, ())) for row in rows_of(uid))
        rows = sum_by_job(waiting)
        for row in rows:
            if self._written.update((job, row["profile"]), row, at_us):
                yield row | {"evidence_us": at_us}
        profiles = {row["profile"] for row in rows}
        for profile in self._profiles.pop(job, set()) - profiles:
            if last := self._written.forget((job, profile)):
                yield last | {"evidence_us": at_us, "reason": NO_LONGER_WAITS}
        if profiles:
            self._profiles[job] = profiles
