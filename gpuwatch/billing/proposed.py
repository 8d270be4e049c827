"""Charges under prices and ownership rules that are only proposed: nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from gpuwatch.billing.prices import CLASS_SCHEMA, PRICE_SCHEMA, TEAM_COLUMNS, priced_devices, read_prices
from gpuwatch.policy.inferred import resolve_many
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import load_ownership
from gpuwatch.rates.card import Rate
from gpuwatch.rates.fx import Fx
from gpuwatch.state import State
from gpuwatch.store.database import Store


@dataclass(frozen=True)
class Proposed:
    """Rates by their versioned list (in_force.CARDS) and ownership rules, each instead of those in force."""

    cards: Mapping[str, tuple[Rate, ...]] = field(default_factory=dict)
    rules: Sequence[TeamRule] | None = None
    """None: those in force."""
    fx: Fx | None = None
    """Exchange rates and the reporting currency; None: those in force."""


def fill_proposed(store: Store, state: State, proposed: Proposed) -> None:
    """Replaces the prices and teams, for this connection, by the proposed ones, until the working tables are dropped.

    Call within ledger.totals.working_tables.
    """
    clusters = [cluster for (cluster,) in store.sql("select distinct cluster from device order by 1")]
    if proposed.cards or proposed.fx is not None:
        _fill_prices(store, state, clusters, proposed)
    if proposed.rules is not None:
        ownership = load_ownership(store, state).under(proposed.rules)
        owners = [
            resolve_many(ownership, store.table("billing/owner", cluster=c, everyone=True)).select(TEAM_COLUMNS)
            for c in clusters
        ]
        if owners:
            with store.view("team_rows", pa.concat_tables(owners)):
                store.run("billing/proposed/teams")


def _fill_prices(store: Store, state: State, clusters: Sequence[str], proposed: Proposed) -> None:
    prices = read_prices(store, state, proposed.cards, proposed.fx)
    found = [priced_devices(store, cluster, prices) for cluster in clusters]
    members = [row for of_cluster, _ in found for row in of_cluster]
    rows = [row for _, of_cluster in found for row in of_cluster]
    with (
        store.view("class_rows", pa.Table.from_pylist(members, schema=CLASS_SCHEMA)),
        store.view("price_rows", pa.Table.from_pylist(rows, schema=PRICE_SCHEMA)),
    ):
        store.run("billing/proposed/prices")
        store.keep_file("device_price", "billing/new_price")
