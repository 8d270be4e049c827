"""Whether idle GPUs can be known at all: without a single sample nothing is known to be idle, nor to be in use."""

from __future__ import annotations

from gpuwatch.store.database import Store

NOT_MEASURED = (
    "Not measured: no GPU here has metrics, so which held GPUs are idle is not known. Run dcgm-exporter on their nodes."
)


def not_measured(store: Store, cluster: str | None = None) -> str | None:
    """The reason why idle GPUs are not known; None where any GPU was measured, or where there is none."""
    query = "select count(*), count(*) filter (where measured) from device where $c is null or cluster = $c"
    devices, measured = store.sql(query, c=cluster)[0]
    return NOT_MEASURED if devices and not measured else None
