"""The size of a demo, and how finely each part of its history is sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpuwatch.core.clock import DAY_US, SECOND_US, Window, from_us, parse_window
from gpuwatch.simulate.moments import DAY_S

HOUR_S = 3600
COARSE_S, LATE_S, FINE_S = 900, 300, 120
"""Seconds between two samples: of most of the history, of its last days, and of its last hours and around the scenes of the
last complete week. The ledger holds a value for INTERVAL_US_MAX at most, which is COARSE_S."""
LATE_HOURS, FINE_HOURS = 42, 14
"""Hours before the end from which there is a sample each LATE_S, and each FINE_S."""
SCENE_DAY_H = 30
"""Scenes of earlier weeks end so many hours before the week does."""
MIDDLE_HOURS = 24
WEEKS_STAGED = 2
"""Complete weeks that have scenes of their own."""
PLAIN = (
    "FB_FREE",
    "FP64",
    "FP32",
    "FP16",
    "OCCUPANCY",
    "TEMP",
    "ENERGY",
    "CLOCK",
    "REASONS",
    "XID",
    "PCIE_REPLAY",
    "CRC",
    "REMAP",
)
"""Words in the names of metrics that coarse parts leave out."""


@dataclass(frozen=True)
class Size:
    """GPUs and days of history of a demo."""

    gpus: int
    days: float


SIZES = {"full": Size(168, 28), "small": Size(40, 9)}


@dataclass(frozen=True)
class Part:
    """A part [start_s, end_s) of the history with a sample each `step_s`, without the metrics named by `without`."""

    start_s: int
    end_s: int
    step_s: int
    without: tuple[str, ...] = ()


def scene_ends(start_us: int, past_s: int) -> tuple[int, ...]:
    """When the scenes of the last complete weeks end, in seconds of the history; the newest first."""
    end_us = start_us + past_s * SECOND_US
    monday_us = parse_window("week", end_us).start_us
    ends = (monday_us - week * 7 * DAY_US - SCENE_DAY_H * HOUR_S * SECOND_US for week in range(WEEKS_STAGED))
    seconds = ((end - start_us) // SECOND_US // COARSE_S * COARSE_S for end in ends)
    return tuple(second for second in seconds if second > 0)


def parts(start_us: int, past_s: int) -> tuple[Part, ...]:
    """The history in parts: coarse, finer around the scenes of the last complete week and towards the end."""
    late, fine = (max(0, past_s - hours * HOUR_S) // COARSE_S * COARSE_S for hours in (LATE_HOURS, FINE_HOURS))
    middle = [(max(0, end - MIDDLE_HOURS * HOUR_S), min(end, fine)) for end in scene_ends(start_us, past_s)[:1]]
    edges = sorted({0, late, fine, past_s, *(edge for span in middle for edge in span)})
    found = []
    for start_s, end_s in pairwise(edges):
        step_s = LATE_S if start_s >= late else COARSE_S
        if start_s >= fine or any(low <= start_s < high for low, high in middle):
            step_s = FINE_S
        found.append(Part(start_s, end_s, step_s, PLAIN if step_s == COARSE_S else ()))
    return tuple(found)


def complete_weeks(start_us: int, past_s: int) -> Sequence[tuple[str, Window]]:
    """(name, window) of the ISO weeks that the history covers whole, the newest first."""
    end_us = start_us + past_s * SECOND_US
    found = []
    monday_us = parse_window("week", end_us).start_us
    while monday_us - 7 * DAY_US >= start_us:
        monday_us -= 7 * DAY_US
        year, week, _ = from_us(monday_us).isocalendar()
        found.append((f"{year}-W{week:02d}", Window(monday_us, monday_us + 7 * DAY_US)))
    return found


def sampling_text(start_us: int, past_s: int) -> str:
    """How finely the history was simulated, in one sentence."""
    fine = min(FINE_HOURS, past_s // HOUR_S)
    return (
        f"Samples: every {FINE_S // 60} minutes in the last {fine} hours and around last week's incidents, every {LATE_S // 60} minutes"
        f" in the last {LATE_HOURS} hours, every {COARSE_S // 60} minutes before; {past_s / DAY_S:g} days in all."
    )
