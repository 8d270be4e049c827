"""Who may publish a cell: one row in the lake itself, which every publish changes in its own transaction.

`epoch` counts the processes that took the cell over, `n` the publishes. A process that was paused while another one took
over finds another epoch; one that was paused within its transaction is refused by DuckLake when it commits, because the other
has changed the row.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.sqlfile import names_in
from gpuwatch.lake import notes
from gpuwatch.lake.connection import Lake, LakeConflict, LakeError
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.lake.tables import columns_of
from gpuwatch.lake.units import place

GUARD = "_guard"
TRIES = 5
"""How often a take-over is begun again that a publish has overtaken."""
_GUARD_COLUMNS = "epoch bigint, n bigint, store_id varchar, holder varchar, schema_version integer, at_us bigint"


class Fenced(LakeError):
    """Another process has taken over the cell: this one never publishes it again. `epoch` is that of the other one."""

    def __init__(self, words: str, epoch: int) -> None:
        super().__init__(words)
        self.epoch = epoch


@dataclass(frozen=True)
class Guard:
    """The row."""

    epoch: int
    n: int
    store_id: str
    holder: str
    schema_version: int
    at_us: int


def schema_version() -> int:
    """The version of the store's tables that this gpuwatch writes."""
    return int(names_in("schema")[-1].split("/")[1][:4])


def exists(lake: Lake) -> bool:
    """Whether the cell was published ever."""
    return GUARD in columns_of(lake)


def require(lake: Lake) -> None:
    """Raises UsageError where the cell was never published."""
    if not exists(lake):
        raise UsageError(
            f"the lake {lake.settings.shown()} has no cell {lake.settings.cell}; gpuwatch lake publish makes it"
        )


def create(lake: Lake, store_id: str, holder: str, at_us: int) -> None:
    """Makes the cell's schema with an empty guard. Another process that does the same at the same time is no error."""
    try:
        with lake.transaction():
            lake.sql(f"create schema if not exists lake.{lake.settings.schema}")
            lake.sql(f"create table {place(lake, GUARD)} ({_GUARD_COLUMNS})")
            notes.create(lake)
            row = {"store_id": store_id, "holder": holder, "version": schema_version(), "at_us": at_us}
            lake.sql(f"insert into {place(lake, GUARD)} values (0, 0, $store_id, $holder, $version, $at_us)", **row)
    except LakeConflict:
        if not exists(lake):
            raise


def read(lake: Lake) -> Guard:
    """The row. Raises LakeError where there is not exactly one."""
    rows = lake.sql(f"select epoch, n, store_id, holder, schema_version, at_us from {place(lake, GUARD)}")
    if len(rows) != 1:
        raise LakeError(
            f"the lake {lake.settings.shown()}: the guard of cell {lake.settings.cell} has {len(rows)} rows instead of 1; "
            "publish into another cell, or restore the catalogue"
        )
    return Guard(*rows[0])


def check(
    found: Guard, settings: LakeSettings, store_id: str, epoch: int | None, take_over: bool, holder: str | None = None
) -> None:
    """Raises Fenced if the cell was taken from this process, UsageError if it belongs to another store or a newer gpuwatch.

    `epoch` is that of this process; None: it has not published yet. With the name of the `holder` of a lease it is the lease's: it
    takes over every lower one.
    """
    check_version(found, settings)
    if epoch is not None and _taken(found, epoch, holder):
        raise Fenced(taken(found, settings), found.epoch)
    if (epoch is None or holder is not None) and found.store_id != store_id and not take_over:
        raise UsageError(
            f"the lake {settings.shown()}: cell {settings.cell} belongs to another data directory, which published it last at "
            f"{rfc3339(found.at_us)} ({found.holder}). Set another [lake] cell; or, if that directory is lost or given up, "
            "replace its tables with this one's: gpuwatch lake publish --take-over"
        )


def _taken(found: Guard, epoch: int, holder: str | None) -> bool:
    if holder is None:
        return found.epoch != epoch
    return found.epoch > epoch or (found.epoch == epoch and found.holder != holder)


def check_version(found: Guard, settings: LakeSettings) -> None:
    """Raises UsageError if a newer gpuwatch has published the cell."""
    if found.schema_version > schema_version():
        raise UsageError(
            f"the lake {settings.shown()}: cell {settings.cell} was published by a newer gpuwatch (schema version "
            f"{found.schema_version}, this one has {schema_version()}); upgrade gpuwatch"
        )


def taken(found: Guard, settings: LakeSettings) -> str:
    """The words of a refusal."""
    return (
        f"the lake {settings.shown()}: {found.holder} took over cell {settings.cell} at {rfc3339(found.at_us)}; this process "
        "does not publish it any more. If it should, stop the other one and restart this one"
    )


def fence(lake: Lake, epoch: int, holder: str, at_us: int) -> None:
    """Takes the cell over with the epoch of a lease, before it is read: what another process has not committed by now is refused.

    Raises Fenced if a later lease has it, UsageError for a newer gpuwatch's cell.
    """
    for attempt in range(TRIES, 0, -1):
        try:
            lake.end_others()
            with lake.transaction():
                found = read(lake)
                check(found, lake.settings, found.store_id, epoch, False, holder)
                step(lake, found, epoch, found.store_id, holder, at_us)
            return
        except LakeConflict:
            if attempt == 1:
                raise


def step(lake: Lake, found: Guard, epoch: int, store_id: str, holder: str, at_us: int) -> None:
    """Changes the row within the transaction of a publish. Raises LakeConflict if it is no longer as it was read."""
    changed = lake.sql(
        f"update {place(lake, GUARD)} set epoch = $epoch, n = n + 1, store_id = $store_id, holder = $holder,"
        " schema_version = $version, at_us = $at_us where concat(epoch, ' ', n) = $seen",  # one text: DuckLake asks the
        # catalogue twice about each column that it can compare by itself
        epoch=epoch,
        store_id=store_id,
        holder=holder,
        version=schema_version(),
        at_us=at_us,
        seen=f"{found.epoch} {found.n}",
    )
    if changed != [(1,)]:
        raise LakeConflict(
            f"the lake {lake.settings.shown()}: cell {lake.settings.cell} was published meanwhile; retry"
        )
