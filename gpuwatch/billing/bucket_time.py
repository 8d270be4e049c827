"""Device time of a window by bucket, and what findings claim of it: whole hours as recorded, cut hours from their minutes."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwatch.ledger import measures
from gpuwatch.store.database import Store


def fill_bucket_time(store: Store, parameters: Mapping[str, object]) -> None:
    """Fills the temporary table `bucket_time`. Needs the tables of billing/kind for the same parameters."""
    store.run("billing/ledger", **parameters)
    if store.sql("select 1 from cut_span limit 1"):
        store.run("billing/ledger_cut", **parameters)
        store.run("views/cut_bucket")
        store.run("billing/ledger_cut_bucket_time", **parameters)


def fill_claimed_time(store: Store, parameters: Mapping[str, object]) -> None:
    """Fills the temporary table `claimed_time`, after fill_bucket_time for the same parameters."""
    measures.prepare(store)
    store.run("billing/ledger_claimed", **parameters)
    if store.sql("select 1 from cut_span limit 1"):
        store.run("billing/ledger_cut_claimed", **parameters)
