"""Sealed samples as Parquet files, one for each cluster and day, which DuckDB, pandas and Spark read.

A value that the exporter prints with few decimals is stored as a scaled integer (DECIMAL), which is half as large as a double
and the same number: a column with any value that would not be bit-identical stays DOUBLE in that file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from urllib.parse import quote

import duckdb

from gpuwatch.core.clock import DAY_US, from_us
from gpuwatch.core.errors import StoreError, UnreadableInput, UsageError
from gpuwatch.core.fields import columns
from gpuwatch.store.connection import Connection, identifier

FORMAT = "gpuwatch samples 1"
"""Written into every file. Another number means that columns have another meaning."""
NOTE = "gpuwatch"
"""The key of a file's metadata with FORMAT and the checksum of its rows."""
DECIMALS = {
    "_ratio": (9, 6),
    "_watts": (9, 3),
    "_mhz": (9, 0),
    "_celsius": (9, 0),
    "_bytes_per_s": (18, 0),
}
"""Digits and decimals of a column, by the end of its name: as dcgm-exporter prints them. Other columns stay as they are."""
KEYS = ("device_id", "context_id", "observed_us")
ROWS_A_GROUP = 122_880
COPY = f"(format parquet, codec zstd, parquet_version v2, row_group_size {ROWS_A_GROUP}"
PARTIAL = ".partial"


@dataclass(frozen=True)
class SampleFile:
    """A file of a cluster's samples of a day. `written`: False if it had the same rows already."""

    cluster: str
    day: date
    path: Path
    rows: int
    bytes: int
    written: bool

    def facts(self) -> dict[str, str | int]:
        """For a listing or an answer."""
        result = "written" if self.written else "unchanged"
        return {
            "cluster": self.cluster,
            "day": self.day.isoformat(),
            "samples": self.rows,
            "bytes": self.bytes,
            "result": result,
            "file": str(self.path),
        }


