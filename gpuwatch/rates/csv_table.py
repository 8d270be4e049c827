"""CSV tables written by people: read by column name, every cell checked, every bad row reported."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from gpuwatch.core.clock import parse_rfc3339
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.core.model import Rejects
from gpuwatch.core.money import EXACT_PLACES

MAX_ROWS = 100_000
"""Rows read from one file; the rest is rejected and counted."""
MAX_WHOLE_DIGITS = 26
"""Digits before the point of an amount: DECIMAL(38,12)."""
NAMED_MAX = 100
"""Bad rows listed in an error; the others are counted."""

OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs"}
"""Cell separators of spreadsheets in other locales."""

T = TypeVar("T")
_AMOUNT = re.compile(r"[+-]?(\d+)(?:\.(\d*))?", re.ASCII)


class RowsRefused(UsageError):
    """A table was rejected as a whole: `named` lists bad rows with the reason, `count` is their number."""

    def __init__(self, named: Sequence[str], count: int) -> None:
        more = f"; and {count - len(named)} more" if count > len(named) else ""
        super().__init__(f"nothing was changed: {'; '.join(named)}{more}")
        self.named = list(named)
        self.count = count


class EveryRow(Rejects):
    """Rejects with the line of each row, not only the first per reason; keeps at most NAMED_MAX."""

    def __init__(self) -> None:
        super().__init__()
        self.named: list[str] = []

    def add(self, reason: str, file: str, line: int, text: str = "", count: int = 1) -> None:
        super().add(reason, file, line, text, count)
        if len(self.named) < NAMED_MAX:
            # What a reason says of two lines stands in the text of the second.
            detail = f" ({text.split(':', 1)[0]})" if text.startswith(f"line {line} ") else ""
            self.named.append(f"line {line}: {reason}{detail}")


def whole(parse: Callable[[str | bytes, str, Rejects], Sequence[T]], text: str | bytes, file: str) -> list[T]:
    """Every row of a table, or none: RowsRefused names each bad one. Raises UnreadableInput as `parse` does."""
    rejects = EveryRow()
    kept = list(parse(text, file, rejects))
    if rejects.total:
        raise RowsRefused(rejects.named, rejects.total)
    return kept


def checked(rows: Sequence[dict[str, Any]], make: Callable[[dict[str, Any], int], T]) -> list[T]:
    """Every row of a JSON list as a record, or none: RowsRefused names each bad one as `items.N`."""
    kept: list[T] = []
    bad: list[str] = []
    count = 0
    for place, row in enumerate(rows):
        try:
            kept.append(make(row, place + 1))
        except (UsageError, ValueError) as error:
            count += 1
            if len(bad) < NAMED_MAX:
                bad.append(f"items.{place}: {error.__cause__ or error}")
    if bad:
        raise RowsRefused(bad, count)
    return kept


def read_rows(
    text: str | bytes, file: str, required: Sequence[str], optional: Sequence[str], rejects: Rejects
) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, row) of each line; a row has every required and present optional column, stripped of blanks.

    Columns may come in any order and case; missing cells at the end of a line are empty. A line with too many cells
    is refused; an unknown column is reported once and ignored. Raises UnreadableInput for text that is not UTF-8, is
    empty, or lacks a required column.
    """
    reader = csv.reader(io.StringIO(_decoded(text, file), newline=""), strict=True)
    header = _header(reader, file, required)
    wanted = {name: header.index(name) for name in (*required, *optional) if name in header}
    for name in header:
        if name not in wanted:
            known = ", ".join((*required, *optional))
            rejects.add(f"column {name!r} is not known and was ignored; known: {known}", file, 1, ",".join(header))
    for count in range(MAX_ROWS + 1):
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            rejects.add(f"line is not CSV: {error}", file, line)
            continue
        if cells is None:
            return
        if count == MAX_ROWS:
            rejects.add(f"file has more than {MAX_ROWS} rows; the rest was not read", file, line)
            return
        if not any(cell.strip() for cell in cells):
            continue
        if any(cell.strip() for cell in cells[len(header) :]):
            rejects.add("line has more cells than the header has columns", file, line, ",".join(cells))
            continue
        cells += [""] * (len(header) - len(cells))
        yield line, {name: cells[column].strip() for name, column in wanted.items()}


def amount(text: str, column: str) -> Decimal:
    """A plain decimal of DECIMAL(38,12): no exponent, thousands separator, currency sign, NaN or infinity.

    Raises ValueError naming the column.
    """
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"{column} is not a plain decimal number such as 2.49")
    if len(match[1].lstrip("0")) > MAX_WHOLE_DIGITS or len((match[2] or "").rstrip("0")) > EXACT_PLACES:
        raise ValueError(f"{column} has more than {MAX_WHOLE_DIGITS} digits or {EXACT_PLACES} decimal places")
    return Decimal(text)


def moment(text: str, column: str) -> int:
    """Microseconds of an RFC 3339 cell. Raises ValueError naming the column."""
    try:
        return parse_rfc3339(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{column} is not an RFC 3339 time such as 2026-11-01T00:00:00Z") from None


def whole_number(text: str, column: str) -> int:
    """A positive whole number. Raises ValueError naming the column."""
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or int(text) == 0:
        raise ValueError(f"{column} is not a whole number above 0")
    return int(text)


def plain(value: Decimal) -> str:
    """A decimal in canonical form: no exponent, no trailing zeros."""
    text = f"{value:f}"
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text


def _decoded(text: str | bytes, file: str) -> str:
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableInput(f"{file}: byte {error.start} is not UTF-8; save the file as UTF-8") from error


def _header(reader: Iterator[list[str]], file: str, required: Sequence[str]) -> list[str]:
    """The first non-empty line's names in lower case."""
    try:
        cells = next((row for row in reader if any(cell.strip() for cell in row)), [])
    except csv.Error as error:
        raise UnreadableInput(f"{file}: its first line is not CSV ({error}); expected {','.join(required)}") from error
    header = [cell.strip().lower() for cell in cells]
    if missing := [name for name in required if name not in header]:
        problem = f"{file}: no column {', '.join(missing)} in its first line; expected {','.join(required)}"
        other = next((mark for mark in OTHER_SEPARATORS if mark in cells[0]), None) if len(cells) == 1 else None
        if other is not None:
            problem = f"{file}: cells are separated by {OTHER_SEPARATORS[other]}; save it with commas, and decimals with a point"
        raise UnreadableInput(problem)
    return header
