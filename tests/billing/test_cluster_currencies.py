"""Clusters whose prices are in currencies of their own: amounts of two currencies are never added."""

from __future__ import annotations

from decimal import Decimal

from gpuwatch.billing import chargeback
from gpuwatch.core.clock import Window
from gpuwatch.ledger import attribution
from gpuwatch.ledger import hours as ledger_hours
from gpuwatch.rates import fx
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from tests.worlds.world import H100, HOUR, Gpu, World, minutes, samples, us

WINDOW = Window(us(0), us(2 * HOUR))


def two_clusters() -> tuple[World, State]:
    """One GPU in each, for two hours: 2.50 dollars an hour in one, 4.00 euros in the other."""
    world = World().add(
        samples(Gpu(), minutes(0, 2 * HOUR)),
        samples(Gpu("GPU-b", node="m1"), minutes(0, 2 * HOUR), cluster="paris"),
    )
    world.book()
    attribution.attribute(world.store, "paris", world.settings)
    ledger_hours.recompute_dirty(world.store, "paris", world.settings)
    state = State.open("sqlite://")
    rates = [
        Rate(H100, "owned", Decimal("2.50"), us(0)),
        Rate(H100, "owned", Decimal("4.00"), us(0), None, "paris", None, None, "EUR"),
    ]
    replace_rates(state, rates, "test", "test", 0)
    chargeback.price_all(world.store, state)
    return world, state


def test_each_cluster_has_its_own_currency_and_there_is_no_total() -> None:
    world, state = two_clusters()

    bill = chargeback.chargeback(world.store, state, WINDOW, by=("cluster",))

    assert [("c1", "USD", Decimal("5.00")), ("paris", "EUR", Decimal("8.00"))] == sorted(
        (row.group["cluster"], row.currency, row.cost) for row in bill.items
    )
    assert (None, None) == (bill.cost, bill.currency)
    by_team = chargeback.chargeback(world.store, state, WINDOW)
    assert {"USD", "EUR"} == {row.currency for row in by_team.items}, "a team with time in both has a row of each"


def test_with_a_reporting_currency_both_are_converted_and_added() -> None:
    world, state = two_clusters()
    card = fx.Fx((fx.Exchange("EUR", "USD", Decimal("1.10"), us(0)),), "USD")
    fx.replace(state, card, "test", "test", 0)
    chargeback.price_all(world.store, state)

    bill = chargeback.chargeback(world.store, state, WINDOW, by=("cluster",))

    assert {("c1", Decimal("5.00")), ("paris", Decimal("8.80"))} == {
        (row.group["cluster"], row.cost) for row in bill.items
    }
    assert (Decimal("13.80"), "USD") == (bill.cost, bill.currency)
