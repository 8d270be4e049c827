"""What it cost and who pays: rows add up to the whole, money and time agree, and a filter lets nothing else through."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from gpuwatch.billing import chargeback
from gpuwatch.core.clock import DAY_US, HOUR_US, SECOND_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.core.money import largest_remainder
from gpuwatch.ledger.totals import scale_of
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds.drawn_fleets import FEW_FLEETS, drawn_fleet
from tests.worlds.templates import computed_once
from tests.worlds.world import H100, HOUR, IDLE, T0_US, Gpu, World, claim, minutes, one_hour, samples, us

CENT, MICRO = Decimal("0.01"), Decimal("0.000001")
TEAMS = ("a", "b")
BYS = (("team",), ("job",), ("slice", "team"), (), ("user", "mig_profile"), ("gpu_model", "cluster", "pool"))


def rate(price: str, start: int = 0, end: int | None = None, currency: str = "USD", profile: str | None = None) -> Rate:
    return Rate(
        H100, "owned", Decimal(price), us(start), None if end is None else us(end), None, None, profile, currency
    )


def priced(world: World, *rates: Rate) -> State:
    """A state with these rates and a team an account, and the world priced by it."""
    state = State.open("sqlite://")
    replace_rates(state, list(rates), "test", "test", 0)
    replace_team_rules(state, [TeamRule("account", f"acct-{team}", team) for team in TEAMS], "test", "test", 0)
    chargeback.price_all(world.store, state)
    return state


@computed_once
def drawn(number: int) -> tuple[World, State, random.Random]:
    """A fleet with accounts and users; prices change at any microsecond. Fleets of even numbers have two currencies; in the
    others, prices are missing for a time."""
    rng = random.Random(number)
    fleet = drawn_fleet(number)
    claims = [
        {**row, "account": rng.choice(("acct-a", "acct-b", "acct-c", None)), "user_name": rng.choice(("ann", "bob"))}
        for row in fleet.claims
    ]
    world = World().add(*fleet.samples, *claims).book()
    first = rng.randrange(3 * HOUR)
    second = first + rng.randrange(1, HOUR)
    rates = [rate("2.49", -HOUR, first), rate("1.234567", second)]
    if number % 2 == 0:
        rates += [rate("3", first, second), rate("0.5", 0, None, "EUR", "1g.10gb")]
    return world, priced(world, *rates), rng


def cut(world: World, rng: random.Random) -> Window:
    """Any part of the time that the books know."""
    low, high = world.span_us()
    start, end = sorted((rng.randrange(low, high), rng.randrange(low, high)))
    return Window(start, end + 1)


def reference(world: World, window: Window) -> dict[tuple[str, str | None, str | None], list[Fraction]]:
    """(owner, job, currency) -> exact GPU-seconds and cost, segment by segment."""
    rows = world.store.sql(
        """select case when s.run_id is null then '__platform__' else coalesce(t.team, '__unallocated__') end,
            r.job_id, p.currency, p.usd_per_gpu_hour, s.share_num, s.share_den,
            least(s.end_us, p.end_us, $end_us) - greatest(s.start_us, p.start_us, $start_us)
        from segment s
        join device_price p on p.device_id = s.device_id and p.profile is not distinct from s.profile
        left join run r using (run_id)
        left join run_team t using (run_id)
        where least(s.end_us, p.end_us, $end_us) > greatest(s.start_us, p.start_us, $start_us)""",
        start_us=window.start_us,
        end_us=window.end_us,
    )
    sums: dict[tuple[str, str | None, str | None], list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for owner, job, currency, price, num, den, length in rows:
        amount = sums[(owner, job, currency)]
        amount[0] += Fraction(length * num, den * SECOND_US)
        amount[1] += Fraction(length * num, den * HOUR_US) * Fraction(price or 0)
    return sums


def by_currency(rows: Sequence[Any]) -> dict[str | None, Decimal]:
    sums: dict[str | None, Decimal] = defaultdict(Decimal)
    for row in rows:
        sums[row.currency] += row.cost or 0
    return dict(sums)


def rounded(value: Fraction, places: int) -> Decimal:
    return largest_remainder([value], places, ["all"])[0]


# What must not be there.


def test_nothing_is_charged_where_there_are_no_books() -> None:
    world = World()
    state = State.open("sqlite://")
    window = Window(T0_US, T0_US + HOUR_US)

    bill, books = chargeback.chargeback(world.store, state, window), chargeback.ledger(world.store, state, window)
    assert ((), Decimal(0), Decimal(0), None) == (bill.items, bill.gpu_seconds, bill.cost, bill.next_offset)
    assert ((), Decimal(0), Decimal(0)) == (books.items, books.capacity_gpu_seconds, books.funnel["total"].cost)


def test_reading_prices_nothing() -> None:
    gpu = Gpu()
    world = World().add(samples(gpu, minutes(0, HOUR))).book()
    state = priced(world, rate("2"))
    window = Window(us(0), us(HOUR))
    before = chargeback.chargeback(world.store, state, window).cost
    replace_rates(state, [rate("4")], "test", "test", 1)

    assert [before] * 2 == [
        chargeback.chargeback(world.store, state, window).cost,
        chargeback.ledger(world.store, state, window).cost,
    ]
    chargeback.price_all(world.store, state)
    assert Decimal("4.00") == chargeback.chargeback(world.store, state, window).cost


def test_time_that_was_never_priced_is_there_without_a_price() -> None:
    world = one_hour()
    state = State.open("sqlite://")
    window = Window(us(0), us(HOUR))

    bill, books = chargeback.chargeback(world.store, state, window), chargeback.ledger(world.store, state, window)
    assert [(Decimal(3600), None)] == [(charge.gpu_seconds, charge.cost) for charge in bill.items]
    assert [("schedulable", Decimal(3600), None)] == [(r.bucket, r.gpu_seconds, r.cost) for r in books.items]


def test_no_working_table_is_left() -> None:
    world = one_hour()
    state = priced(world, rate("2"))
    chargeback.chargeback(world.store, state, Window(us(0), us(HOUR)))
    chargeback.ledger(world.store, state, Window(us(0), us(HOUR)))

    assert [] == world.store.sql("select table_name from duckdb_tables() where temporary")


def test_what_is_written_meanwhile_is_not_half_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The analyzer replaces devices, segments and prices of a cluster at once: an answer is of before or of after."""
    world = one_hour()
    state = priced(world, rate("2"))
    reader, run = world.store.cursor(), Store.run
    window = Window(us(0), us(HOUR))

    def interrupted(store: Store, name: str, /, **parameters: object) -> int:
        changed = run(store, name, **parameters)
        if name == "billing/kind":
            with world.store.transaction():
                world.store.sql("delete from segment")
            world.store.checkpoint()
        return changed

    monkeypatch.setattr(Store, "run", interrupted)
    assert Decimal("2.00") == chargeback.chargeback(reader, state, window).cost
    assert Decimal("0.00") == chargeback.chargeback(reader, state, window).cost


