"""Forecasts of daily costs against series whose ends are known: `python -m bench.forecasts`."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from statistics import fmean, median

from gpuwatch.billing.forecast import Forecast, dates, forecast_cost

START = date(2026, 3, 2)
"""A Monday."""
WEEKDAYS = (1.2, 1.2, 1.2, 1.2, 1.1, 0.6, 0.5)
NO_WEEKENDS = (1.4, 1.4, 1.4, 1.4, 1.4, 0.0, 0.0)
LEVEL, NOISE = 1000.0, 0.2
"""The cost of a day and its standard deviation as a part of that."""
KNOWN, AHEAD = (35, 63, 112), (6, 14, 25)
"""Days of history, and days to come."""
SHORT = (7, 10, 14, 21)
"""Days of a short history."""
SERIES = 20
"""Series of each kind, history and horizon."""

Days = list[tuple[date, Decimal]]
Method = Callable[[Decimal, Days, Sequence[date], float], Forecast | None]


@dataclass(frozen=True)
class Kind:
    """Daily costs: level x weekday x noise with a memory of `memory` from day to day.

    `growth` a day in parts of the level, or `grows` by that part of the day before; `wanders`: standard deviation of a
    step of a random walk of the level. `factor` times the level since `since` days before the end of the history.
    `pauses`: the part of the days without cost, independent or in spells of `spell` days on average. `bursts`: the part of the days that
    cost five times as much.
    """

    memory: float = 0.0
    growth: float = 0.0
    grows: float = 0.0
    wanders: float = 0.0
    factor: float = 1.0
    since: int = 0
    noise: float = NOISE
    weekdays: tuple[float, ...] = WEEKDAYS
    pauses: float = 0.0
    spell: float = 0.0
    bursts: float = 0.0
    known: tuple[int, ...] = KNOWN
    ahead: tuple[int, ...] = AHEAD

    def draw(self, known: int, ahead: int, seed: int) -> list[float]:
        """The costs of `known` and `ahead` days."""
        rng = random.Random(f"{self}{known}{ahead}{seed}")
        error, walk, found = rng.gauss(0, self.noise), 1.0, []
        paused = rng.random() < self.pauses
        for day in range(known + ahead):
            error = self.memory * error + (1 - self.memory**2) ** 0.5 * rng.gauss(0, self.noise)
            walk = max(0.1, walk + rng.gauss(0, self.wanders)) if self.wanders else 1.0
            level = LEVEL * walk * max(0.0, 1 + self.growth * day) * (1 + self.grows) ** day
            if self.since and day >= known - self.since:
                level *= self.factor
            if self.bursts and rng.random() < self.bursts:
                level *= 5
            if self.pauses:
                ends = 1 / self.spell if self.spell else 1 - self.pauses
                begins = ends * self.pauses / (1 - self.pauses)  # as often as pauses end
                paused = rng.random() >= ends if paused else rng.random() < begins
                level *= not paused
            found.append(level * self.weekdays[day % 7] * max(0.0, 1 + error))
        return found


KINDS = {
    "independent days": Kind(),
    "no cost on weekends": Kind(weekdays=NO_WEEKENDS),
    "memory of .3": Kind(memory=0.3),
    "memory of .5": Kind(memory=0.5),
    "memory of .7": Kind(memory=0.7),
    "memory of .9": Kind(memory=0.9),
    "wandering level": Kind(wanders=0.05),
    "wandering level, days that vary little": Kind(wanders=0.05, noise=0.02),
    "growth of 1 % of the first day": Kind(growth=0.01),
    "growth of 1 % a day": Kind(grows=0.01),
    "decline of 0.5 % of the first day": Kind(growth=-0.005),
    "growth, memory of .5": Kind(growth=0.01, memory=0.5),
    "doubled 7 days ago": Kind(factor=2, since=7),
    "doubled 14 days ago": Kind(factor=2, since=14),
    "doubled 28 days ago": Kind(factor=2, since=28),
    "doubled 14 days ago, memory of .5": Kind(factor=2, since=14, memory=0.5),
    "up by half 20 days ago": Kind(factor=1.5, since=20),
    "halved 14 days ago": Kind(factor=0.5, since=14),
    "down to a tenth 10 days ago": Kind(factor=0.1, since=10),
    "stopped 10 days ago": Kind(factor=0, since=10),
    "no cost on four of ten days": Kind(pauses=0.4),
    "pauses of five days": Kind(pauses=0.4, spell=5),
    "five times the cost on one day of twenty": Kind(bursts=0.05),
    "short history": Kind(known=SHORT),
    "short history, memory of .7": Kind(known=SHORT, memory=0.7),
    "short history, no cost on weekends": Kind(known=SHORT, weekdays=NO_WEEKENDS),
    "short history, growth of 1 % of the first day": Kind(known=SHORT, growth=0.01),
    "short history, wandering level": Kind(known=SHORT, wanders=0.05),
}

OTHER_WEEK, OTHER_AHEAD = (1.1, 1.0, 1.3, 1.2, 1.0, 0.8, 0.6), (3, 10, 20, 30)
_OTHER = partial(Kind, noise=0.3, weekdays=OTHER_WEEK, known=(28, 45, 80, 100), ahead=OTHER_AHEAD)
HELD_OUT = {
    "independent days": _OTHER(),
    "days that vary by a tenth": _OTHER(noise=0.1),
    "no cost on Sundays": _OTHER(weekdays=(1.2, 1.2, 1.2, 1.2, 1.2, 1.0, 0.0)),
    "memory of .4": _OTHER(memory=0.4),
    "memory of .6": _OTHER(memory=0.6),
    "memory of .8": _OTHER(memory=0.8),
    "wandering level, 3 % a day": _OTHER(wanders=0.03),
    "wandering level, 8 % a day": _OTHER(wanders=0.08),
    "wandering level, 4 % a day, days that vary by a tenth": _OTHER(wanders=0.04, noise=0.1),
    "growth of 0.5 % of the first day": _OTHER(growth=0.005),
    "growth of 2 % of the first day": _OTHER(growth=0.02),
    "growth of 2 %, memory of .4": _OTHER(growth=0.02, memory=0.4, noise=0.2),
    "decline of 0.4 % of the first day": _OTHER(growth=-0.004),
    "up by half 12 days ago": _OTHER(factor=1.5, since=12, noise=0.2),
    "tripled 9 days ago": _OTHER(factor=3, since=9),
    "doubled 20 days ago, memory of .6": _OTHER(factor=2, since=20, memory=0.6, noise=0.2),
    "down to a third 12 days ago": _OTHER(factor=0.33, since=12),
    "stopped 7 days ago": _OTHER(factor=0, since=7),
    "stopped 16 days ago": _OTHER(factor=0, since=16),
    "no cost on a quarter of the days": _OTHER(pauses=0.25),
    "pauses of four days": _OTHER(pauses=0.3, spell=4),
    "three bursts a hundred days": _OTHER(bursts=0.03),
    "short history": _OTHER(known=(8, 12, 17, 25)),
    "short history, memory of .6": _OTHER(known=(8, 12, 17, 25), memory=0.6),
    "short history, doubled 7 days ago": _OTHER(known=(17, 21, 25), factor=2, since=7),
}
"""Other parameters, days of history and days to come than KINDS. Only cost_outlook.MOVING was added after a look at them."""


@dataclass(frozen=True)
class Score:
    """How often the interval held what came, the median error of the middle, and the median width, as parts of what came."""

    coverage: float
    error: float
    width: float


def cases(kind: Kind, series: int = SERIES, first: int = 0) -> Iterator[tuple[Days, list[date], float]]:
    """(history, days to come, what they will cost), of the seeds from `first` on."""
    for length in kind.known:
        for ahead in kind.ahead:
            for seed in range(first, first + series):
                costs = kind.draw(length, ahead, seed)
                history = [(START + timedelta(n), Decimal(f"{cost:.2f}")) for n, cost in enumerate(costs[:length])]
                begin = START + timedelta(length)
                yield history, dates(begin, begin + timedelta(ahead)), sum(costs[length:])


def score(kind: Kind, method: Method = forecast_cost, series: int = SERIES, first: int = 0) -> Score:
    """The score of a method on one kind of series."""
    inside, errors, widths = [], [], []
    for history, rest, comes in cases(kind, series, first):
        found = method(Decimal(0), history, rest, 1.0)
        if found is None:
            raise ValueError("no forecast of a history that is long enough")
        inside.append(float(found.low) - 0.01 <= comes <= float(found.high) + 0.01)
        scale = comes or LEVEL
        errors.append(abs(float(found.amount) - comes) / scale)
        widths.append(float(found.high - found.low) / scale)
    return Score(fmean(inside), median(errors), median(widths))


def table(
    kinds: Mapping[str, Kind], method: Method = forecast_cost, series: int = SERIES, first: int = 0
) -> Iterator[str]:
    """A line of each kind, and the processor time of a forecast."""
    began, many = time.process_time(), 0
    for name, kind in kinds.items():
        found = score(kind, method, series, first)
        many += series * len(kind.known) * len(kind.ahead)
        yield f"| {name} | {found.coverage:.2f} | {found.error:.1%} | {found.width:.0%} |"
    yield f"{1000 * (time.process_time() - began) / many:.1f} ms of processor time a forecast"


if __name__ == "__main__":
    for line in (*table(KINDS), *table(HELD_OUT, first=1000)):
        print(line)
