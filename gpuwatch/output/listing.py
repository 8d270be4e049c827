"""Records for people and programs: a table on a terminal, JSON or CSV elsewhere."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from gpuwatch.core.errors import UsageError

FORMATS = ("table", "json", "csv")
PIPED_WIDTH = 160
"""Columns of a table that does not go to a terminal."""

WORD_MAX = 100
"""Characters of a word that a table breaks nowhere: the longest that people copy is a SHA-256 of 64."""

BUCKET_WORDS = {
    "compute": "Compute",
    "memory_roof": "Memory-bound work",
    "below_roof": "Below the roof",
    "stalled": "Busy, SMs idle",
    "communication": "Waiting on links",
    "gap": "Gaps (host, data, checkpoint)",
    "hoarded": "Held idle",
    "unobserved": "Not measured",
    "schedulable": "Free",
    "stranded": "Free but stranded",
    "mig_remainder": "MIG remainder",
    "out_of_service": "Out of service",
}
"""What a bucket is called on screen, in the order in which stacks run."""

_NUMBERS = (
    "gpu_hours",
    "gpu_seconds",
    "cost",
    "cost_exact",
    "wasted_cost",
    "percent",
    "USD",
    "EUR",
    "files",
    "records",
)


@dataclass(frozen=True)
class Listing:
    """Records and how they are shown: `extra` stands beside `items` in JSON, `foot` below the table."""

    columns: Sequence[str]
    items: Sequence[Mapping[str, Any]]
    extra: Mapping[str, Any] = field(default_factory=dict)
    shown: Sequence[str] | None = None
    """Columns of the table, where it shows fewer than CSV has."""
    foot: Sequence[str] = ()
    spare: Sequence[str] = ()
    """Columns that a table which is too wide does without, the least important first."""


def choose(form: str | None, terminal: bool, formats: Sequence[str] = FORMATS) -> str:
    """The format asked for; by default a table on a terminal and JSON elsewhere. Raises UsageError."""
    if form is None:
        return "table" if terminal else "json"
    if form not in formats:
        raise UsageError(f"--format {form}: use {', '.join(formats)}")
    return form


def render(listing: Listing, form: str, width: int) -> str:
    """The text of a listing in one of FORMATS."""
    if form == "json":
        return json.dumps({"items": list(listing.items), **listing.extra}, indent=2, ensure_ascii=False) + "\n"
    if form == "csv":
        return as_csv(listing)
    return as_table(listing, width)


def as_csv(listing: Listing) -> str:
    """A header and a line a record, as gpuwatch.output.render writes it for every answer."""
    from gpuwatch.output.render import render as export

    return export(listing, "csv")[0].decode()


def as_table(listing: Listing, width: int) -> str:
    """A table for a person, numbers to the right, `width` columns wide where that is enough.

    Lines break between words only: a number, an id or a digest is copied as it stands. Where words alone are wider, columns
    of `spare` are left out, and told below; what is wider even then runs over.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    names = list(listing.shown or listing.columns)
    cells = {name: [visible(_word(name, item.get(name))) for item in listing.items] for name in names}
    left_out = []
    for name in listing.spare:
        if _edges(names) + sum(_least(_title(one), cells[one]) for one in names) <= width:
            break
        names.remove(name)
        left_out += [_title(name)] if any(cells[name]) else []
    widths = _widths([(_title(name), cells[name]) for name in names], width - _edges(names))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, wide in zip(names, widths, strict=True):
        table.add_column(
            _title(name), justify="right" if name in _NUMBERS else "left", width=wide, overflow="fold", no_wrap=False
        )
    for row in zip(*(cells[name] for name in names), strict=True):
        table.add_row(*row)
    stream = io.StringIO()
    whole = max(width, sum(widths) + _edges(names))
    console = Console(file=stream, width=whole, highlight=False, markup=False, color_system=None)
    if listing.items:
        console.print(table)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    told = [f"Not shown for want of room: {', '.join(left_out)}; --format json has all."] if left_out else []
    return "\n".join([*lines, *(visible(line) for line in [*listing.foot, *told])]).strip("\n") + "\n"


def _edges(names: Sequence[str]) -> int:
    """Columns of the terminal that lie between and beside those of a table."""
    return 3 * len(names) - 1


def _least(title: str, cells: Sequence[str]) -> int:
    """The width of a column that breaks no word, short of one that no table is made for."""
    from rich.cells import cell_len

    return min(max((cell_len(word) for text in (title, *cells) for word in text.split()), default=1), WORD_MAX)


def _widths(columns: Sequence[tuple[str, Sequence[str]]], room: int) -> list[int]:
    """Widths of columns (title, cells) that fit into `room`: the widest break first, and none below its longest word."""
    from rich.cells import cell_len

    least = [_least(title, cells) for title, cells in columns]
    widths = [
        max(low, min(max(cell_len(text) for text in (title, *cells)), max(room, 1)))
        for low, (title, cells) in zip(least, columns, strict=True)
    ]
    over = sum(widths) - room
    while over > 0 and (broad := [n for n, wide in enumerate(widths) if wide > least[n]]):
        widths[max(broad, key=lambda n: widths[n])] -= 1
        over -= 1
    return widths


def terminal_width(stream: TextIO) -> int:
    """Columns of the terminal, PIPED_WIDTH where there is none."""
    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns if stream.isatty() else PIPED_WIDTH


def visible(text: str) -> str:
    """Text on one line with control characters escaped: input must not write to somebody's terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _title(name: str) -> str:
    words = {"gpu_hours": "GPU-hours", "gpu_seconds": "GPU-seconds"}
    return words.get(name, name.replace("_", " "))


def _word(name: str, value: object) -> str:
    text = _cell(value)
    return BUCKET_WORDS.get(text, text) if name == "bucket" else text


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
