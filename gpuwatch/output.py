"""Records for people and programs: a table on a terminal, JSON or CSV elsewhere."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from gpuwatch.errors import UsageError

FORMATS = ("table", "json", "csv")


def choose(format_name: str | None, stream: TextIO | None = None) -> str:
    """The format asked for; by default a table on a terminal and JSON when piped. Raises UsageError."""
    if format_name is None:
        return "table" if (stream or sys.stdout).isatty() else "json"
    if format_name not in FORMATS:
        raise UsageError(f"--format {format_name}: use one of {', '.join(FORMATS)}")
    return format_name


def write_json(document: object, stream: TextIO) -> None:
    """One JSON document with a line feed at its end."""
    json.dump(document, stream, indent=2, ensure_ascii=False)
    stream.write("\n")


def write_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], stream: TextIO) -> None:
    """A header and a line a record; NULL is empty, nested values are JSON."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row.get(name)) for name in columns])


def write_table(title: str, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], stream: TextIO) -> None:
    """A table for a terminal. `columns` maps a key to `<` (text) or `>` (numbers, right-aligned)."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", header_style="bold")
    for name, side in columns.items():
        table.add_column(name.replace("_", " "), justify="right" if side == ">" else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in columns))
    console = Console(file=stream, width=None if stream.isatty() else 140, highlight=False, markup=False)
    console.print(table)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def visible(text: str) -> str:
    """Text on one line with control characters escaped: input must not write to somebody's terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def write_parquet(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], path: Path) -> None:
    """The same columns as CSV; amounts are DECIMAL(38, 12), never floats."""
    from decimal import Decimal

    import pyarrow as pa
    import pyarrow.parquet as pq

    money = {"gpu_seconds", "cost", "cost_exact"}
    fields = [(name, pa.decimal128(38, 12) if name in money else pa.string()) for name in columns]
    data = {
        name: [None if row[name] is None else Decimal(row[name]) if name in money else row[name] for row in rows]
        for name in columns
    }
    pq.write_table(pa.Table.from_pydict(data, schema=pa.schema(fields)), path)
