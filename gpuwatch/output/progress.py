"""How far a long command is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpuwatch.output.listing import visible

LINE_S = 30
"""Seconds between two lines where stderr is no terminal."""

Step = Callable[[int, int, str], None]
"""Takes what is done, of how much (0: not known), and what is done now."""


@contextmanager
def progress(title: str) -> Iterator[Step]:
    """A progress bar on stderr, or a line every LINE_S seconds where that is no terminal."""
    if not sys.stderr.isatty():
        yield _lines(title)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("after"),
        TimeElapsedColumn(),
        TextColumn("remaining"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def step(done: int, total: int, what: str) -> None:
            words = f"{title}: {visible(what)}" if what else title
            bar.update(task, completed=done, total=total, description=escape(words))

        yield step


def _lines(title: str) -> Step:
    """Prints a line if the last one was LINE_S seconds ago."""
    printed = time.monotonic()

    def step(done: int, total: int, what: str) -> None:
        nonlocal printed
        if time.monotonic() - printed >= LINE_S:
            printed = time.monotonic()
            far = f" ({done:,} of {total:,})" if total else ""
            print(f"{title}: {visible(what)}{far}", file=sys.stderr, flush=True)

    return step
