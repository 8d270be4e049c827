"""Nodes of a real Ray on this machine: their ports and their processes."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

LOCK = Path("/tmp/gpuwatch-test-ray.lock")
"""Held while a head runs, whichever worker started it: two would take each other's ports."""


def free_port(low: int) -> int:
    """A free port outside of those that Ray gives to its workers (10002-19999)."""
    for port in range(low, low + 2000):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no free port")


def descendants(marker: str) -> list[int]:
    """Pids of the processes whose command line or environment names this session's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                if marker.encode() in text:
                    found.append(int(entry.name))
    return found
