"""Device time by bucket of a window: whole days and hours as recorded, cut hours from their minutes."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwatch.store.database import Store


def fill_bucket_time(store: Store, parameters: Mapping[str, object]) -> None:
    """Fills the temporary table `bucket_time`. Needs the tables of billing/kind for the same parameters."""
    store.run("billing/ledger", **parameters)
    if store.sql("select 1 from cut_span limit 1"):
        store.run("billing/ledger_cut", **parameters)
        store.run("views/cut_bucket")
        store.run("billing/ledger_cut_bucket_time", **parameters)
