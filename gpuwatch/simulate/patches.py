"""Patches: changes of a GPU's readings in addition to its load, such as a hot board, an XID or leaked memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

GONE = "gone"
"""Code of a stretch without readings of the GPU, because it fell off the bus."""


@dataclass(frozen=True)
class Patch:
    """Changes the code of a reading (see telemetry.Readings) of GPU `index` during [start_s, end_s) of the window.

    The value is `scale` times what it was, plus what goes evenly from `first` to `last` over that time; a counter that
    counts goes on from its last value. `end_s` None: to the end. `instance` >= 0: of that MIG instance only.
    """

    index: int
    code: str
    start_s: int
    end_s: int | None = None
    scale: float = 0.0
    first: float = 0.0
    last: float = 0.0
    instance: int = -1


def patched(values: Any, patch: Patch, seconds: Any) -> Any:
    """The codes of one reading with the patch; `seconds` are the instants."""
    end = float(seconds[-1]) + 1 if patch.end_s is None else float(patch.end_s)
    within = (seconds >= patch.start_s) & (seconds < end)
    if not within.any():
        return values
    part = (seconds - patch.start_s) / max(end - patch.start_s, 1.0)
    ramp = patch.first + (patch.last - patch.first) * part
    changed = np.where(within, np.rint(values * patch.scale + ramp), values)
    if patch.code in COUNTERS and patch.end_s is not None:
        changed = np.where(seconds >= end, values + round(patch.last), changed)
    return changed.astype(np.int64)


COUNTERS = frozenset(
    {"pcie_replays", "nvlink_crc", "nvlink_replays", "nvlink_recoveries", "remapped_bad", "remapped_ok"}
)
"""Codes of counters: what was added remains."""
