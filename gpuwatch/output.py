"""Records for people and programs: a table on a terminal, JSON or CSV elsewhere."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from gpuwatch.errors import UsageError

FORMATS = ("table", "json", "csv")
PIPED_WIDTH = 160
"""Columns of a table that does not go to a terminal."""

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
    """A header and a line a record, as gpuwatch.export writes it for every answer."""
    from gpuwatch.export import render as export

    return export(listing, "csv")[0].decode()


def as_table(listing: Listing, width: int) -> str:
    """A table for a person, at most `width` columns wide, numbers to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in listing.shown or listing.columns:
        number = name in _NUMBERS
        table.add_column(_title(name), justify="right" if number else "left", overflow="fold", no_wrap=number)
    for item in listing.items:
        table.add_row(*(visible(_word(name, item.get(name))) for name in listing.shown or listing.columns))
    stream = io.StringIO()
    console = Console(file=stream, width=width, highlight=False, markup=False, color_system=None)
    if listing.items:
        console.print(table)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    return "\n".join([*lines, *(visible(line) for line in listing.foot)]).strip("\n") + "\n"


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