@pytest.mark.parametrize("ask", [chargeback.chargeback, chargeback.ledger])
def test_an_unknown_dimension_is_named(ask: Any) -> None:
    with pytest.raises(UsageError, match="teem"):
        ask(World().store, State.open("sqlite://"), Window(0, 1), ["teem"])


def test_steps_are_hours_or_days() -> None:
    with pytest.raises(UsageError, match="hour or a day"):
        chargeback.ledger(World().store, State.open("sqlite://"), Window(0, 1), step_us=60 * SECOND_US)


def test_money_that_would_not_fit_is_refused_and_not_wrong() -> None:
    world = one_hour()
    state = priced(world, rate("99999999999999999999.123456789012", -HOUR))
    world.store.sql("insert into capacity values ('c1', 1, $start, $end, 1, 1)", start=us(0), end=us(10**6))
    with pytest.raises(UsageError, match="shorter"):
        chargeback.chargeback(world.store, state, Window(us(0), us(10**6)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "teams"), [(0, {"a", "nobody"}), (1, {"b", "__platform__"}), (0, {"__unallocated__"}), (1, set())]
)
def test_a_filter_lets_no_other_team_through(number: int, teams: set[str]) -> None:
    world, state, rng = drawn(number)
    window = cut(world, rng)
    every = reference(world, window)
    expected = sum((s for (owner, _, _), (s, _) in every.items() if owner in teams), Fraction(0))
    jobs = {job for owner, job, _ in every if owner in teams}

    for by in rng.sample(BYS, 2):
        bill = chargeback.chargeback(world.store, state, window, by, teams=teams)
        books = chargeback.ledger(world.store, state, window, by, teams=teams, step_us=HOUR_US)
        # Rounded by themselves: nothing of the rows of others is in them.
        for total, shown in ((bill.gpu_seconds, bill.items), (books.capacity_gpu_seconds, books.items)):
            assert rounded(expected, 6) == total
            assert total == sum((row.gpu_seconds for row in shown), Decimal(0))
        for currency, cents in by_currency(bill.items).items():
            money = sum((m for (owner, _, c), (_, m) in every.items() if owner in teams and c == currency), Fraction(0))
            assert rounded(money, 2) == cents
        for group in (row.group for rows in (bill.items, books.items) for row in rows):
            assert "team" not in by or group["team"] in teams
            assert "job" not in by or group["job"] in {*jobs, None}
        assert ("__platform__" in teams) or all(charge.kind == "allocated" for charge in bill.items)
    seen = {row.group["team"] for row in chargeback.ledger(world.store, state, window, ["team"], teams=teams).items}
    assert seen <= teams


