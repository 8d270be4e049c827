"""The uptime of the machine: a clock that nobody can set, and that goes on while the machine sleeps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpuwatch.core.clock import SECOND_US

UPTIME = Path("/proc/uptime")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LONGEST_LINE = 100


@dataclass(frozen=True)
class Uptime:
    """A clock since the boot. `boot_id` is "" if it cannot be compared with that of another process."""

    boot_id: str
    read_us: Callable[[], int]


def machine_uptime() -> Uptime:
    """The uptime by Linux's own count, which continues over restarts of the process; elsewhere a monotonic clock."""
    try:
        boot_id = BOOT_ID.read_text("ascii").strip()
        _proc_us()
    except (OSError, ValueError, IndexError):
        return Uptime("", lambda: time.monotonic_ns() // 1000)
    return Uptime(boot_id, _proc_us)


def _proc_us() -> int:
    # Each scrape and each pushed body reads the clock several times: opening the file costs 20 times as much as reading it.
    return round(float(os.pread(_uptime_file(), LONGEST_LINE, 0).split()[0]) * SECOND_US)


@cache
def _uptime_file() -> int:
    """The open file, for as long as the process lives."""
    return os.open(UPTIME, os.O_RDONLY)
