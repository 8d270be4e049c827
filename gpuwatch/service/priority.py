"""Who waits for whom on a busy machine: what answers senders goes before what computes the books."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

NICE = 10
"""Added to the niceness of background threads (Linux has one for each thread; elsewhere nothing is done)."""
TASKS = Path("/proc/self/task")


def threads() -> set[int]:
    """System numbers of the threads of this process; empty where the system does not tell."""
    with suppress(OSError):
        return {int(task.name) for task in TASKS.iterdir()}
    return set()


def yield_to_others(numbers: set[int] | None = None) -> None:
    """Makes threads (default: the caller's) give way to the others of this process and machine."""
    if not TASKS.exists():
        return
    for number in {threading.get_native_id()} if numbers is None else numbers:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, number, NICE)
