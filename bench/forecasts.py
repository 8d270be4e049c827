"""Forecasts of daily costs against series whose ends are known: `python -m bench.forecasts`."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from statistics import fmean, median

from gpuwatch.billing.forecast import Forecast, dates, forecast_cost

START = date(2026, 3, 2)
"""A Monday."""
WEEKDAYS = (1.2, 1.2, 1.2, 1.2, 1.1, 0.6, 0.5)
LEVEL, NOISE = 1000.0, 0.2
"""The cost of a day and its standard deviation as a part of that."""
KNOWN, AHEAD = (35, 63, 112), (6, 14, 25)
"""Days of history, and days to come."""
SERIES = 20
"""Series of each kind, history and horizon."""

Days = list[tuple[date, Decimal]]
Method = Callable[[Decimal, Days, Sequence[date], float], Forecast | None]


@dataclass(frozen=True)
class Kind:
    """Daily costs: level x weekday x noise with a memory of `memory` from day to day.

    `growth` a day in parts of the level, or `grows` by that part of the day before; `wanders`: standard deviation of a
    step of a random walk of the level. `factor` times the level since `since` days before the end of the history.
    """

    memory: float = 0.0
    growth: float = 0.0
    grows: float = 0.0
    wanders: float = 0.0
    factor: float = 1.0
    since: int = 0

    def draw(self, known: int, ahead: int, seed: int) -> list[float]:
        """The costs of `known` and `ahead` days."""
        rng = random.Random(f"{self}{known}{ahead}{seed}")
        error, walk, found = rng.gauss(0, NOISE), 1.0, []
        for day in range(known + ahead):
            error = self.memory * error + (1 - self.memory**2) ** 0.5 * rng.gauss(0, NOISE)
            walk = max(0.1, walk + rng.gauss(0, self.wanders)) if self.wanders else 1.0
            level = LEVEL * walk * max(0.0, 1 + self.growth * day) * (1 + self.grows) ** day
            if self.since and day >= known - self.since:
                level *= self.factor
            found.append(level * WEEKDAYS[day % 7] * max(0.0, 1 + error))
        return found


KINDS = {
    "independent days": Kind(),
    "memory of .5": Kind(memory=0.5),
    "memory of .7": Kind(memory=0.7),
    "memory of .9": Kind(memory=0.9),
    "wandering level": Kind(wanders=0.05),
    "growth of 1 % of the first day": Kind(growth=0.01),
    "growth of 1 % a day": Kind(grows=0.01),
    "decline of 0.5 % of the first day": Kind(growth=-0.005),
    "growth, memory of .5": Kind(growth=0.01, memory=0.5),
    "doubled 7 days ago": Kind(factor=2, since=7),
    "doubled 14 days ago": Kind(factor=2, since=14),
    "doubled 28 days ago": Kind(factor=2, since=28),
    "doubled 14 days ago, memory of .5": Kind(factor=2, since=14, memory=0.5),
    "halved 14 days ago": Kind(factor=0.5, since=14),
    "down to a tenth 10 days ago": Kind(factor=0.1, since=10),
    "stopped 10 days ago": Kind(factor=0, since=10),
}


@dataclass(frozen=True)
class Score:
    """How often the interval held what came, the median error of the middle, and the median width, as parts of what came."""

    coverage: float
    error: float
    width: float


def cases(kind: Kind, series: int = SERIES, known: Sequence[int] = KNOWN) -> Iterator[tuple[Days, list[date], float]]:
    """(history, days to come, what they will cost)."""
    for length in known:
        for ahead in AHEAD:
            for seed in range(series):
                costs = kind.draw(length, ahead, seed)
                history = [(START + timedelta(n), Decimal(f"{cost:.2f}")) for n, cost in enumerate(costs[:length])]
                first = START + timedelta(length)
                yield history, dates(first, first + timedelta(ahead)), sum(costs[length:])


def score(kind: Kind, method: Method = forecast_cost, series: int = SERIES, known: Sequence[int] = KNOWN) -> Score:
    """The score of a method on one kind of series."""
    inside, errors, widths = [], [], []
    for history, rest, comes in cases(kind, series, known):
        found = method(Decimal(0), history, rest, 1.0)
        if found is None:
            raise ValueError("no forecast of a history that is long enough")
        inside.append(float(found.low) - 0.01 <= comes <= float(found.high) + 0.01)
        scale = comes or LEVEL
        errors.append(abs(float(found.amount) - comes) / scale)
        widths.append(float(found.high - found.low) / scale)
    return Score(fmean(inside), median(errors), median(widths))


def table(method: Method = forecast_cost) -> Iterator[str]:
    """A line of each kind, and the processor time of a forecast."""
    began = time.process_time()
    for name, kind in KINDS.items():
        found = score(kind, method)
        yield f"| {name} | {found.coverage:.2f} | {found.error:.1%} | {found.width:.0%} |"
    spent = (time.process_time() - began) / (len(KINDS) * len(KNOWN) * len(AHEAD) * SERIES)
    yield f"{1000 * spent:.1f} ms of processor time a forecast"


if __name__ == "__main__":
    for line in table():
        print(line)