# They close.


@pytest.mark.parametrize("number", FEW_FLEETS)
def test_charges_are_those_of_the_segments(number: int) -> None:
    world, state, rng = drawn(number)
    window = cut(world, rng)
    expected = {key: amount for key, amount in reference(world, window).items() if amount[0]}

    bill = chargeback.chargeback(world.store, state, window, ("team", "job"))
    found: dict[Any, list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0)])
    for charge in bill.items:
        amount = found[(charge.group["team"], charge.group["job"], charge.currency)]
        amount[0] += charge.gpu_seconds
        amount[1] += charge.cost_exact or 0
    assert expected.keys() == found.keys()
    for key, (seconds, money) in expected.items():
        assert abs(Fraction(found[key][0]) - seconds) < Fraction(1, 10**5)
        assert abs(Fraction(found[key][1]) - money) < Fraction(1, 10**10)
    assert rounded(sum((s for s, _ in expected.values()), Fraction(0)), 6) == bill.gpu_seconds
    for currency in {key[2] for key in expected if key[2]}:
        exact = sum((money for key, (_, money) in expected.items() if key[2] == currency), Fraction(0))
        assert rounded(exact, 2) == by_currency(bill.items)[currency]


@pytest.mark.slow
@pytest.mark.parametrize("number", FEW_FLEETS)
def test_the_ledger_is_the_capacity_and_the_bill(number: int) -> None:
    world, state, rng = drawn(number)
    window = cut(world, rng)
    capacity = world.store.sql(
        "select sum(greatest(0, least(end_us, $end) - greatest(start_us, $start))) from capacity",
        start=window.start_us,
        end=window.end_us,
    )[0][0]

    for by in BYS[number % 2 :: 2]:
        bill = chargeback.chargeback(world.store, state, window, by)
        whole = chargeback.ledger(world.store, state, window, by)
        stepped = chargeback.ledger(world.store, state, window, by, step_us=rng.choice((HOUR_US, DAY_US)))
        assert Fraction(int(capacity), SECOND_US) == Fraction(whole.capacity_gpu_seconds)
        for books in (whole, stepped):
            assert books.capacity_gpu_seconds == bill.gpu_seconds
            assert books.capacity_gpu_seconds == sum((row.gpu_seconds for row in books.items), Decimal(0))
            assert by_currency(bill.items) == by_currency(books.items)
            assert (bill.cost, bill.currency) == (books.cost, books.currency)
            assert abs(bill.unpriced_gpu_seconds - books.unpriced_gpu_seconds) <= MICRO
            assert (books.capacity_gpu_seconds, books.cost) == (
                books.funnel["total"].gpu_seconds,
                books.funnel["total"].cost,
            )


