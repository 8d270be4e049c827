"""Dimensions of charges and of the ledger: which there are, and how their values are read from sums.

A sum has a column for each of DIMENSIONS. The others come in three columns: `period` (days, weeks, months), `words` (what
a run says of itself) and `devices` (nodes and GPUs).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gpuwatch.core.clock import DAY_US, Window
from gpuwatch.core.errors import UsageError

DIMENSIONS = (
    "team",
    "user",
    "queue",
    "namespace",
    "account",
    "job",
    "gpu_model",
    "mig_profile",
    "slice",
    "cluster",
    "pool",
)
PERIODS = ("day", "week", "month")
"""UTC days (2026-11-21), ISO weeks (2026-W47) and months (2026-11)."""
DEVICES = ("node", "gpu")
"""The node a GPU was in, and the GPU's UUID: that of a MIG slice is its GPU's."""
LABEL = "label:"
"""`label:<key>`: the value of a run's own label."""
WORDS = ("name", "cost_center")
"""The name of a job or workload, and the value of the first of COST_CENTER_LABELS that a run has."""
COST_CENTER_LABELS = ("gpuwatch.io/cost-center", "cost-center", "cost_center", "costcenter", "CostCenter")
CAUSE = "cause"
"""Charges only: why the payer is not the holder."""
RUN_WORDS = frozenset(("user", "queue", "namespace", "account", "job"))
"""Of DIMENSIONS, those that only a run has."""
LABELS_MAX = 8
LABEL_MAX = 317
"""Characters of a label's key: a DNS prefix, a slash and a name."""
DAYS_MAX = 3660
"""Days of a window that is divided into periods."""


def check_dimensions(by: Sequence[str], known: Sequence[str] = DIMENSIONS) -> None:
    """Raises UsageError naming the first dimension that is not known."""
    for name in by:
        if name not in (*known, *PERIODS, *DEVICES, *WORDS) and not _is_label(name):
            listed = ", ".join((*known, *PERIODS, *DEVICES, *WORDS, f"{LABEL}<key>"))
            raise UsageError(f"--by {name}: not a dimension; known: {listed}")
    if sum(_is_label(name) for name in by) > LABELS_MAX:
        raise UsageError(f"--by: more than {LABELS_MAX} labels; use fewer")


def plain(by: Sequence[str]) -> bool:
    """Whether every dimension has a column of its own."""
    return all(name in (*DIMENSIONS, CAUSE) for name in by)


def parameters(window: Window, by: Sequence[str]) -> dict[str, object]:
    """What SQL needs to know about the dimensions. Raises UsageError for too many days."""
    words = [name for name in by if name in WORDS or _is_label(name)]
    periods = any(name in by for name in PERIODS)
    if periods and window.zone is not None:
        raise UsageError(
            f"window: days, weeks and months of rows are of UTC, so they do not add up to a window of {window.zone}; leave out "
            f"@{window.zone}, or ask for one day, week or month of {window.zone} at a time"
        )
    if periods and window.end_us - window.start_us > DAYS_MAX * DAY_US:
        raise UsageError(f"window: more than {DAYS_MAX} days by day, week or month; ask for a shorter one")
    return {
        "by_run": bool(words) or not RUN_WORDS.isdisjoint(by),
        "by_period": periods,
        "by_device": any(name in by for name in DEVICES),
        "by_words": bool(words),
        "word_kinds": ["label" if _is_label(name) else name for name in words],
        "word_keys": [name.removeprefix(LABEL) for name in words],
        "cost_center_labels": list(COST_CENTER_LABELS),
        **{f"by_{name}": name in by for name in (*DIMENSIONS, *PERIODS, *DEVICES)},
    }


def values(row: Mapping[str, Any], by: Sequence[str]) -> dict[str, str | None]:
    """The value of each dimension in a row of sums; None where the row has none."""
    found = dict(zip((name for name in PERIODS if name in by), (row["period"] or "").split("|"), strict=False))
    for column, names in (
        ("words", [name for name in by if name in WORDS or _is_label(name)]),
        ("devices", [name for name in DEVICES if name in by]),
    ):
        if names:
            found |= zip(names, json.loads(row[column]) if row[column] else [None] * len(names), strict=True)
    return {name: found[name] if name in found else row[name] for name in by}


def _is_label(name: str) -> bool:
    return name.startswith(LABEL) and 0 < len(name) - len(LABEL) <= LABEL_MAX
