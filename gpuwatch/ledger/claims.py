"""What the scheduler records of a cluster say: which run held how many devices of which node, and when."""

from __future__ import annotations

from typing import Any

from gpuwatch.ledger.inner_runs import Hints, read_hints
from gpuwatch.store.database import Store


def read_claims(store: Store, times: dict[str, Any]) -> Hints:
    """Makes the table `wanted` and those beside it; what only some records need is skipped where there are none of them.

    Returns which ways of finding devices the records need.
    """
    run, cluster = store.run, times["cluster"]
    run("views/local_time")
    run("ledger/claims/claim", **times)
    found = store.rows("ledger/claims/kinds", cluster=cluster)[0]
    if found["several"]:
        run("ledger/claims/merged", **times)
    if found["pods"]:
        run("ledger/claims/pod_end", **times)
    if found["slurm"] and store.rows("ledger/claims/successors", cluster=cluster)[0]["found"]:
        run("ledger/claims/slurm_end", **times)
    if found["listed"]:
        run("ledger/claims/let_go", **times)
    run("ledger/claims/wanted")
    return read_hints(store)
