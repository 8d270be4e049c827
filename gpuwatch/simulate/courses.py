"""How busy a device is over the time of a run: one level, a shape, or a repeated cycle of levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpuwatch.simulate.loads import SHAPES, Course, Stretch, course

Cycle = Sequence[tuple[str, float]]
"""Levels with their durations in seconds, repeated."""
Load = str | Course | Cycle

WARM_S = 110
STRETCHES_MAX = 20_000


def course_of(load: Load, length: int, rng: np.random.Generator) -> Course:
    """The course of a load over `length` seconds; a level follows a short start."""
    if isinstance(load, str):
        return (
            course(load, length, rng)
            if load in SHAPES
            else [*_start(length), Stretch(min(WARM_S, length // 3), length, load)]
        )
    if load and isinstance(load[0], Stretch):
        return list(load)  # type: ignore[arg-type]
    stretches = _start(length)
    while stretches[-1].end < length and len(stretches) < STRETCHES_MAX:
        for level, seconds in load:  # type: ignore[misc]
            start = stretches[-1].end
            stretches.append(Stretch(start, start + int(seconds), level))
    return [replace(s, end=min(s.end, length)) for s in stretches if s.start < length]


def _start(length: int) -> Course:
    return [Stretch(0, min(WARM_S, length // 3), "loading")]
