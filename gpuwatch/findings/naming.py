"""Names for the jobs and GPUs that evidence holds by id, and the job that a broken GPU met."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.store.database import Store

JOBS = ("waiting_job", "jobs", "last_job", "blockers", "moves", "deadlock_with")
"""Words of evidence that name Slurm jobs: `504013`, `504003 (1 GPU on n1), 504002`."""
_JOB = re.compile(r"(?:(?<=, )|(?<=^)|(?<= and ))(\d+(?:_\d+)?)(?= \(|,|$| and )")
_GPU = re.compile(r"GPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Names:
    """Names by (cluster, id)."""

    jobs: Mapping[tuple[str, str], tuple[str, str | None]] = field(default_factory=dict)
    """A Slurm job's name and team."""
    gpus: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """A GPU's index on its node."""
    running: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By the key of a finding: name and team of the job that held its GPU as it began."""

    def evidence(self, row: Row, stored: Mapping[str, Any]) -> dict[str, Any]:
        """The evidence for sentences: `504013 vit-pretrain` and `GPU 3`. A team's finding has no names of other teams' jobs."""
        cluster, team = row["cluster"], row["team"]

        def job(found: re.Match[str]) -> str:
            name, owner = self.jobs.get((cluster, found[1]), (None, None))
            return f"{found[1]} {name}" if name and team in (PLATFORM, owner) else found[1]

        def gpu(found: re.Match[str]) -> str:
            index = self.gpus.get((cluster, found[0]))
            return found[0] if index is None else f"GPU {index}"

        named = {name: _GPU.sub(gpu, value) if isinstance(value, str) else value for name, value in stored.items()}
        return named | {name: _JOB.sub(job, named[name]) for name in JOBS if isinstance(named.get(name), str)}

    def met(self, row: Row) -> tuple[str, str] | None:
        """The job that the platform's broken GPU met, and its team."""
        return self.running.get(row["key"]) if row["team"] == PLATFORM else None


def names_of(store: Store, rows: Sequence[Row]) -> Names:
    """The names for the evidence of these findings: at most three queries, none where nothing has to be named."""
    jobs: set[tuple[str, str]] = set()
    gpus: set[tuple[str, str]] = set()
    about: list[str] = []
    for row in rows:
        for name, value in json.loads(row["evidence"] or "{}").items():
            if isinstance(value, str):
                gpus |= {(row["cluster"], each) for each in _GPU.findall(value)}
                jobs |= {(row["cluster"], each) for each in (_JOB.findall(value) if name in JOBS else ())}
        if row["subject_kind"] in ("gpu", "slice") and row["team"] == PLATFORM:
            about.append(row["key"])
    return Names(
        {(one["cluster"], one["job_id"]): (one["name"], one["team"]) for one in _asked(store, "job", "jobs", jobs)},
        {(one["cluster"], one["gpu"]): one["gpu_index"] for one in _asked(store, "gpu", "gpus", gpus)},
        {one["key"]: (one["name"], one["team"]) for one in store.rows("findings/names/running", keys=about)}
        if about
        else {},
    )


def _asked(store: Store, query: str, column: str, pairs: Iterable[tuple[str, str]]) -> Sequence[Row]:
    ordered = sorted(pairs)
    if not ordered:
        return ()
    clusters, ids = ([pair[place] for pair in ordered] for place in (0, 1))
    return list(store.rows(f"findings/names/{query}", clusters=clusters, **{column: ids}))
