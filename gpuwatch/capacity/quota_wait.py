"""What a request that waits for quota waits for: what other queues of its cohort have borrowed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuwatch.capacity.waits import WHY
from gpuwatch.core.words import counted, joined

QUOTA = WHY["WaitingForQuota"]
NAMED_MAX = 3

Row = dict[str, Any]


def words(row: Row, queues: Iterable[Row]) -> str | None:
    """A sentence for a request of whole GPUs for which its queue's own quota would be enough, while others have borrowed of it.
    None for every other request, and where a number is not known.
    """
    if row["profile"] is not None or row["gpus"] is None:
        return None
    cluster = [one for one in queues if one["cluster"] == row["cluster"] and one["scheduler"] == row["scheduler"]]
    local = [
        one
        for one in cluster
        if (one["kind"], one["namespace"], one["name"]) == ("local_queue", row["namespace"], row["queue"])
    ]
    name = local[0]["parent"] if local else row["queue"]
    own = next((one for one in cluster if (one["kind"], one["name"]) == ("cluster_queue", name)), None)
    if own is None or own["parent"] is None:
        return None
    quota, used = _gpus(own["quota"]), _gpus(own["used"])
    if quota is None or used is None or used + row["gpus"] > quota:
        return None
    borrowers = {
        one["name"]: borrowed
        for one in cluster
        if one["kind"] == "cluster_queue" and one["parent"] == own["parent"] and (borrowed := _gpus(one["borrowed"]))
    }
    if not borrowers:
        return None
    names = sorted(borrowers)
    named = names if len(names) <= NAMED_MAX else [*names[:NAMED_MAX], counted(len(names) - NAMED_MAX, "more queue")]
    borrow = "borrows" if len(borrowers) == 1 else "borrow"
    return (
        f"Its queue {name} uses {used} of its own {counted(quota, 'GPU')}, and {joined(named)} {borrow} "
        f"{counted(sum(borrowers.values()), 'GPU')} from its cohort: it can start when {row['gpus']} of them {'is' if row['gpus'] == 1 else 'are'} given back."
    )


def _gpus(devices: dict[str, int] | None) -> int | None:
    """Whole GPUs of a count by profile."""
    return None if devices is None else devices.get("")
