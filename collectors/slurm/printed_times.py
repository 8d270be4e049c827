"""Local times as Slurm printed them, which identify a job whatever zone they were read in. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from gpuwatch.collectors.slurm.text import CACHED_TIMES, known
from gpuwatch.core.clock import to_us


def as_printed(text: str | None, tz: ZoneInfo) -> dict[str, Any]:
    """The columns `naive_us` and `naive_zone` of a local time; none for a time with an offset."""
    naive = naive_us(known(text) or "")
    return {} if naive is None else {"naive_us": naive, "naive_zone": tz.key}


@lru_cache(CACHED_TIMES)
def naive_us(printed: str) -> int | None:
    """A local time as if it were UTC, None for one with an offset."""
    try:
        moment = None if printed.isdigit() else datetime.fromisoformat(printed)
    except ValueError:
        return None
    return None if moment is None or moment.tzinfo is not None else to_us(moment.replace(tzinfo=UTC))