def export(
    store: Connection,
    target: Path,
    *,
    doubles: bool = False,
    after: tuple[str, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[SampleFile]:
    """Writes the sealed samples of every day that is not past retention below `target`, and the labels of each cluster.

    A file is complete or absent, and is replaced only if the day's samples changed since; other files stay, also those of days
    that are past retention meanwhile. `doubles`: no DECIMAL, for programs that want one type of number. `after`: go on after
    this cluster and day. Raises UsageError for a target inside of the data directory, UnreadableInput for one that cannot be written, StoreError if the disk is full.
    """
    if store.path is not None and target.resolve().is_relative_to(store.path.resolve()):
        raise UsageError(f"{target}: is inside the data directory {store.path}; use a directory outside it")
    days = store.rows("store/samples/days")
    if after is None:
        with _explained(target):
            for cluster in dict.fromkeys(row["cluster"] for row in days):
                _write(store, _place(target / "contexts", cluster) / "contexts.parquet", _labels(cluster), COPY + ")")
    for number, row in enumerate(days):
        day = from_us(row["day_us"]).date()
        if after is not None and (row["cluster"], day.isoformat()) <= after:
            continue
        if progress is not None:
            progress(number, len(days))
        path = _place(target / "samples", row["cluster"]) / f"day={day.isoformat()}" / "samples.parquet"
        there = _note(store, path)
        # One snapshot, although a server seals samples meanwhile.
        with store.transaction(), _explained(target):
            file = _export_day(store, path, there, row["cluster"], day, doubles)
        yield file


def export_next(
    store: Connection, target: Path, doubles: bool, after: tuple[str, str] | None
) -> tuple[list[SampleFile], bool]:
    """The files up to the first that had to be written, and whether there may be more of them."""
    files: list[SampleFile] = []
    for file in export(store, target, doubles=doubles, after=after):
        files.append(file)
        if file.written:
            return files, True
    return files, False


def _export_day(store: Connection, path: Path, there: str | None, cluster: str, day: date, doubles: bool) -> SampleFile:
    """Writes a day, unless the file that is there has it."""
    day_us = (day - date(1970, 1, 1)).days * DAY_US
    source = (
        f"sample where observed_us >= {day_us} and observed_us < {day_us + DAY_US}"
        f" and context_id in (select context_id from context where cluster = {_text(cluster)})"
    )
    filled, rows, checksum = _contents(store, source)
    note = f"{FORMAT}, {'doubles' if doubles else 'decimals'}, {rows} rows, {checksum}"
    same = there == note
    if not same:
        exact = {} if doubles else _exact(store, source, filled)
        values = [f"{n}::decimal({exact[n][0]}, {exact[n][1]}) as {n}" if n in exact else n for n in filled]
        missing = [f"null::{field.type} as {n}" for n, field in columns().items() if n not in filled]
        # Sorting only what any sample has, and adding the rest afterwards, takes a third less time.
        ordered = f"select {', '.join([*KEYS, *filled])} from {source} order by device_id, observed_us, context_id"
        select = f"select {', '.join([*KEYS, _TIME, *values, *missing])} from ({ordered})"
        _write(store, path, select, f"{COPY}, kv_metadata {{{NOTE}: {_text(note)}}})")
    return SampleFile(cluster, day, path, rows, path.stat().st_size, not same)


_TIME = "make_timestamptz(observed_us) as observed_at"


def _contents(store: Connection, source: str) -> tuple[list[str], int, str]:
    """The columns that any sample of `source` has, the number of its rows, and a checksum of them in any order."""
    names = [identifier(name) for name in columns()]
    counts = ", ".join(f"count({name})" for name in names)
    every = f"hash({', '.join([*KEYS, *names])})::hugeint"
    rows, checksum, *counted = store.sql(f"select count(*), sum({every})::varchar, {counts} from {source}")[0]
    return [name for name, count in zip(names, counted, strict=True) if count], int(rows), str(checksum)


def _exact(store: Connection, source: str, filled: list[str]) -> dict[str, tuple[int, int]]:
    """Digits and decimals of the columns whose every value is bit-identical as DECIMAL."""
    wanted = {name: digits for name in filled if (digits := _digits(name)) is not None}
    if not wanted:
        return {}
    # -0.0 equals 0.0 and is another number.
    same = [
        f"coalesce(bool_and({n} is null or coalesce(try_cast({n} as decimal({p}, {s}))::double = {n}"
        f" and ({n} <> 0 or not signbit({n})), false)), true)"
        for n, (p, s) in wanted.items()
    ]
    found = store.sql(f"select {', '.join(same)} from {source}")[0]
    return {name: digits for (name, digits), exact in zip(wanted.items(), found, strict=True) if exact}


def _digits(name: str) -> tuple[int, int] | None:
    if columns()[name].type != "DOUBLE":
        return None
    return next((digits for end, digits in DECIMALS.items() if name.endswith(end)), None)


def _labels(cluster: str) -> str:
    return f"select * from context where cluster = {_text(cluster)} order by device_id, context_id"


def _place(folder: Path, cluster: str) -> Path:
    """Hive's naming, which readers take for a column: a name may have any characters."""
    return folder / f"cluster={quote(cluster, safe='')}"


def _text(value: str) -> str:
    """A literal of SQL: COPY takes no parameters in DuckDB 1.5."""
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def _note(store: Connection, path: Path) -> str | None:
    """What a file says about itself; None for an absent, foreign or damaged one."""
    if not path.exists():
        return None
    try:
        found = store.sql(
            "select value from parquet_kv_metadata($path) where key = $key::blob", path=str(path), key=NOTE
        )
    except duckdb.Error:
        return None
    return bytes(found[0][0]).decode("utf-8", "replace") if found else None


def _write(store: Connection, path: Path, select: str, options: str) -> None:
    """Writes a file that is complete on the disk before it has its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + PARTIAL)
    store.sql(f"copy ({select}) to {_text(str(fresh))} {options}")
    _to_disk(fresh)
    os.replace(fresh, path)
    _to_disk(path.parent)


def _to_disk(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnreadableInput(f"{target}: {error.strerror or error}; use another directory") from error
    except duckdb.IOException as error:
        raise StoreError(f"{target}: {str(error).splitlines()[0]}; make room, or use another directory") from error
