"""One part of a slice, computed from files on a machine that has no store."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpuwatch.core.errors import StoreError
from gpuwatch.lake import bucket
from gpuwatch.lake.literals import text
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.ledger.parts import write
from gpuwatch.rebook.files import read_inputs, write_results
from gpuwatch.store.connection import is_query_error
from gpuwatch.store.database import Store

_KNOWN_TWICE = """
insert into sealed_day
select day * 86400000000, count(*), count(*) <> count(distinct (device_id, observed_us))
from (select device_id, observed_us, observed_us // 86400000000 as day from sample)
where day * 86400000000 not in (select day_us from sealed_day)
group by day
"""
"""The store no longer knows of retired days whether a device has two samples at one instant."""


def versions() -> dict[str, str]:
    """The versions that must be the same everywhere for rows to be the same."""
    return {name: version(name) for name in ("gpuwatch", "duckdb")}


def plain(settings: LakeSettings) -> dict[str, Any]:
    """Where the lake is, as JSON has it. What is secret stays behind: each machine has its own files or variables."""
    return {each.name: getattr(settings, each.name) for each in fields(settings) if each.name != "environ"}


def compute(
    lake: Mapping[str, Any],
    folder: str,
    samples: Sequence[str],
    number: int,
    devices: Sequence[int],
    parameters: Mapping[str, Any],
    memory_limit: str,
    expected: Mapping[str, str],
) -> list[str]:
    """Computes a part of the slice whose inputs are in `folder`; returns the names of the files with its rows.

    `samples` are the lake's files, `devices` the first and the last of the part. Raises StoreError where this machine does not
    see the lake's data, has other versions, or cannot read or write a file.
    """
    if versions() != expected:
        raise StoreError(
            f"{platform.node()} has {_shown(versions())}, and the store is computed with {_shown(expected)}"
        )
    settings = LakeSettings(**lake, environ=os.environ)
    if not settings.in_bucket and not Path(folder).is_dir():
        raise StoreError(f"{platform.node()} has no {folder}: all nodes must see the lake's data under the same name")
    first, last = devices
    # One thread: Ray gives a task one CPU.
    with (
        _explained(settings, number),
        TemporaryDirectory(prefix="gpuwatch-part-", ignore_cleanup_errors=True) as spill,
        Store.open(None, memory_limit=memory_limit, threads=1, temp_directory=spill) as store,
    ):
        bucket.open_bucket(store, settings)
        store.run("views/workload_class")
        read_inputs(store, folder)
        # A view: a column that a step does not ask for is not read, and row groups of other devices are skipped.
        store.sql(
            "create temp view sample as select * from"
            f" read_parquet([{', '.join(map(text, samples))}], union_by_name = true, hive_partitioning = false)"
            f" where device_id between {first} and {last}"
            f" and observed_us >= {int(parameters['read_from_us'])} and observed_us < {int(parameters['read_until_us'])}"
        )
        store.sql(_KNOWN_TWICE)
        write(store, parameters, (first, last))
        return write_results(store, folder, number)


@contextmanager
def _explained(settings: LakeSettings, number: int) -> Iterator[None]:
    """Names the machine and the lake where DuckDB fails, and no key: the caller would take it for an error of its own directory."""
    hidden = bucket.secret(settings)[1] if settings.in_bucket else ()
    try:
        yield
    except Exception as error:
        if not is_query_error(error):
            raise
        words = str(error).splitlines()[0]
        for secret in hidden:
            words = words.replace(secret, "...")
        raise StoreError(
            f"{platform.node()} cannot compute part {number} from the lake's data in {settings.data}: {words}"
        ) from None


def _shown(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))
