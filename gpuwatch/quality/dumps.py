"""What a store cannot know whose only records of jobs are kubectl dumps."""

from __future__ import annotations

from gpuwatch.quality.check import WARN, Check
from gpuwatch.store import remembered
from gpuwatch.store.database import Store

DUMP = "k8s-json"
"""The kind of import that reads kubectl dumps."""
MISSING = "A dump lists only pods that still exist: pods that ended and were deleted before are missing, so free time is an upper bound."


def only_dumps(store: Store) -> bool:
    """Whether every record of a job comes from a kubectl dump."""
    ((claims, dumped),) = remembered.sql(
        store,
        "select count(*), count(*) filter (where f.kind = $kind) from claim c left join import_file f using (file_id)",
        kind=DUMP,
    )
    return bool(claims) and claims == dumped


def checks(store: Store) -> list[Check]:
    """Doctor's check of the history; none where another source has it."""
    if not only_dumps(store):
        return []
    fix = "Watch the cluster ([[kubernetes]] in gpuwatch.toml), or add the history of kube-state-metrics: docs/connect/kubernetes.md."
    return [Check("history", WARN, MISSING, fix)]