@pytest.mark.parametrize("number", FEW_FLEETS)
def test_each_group_costs_in_the_ledger_what_it_is_charged(number: int) -> None:
    """Also in hours in which the price changes: a group's buckets differ from its charge by their rounding only."""
    world, state, rng = drawn(number)
    window = cut(world, rng)
    charged: dict[Any, list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0)])
    for charge in chargeback.chargeback(world.store, state, window, ("team", "job", "slice")).items:
        amount = charged[(*charge.group.values(), charge.currency)]
        amount[0] += charge.gpu_seconds
        amount[1] += charge.cost or 0
    booked: dict[Any, list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0), Decimal(0)])
    for row in chargeback.ledger(world.store, state, window, ("team", "job", "slice")).items:
        amount = booked[(*row.group.values(), row.currency)]
        for n, part in enumerate((row.gpu_seconds, row.cost or Decimal(0), Decimal(1))):
            amount[n] += part

    assert charged.keys() == booked.keys()
    for key, (seconds, money, rows) in booked.items():
        assert abs(charged[key][0] - seconds) <= (rows + 2) * MICRO
        assert abs(charged[key][1] - money) <= (rows + 2) * CENT


def test_pages_are_the_whole() -> None:
    world, state, rng = drawn(0)
    window = cut(world, rng)
    for ask in (chargeback.chargeback, chargeback.ledger):
        whole = ask(world.store, state, window, ("team", "job"))
        rows: list[Any] = []
        offset: int | None = 0
        while offset is not None:
            page = ask(world.store, state, window, ("team", "job"), limit=len(whole.items) // 3, offset=offset)
            assert whole.cost == page.cost
            rows += page.items
            offset = page.next_offset
        assert list(whole.items) == rows


# Values.


def test_a_price_that_changes_within_an_hour_is_exact() -> None:
    gpu, other = Gpu(), Gpu("GPU-b", index=1)
    world = World().add(
        samples(gpu, minutes(0, HOUR), job="1"),
        samples(other, minutes(0, HOUR)),
        claim("1", 0, 1800, account="acct-a", gpus="GPU-a"),
    )
    state = priced(world.book(), rate("1", 0, 1800), rate("3", 1800))
    window = Window(us(0), us(HOUR))

    bill = {c.group["team"]: (c.gpu_seconds, c.cost) for c in chargeback.chargeback(world.store, state, window).items}
    assert {"a": (Decimal(1800), Decimal("0.50")), "__platform__": (Decimal(5400), Decimal("3.50"))} == bill
    books = chargeback.ledger(world.store, state, window, ["team"])
    held = sum((row.cost or 0 for row in books.items if row.group["team"] == "a"), Decimal(0))
    assert Decimal("0.50") == held
    assert {"schedulable": Decimal("3.50")} == {
        row.bucket: row.cost for row in books.items if row.group["team"] == "__platform__"
    }


def test_time_without_a_rate_is_a_row_of_its_own_that_names_it() -> None:
    world = one_hour()
    state = priced(world, rate("2", 1800))
    window = Window(us(0), us(HOUR))

    first, second = chargeback.chargeback(world.store, state, window).items
    assert (Decimal("1.00"), "USD", None) == (first.cost, first.currency, first.error)
    assert (None, None, None) == (second.cost, second.cost_exact, second.currency)
    assert f"no rate for model {H100!r}" in (second.error or "")
    books = chargeback.ledger(world.store, state, window)
    assert [(Decimal(1800), Decimal("1.00")), (Decimal(1800), None)] == [(r.gpu_seconds, r.cost) for r in books.items]
    assert Decimal(1800) == books.unpriced_gpu_seconds


def test_where_nothing_has_a_price_no_cost_is_reported_as_zero() -> None:
    world = one_hour()
    state = priced(world)
    window = Window(us(0), us(HOUR))

    bill, books = chargeback.chargeback(world.store, state, window), chargeback.ledger(world.store, state, window)
    assert (None, Decimal(3600)) == (bill.cost, bill.unpriced_gpu_seconds)
    assert [None] * 5 == [step.cost for step in books.funnel.values()]
    empty = chargeback.chargeback(world.store, state, Window(us(2 * HOUR), us(3 * HOUR)))
    assert (Decimal("0.00"), ()) == (empty.cost, empty.items)


def test_costs_in_two_currencies_have_no_total() -> None:
    slice_ = Gpu(gi=1, profile="1g.10gb")
    world = (
        World().add(samples(slice_, minutes(0, 7 * HOUR)), samples(Gpu("GPU-b", index=1), minutes(0, 7 * HOUR))).book()
    )
    state = priced(world, rate("2"), rate("1", currency="EUR", profile="1g.10gb"))

    bill = chargeback.chargeback(world.store, state, Window(us(0), us(7 * HOUR)))
    assert {"EUR": Decimal("1.00"), "USD": Decimal("26.00")} == by_currency(bill.items)
    assert (None, None) == (bill.cost, bill.currency)
    books = chargeback.ledger(world.store, state, Window(us(0), us(7 * HOUR)))
    assert [None] * 5 == [step.cost for step in books.funnel.values()]


def test_the_funnel_goes_from_owned_to_effective() -> None:
    busy, idle, free = Gpu(), Gpu("GPU-b", index=1), Gpu("GPU-c", index=2)
    world = World().add(
        samples(busy, minutes(0, HOUR), job="1"),
        samples(idle, minutes(0, HOUR), IDLE, job="2"),
        samples(free, minutes(0, HOUR), IDLE),
        claim("1", 0, HOUR, gpus="GPU-a"),
        claim("2", 0, HOUR, gpus="GPU-b"),
    )
    state = priced(world.book(), rate("2"))

    funnel = chargeback.ledger(world.store, state, Window(us(0), us(HOUR))).funnel
    assert {
        "total": (Decimal(10800), Decimal("6.00")),
        "reporting": (Decimal(10800), Decimal("6.00")),
        "allocated": (Decimal(7200), Decimal("4.00")),
        "active": (Decimal(3600), Decimal("2.00")),
        "effective": (Decimal(1800), Decimal("1.00")),
    } == {name: (amount.gpu_seconds, amount.cost) for name, amount in funnel.items()}


def test_a_ledger_in_steps_tells_where_each_starts() -> None:
    world = World().add(samples(Gpu(), minutes(0, 2 * HOUR))).book()
    state = priced(world, rate("2"))

    hours = chargeback.ledger(world.store, state, Window(us(900), us(2 * HOUR)), step_us=HOUR_US)
    assert [(us(0), Decimal(2700)), (us(HOUR), Decimal(3600))] == [(r.start_us, r.gpu_seconds) for r in hours.items]
    days = chargeback.ledger(world.store, state, Window(us(900), us(2 * HOUR)), step_us=DAY_US)
    assert [(us(0), Decimal(6300))] == [(r.start_us, r.gpu_seconds) for r in days.items]


def test_seven_equal_slices_of_a_thousand_share_its_cents() -> None:
    parts = [Gpu(gi=n, profile="1g.10gb") for n in range(7)]
    world = World().add(*(samples(part, minutes(0, HOUR)) for part in parts)).book()
    state = priced(world, rate("1000"))

    bill = chargeback.chargeback(world.store, state, Window(us(0), us(HOUR)), ["slice"])
    assert [Decimal("142.86")] * 5 + [Decimal("142.85")] * 2 == [charge.cost for charge in bill.items]
    assert {Decimal("142.857142857143")} == {charge.cost_exact for charge in bill.items}
    scale = scale_of(world.store, Window(us(0), us(HOUR)))
    assert 0 == scale.shares % 7


def test_what_nobody_observed_is_neither_active_nor_effective_and_not_zero_either() -> None:
    """GPU_UTIL alone: 97 % of the held time cannot be told apart."""
    world = World().add(samples(Gpu(), minutes(0, HOUR), {"gpu_util_ratio": 0.97}), claim("1", 0, HOUR))
    state = priced(world.book(), rate("2"))

    funnel = chargeback.ledger(world.store, state, Window(us(0), us(HOUR))).funnel

    assert (None, None) == (funnel["effective"].gpu_seconds, funnel["active"].gpu_seconds)
    assert Decimal(108) == funnel["allocated"].gpu_seconds
