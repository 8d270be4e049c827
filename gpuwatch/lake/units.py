"""The units of a table: its rows of one cluster and day, with a number and a digest that say whether they have changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from gpuwatch.core.clock import DAY_US
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.literals import text
from gpuwatch.lake.tables import DAY, SAMPLES, Table
from gpuwatch.store.connection import Connection, identifier

SETTLED_US = DAY_US + 2 * 3_600_000_000
"""The samples of a day are published so long after its start: late ones of two hours are in."""
DECIDED_BY = (SAMPLES, "context_span", "sample_tail", "sealed_day")
"""The tables that decide which days of samples are published: lake/sealed_days and lake/retired_days."""
FIRST_DAY = date(1970, 1, 1)
_KEYS = pa.schema([("cluster", pa.string()), ("day", pa.date32())])


class Key(NamedTuple):
    """A unit of a table: None for rows without a cluster or a day."""

    cluster: str | None
    day: date | None


@dataclass(frozen=True)
class Content:
    """What a unit has. `stamp`: the making of its day's sums; None where nothing says that the rows are still the same."""

    rows: int
    digest: str
    stamp: str | None = None


Units = dict[Key, Content]


class Stamps:
    """The stamps of a store's days: which are computed, and as what."""

    def __init__(self, store: Connection) -> None:
        self._store = store

    @cached_property
    def _found(self) -> dict[Key, str]:
        """Read once a table needs them: most small publishes have none that does."""
        return {Key(row["cluster"], day_of(row["day_us"])): row["stamp"] for row in self._store.rows("lake/stamps")}

    @cached_property
    def _all(self) -> dict[date, str]:
        by_day: dict[date, list[str]] = {}
        for key, stamp in self._found.items():
            if key.day is not None:
                by_day.setdefault(key.day, []).append(stamp)
        return {day: " ".join(sorted(stamps)) for day, stamps in by_day.items()}

    def of(self, table: Table, key: Key) -> str | None:
        """The stamp of a unit; for tables without clusters those of all clusters."""
        if not table.stamped or key.day is None:
            return None
        return self._found.get(key) if table.cluster else self._all.get(key.day)


def of_store(store: Connection, table: Table, known: Units, stamps: Stamps, now_us: int, whole: bool = False) -> Units:
    """The units of a table of the store. A digest is computed where number and stamp do not say that a unit is as `known`;
    with `whole` everywhere.
    """
    wanted = _settled_samples(store, now_us) if table.name == SAMPLES else None
    if not table.stamped or whole:
        found = _digests(store, table, identifier(table.name), table.day)
        return {
            key: Content(content.rows, content.digest, stamps.of(table, key))
            for key, content in found.items()
            if wanted is None or key.day in wanted
        }
    units: Units = {}
    unsure: list[Key] = []
    for cluster, day, rows in store.sql(_counts(table)):
        key = Key(cluster, day)
        before, stamp = known.get(key), stamps.of(table, key)
        if wanted is not None and day not in wanted:
            continue
        if before is not None and before.rows == rows and stamp is not None and before.stamp == stamp:
            units[key] = before
        else:
            unsure.append(key)
    if unsure:
        computed = _digests(store, table, identifier(table.name), table.day, within(table, unsure))
        units |= {
            key: Content(content.rows, content.digest, stamps.of(table, key))
            for key, content in computed.items()
            if key in set(unsure)
        }
    return units


def with_retired(store: Connection, units: Units, known: Units) -> Units:
    """The samples' units, and as known those of the days that the store's retention has deleted: the lake keeps them."""
    retired = {day_of(row["day_us"]) for row in store.rows("lake/retired_days")}
    return {key: content for key, content in known.items() if key.day in retired} | units


def of_lake(lake: Lake, table: Table) -> Units:
    """The units of a table of the lake, each read in full."""
    return _digests(lake, table, place(lake, table.name), DAY if table.day_column else "null::date")


def place(lake: Lake, table: str) -> str:
    """A table of the cell's schema, for SQL."""
    return f"lake.{identifier(lake.settings.schema)}.{identifier(table)}"


def within(table: Table, keys: Collection[Key]) -> str:
    """A condition of the store that holds for all rows of these units, and for few others: it reads little."""
    days = [key.day for key in keys if key.day is not None]
    if table.day_column is None or len(days) < len(keys):
        return "true"
    at = identifier(table.day_column)
    return f"{at} >= {us_of(min(days))} and {at} < {us_of(max(days)) + DAY_US}"


def exactly(keys: Iterable[Key], table: Table) -> str:
    """A condition of the lake that holds for the rows of these units alone. Literals let DuckLake skip whole files."""
    by_cluster: dict[str | None, list[date | None]] = {}
    for key in keys:
        by_cluster.setdefault(key.cluster, []).append(key.day)
    parts = []
    for cluster, days in by_cluster.items():
        own = [] if not table.cluster else [f"cluster = {text(cluster)}" if cluster is not None else "cluster is null"]
        if table.day_column is not None:
            listed = ", ".join(f"date '{day}'" for day in sorted(day for day in days if day is not None))
            either = ([f"{DAY} in ({listed})"] if listed else []) + ([f"{DAY} is null"] if None in days else [])
            own.append(f"({' or '.join(either)})")
        parts.append(" and ".join(own) or "true")
    return " or ".join(f"({part})" for part in parts)


def key_table(keys: Iterable[Key]) -> pa.Table:
    """Units as rows, for `among`."""
    return pa.Table.from_pylist([key._asdict() for key in keys], schema=_KEYS)


def among(table: Table, view: str, rows: str) -> str:
    """A condition of the store that holds for the rows of the units in a view of `key_table`. `rows`: the table's name in SQL."""
    cluster = f"{rows}.cluster" if table.cluster else "null::varchar"
    return (
        f"exists (from {view} w where w.cluster is not distinct from {cluster}"
        f' and w."day" is not distinct from {table.day})'
    )


def day_of(at_us: int) -> date:
    """The UTC day of a time."""
    return FIRST_DAY + timedelta(days=at_us // DAY_US)


def us_of(day: date) -> int:
    """The start of a day."""
    return (day - FIRST_DAY).days * DAY_US


def _counts(table: Table) -> str:
    cluster = "cluster" if table.cluster else "null::varchar"
    return f"select {cluster}, {table.day}, count(*) from {identifier(table.name)} group by all"


def _digests(on: Connection | Lake, table: Table, source: str, day: str, condition: str = "true") -> Units:
    cluster = "cluster" if table.cluster else "null::varchar"
    query = f"select {cluster}, {day}, count(*), {table.digest} from {source} where {condition} group by all"
    # A table without clusters and days is one group, which is no unit where it is empty.
    return {Key(cluster, day): Content(rows, digest) for cluster, day, rows, digest in on.sql(query) if rows}


def _settled_samples(store: Connection, now_us: int) -> set[date]:
    """The days whose samples are all there: sealed, over, and not deleted by retention."""
    rows = store.rows("lake/sealed_days", now_us=now_us, settled_us=SETTLED_US)
    return {day_of(row["day_us"]) for row in rows}
