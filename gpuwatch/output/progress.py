"""How far a long command is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpuwatch.core.words import duration
from gpuwatch.output.listing import visible
from gpuwatch.output.time_left import TimeLeft

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

LINE_S = 30
"""Seconds between two lines where stderr is no terminal."""
PARTS = 1000
"""Steps of a bar whose work has phases."""

Step = Callable[[int, int, str], None]
"""Takes what is done, of how much (0: not known), and what is done now."""
PartOf = Callable[[int, int, str], float]
"""The part of the whole (0..1) that is done at a step of work in phases."""


@contextmanager
def progress(title: str, part_of: PartOf | None = None) -> Iterator[Step]:
    """A progress bar on stderr, or a line every LINE_S seconds where that is no terminal. `part_of`: work in phases is one bar, with
    the time that all of it still takes.
    """
    left = TimeLeft(time.monotonic)
    if not sys.stderr.isatty():
        yield _lines(title, part_of, left)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("after"),
        TimeElapsedColumn(),
        TextColumn("remaining"),
        _column(left),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def step(done: int, total: int, what: str) -> None:
            words = f"{title}: {visible(what)}" if what else title
            if part_of is not None:
                done, total = round(part_of(done, total, what) * PARTS), PARTS
            bar.update(task, completed=done, total=total, description=escape(words))

        yield step


def _column(left: TimeLeft) -> ProgressColumn:
    """The column with the time left."""
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class Left(ProgressColumn):
        max_refresh = 0.5

        def render(self, task: Task) -> Text:
            seconds = left.seconds(task.completed / task.total) if task.total else None
            return Text("" if seconds is None else _words(seconds))

    return Left()


def _words(seconds: float) -> str:
    """At least a second while work goes on."""
    return duration(max(round(seconds), 1))


def _lines(title: str, part_of: PartOf | None, left: TimeLeft) -> Step:
    """Prints a line if the last one was LINE_S seconds ago."""
    printed = time.monotonic()

    def step(done: int, total: int, what: str) -> None:
        nonlocal printed
        part = None if part_of is None else part_of(done, total, what)
        seconds = None if part is None else left.seconds(part)
        if time.monotonic() - printed >= LINE_S:
            printed = time.monotonic()
            far = f" ({done:,} of {total:,})" if total else ""
            if part is not None:
                far = f" ({part:.0%} done{'' if seconds is None else f', {_words(seconds)} left'})".replace("%", " %")
            print(f"{title}: {visible(what)}{far}", file=sys.stderr, flush=True)

    return step
