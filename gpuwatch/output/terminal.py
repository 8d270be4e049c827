"""Listings as text for the terminal: a table, or the JSON and CSV that a pipe gets."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from typing import TextIO

from gpuwatch.core.words import duration
from gpuwatch.output import render as files
from gpuwatch.output.listing import BUCKET_WORDS, Listing, visible

PIPED_WIDTH = 160
"""Columns of a table that does not go to a terminal."""

SENTENCE_LEAST = 48
"""Characters that the column of sentences gets before spare columns are shown."""

WORD_MAX = 100
"""Longest word that a table never breaks; the longest word people copy is a SHA-256 with 64 characters."""

_DURATIONS = {"seconds": 1, "minutes": 60, "hours": 3600}
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2})(?::\d{2}(?:\.\d+)?)Z")
"""To the minute; JSON and CSV have it exactly."""

_NUMBERS = (
    "gpu_hours", "gpu_seconds", "cost", "cost_exact", "wasted_cost", "percent", "USD", "EUR", "files", "records",
)  # fmt: skip


def as_text(listing: Listing, form: str, width: int) -> str:
    """The text of a listing in one of the FORMATS of a listing."""
    return as_table(listing, width) if form == "table" else files.render(listing, form)[0].decode()


def as_table(listing: Listing, width: int) -> str:
    """A table of `width` characters for people, with numbers aligned right, and durations and times as people say them.

    Lines break only between words, so that numbers, ids and digests can be copied. If the words alone are too wide,
    columns in `spare` are dropped and listed below; a table that is still too wide exceeds `width`.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    rows = listing.items if listing.people is None else listing.people
    cells = {name: [visible(_word(name, item.get(name))) for item in rows] for name in listing.shown or listing.columns}
    least = {name: _least(_title(name), column) for name, column in cells.items()}
    if listing.sentence in least:
        least[listing.sentence] = _sentence(least[listing.sentence], cells[listing.sentence])
    left_out = _drop_spare(cells, listing.spare, least, width)
    if listing.sentence in cells:
        over = _edges(cells) + sum(least[name] for name in cells) - width
        word = _least(_title(listing.sentence), cells[listing.sentence])
        least[listing.sentence] = max(word, least[listing.sentence] - max(over, 0))
    widths = _widths([(_title(name), column, least[name]) for name, column in cells.items()], width - _edges(cells))
    spans = [name for name in cells if _unit(name) is not None]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, wide in zip(cells, widths, strict=True):
        table.add_column(
            _title(name),
            justify="right" if name in (*_NUMBERS, *spans, *listing.right) else "left",
            width=wide,
            overflow="fold",
        )
    for row in zip(*cells.values(), strict=True):
        table.add_row(*row)
    stream = io.StringIO()
    whole = max(width, sum(widths) + _edges(cells))
    console = Console(file=stream, width=whole, highlight=False, markup=False, color_system=None)
    if rows:
        console.print(table)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    hidden = [f"Columns not shown: {', '.join(left_out)}; --format json has all."] if left_out else []
    above, below = [visible(line) for line in listing.head], [visible(line) for line in [*listing.foot, *hidden]]
    return "\n".join([*above, *lines, *below]).strip("\n") + "\n"


def _drop_spare(cells: dict[str, list[str]], spare: Sequence[str], least: Mapping[str, int], width: int) -> list[str]:
    """Removes spare columns until the smallest widths fit into `width`; returns the titles of those that had content."""
    dropped = []
    for name in spare:
        if _edges(cells) + sum(least[one] for one in cells) <= width:
            break
        dropped += [_title(name)] if any(cells.pop(name)) else []
    return dropped


def _edges(names: Collection[str]) -> int:
    """Characters that separate the columns of a table."""
    return 3 * len(names) - 1


def _least(title: str, cells: Sequence[str]) -> int:
    """The smallest width of a column that breaks no word, at most WORD_MAX."""
    from rich.cells import cell_len

    return min(max((cell_len(word) for text in (title, *cells) for word in text.split()), default=1), WORD_MAX)


def _sentence(least: int, cells: Sequence[str]) -> int:
    """The smallest width of the column of sentences."""
    from rich.cells import cell_len

    return max(least, min(SENTENCE_LEAST, max((cell_len(text) for text in cells), default=0)))


def _widths(columns: Sequence[tuple[str, Sequence[str], int]], room: int) -> list[int]:
    """Widths of columns (title, cells, smallest width) that fit into `room`: shrinks the widest first."""
    from rich.cells import cell_len

    least = [low for _, _, low in columns]
    widths = [
        max(low, min(max(cell_len(text) for text in (title, *cells)), max(room, 1))) for title, cells, low in columns
    ]
    over = sum(widths) - room
    while over > 0 and (broad := [n for n, wide in enumerate(widths) if wide > least[n]]):
        widths[max(broad, key=lambda n: widths[n])] -= 1
        over -= 1
    return widths


def terminal_width(stream: TextIO) -> int:
    """The width of the terminal, or PIPED_WIDTH without one."""
    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns if stream.isatty() else PIPED_WIDTH


def _title(name: str) -> str:
    words = {"gpu_hours": "GPU-hours", "gpu_seconds": "GPU-seconds"}
    unit = _unit(name)
    return words.get(name, name.removesuffix(f"_{unit}").replace("_", " "))


def _unit(name: str) -> str | None:
    """The unit of a column of durations; amounts of GPU time have their unit in their title."""
    unit = name.rpartition("_")[2]
    return unit if unit in _DURATIONS and "gpu" not in name.split("_") and name != unit else None


def _word(name: str, value: object) -> str:
    unit = _unit(name)
    if unit is not None and isinstance(value, int | float) and not isinstance(value, bool):
        return duration(value * _DURATIONS[unit])
    text = _cell(value)
    return BUCKET_WORDS.get(text, text) if name == "bucket" else text


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, dict) and value.keys() == {"start", "end"}:
        return f"{_cell(value['start'])} to {_cell(value['end'])}"
    if isinstance(value, str) and (time := _TIME.fullmatch(value)):
        return f"{time[1]} {time[2]} UTC"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
