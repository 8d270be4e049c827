"""Loads: how the level of a job's device changes from its first to its last second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

MINUTE = 60
HOUR = 3600
GAP = "gap"
"""Level of a stretch in which the exporter returned nothing for the device."""
STEPS_MAX = 200_000
"""Most stretches of one job's course; a longer one is cut into proportionally longer cycles."""


@dataclass(frozen=True)
class Stretch:
    """A level from `start` to `end`, seconds from the job's start. `hoarded`: idle for 15 minutes or more."""

    start: int
    end: int
    level: str
    hoarded: bool = False


Course = list[Stretch]
Shape = Callable[[int, np.random.Generator], Course]


def course(load: str, duration_s: int, rng: np.random.Generator) -> Course:
    """The stretches of a load over `duration_s` seconds: adjacent, in order, from 0 to the end."""
    stretches = SHAPES[load](duration_s, rng)
    clipped = [
        Stretch(s.start, min(s.end, duration_s), s.level, s.hoarded)
        for s in stretches[:STEPS_MAX]
        if s.start < duration_s
    ]
    last = clipped[-1]
    clipped[-1] = Stretch(last.start, duration_s, last.level, last.hoarded)
    return clipped


def hoarded_intervals(stretches: Course) -> list[tuple[int, int]]:
    """[start, end) of the hoarded runs, in seconds from the job's start; adjacent stretches are one run."""
    runs: list[tuple[int, int]] = []
    for stretch in stretches:
        if stretch.hoarded:
            if runs and runs[-1][1] == stretch.start:
                runs[-1] = (runs[-1][0], stretch.end)
            else:
                runs.append((stretch.start, stretch.end))
    return runs


def _steady(level: str) -> Shape:
    """A level held to the end after a start of 40 to 200 seconds."""

    def shape(duration: int, rng: np.random.Generator) -> Course:
        warm = min(int(rng.integers(40, 200)), duration // 10)
        return [Stretch(0, warm, "loading"), Stretch(warm, duration, level)]

    return shape


def _cycle(*parts: tuple[str, int, int]) -> Shape:
    """Levels in turn after a start of 90 seconds, each for a random time between its two bounds in seconds."""

    def shape(duration: int, rng: np.random.Generator) -> Course:
        stretches = [Stretch(0, min(90, duration // 10), "loading")]
        while stretches[-1].end < duration and len(stretches) < STEPS_MAX:
            for level, low, high in parts:
                start = stretches[-1].end
                stretches.append(Stretch(start, start + int(rng.integers(low, high + 1)), level))
        return stretches

    return shape


def _idle(level: str) -> Shape:
    return lambda duration, rng: [Stretch(0, duration, level, True)]


def _idle_after_activity(duration: int, rng: np.random.Generator) -> Course:
    """Trains for a third of its time, then hangs without releasing its memory."""
    stop = int(duration * rng.uniform(0.28, 0.42)) + 7
    return [Stretch(0, 110, "loading"), Stretch(110, stop, "train-lean"), Stretch(stop, duration, "resident", True)]


def _tickled(duration: int, rng: np.random.Generator) -> Course:
    """Idle but for a tiny kernel every four to five minutes, made to fool GPU_UTIL."""
    stretches: Course = []
    start = 0
    while start < duration and len(stretches) < STEPS_MAX:
        tickle = start + int(rng.integers(240, 301))
        stretches += [Stretch(start, tickle, "resident", True), Stretch(tickle, tickle + 24, "tickle", True)]
        start = tickle + 24
    return stretches


def _notebook_left(duration: int, rng: np.random.Generator) -> Course:
    """A notebook: some work, then hours without a user, then a little work, then no user again."""
    first = min(40 * MINUTE, duration // 6) + int(rng.integers(0, 50))
    back = int(duration * 0.62) + int(rng.integers(0, 50))
    again = back + min(20 * MINUTE, duration // 10)
    return [
        Stretch(0, first, "cell"),
        Stretch(first, back, "resident", True),
        Stretch(back, again, "cell"),
        Stretch(again, duration, "resident", True),
    ]


def _warm_up(duration: int, rng: np.random.Generator) -> Course:
    return [Stretch(0, 8 * MINUTE, "context"), Stretch(8 * MINUTE, duration, "train")]


def _daily(duration: int, rng: np.random.Generator) -> Course:
    """Serving: more requests by day than by night."""
    stretches = [Stretch(0, 100, "loading")]
    while stretches[-1].end < duration and len(stretches) < STEPS_MAX:
        start = stretches[-1].end
        high = rng.random() < 0.35 + 0.35 * np.sin(2 * np.pi * start / (24 * HOUR))
        length = int(rng.integers(10 * MINUTE, 50 * MINUTE))
        stretches.append(Stretch(start, start + length, "serve-high" if high else "serve-low"))
    return stretches


SHAPES: dict[str, Shape] = {
    # background, healthy
    "train": _cycle(("train", 50 * MINUTE, 70 * MINUTE), ("checkpoint", 40, 70)),
    "train-lean": _cycle(("train-lean", 70 * MINUTE, 90 * MINUTE), ("checkpoint", 30, 60)),
    "simulation": _steady("simulation"),
    "batch": _steady("batch"),
    "evaluation": _cycle(("evaluation", 8 * MINUTE, 16 * MINUTE), ("loading", 20, 60)),
    "serve": _daily,
    "notebook": _cycle(("cell", 3 * MINUTE, 9 * MINUTE), ("resident", 60, 8 * MINUTE)),
    "slice-busy": _steady("slice-busy"),
    # planted: busy by GPU_UTIL only
    "masked": _steady("masked"),
    "small-kernels": _cycle(("small-kernels", 90 * MINUTE, 110 * MINUTE), ("checkpoint", 20, 40)),
    "spinning": _steady("spinning"),
    "unbatched": _steady("unbatched"),
    "slice-masked": _steady("slice-masked"),
    # planted: held and idle
    "idle": _idle("context"),
    "idle-after-activity": _idle_after_activity,
    "tickled": _tickled,
    "notebook-left": _notebook_left,
    "slice-idle": _idle("resident"),
    # decoys
    "decode": _steady("decode"),
    "decode-narrow": _steady("decode-narrow"),
    "gemm": _steady("gemm"),
    "exchange": _steady("exchange"),
    "capped": _steady("capped"),
    "braked": _steady("braked"),
    "latency": _steady("latency"),
    "lite-suspect": _steady("lite-suspect"),
    "warm-up": _warm_up,
    "bursts": _cycle(("serve-high", 2 * MINUTE, 4 * MINUTE), ("resident", 4 * MINUTE, 9 * MINUTE)),
    "short-idle": _cycle(("batch", 18 * MINUTE, 26 * MINUTE), ("resident", 12 * MINUTE, 12 * MINUTE)),
    "checkpoints": _cycle(("train", 30 * MINUTE, 30 * MINUTE), ("checkpoint", 60, 60)),
    "gaps-busy": _cycle(("train-lean", 35 * MINUTE, 70 * MINUTE), (GAP, 20 * MINUTE, 50 * MINUTE)),
    "gaps-idle": _cycle(
        ("cell", 4 * MINUTE, 6 * MINUTE),
        ("resident", 9 * MINUTE, 11 * MINUTE),
        (GAP, 20 * MINUTE, 28 * MINUTE),
        ("resident", 9 * MINUTE, 11 * MINUTE),
    ),
    "short": lambda duration, rng: [Stretch(0, duration, "context")],
}
"""Loads by name."""
