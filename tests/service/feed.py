"""Readings that a test of the service hands in, and the time they are of."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gpuwatch.core.model import POINT, SERIES, Points

NOW_US = 1_793_577_600_000_000
"""Monday 2026-11-02T00:00:00Z."""


def points(times: list[int], device: int = 1, value: float = 0.5) -> Points:
    """Readings of one field of one device."""
    series = pa.table([[0], [device], [7], ["gr_engine_ratio"]], schema=SERIES)
    rows = pa.table([np.zeros(len(times), np.int32), times, [value] * len(times)], schema=POINT)
    return Points(series, rows)
