"""Takes the records of imported files out of the store again."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.core.clock import DAY_US, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.fields import columns as field_columns
from gpuwatch.store.connection import Connection, identifier
from gpuwatch.store.database import TRACED
from gpuwatch.store.sample_columns import stored_fields
from gpuwatch.store.sealing import merged, note_day

RECORDS = sorted(TRACED - {"sample_tail"})
"""Tables of records; samples are treated apart because sealing merges them."""


def withdraw(store: Connection, file_ids: Sequence[int], what: str) -> int:
    """Removes the records that only these files gave, in the caller's transaction; returns how many.

    The hours of their samples are marked for the next analysis; hours of scheduler records follow from the records
    themselves. `what` names the files in an error. Raises UsageError if raw samples of their days are past retention.
    """
    store.sql("create or replace temp table gone_file as select unnest($files::bigint[]) as file_id", files=file_ids)
    retired = store.rows("store/withdraw/retired")[0]["day"]
    if retired is not None:
        raise UsageError(
            f"{what}: cannot be undone, because raw samples of {rfc3339(retired * DAY_US)[:10]} are past retention "
            "(raw_retention_days) and its hours cannot be computed again; to leave it out, import the others into a new "
            "data directory"
        )
    removed = _samples(store)
    for table in RECORDS:
        gone = store.sql(f"delete from {identifier(table)} where file_id in (select file_id from gone_file)")
        removed += int(gone[0][0])
    store.sql("drop table gone_file")
    return removed


def _samples(store: Connection) -> int:
    store.run("store/withdraw/find")
    before = _count(store)
    store.run("store/withdraw/samples")
    if store.sql("select exists(from gone_key)")[0][0]:
        _merge_again(store)
        store.run("store/withdraw/alone")
    for (day,) in store.sql("select distinct hour // 24 from gone_hour order by 1"):
        store.run("store/withdraw/hour", day=day)
        note_day(store, start_us=day * DAY_US, end_us=(day + 1) * DAY_US, day_us=day * DAY_US)
    removed = before - _count(store)
    store.sql("create temp table if not exists late_hour (hour bigint)")
    store.run("store/withdraw/end")
    return removed


def _merge_again(store: Connection) -> None:
    stored = stored_fields(store)
    fields = [name for name in field_columns() if name in stored]
    names = ", ".join(["device_id", "context_id", "observed_us", "file_id", *map(identifier, fields)])
    kept = f"select {names} from sample_origin join gone_key using (device_id, context_id, observed_us)"
    store.sql(f"insert into sample ({names}) {merged(fields, kept)} order by device_id, observed_us, context_id")


def _count(store: Connection) -> int:
    return int(store.sql("select (select count(*) from sample) + (select count(*) from sample_tail)")[0][0])
