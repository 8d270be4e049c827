"""The devices of a slice of the ledger, computed a range of them at a time."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Protocol

from gpuwatch.ledger import workload_class
from gpuwatch.store.database import Store

PART_SAMPLES_MAX = 3_500_000
"""Samples that are computed at a time: more at once need more memory than the store may use."""
BATCH_SAMPLES_MAX = 500_000
"""Days are computed together up to so many samples."""
WRITTEN = ("device_minute", "device_window", "device_hour", "idle_span", "ledger_hour", "workload_hour")
"""The tables that `write` adds rows to."""
FIRST_DEVICE, LAST_DEVICE = -(1 << 63), (1 << 63) - 1

Range = tuple[int, int]
"""The first and the last device of a part."""


class Compute(Protocol):
    """Where the rows of a slice are computed."""

    @property
    def elsewhere(self) -> Mapping[int, int]:
        """The days that are read from elsewhere than the store, counted from the epoch, with their samples."""

    @property
    def batch_samples_max(self) -> int:
        """Up to how many samples such days are computed together."""

    def __call__(self, store: Store, parameters: Mapping[str, Any]) -> None:
        """Writes the rows of a slice, within the transaction in which its old ones were deleted.

        `parameters` are those of ledger.hours. The tables `slice_hour`, `device_trait` and `device_roof` are there. Of the
        days of a slice, all are in `elsewhere` or none.
        """


class Here:
    """Computes all parts in this process from the samples of the store, one after the other."""

    elsewhere: Mapping[int, int] = {}
    batch_samples_max = BATCH_SAMPLES_MAX

    def __call__(self, store: Store, parameters: Mapping[str, Any]) -> None:
        query = "select count(*) from sample where observed_us >= $a and observed_us < $b"
        samples = int(store.sql(query, a=parameters["read_from_us"], b=parameters["read_until_us"])[0][0])
        for part in ranges(store, parameters["cluster"], number(samples)):
            write(store, parameters, part)


HERE = Here()


def number(samples: int) -> int:
    """In how many parts a slice of so many samples is computed."""
    return max(1, -(-samples // PART_SAMPLES_MAX))


def ranges(store: Store, cluster: str, parts: int) -> list[Range]:
    """The devices of a cluster in at most so many parts of the same size: every device is in one."""
    firsts: list[int] = []
    if parts > 1:
        query = (
            "select min(device_id) from (select device_id, ntile($parts) over (order by device_id) as part from device"
            " where cluster = $cluster and measured) group by part order by part"
        )
        firsts = [first for (first,) in store.sql(query, parts=parts, cluster=cluster)][1:]
    return [(first, until - 1) for first, until in pairwise([FIRST_DEVICE, *firsts, LAST_DEVICE + 1])]


def write(store: Store, parameters: Mapping[str, Any], part: Range = (FIRST_DEVICE, LAST_DEVICE)) -> None:
    """Adds the rows of one part to WRITTEN."""
    given = {**parameters, "first_device": part[0], "last_device": part[1]}
    store.run("ledger/reading", **given)
    if store.sql("select count(*) from sparse_device")[0][0]:
        store.run("ledger/hold", **given)
    store.run("ledger/piece", **given)
    store.run("ledger/idle", **given)
    store.run("ledger/minute", **given)
    store.run("ledger/write_hours", **given)
    store.run("ledger/workload_hour", coverage_min=workload_class.COVERAGE_MIN, **given)
