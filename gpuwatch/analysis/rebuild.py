"""Computes a store's derived tables again from all of its records, in a copy, and compares them with the stored ones."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuwatch.analysis.changes import read_inputs
from gpuwatch.analysis.pipeline import clusters_of, settings_of
from gpuwatch.core.errors import UsageError
from gpuwatch.ledger import hours as ledger_hours
from gpuwatch.ledger.attribution import attribute
from gpuwatch.policy.repository import share_methods
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.connection import identifier
from gpuwatch.store.database import FILE_NAME, Store
from gpuwatch.store.day_sums import roll
from gpuwatch.store.retention import skip_retired

REBUILT = {
    "device": "first_us, device_id",
    "capacity": "start_us, device_id",
    "run": "start_us, run_id",
    "segment": "start_us, device_id, run_id",
    "ledger_hour": "hour_us, device_id, run_id",
    "device_hour": "hour_us, device_id",
    "idle_span": "start_us, device_id",
    "device_window": "start_us, device_id",
    "device_minute": "start_us, device_id",
    "workload_hour": "hour_us, run_id",
    "book_day": "day_us, run_id",
    "word_day": "day_us, run_id",
    "slice_day": "day_us, device_id",
    "team_day": "day_us, owner",
}
"""The tables that are compared, and what orders their rows in time."""


@dataclass(frozen=True)
class Difference:
    """A table whose stored rows are not those of a rebuild, and the first of these rows by time."""

    table: str
    stored: int
    """Rows that only the store has."""
    rebuilt: int
    """Rows that only the rebuild has."""
    first_stored: dict[str, Any] | None
    first_rebuilt: dict[str, Any] | None


def differences(store: Store, state: State, settings: Settings) -> list[Difference]:
    """Every table of REBUILT that differs after all hours with raw samples are computed again, in a copy of the store.

    The copy lies in a temporary directory beside the store, and needs as much space. Raises UsageError where records wait for an
    analysis.
    """
    clusters = clusters_of(store)
    for cluster in clusters:
        own, methods = settings_of(state, settings, cluster), share_methods(state, settings.mig_share_method)
        waiting = store.sql("select exists(select 1 from sample_tail)")[0][0]
        if waiting or read_inputs(store, cluster, own, methods).changed:
            raise UsageError(f"verify: records of cluster {cluster!r} wait for an analysis: run gpuwatch analyze first")
    with _copy(store) as copied:
        for table in REBUILT:
            name = identifier(table)
            copied.sql(f"create temp table was_{name} as from {name}")
        for cluster in clusters:
            _rebuild(copied, state, settings, cluster)
        return [found for table in REBUILT if (found := _difference(copied, table)) is not None]


def _rebuild(store: Store, state: State, settings: Settings, cluster: str) -> None:
    own = settings_of(state, settings, cluster)
    attribute(store, cluster, own, share_methods(state, settings.mig_share_method), everywhere=True)
    store.run("analysis/mark_dirty", cluster=cluster, since_us=None, until_us=None)
    skip_retired(store, cluster)
    store.run("analysis/unroll_dirty", cluster=cluster)
    ledger_hours.recompute_dirty(store, cluster, own)
    roll(store, cluster)


@contextmanager
def _copy(store: Store) -> Iterator[Store]:
    with tempfile.TemporaryDirectory(prefix="rebuild-", dir=store.path) as folder:
        store.copy_to(Path(folder) / FILE_NAME)
        with Store.open(folder) as copied:
            yield copied


def _difference(store: Store, table: str) -> Difference | None:
    """Compares a table with was_<table>. Columns that only one has by chance of storage do not exist: both are of one file."""
    name, order = identifier(table), REBUILT[table]
    counts, firsts = [], []
    for one, other in ((f"was_{name}", name), (name, f"was_{name}")):
        only = f"(select * from {one} except all select * from {other})"
        counts.append(int(store.sql(f"select count(*) from {only}")[0][0]))
        columns = [row[0] for row in store.sql("select name from pragma_table_info($t)", t=table)]
        found = store.sql(f"select * from {only} order by {order} nulls first limit 1")
        firsts.append(dict(zip(columns, found[0], strict=True)) if found else None)
    return Difference(table, counts[0], counts[1], firsts[0], firsts[1]) if any(counts) else None
