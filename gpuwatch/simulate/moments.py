"""Moments: seconds since the window's start, written as each format wants them."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwatch.core.clock import SECOND_US, from_us, rfc3339

DAY_S = 86_400


@dataclass(frozen=True)
class Epoch:
    """The window's start (microseconds UTC) and length (seconds)."""

    start_us: int
    window_s: int

    def us(self, seconds: int) -> int:
        """Microseconds since 1970 of an instant of the window."""
        return self.start_us + seconds * SECOND_US

    def rfc3339(self, seconds: int) -> str:
        """`2026-11-09T00:00:00Z`."""
        return rfc3339(self.us(seconds))

    def naive(self, seconds: int) -> str:
        """`2026-11-09T00:00:00`, as Slurm prints it (UTC here)."""
        return from_us(self.us(seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def elapsed(seconds: int) -> str:
    """`[D-]HH:MM:SS`."""
    days, rest = divmod(seconds, DAY_S)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{clock}" if days else clock
