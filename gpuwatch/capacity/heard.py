"""How far the sources of a cluster reach: what waits or holds is known up to there, and never past it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from gpuwatch.capacity.waits import FRESH_US
from gpuwatch.store import remembered
from gpuwatch.store.database import Store

_HEARD = pa.schema([("cluster", pa.string()), ("at_us", pa.int64())])


def heard(store: Store, at_us: int, cluster: str | None = None, fresh_us: int = FRESH_US) -> dict[str, int]:
    """The last moment, up to `at_us`, that any source of a cluster confirms, by cluster. Those without any are left out.

    What a live scheduler reported last is valid for `fresh_us`, see FRESH_US.
    """
    rows = remembered.rows(store, "capacity/heard", at_us=at_us, cluster=cluster, fresh_us=fresh_us)
    return {row["cluster"]: row["at_us"] for row in rows}


@contextmanager
def heard_view(store: Store, ends: Mapping[str, int]) -> Iterator[None]:
    """The table heard_at (cluster, at_us) for statements about the present of each cluster."""
    rows = pa.Table.from_pydict({"cluster": list(ends), "at_us": list(ends.values())}, schema=_HEARD)
    with store.view("heard_at", rows):
        yield
