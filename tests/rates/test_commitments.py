"""Commitments in the books: covered GPUs are priced so, used and unused add up to what was committed to."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from gpuwatch.billing import chargeback
from gpuwatch.core.clock import Window
from gpuwatch.rates import fx
from gpuwatch.rates.card import Rate
from gpuwatch.rates.commitments import Usage, commitments, shown
from gpuwatch.rates.fx import Exchange, Fx
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds.drawn_fleets import drawn_fleet
from tests.worlds.templates import computed_once
from tests.worlds.world import HOUR, Gpu, World, claim, minutes, samples, us

DAY = Window(us(0), us(24 * HOUR))
ON_DEMAND = Rate("*", "on_demand", Decimal(4), 0)


def reserved(quantity: int | None, usd: str = "1", start: int = 0, **more: Any) -> Rate:
    words = {"commitment_id": "ri-1", "quantity": quantity} | more
    return Rate("H100", "reserved", Decimal(usd), start, **words)


@computed_once
def two_gpus() -> World:
    """GPU-a from 0 to 4 h, held in the first; GPU-b from 1 h to 4 h, held in its last two."""
    return (
        World()
        .add(samples(Gpu("GPU-a"), minutes(0, 4 * HOUR)), samples(Gpu("GPU-b", index=1), minutes(HOUR, 4 * HOUR)))
        .add(claim("1", 0, HOUR, gpus="GPU-a"), claim("2", 2 * HOUR, 4 * HOUR, gpus="GPU-b"))
        .book()
    )


def priced(world: World, *rates: Rate, card: Fx | None = None) -> State:
    state = State.open("sqlite://")
    replace_rates(state, list(rates), "test", "test", 0)
    if card is not None:
        fx.replace(state, card, "test", "test", 0)
    chargeback.price_all(world.store, state)
    return state


def hours(one: Usage) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """Committed, used, idle, absent, in GPU-hours."""
    hour = HOUR * 1_000_000
    return one.committed_us / hour, one.used_us / hour, one.idle_us / hour, one.absent_us / hour


def prices(store: Store) -> dict[str, list[tuple[str, str | None]]]:
    """GPU -> (price, commitment) of each span after the epoch."""
    found: dict[str, list[tuple[str, str | None]]] = {}
    for gpu, usd, commitment in store.sql(
        "select d.gpu, p.usd_per_gpu_hour, p.commitment_id from device_price p join device d using (device_id)"
        " where p.end_us > 0 order by d.gpu, p.start_us"
    ):
        found.setdefault(gpu, []).append((usd, commitment))
    return found


def test_without_commitments_nothing_is_reported() -> None:
    world = two_gpus()

    assert () == commitments(world.store, priced(world, ON_DEMAND), DAY)


def test_outside_of_the_books_nothing_is_used_nor_unused() -> None:
    world = two_gpus()
    before = Window(us(-48 * HOUR), us(-24 * HOUR))

    assert () == commitments(world.store, priced(world, reserved(1)), before)


@pytest.mark.parametrize(
    ("expected", "quantity"),
    [
        pytest.param((4, 1, 3, 0), 1, id="the GPU that came first is covered"),
        pytest.param((8, 3, 4, 1), 2, id="both are covered, and one was not there in the first hour"),
        pytest.param((12, 3, 4, 5), 3, id="one is beyond the fleet"),
        pytest.param((7, 3, 4, 0), None, id="without a quantity what is there is what was committed to"),
    ],
)
def test_used_and_unused(expected: tuple[int, int, int, int], quantity: int | None) -> None:
    world = two_gpus()
    (one,) = commitments(world.store, priced(world, reserved(quantity), ON_DEMAND), DAY)

    assert expected == hours(one)
    assert expected[:2] == (one.committed_cost, one.used_cost)


def test_who_is_not_covered_pays_the_next_pricing() -> None:
    world = two_gpus()
    priced(world, reserved(1), ON_DEMAND)

    assert {"GPU-a": [("1", "ri-1")], "GPU-b": [("4", None)]} == prices(world.store)


def test_a_bill_of_covered_and_other_gpus() -> None:
    """4 hours at 1 and 3 hours at 4; absent GPUs stand in no charge."""
    world = two_gpus()
    for quantity, total in ((1, "16.00"), (2, "7.00"), (9, "7.00")):
        state = priced(world, reserved(quantity), ON_DEMAND)
        found = chargeback.chargeback(world.store, state, DAY)

        assert Decimal(total) == sum(charge.cost or 0 for charge in found.items)


def test_a_commitment_that_grows_covers_more_at_once() -> None:
    """Pricing follows: the card changes, and the other GPU is covered."""
    world = two_gpus()
    state = priced(world, reserved(1), ON_DEMAND)
    replace_rates(state, [reserved(2), ON_DEMAND], "test", "test", 1)
    chargeback.price_all(world.store, state)

    assert {"GPU-a": [("1", "ri-1")], "GPU-b": [("1", "ri-1")]} == prices(world.store)


def test_a_gpu_that_comes_to_light_later_and_was_there_earlier_takes_its_turn() -> None:
    world = two_gpus()
    state = priced(world, reserved(1), ON_DEMAND)
    world.add(samples(Gpu("GPU-0", node="n2"), minutes(-2 * HOUR, 4 * HOUR))).book()
    chargeback.price_all(world.store, state)

    assert {"GPU-0": [("1", "ri-1")], "GPU-a": [("4", None)], "GPU-b": [("4", None)]} == prices(world.store)


def test_slices_of_a_covered_gpu_are_covered() -> None:
    slices = [Gpu("GPU-m", gi=gi, profile="3g.40gb") for gi in (1, 2)]
    world = World().add(*(samples(one, minutes(0, 4 * HOUR)) for one in slices))
    world.add(claim("1", 0, 4 * HOUR, gpus="GPU-m/GI-1")).book()
    (one,) = commitments(world.store, priced(world, reserved(1), ON_DEMAND), DAY)

    assert (4, 0) == (hours(one)[0], hours(one)[3])
    assert {"1"} == {usd for of_gpu in prices(world.store).values() for usd, _ in of_gpu}


def test_a_commitment_in_another_currency() -> None:
    """1 EUR is 1.5 USD in the first two hours and 2 USD then."""
    world = two_gpus()
    card = Fx(tuple(Exchange("EUR", "USD", Decimal(r), us(at)) for r, at in (("1.5", 0), ("2", 2 * HOUR))), "USD")
    (one,) = commitments(world.store, priced(world, reserved(1, currency="EUR"), ON_DEMAND, card=card), DAY)

    assert ("USD", 7, Fraction("1.5")) == (one.currency, one.committed_cost, one.used_cost)
    assert "7.00" == shown(one)["committed_cost"]


def test_prices_tell_where_they_come_from() -> None:
    world = two_gpus()
    card = Fx((Exchange("EUR", "USD", Decimal("1.25"), us(0)),), "USD")
    rate = reserved(1, "2", currency="EUR", list_price=Decimal(8), sku="h100-1y", start=us(0))
    priced(world, rate, ON_DEMAND, card=card)

    found = world.store.sql(
        "select usd_per_gpu_hour, currency, pricing, sku, list_price, contracted_price, commitment_id, rate, card,"
        " card_version, base_price, base_currency, fx_rate, fx_from_us"
        " from class_price where fx_rate is not null"
    )

    words = "H100 reserved 2026-11-02T00:00:00Z.."
    wanted = ("2.5", "USD", "reserved", "h100-1y", "10", "2.5", "ri-1", words, "rates", 1, "2", "EUR", "1.25", us(0))
    assert [wanted] == found


@pytest.mark.parametrize(("number", "quantities", "cut"), [(0, [1, 4], 7), (1, [3], 16), (2, [20, 2], 29)])
def test_used_and_unused_are_quantity_by_time(number: int, quantities: list[int], cut: int) -> None:
    """For any history: a commitment is its quantity all the time, no part is negative, parts of a window add up."""
    fleet = drawn_fleet(number)
    world = World().add(*fleet.samples, *fleet.claims).book()
    rates = [
        Rate("*", "reserved", Decimal(1 + n), 0, quantity=quantity, commitment_id=f"ri-{n}")
        for n, quantity in enumerate(quantities)
    ]
    state = priced(world, *rates, ON_DEMAND)
    start, end = world.store.sql("select min(start_us), max(end_us) from capacity")[0]
    middle = start + (end - start) * cut // 31
    whole = commitments(world.store, state, Window(start, end))
    parts = [commitments(world.store, state, part) for part in (Window(start, middle), Window(middle, end))]

    assert [quantity * (end - start) for quantity in quantities] == [one.committed_us for one in whole]
    assert all(min(one.used_us, one.idle_us, one.absent_us) >= 0 for one in whole)
    assert [one.used_us + one.unused_us for one in whole] == [one.committed_us for one in whole]
    for n, one in enumerate(whole):
        assert one.used_cost == parts[0][n].used_cost + parts[1][n].used_cost
        assert one.idle_us == parts[0][n].idle_us + parts[1][n].idle_us
