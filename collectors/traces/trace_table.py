"""Reads published CSV files by column name."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from gpuwatch.collectors.shared.text_files import numbered_lines
from gpuwatch.core.clock import SECOND_US
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects

MAX_FILE_BYTES = 1 << 30
MAX_LINE_BYTES = 1 << 16

_SECONDS = re.compile(r"([0-9]{1,11})(?:\.([0-9]{1,6}))?0*")
_WHOLE = re.compile(r"[0-9]{1,9}")


def table_rows(
    path: str, needed: tuple[str, ...], rejects: Rejects, max_rows: int
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields (line, values by column) of a CSV file with a header, plain or gzip; columns in any order.

    A row with another number of columns is rejected with its line, like those beyond `max_rows`. Raises
    UnreadableInput for a file that cannot be read or lacks one of the `needed` columns.
    """
    lines = numbered_lines(path, rejects, MAX_FILE_BYTES, MAX_LINE_BYTES)
    names = _cells(next(lines)[1].removeprefix("\ufeff"))
    if missing := [name for name in needed if name not in names]:
        raise UnreadableInput(f"{path}: line 1: no column {', '.join(missing)}; is this the published file?")
    taken = 0
    for number, line in lines:
        if not line.strip():
            continue
        values = _cells(line)
        if len(values) != len(names):
            rejects.add(f"row has {len(values)} columns, not {len(names)}", path, number, line)
        elif taken >= max_rows:
            rejects.add(f"more than {max_rows} rows; split the file", path, number, line)
        else:
            taken += 1
            yield number, dict(zip(names, values, strict=True))


def header(path: str) -> list[str]:
    """The column names of a CSV file. Raises UnreadableInput."""
    return _cells(next(numbered_lines(path, Rejects(), MAX_FILE_BYTES, MAX_LINE_BYTES))[1].removeprefix("\ufeff"))


def seconds_us(row: dict[str, str], name: str) -> int:
    """A decimal number of seconds in microseconds, exactly. Raises ValueError."""
    match = _SECONDS.fullmatch(row[name])
    if not match:
        raise ValueError(f"{name} is not a number of seconds")
    return int(match[1]) * SECOND_US + int((match[2] or "").ljust(6, "0"))


def whole(row: dict[str, str], name: str, most: int) -> int:
    """A whole number from 0 to `most`. Raises ValueError."""
    if not _WHOLE.fullmatch(row[name]) or int(row[name]) > most:
        raise ValueError(f"{name} is not a whole number up to {most}")
    return int(row[name])


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line]), [])]
