"""Which days of samples the lake keeps, and in which files they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpuwatch.core.clock import DAY_US
from gpuwatch.core.errors import UsageError
from gpuwatch.lake import notes
from gpuwatch.lake.connection import Lake, LakeError
from gpuwatch.lake.literals import text
from gpuwatch.lake.tables import DAY, SAMPLES
from gpuwatch.lake.units import day_of, us_of
from gpuwatch.store.connection import Connection

_OF_DAY = re.compile(rf"/{DAY}=([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})/")
_SEALED = "select day_us // 86400000000, rows from sealed_day"
_UNSEALED = "select distinct observed_us // 86400000000 from sample_tail"
_SAMPLED = """
select distinct hour_us // 86400000000 from context_span
union
select day_us // 86400000000 from sealed_day
"""


@dataclass(frozen=True)
class KeptSamples:
    """The days of the lake, counted from the epoch."""

    samples: Mapping[int, int]
    """How many it has of each day."""
    files: Mapping[int, list[str]]

    def computable(self, store: Connection) -> dict[int, int]:
        """The days whose hours the lake's samples give, with how many there are: the two hours before and after a day count for it.
        A day that has no samples anywhere is no obstacle. One of which the store has other samples is: with `samples = false` the
        lake keeps a day as it was before.
        """
        here = dict(store.sql(_SEALED))
        whole = {day: count for day, count in self.samples.items() if here.get(day, count) == count}
        elsewhere = {int(day) for (day,) in store.sql(_SAMPLED)} - whole.keys()
        elsewhere |= {int(day) for (day,) in store.sql(_UNSEALED)}
        return {day: count for day, count in whole.items() if elsewhere.isdisjoint((day - 1, day, day + 1))}


def kept_samples(lake: Lake) -> KeptSamples:
    """What the lake keeps now. Raises UsageError without any samples, LakeError where the files have others than were published."""
    noted = notes.read(lake).get(SAMPLES, {})
    days = {us_of(key.day) // DAY_US: content.rows for key, content in noted.items() if key.day is not None}
    if not days:
        raise UsageError(
            f"the lake {lake.settings.shown()} has no samples of cell {lake.settings.cell}: a day is published two hours after "
            "its end, unless [lake] samples = false"
        )
    listed = lake.sql(
        f"select data_file, delete_file from ducklake_list_files('lake', {text(SAMPLES)}, schema => {text(lake.settings.schema)})"
    )
    names = {str(day_of(day * DAY_US)): day for day in days}
    files: dict[int, list[str]] = {}
    for file, deleted in sorted(listed):
        found = _OF_DAY.search(str(file))
        if deleted is None and found is not None and found[1] in names:
            files.setdefault(names[found[1]], []).append(str(file))
    _check(lake, days, files)
    return KeptSamples(days, files)


def _check(lake: Lake, days: Mapping[int, int], files: Mapping[int, list[str]]) -> None:
    """The files of a day have as many rows as were noted."""
    every = [file for listed in files.values() for file in listed]
    query = "select file_name, num_rows from parquet_file_metadata($files)"
    rows = {str(file): int(count) for file, count in (lake.sql(query, files=every) if every else ())}
    for day, noted in days.items():
        found = sum(rows[file] for file in files.get(day, ()))
        if found != noted:
            raise LakeError(
                f"the lake {lake.settings.shown()}: its files have {found} samples of {day_of(day * DAY_US)}, and {noted} were "
                "published; run gpuwatch lake maintain, then gpuwatch lake verify"
            )
