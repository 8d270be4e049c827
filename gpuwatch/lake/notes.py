"""What a cell has in the lake, unit by unit: noted in the transactions that write the units.

Notes are only added, because deleting rows costs DuckLake several times as much as adding some: the newest note of a unit counts. A
publish that finds too many old ones writes all of them again.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from gpuwatch.lake.connection import Lake
from gpuwatch.lake.tables import Columns
from gpuwatch.lake.units import Content, Key, Units, place

TABLE = "_published"
OLD_MAX = 1000
"""So many notes may be more than one for each unit and another one for each."""
_COLUMNS = 'table_name varchar, cluster varchar, "day" date, "rows" bigint, digest varchar, stamp varchar, n bigint'
_SCHEMA = pa.schema(
    [("table_name", pa.string()), ("cluster", pa.string()), ("day", pa.date32()), ("rows", pa.int64())]
    + [("digest", pa.string()), ("stamp", pa.string()), ("n", pa.int64())]
)
_NEWEST = """
select table_name, cluster, "day", "rows", digest, stamp
from {notes}
qualify row_number() over (partition by table_name, cluster, "day" order by n desc nulls last) = 1
"""
GONE = Content(0, "0")
"""The content of a unit that the lake no longer has."""

Note = tuple[str, Key, Content]
"""Table, unit and what it has from now on."""


def create(lake: Lake) -> None:
    """Makes the empty table, within a transaction."""
    lake.sql(f"create table {place(lake, TABLE)} ({_COLUMNS})")


def upgrade(lake: Lake, columns: Columns) -> None:
    """Gives the notes of an earlier version the number that orders them, within a transaction."""
    if "n" not in dict(columns[TABLE]):
        lake.sql(f"alter table {place(lake, TABLE)} add column n bigint")


def read(lake: Lake) -> dict[str, Units]:
    """What was published last, by table."""
    found: dict[str, Units] = {}
    for table, cluster, day, rows, digest, stamp in lake.sql(_NEWEST.format(notes=place(lake, TABLE))):
        if rows:
            found.setdefault(table, {})[Key(cluster, day)] = Content(rows, digest, stamp)
    return found


def count(lake: Lake) -> int:
    """The number of notes, old ones too."""
    return int(lake.sql(f"select count(*) from {place(lake, TABLE)}")[0][0])


def add(lake: Lake, notes: Iterable[Note], n: int) -> int:
    """Notes units within the `n`th publish; returns how many."""
    rows = [
        {"table_name": table, **key._asdict(), "rows": now.rows, "digest": now.digest, "stamp": now.stamp, "n": n}
        for table, key, now in notes
    ]
    if rows:
        with lake.incoming("noted", pa.Table.from_pylist(rows, schema=_SCHEMA)):
            lake.sql(f"insert into {place(lake, TABLE)} by name from noted")
    return len(rows)


def replace(lake: Lake, known: dict[str, Units], n: int) -> int:
    """Writes one note for each unit in place of all that are there."""
    lake.sql(f"delete from {place(lake, TABLE)}")
    return add(lake, ((table, key, now) for table, units in known.items() for key, now in units.items()), n)
