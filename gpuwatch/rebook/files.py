"""Parquet files between the holder of a store and the tasks: the inputs of a part, and its results."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from gpuwatch.core.errors import StoreError
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.literals import text
from gpuwatch.ledger.parts import WRITTEN
from gpuwatch.store.connection import Connection

FOLDER = "_tasks"
"""Below the lake's data: what a killed process left there is deleted with the lake's other orphans."""
_NAME = re.compile(rf"([0-9]{{1,6}}-[0-9a-f]{{32}})-({'|'.join(WRITTEN)})\.parquet")

INPUTS = {
    "device": "select * from device where cluster = $cluster",
    "context": "select * from context where cluster = $cluster",
    "context_span": "select s.* from context_span s where s.parallel"
    " and s.context_id in (select context_id from context where cluster = $cluster)"
    " and s.hour_us >= $read_from_us - 3600000000 and s.hour_us < $read_until_us",
    "sealed_day": "select * from sealed_day where day_us < $read_until_us and day_us + 86400000000 > $read_from_us",
    "segment": "select * from segment where cluster = $cluster and start_us < $read_until_us and end_us > $read_from_us",
    "slice_hour": "select * from slice_hour",
    "device_trait": "select * from device_trait",
    "device_roof": "select * from device_roof",
}
"""What every part reads beside its samples. A part asks for other devices too: those of the same run."""


@contextmanager
def folder_for_slice(lake: Lake) -> Iterator[str]:
    """A new folder below the lake's data, deleted at the end; in a bucket, its objects stay until `gpuwatch lake maintain`.

    Raises StoreError where it cannot be written.
    """
    data = lake.settings.data
    if lake.settings.in_bucket:
        yield f"{data.rstrip('/')}/{FOLDER}/{uuid4().hex}"
        return
    path = Path(data).absolute() / FOLDER / uuid4().hex
    try:
        path.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise StoreError(f"the lake's data in {data}: {error.strerror}") from error
    try:
        yield str(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def write_inputs(lake: Lake, store: Connection, folder: str, parameters: Mapping[str, Any]) -> None:
    """Writes what the parts of a slice read."""
    for name, query in INPUTS.items():
        given = {key: value for key, value in parameters.items() if f"${key}" in query}
        store.keep(f"given_{name}", query, **given)
        with lake.incoming("given", store.reader(f"from given_{name}")):
            lake.sql(f"copy (from given) to {text(f'{folder}/{name}.parquet')} (format parquet, compression zstd)")
        store.sql(f"drop table given_{name}")


def read_inputs(store: Connection, folder: str) -> None:
    """Makes temporary tables of what `write_inputs` wrote, with the names that the ledger's SQL reads."""
    for name in INPUTS:
        store.keep(name, "select * from read_parquet($file)", file=f"{folder}/{name}.parquet")


def write_results(store: Connection, folder: str, part: int) -> list[str]:
    """Writes the computed rows to new files; returns their names. A part that ran twice leaves files that nobody reads."""
    own = f"{part}-{uuid4().hex}"
    names = [f"{own}-{table}.parquet" for table in WRITTEN]
    for table, name in zip(WRITTEN, names, strict=True):
        store.sql(f"copy {table} to {text(f'{folder}/{name}')} (format parquet, compression zstd)")
    return names


def take_results(lake: Lake, store: Connection, folder: str, by_part: Sequence[Sequence[str]]) -> None:
    """Inserts the rows of exactly these files, which are in order of the parts. Raises StoreError for a wrong or missing one."""
    files: dict[str, list[str]] = {table: [] for table in WRITTEN}
    for part, names in enumerate(by_part):
        tables = []
        for name in names:
            found = _NAME.fullmatch(name)
            if found is None or not name.startswith(f"{part}-"):
                raise StoreError(f"a task returned {name[:100]!r}, which is no file of part {part}")
            tables.append(found[2])
            files[found[2]].append(f"{folder}/{name}")
        if sorted(tables) != sorted(WRITTEN):
            raise StoreError(
                f"a task returned the tables {tables} for part {part}, and not one file of each of {list(WRITTEN)}"
            )
    for table, listed in files.items():
        query = f"from read_parquet([{', '.join(map(text, listed))}], hive_partitioning = false)"
        with store.view("incoming", lake.reader(query)):
            store.sql(f"insert into {table} by name from incoming")
