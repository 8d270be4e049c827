"""Whole days of the books in few rows: a question that reads them and one that does not get the same answer."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from gpuwatch.billing import chargeback
from gpuwatch.billing.records import Charge
from gpuwatch.core.clock import DAY_US, HOUR_US, SECOND_US, Window
from gpuwatch.jobs import listing as jobs_listing
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.store.day_sums import roll
from tests.worlds.drawn_fleets import drawn_fleet
from tests.worlds.templates import computed_once
from tests.worlds.world import CLUSTER, H100, HOUR, T0_US, Gpu, World, claim, minutes, node, one_hour, samples, us

DAY = 24 * HOUR
MICRO, CENT = Decimal("0.000001"), Decimal("0.01")
TIMES = ("submit_us", "start_us", "end_us", "evidence_us")
BYS = (("team",), (), ("job", "team"), ("gpu_model", "mig_profile", "pool"), ("slice", "user"))


def rate(price: str, start: int, end: int | None = None, currency: str = "USD", profile: str | None = None) -> Rate:
    return Rate(
        H100, "owned", Decimal(price), us(start), None if end is None else us(end), None, None, profile, currency
    )


def rules(*teams: str) -> list[TeamRule]:
    return [TeamRule("account", f"acct-{team}", team) for team in teams]


def stated(world: World, rates: list[Rate], teams: list[TeamRule]) -> State:
    state = State.open("sqlite://")
    replace_rates(state, rates, "test", "test", 0)
    replace_team_rules(state, teams, "test", "test", 0)
    chargeback.price_all(world.store, state)
    return state


@computed_once
def drawn(number: int) -> tuple[World, State, random.Random]:
    """A fleet over midnight. The prices of even numbers change at midnight and have two currencies; those of the
    others change within a day, and are missing before."""
    rng = random.Random(number)
    fleet = drawn_fleet(number)
    shift_us = (DAY_US - rng.randrange(5) * HOUR_US // 2) // (60 * SECOND_US) * 60 * SECOND_US
    rows = [replace(sample, at_us=sample.at_us + shift_us) for sample in fleet.samples]
    claims = [
        row
        | {name: row[name] + shift_us for name in TIMES if row.get(name) is not None}
        | {"account": rng.choice(("acct-a", "acct-b", None)), "user_name": rng.choice(("ann", "bob"))}
        | {"queue": rng.choice(("q1", "q2")), "namespace": rng.choice(("n1", None))}
        for row in fleet.claims
    ]
    world = World().add(*rows, *claims).book()
    if number % 2 == 0:
        rates = [rate("2.49", -DAY, DAY), rate("1.234567", DAY), rate("0.5", -DAY, None, "EUR", "1g.10gb")]
    else:
        rates = [rate("1.234567", DAY + rng.randrange(3 * HOUR))]
    return world, stated(world, rates, rules("a", "b")), rng


def windows(rng: random.Random) -> list[Window]:
    """Whole days, and days with an edge at any microsecond."""
    start, end = rng.randrange(DAY_US), 2 * DAY_US + rng.randrange(DAY_US)
    return [Window(T0_US, T0_US + 3 * DAY_US), Window(T0_US + start, T0_US + end), Window(T0_US, T0_US + end)]


def answers(
    world: World, state: State, window: Window, bys: Sequence[Sequence[str]] = BYS, *, more: bool = True
) -> list[Any]:
    """Everything that may read whole days. Without `more`: only charges and the ledger by some dimensions."""
    store = world.store
    found: list[Any] = []
    for by in bys:
        found.append(chargeback.chargeback(store, state, window, by))
        found.append(chargeback.ledger(store, state, window, by))
    if not more:
        return found
    found += [chargeback.ledger(store, state, window, step_us=step_us) for step_us in (HOUR_US, DAY_US)]
    found.append(chargeback.chargeback(store, state, window, ("user",), teams=["a"]))
    found.append(chargeback.ledger(store, state, window, teams=["a", "__platform__"]))
    found += [jobs_listing.jobs(store, state, window, sort=sort) for sort in jobs_listing.SORTS]
    return found


def days(store: Store) -> list[int]:
    """Rolled days as numbers after T0."""
    return [(row[0] - T0_US) // DAY_US for row in store.sql("select day_us from rolled_day order by 1")]


def directly(
    world: World, state: State, window: Window, bys: Sequence[Sequence[str]] = BYS, *, more: bool = True
) -> list[Any]:
    """The same from segments, hours and minutes alone."""
    rolled = world.store.sql("select cluster, day_us from rolled_day")
    world.store.sql("delete from rolled_day")
    found = answers(world, state, window, bys, more=more)
    for cluster, day_us in rolled:
        world.store.sql("insert into rolled_day values ($c, $d)", c=cluster, d=day_us)
    return found


# What must not be read.


def test_a_day_that_waits_to_be_computed_is_not_read() -> None:
    world = one_hour()
    state = stated(world, [rate("2", 0)], [])
    window = Window(us(0), us(DAY))
    assert [0] == days(world.store)

    world.add(samples(Gpu("GPU-b", index=1), minutes(0, HOUR))).attribute()
    assert Decimal(7200) == chargeback.chargeback(world.store, state, window).gpu_seconds
    world.book()
    assert [] == days(world.store)
    assert Decimal(7200) == chargeback.ledger(world.store, state, window).capacity_gpu_seconds
    chargeback.price_all(world.store, state)
    assert [0] == days(world.store)


def test_an_interrupted_roll_leaves_days_that_are_read_from_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World().add(samples(Gpu(), minutes(0, HOUR)), samples(Gpu(), minutes(DAY, DAY + HOUR))).book()
    run = Store.run

    def failing(store: Store, name: str, /, **parameters: object) -> int:
        changed = run(store, name, **parameters)
        if name == "store/day_sums/roll" and parameters["day_us"] == us(DAY):
            raise KeyboardInterrupt
        return changed

    monkeypatch.setattr(Store, "run", failing)
    with pytest.raises(KeyboardInterrupt):
        stated(world, [rate("2", 0)], [])
    monkeypatch.undo()
    assert [0] == days(world.store)
    state = stated(world, [rate("2", 0)], [])
    assert [0, 1] == days(world.store)
    window = Window(us(0), us(2 * DAY))
    assert answers(world, state, window, BYS[:2]) == directly(world, state, window, BYS[:2])


def test_a_device_that_changes_its_pool_is_rolled_again() -> None:
    world = World().add(samples(Gpu(), minutes(0, HOUR)), node(devices={"": 1}, at=0, pool="old")).book()
    state = stated(world, [rate("2", 0)], [])
    window = Window(us(0), us(DAY))
    assert "old" == chargeback.chargeback(world.store, state, window, ["pool"]).items[0].group["pool"]

    world.add(node(devices={"": 1}, at=HOUR, pool="new")).book()
    chargeback.price_all(world.store, state)
    assert ["new"] == [c.group["pool"] for c in chargeback.chargeback(world.store, state, window, ["pool"]).items]
    assert 0 == roll(world.store, CLUSTER)


def test_a_new_rule_moves_days_that_are_rolled() -> None:
    gpu = Gpu()
    world = World().add(samples(gpu, minutes(0, HOUR), job="1"), claim("1", 0, HOUR, account="acct-a", gpus="GPU-a"))
    state = stated(world.book(), [rate("2", 0)], rules("a"))
    window = Window(us(0), us(DAY))
    assert ["a"] == [c.group["team"] for c in chargeback.chargeback(world.store, state, window).items]

    replace_team_rules(state, [TeamRule("account", "acct-a", "other")], "test", "test", 1)
    chargeback.price_all(world.store, state)
    assert ["other"] == [c.group["team"] for c in chargeback.chargeback(world.store, state, window).items]
    assert [0] == days(world.store)


def test_a_store_of_before_has_no_rolled_day_and_answers_the_same() -> None:
    world, state, rng = drawn(1)
    window = windows(rng)[1]
    before = answers(world, state, window, BYS[2:])
    for table in ("rolled_day", "book_day", "team_day", "device_class", "class_price"):
        world.store.sql(f"delete from {table}")

    chargeback.price_all(world.store, state)
    assert before == answers(world, state, window, BYS[2:])
    assert days(world.store)


# What is read says the same.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "kind"), [(0, 0), (1, 1), (0, 2)], ids=["whole days", "both ends cut", "the end cut"]
)
def test_days_say_what_segments_and_hours_say(number: int, kind: int) -> None:
    world, state, rng = drawn(number)
    assert days(world.store)
    window = windows(rng)[kind]
    assert directly(world, state, window) == answers(world, state, window)


@pytest.mark.slow
def test_days_follow_late_samples_new_rates_and_new_rules() -> None:
    world, state, rng = drawn(0)
    window = windows(rng)[1]
    late = Gpu("GPU-late", index=7)
    world.add(samples(late, minutes(DAY - HOUR, DAY + HOUR))).book()
    assert directly(world, state, window, BYS[:1], more=False) == answers(world, state, window, BYS[:1], more=False)
    chargeback.price_all(world.store, state)
    assert directly(world, state, window, BYS[2:3], more=False) == answers(world, state, window, BYS[2:3], more=False)
    replace_rates(state, [rate("4", -DAY, DAY + 1800), rate("5", DAY + 1800)], "test", "test", 1)
    replace_team_rules(state, rules("b"), "test", "test", 1)
    chargeback.price_all(world.store, state)
    assert directly(world, state, window, BYS[4:]) == answers(world, state, window, BYS[4:])


# A team reads the numbers that everybody reads, rounded among its own rows.


def exactly(charges: Iterable[Charge]) -> list[Any]:
    """Charges before they are rounded."""
    return [(c.group, c.kind, c.currency, c.gpu_seconds_exact, c.cost_exact, c.error) for c in charges]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "teams"), [(0, ("a", "__unallocated__", "__platform__")), (1, ("__platform__", "b", "a"))]
)
def test_a_teams_rows_are_those_of_the_fleets_bill(number: int, teams: tuple[str, ...]) -> None:
    world, state, rng = drawn(number)
    bys = [("team",), ("team", "job"), ("slice", "team")]
    rng.shuffle(bys)
    for window, by, team in zip(windows(rng), bys, teams, strict=True):
        whole = chargeback.chargeback(world.store, state, window, by)
        own = chargeback.chargeback(world.store, state, window, by, teams=[team])
        assert exactly(c for c in whole.items if c.group["team"] == team) == exactly(own.items)
        assert own.gpu_seconds == sum((c.gpu_seconds for c in own.items), Decimal(0))
        books = chargeback.ledger(world.store, state, window, by)
        mine = chargeback.ledger(world.store, state, window, by, teams=[team])
        theirs = [r for r in books.items if r.group["team"] == team]
        assert [(r.group, r.bucket, r.currency) for r in theirs] == [
            (r.group, r.bucket, r.currency) for r in mine.items
        ]
        for one, other in zip(theirs, mine.items, strict=True):
            assert abs(one.gpu_seconds - other.gpu_seconds) <= MICRO
            assert abs((one.cost or 0) - (other.cost or 0)) <= CENT
        assert mine.capacity_gpu_seconds == sum((r.gpu_seconds for r in mine.items), Decimal(0))
        assert mine.capacity_gpu_seconds == mine.funnel["total"].gpu_seconds


def test_a_row_has_one_number_whoever_asks() -> None:
    gpus = [Gpu(gi=n, profile="1g.10gb") for n in range(3)]
    world = World().add(
        *(samples(gpu, minutes(0, HOUR), job=str(n)) for n, gpu in enumerate(gpus)),
        *(
            claim(str(n), 0, HOUR, profile="1g.10gb", account=f"acct-{'ab'[n % 2]}", gpus="GPU-a")
            for n in range(len(gpus))
        ),
    )
    state = stated(world.book(), [rate("1000", 0)], rules("a", "b"))
    window = Window(us(0), us(HOUR))
    whole = {c.group["team"]: c for c in chargeback.chargeback(world.store, state, window).items}

    for team, charge in whole.items():
        assert (charge,) == chargeback.chargeback(world.store, state, window, teams=[team or ""]).items


# Pools.


def test_a_pool_has_its_own_devices_only() -> None:
    here, there, other = Gpu(), Gpu("GPU-b", node="n2"), Gpu("GPU-c", node="n2", index=1)
    world = World().add(
        *(samples(gpu, minutes(0, HOUR)) for gpu in (here, there, other)),
        node("n1", {"": 1}, 0, pool="here"),
        node("n2", {"": 2}, 0, pool="there"),
    )
    state = stated(world.book(), [rate("2", 0)], [])
    for window in (Window(us(0), us(DAY)), Window(us(600), us(DAY))):
        cut = 600 if window.start_us == us(600) else 0

        bill = [chargeback.chargeback(world.store, state, window, pool=pool) for pool in ("here", "there", "none")]
        assert [HOUR - cut, 2 * (HOUR - cut), 0] == [int(found.gpu_seconds) for found in bill]
        books = [chargeback.ledger(world.store, state, window, pool=pool) for pool in ("here", "there", "none")]
        assert [HOUR - cut, 2 * (HOUR - cut), 0] == [int(found.capacity_gpu_seconds) for found in books]
