"""How many requests waited, by the MIG mode that they need."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gpuwatch.core.clock import MINUTE_US, SECOND_US
from gpuwatch.core.words import duration, joined
from gpuwatch.store.database import Store

LONG_WAIT_US = 10 * MINUTE_US
"""A request that started sooner is not counted among those that waited."""


def waited(store: Store, ends: Mapping[str, Any], clusters: Collection[str]) -> str:
    """How many requests for slices, and for whole GPUs, waited: where few did, the wrong MIG mode kept few from working.

    `ends` are the parameters start_us, end_us and cluster.
    """
    counts = {True: (0, 0), False: (0, 0)}
    for row in store.rows("advisor/mode_wait", **ends, wait_us=LONG_WAIT_US):
        if row["cluster"] in clusters:
            requests, late = counts[row["sliced"]]
            counts[row["sliced"]] = requests + row["requests"], late + row["waited"]
    parts = [
        f"{late:,} of {requests:,} for {what}"
        for (requests, late), what in ((counts[True], "MIG slices"), (counts[False], "whole GPUs"))
        if requests
    ]
    if not parts:
        return ""
    return f"Of the requests that started in this window, {joined(parts)} had waited longer than {duration(LONG_WAIT_US / SECOND_US)}, for whatever reason."
