"""Attribution from a part of the records: those of the time that changed, and those of runs and devices that reach into it.

What they give is compared with what is stored of the time before: where that differs, an earlier time, and in the end all
records, are read instead.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.core.model import RUN_US_MAX
from gpuwatch.store.database import Store

ALL_US = -(2**62)
"""Before every record."""
WORTH_US = DAY_US
"""Clusters with a shorter history are always attributed from all records, which costs less."""
REACH_US = HOUR_US
"""How long before the changed time records are read too: longer than labels and records of a run may lie apart."""
PART_US_MAX = 31 * DAY_US
"""Changes of longer ago than this are attributed from all records."""
TRIES_MAX = 3
"""How often an earlier time is tried."""
ROUNDS_MAX = 6
"""How often runs add others of the same job or pod."""


def is_noted(store: Store, cluster: str) -> bool:
    """Whether it is noted what the last attribution of a cluster was made from."""
    return bool(store.sql("select count(*) from attributed where cluster = $c", c=cluster)[0][0])


def note(work: Store, cluster: str, basis: str, noted: bool) -> None:
    """Notes what an attribution from all records was made from; not of a short history. `noted`: whether an earlier one was."""
    start_us, end_us = work.sql("select start_us, end_us from fleet_span")[0]
    if start_us is not None and end_us - start_us >= WORTH_US:
        work.run("ledger/partial/digest", cluster=cluster)
        work.run("ledger/partial/whole")
        work.run("ledger/partial/note", cluster=cluster, basis=basis, from_us=ALL_US, partial=False)
    elif noted:
        forget(work, cluster)


def forget(work: Store, cluster: str) -> None:
    """Forgets what the last attribution was made from: the next one reads all records."""
    work.sql("delete from attributed where cluster = $c", c=cluster)


def changed_since(work: Store, cluster: str, basis: str) -> int | None:
    """Since when the records are not those of the last attribution; None where all of them have to be read.

    Makes the temporary tables of ledger/partial/digest.
    """
    work.run("ledger/partial/digest", cluster=cluster)
    row = work.rows("ledger/partial/possible", cluster=cluster, basis=basis)[0]
    if not row["possible"] or row["last_us"] is None:  # nothing is measured
        return None
    since_us = int(row["changed_us"]) // HOUR_US * HOUR_US
    return since_us if since_us >= row["last_us"] - PART_US_MAX else None


def part_of(work: Store, cluster: str, since_us: int, derive: Callable[[int], None]) -> int | None:
    """Derives from the records of a part of the time that is long enough; returns since when its segments hold, None if none is.

    `derive` makes the temporary tables of ledger/attribution from read_claim and read_span, of samples since its argument.
    """
    latest_us = since_us
    for _ in range(TRIES_MAX):
        if since_us < latest_us - PART_US_MAX or not _read(work, cluster, since_us):
            return None
        derive(since_us - REACH_US)
        work.run("ledger/partial/whole")
        found = work.rows("ledger/partial/differs", cluster=cluster, from_us=since_us)[0]
        if found["otherwise"]:
            return None
        if found["earlier_us"] is None:
            work.run("ledger/partial/splice", from_us=since_us)
            return since_us
        since_us = int(found["earlier_us"]) // HOUR_US * HOUR_US
    return None


def _read(work: Store, cluster: str, from_us: int) -> bool:
    """Reads the records since REACH_US before a time and those of every run that has one; False where this does not end."""
    reach_us = from_us - REACH_US
    work.run("ledger/partial/live", cluster=cluster, reach_us=reach_us, run_us_max=RUN_US_MAX)
    for _ in range(ROUNDS_MAX):
        if not work.rows("ledger/partial/widen", cluster=cluster):
            work.run("ledger/partial/span", cluster=cluster, reach_us=reach_us)
            work.run("ledger/partial/kept", cluster=cluster, from_us=from_us)
            return True
    return False
