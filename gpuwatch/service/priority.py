"""Thread priorities: on a busy machine, responses to senders come before the analysis."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

NICE = 10
"""Added to the niceness of background threads (Linux only, where it is per thread)."""
TASKS = Path("/proc/self/task")


def threads() -> set[int]:
    """System ids of this process's threads; empty if not available."""
    with suppress(OSError):
        return {int(task.name) for task in TASKS.iterdir()}
    return set()


def yield_to_others(numbers: set[int] | None = None) -> None:
    """Lowers the priority of threads (default: the caller's)."""
    if not TASKS.exists():
        return
    for number in {threading.get_native_id()} if numbers is None else numbers:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, number, NICE)
