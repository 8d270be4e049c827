"""Sealing: samples that wait in the tail move into their sorted table, a day at a time."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.core.clock import DAY_US
from gpuwatch.core.fields import columns as field_columns
from gpuwatch.store.connection import Connection, identifier
from gpuwatch.store.sample_columns import stored_fields

_TAIL = "sample_tail where observed_us >= $start_us and observed_us < $end_us"
_LATE = (
    "sample where observed_us // 86400000000 = $start_us // 86400000000"
    " and observed_us // 3600000000 in (select hour from late_hour)"
)
"""Sealed samples of the hours for which others wait."""

_KEY = "device_id, context_id, observed_us"
_GIVER = (
    "case when min(file_id) is distinct from max(file_id) or count(file_id) not in (0, count(*)) then -1"
    " else min(file_id) end"
)
"""The file_id of a merged sample: see sql/schema/0018_import.sql."""


def seal(store: Connection, before_us: int) -> int:
    """Sorts samples older than `before_us` by (device, time), without duplicates; returns rows sealed.

    Each day is a transaction: an interrupted seal continues where it stopped. A day that already has sealed rows is
    rewritten only in the hours that got late samples.
    """
    days = store.sql(
        "select distinct observed_us // 86400000000 from sample_tail where observed_us < $before order by 1",
        before=before_us,
    )
    sealed = 0
    for (day,) in days:
        start, end = day * DAY_US, min((day + 1) * DAY_US, before_us)
        with store.changes.sample_lock, store.workspace() as work, work.transaction():
            work.run("store/late_hour", start_us=start, end_us=end)
            sealed += _seal_day(work, start, end)
            note_day(work, start_us=start, end_us=end, day_us=day * DAY_US)
    return sealed


def note_day(store: Connection, **span: int) -> None:
    """Records the contents of a sealed day, the owners on its samples, and which hours are stale.

    Needs `late_hour`. Most days have one context on a device in every hour: then there are no turns to find.
    """
    store.run("store/sealed_day", **span)
    several = store.sql("select 1 from labelled group by device_id, hour_us having count(*) > 1 limit 1")
    store.run("store/context_turns" if several else "store/context_spans", **span)
    store.run("store/stale_hours", **span)


def _seal_day(work: Connection, start_us: int, end_us: int) -> int:
    """Moves a day's samples from the tail into order, with those already sealed in the same hours."""
    span = {"start_us": start_us, "end_us": end_us}
    repeated, filled = _filled(work, _TAIL, span)
    late_rows = work.sql(f"select count(*) from {_LATE}", start_us=start_us)[0][0]
    if late_rows:
        filled |= _filled(work, _LATE, {"start_us": start_us})[1]
    # Most fields are in no sample of a day: sorting only those that are is several times faster.
    present = [column for column in field_columns() if column in filled]
    names = ", ".join(["device_id", "context_id", "observed_us", "file_id", *map(identifier, present)])
    source = f"select {names} from {_TAIL}"
    if late_rows:
        work.sql(f"create temp table late_sample as select {names} from {_LATE}", start_us=start_us)
        work.sql(f"delete from {_LATE}", start_us=start_us)
        source += " union all select * from late_sample"
    if repeated or late_rows:
        if "file_id" in filled:
            work.sql(f"insert into sample_origin ({names}) {_origins(names, source)}", **span)
        source = merged(present, source)
    changed = work.sql(f"insert into sample ({names}) {source} order by device_id, observed_us, context_id", **span)
    work.sql(f"delete from {_TAIL}", **span)
    return int(changed[0][0])


def merged(fields: Sequence[str], source: str) -> str:
    """A select of one sample for each device, label set and instant of `source`, with the larger of repeated readings."""
    values = "".join(f", max({identifier(column)})" for column in fields)
    return f"select {_KEY}, {_GIVER}{values} from ({source}) group by {_KEY}"


def _origins(names: str, source: str) -> str:
    """A select of the readings of `source` that several files gave, as each of them gave it."""
    shared = f"select {_KEY} from ({source}) group by {_KEY} having {_GIVER} = -1"
    return f"select {names} from ({source}) where file_id is distinct from -1 and ({_KEY}) in ({shared})"


def _filled(work: Connection, source: str, span: dict[str, int]) -> tuple[int, set[str]]:
    """How many samples repeat another one's device, labels and instant, and the columns that any sample has."""
    columns = [*stored_fields(work), "file_id"]
    counts = ", ".join(f"count({identifier(c)})" for c in columns)
    keys = "count(distinct (device_id, context_id, observed_us))"
    rows, distinct, *counted = work.sql(f"select count(*), {keys}, {counts} from {source}", **span)[0]
    return rows - distinct, {column for column, count in zip(columns, counted, strict=True) if count}
