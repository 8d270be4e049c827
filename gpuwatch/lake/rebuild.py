"""Makes the data directory of a cell again that has lost its disk, from what the cell has published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from gpuwatch.lake import mirror
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.pull import Progress, Puller
from gpuwatch.store.database import Store

_LOST = pa.schema([("cluster", pa.string()), ("hour_us", pa.int64()), ("samples", pa.int64())])


@dataclass(frozen=True)
class Rebuilt:
    """What a directory has now."""

    rows: int
    """Copied by this call: fewer if an earlier one was interrupted."""
    published_us: int
    """When the cell was published last: what came after it is not in the directory."""
    lost_hours: int
    """Hours of the ledger whose samples the lake does not have. They stay as they were published."""


def rebuild(lake: Lake, store: Store, now_us: Callable[[], int], progress: Progress | None = None) -> Rebuilt:
    """Fills an empty directory with the lake's own cell, and gives it the identity of the lost one: it publishes on.

    One that was killed at any moment is finished by the next. Raises as Puller.pull does.
    """
    cell = lake.settings.cell
    done = Puller(now_us, (cell,)).pull(lake, store, progress)
    note = mirror.cells(store)[cell]
    rows = store.rows("lake/unsampled_hour")
    lost = pa.Table.from_pylist(rows, schema=_LOST)
    with store.view("lost_rows", lost), store.transaction():
        store.sql("insert into lost_hour by name from lost_rows")
        store.sql("update store_identity set id = $id", id=note.store_id)
        mirror.forget(store)
    store.checkpoint()
    return Rebuilt(done.rows, note.published_us, len(rows))
