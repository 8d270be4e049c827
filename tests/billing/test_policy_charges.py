"""Charges under policies: what a policy moves comes from somewhere, and windows, filters and order change nothing."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.billing import chargeback, policy_charges
from gpuwatch.core.clock import DAY_US, SECOND_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.ledger.totals import AMOUNT_MAX, working_tables
from gpuwatch.policy.parse import parse
from gpuwatch.policy.policy import DEFAULT, Policies
from gpuwatch.rates.card import Rate
from gpuwatch.rates.fx import Exchange, Fx
from gpuwatch.state import State
from gpuwatch.store.day_sums import roll
from tests.billing.test_cost_days import DAY, drawn, exactly, rules, stated
from tests.worlds.templates import computed_once
from tests.worlds.world import CLUSTER, HOUR, IDLE, T0_US, Gpu, World, claim, minutes, samples, us

A100 = "NVIDIA A100-SXM4-80GB"
DISCOUNTED = {"discounts": [{"qos": "low", "factor": "0.5"}]}


def made(**fields: Any) -> Policies:
    """One policy from the first day on, with these fields of a document."""
    return Policies(parse({"policies": [{"name": "p", "valid_from": "1970-01-01"} | fields]}))


def bill(world: World, state: State, rules: Policies | None, window: Window, *by: str, **more: Any) -> dict[Any, Any]:
    """(words, kind, cause) -> published cost of a window."""
    answer = chargeback.chargeback(world.store, state, window, by or ("team",), policy=rules, **more)
    return {(*c.group.values(), c.kind, c.cause): c.cost for c in answer.items}


@computed_once
def two_teams(price: str = "1") -> tuple[World, State, Window]:
    """A day of four H100 at 1 USD: a holds one busy for 6 h, b one idle for 12 h; and an A100 that nobody holds."""
    gpus = [Gpu(f"GPU-{n}", index=n) for n in range(3)] + [Gpu("GPU-x", "n2", model=A100)]
    rows = [samples(gpus[0], minutes(0, 24 * HOUR, 600)), samples(gpus[2], minutes(0, 24 * HOUR, 600), IDLE)]
    rows += [samples(gpus[1], minutes(0, 24 * HOUR, 600), IDLE), samples(gpus[3], minutes(0, 24 * HOUR, 600), IDLE)]
    world = World().add(
        *rows,
        claim("1", 0, 6 * HOUR, account="acct-a", gpus="GPU-0", user_name="ann", qos="low", state="PREEMPTED"),
        claim("2", 0, 12 * HOUR, account="acct-b", gpus="GPU-1", user_name="bob", state="COMPLETED"),
    )
    state = stated(world.book(), [Rate("*", "owned", Decimal(price), us(-DAY))], rules("a", "b"))
    return world, state, Window(us(0), us(DAY))


def random_policies(rng: random.Random) -> Policies:
    """One or two policies of anything, the second from the second day on, or none on the first."""
    found = []
    for n in range(rng.choice((1, 2))):
        weight = Decimal(rng.randrange(10001)) / 10000
        low = Decimal(rng.randrange(10001)) / 10000
        found.append(
            {
                "name": f"p{n}",
                "valid_from": f"2026-11-0{2 + n}",
                "basis": {"allocated": weight, rng.choice(("used", "effective")): 1 - weight},
                "payers": {
                    "idle": rng.choice(("platform", "even", "quota_holder", {"payer": "proportional", "scope": []})),
                    "stranded": rng.choice(("platform", "even", "proportional", "quota_holder")),
                    "out_of_service": rng.choice(("proportional", "even")),
                    "mig_remainder": rng.choice(("proportional", "platform")),
                    "unused": rng.choice(("proportional", "even", "platform")),
                    "lost_work": rng.choice(("owner", "platform")),
                },
                "quotas": [{"team": "a", "gpus": "0.7"}, {"team": "b", "gpus": "1.3", "gpu_model": "H100"}],
                "discounts": [{"queue": "*", "factor": low}] * rng.randrange(2),
                "minimum_billing_seconds": rng.choice((0, 61, 3600)),
                "shared": [
                    {"name": "net", "amount": "10.01", "per": "day", "currency": "USD", "split": "even"},
                    {"name": "desk", "amount": "7", "per": "month", "currency": "USD", "split": "proportional"},
                ][: rng.randrange(3)],
            }
        )
    return Policies(parse({"policies": found}))


Booked = dict[tuple[Any, ...], list[Fraction]]


def exact(world: World, rules: Policies, window: Window, *by: str) -> Booked:
    """(words, kind, cause, external, currency) -> exact GPU-seconds and cost of the rows of a window; nothing rounded."""
    with working_tables(world.store):
        scale, _ = policy_charges.fill_charges(world.store, rules, window, by, None, None, None)
        names = ", ".join((*by, "kind", "cause", "external", "currency"))
        assert all(name in chargeback.CHARGE_DIMENSIONS for name in by)
        rows = world.store.sql(f"select {names}, sum(units), sum(amount) from charge_group group by all")
    found: Booked = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for *key, units, amount in rows:
        found[tuple(key)][0] += Fraction(int(units), scale.shares * SECOND_US)
        found[tuple(key)][1] += Fraction(int(amount), scale.hour)
    return found


def added(*parts: Booked) -> dict[tuple[Any, ...], tuple[Fraction, Fraction]]:
    """Sums of several windows, without what is nothing."""
    keys = {key for part in parts for key in part}
    sums = {key: tuple(sum((p[key][n] for p in parts), Fraction(0)) for n in (0, 1)) for key in keys}
    return {key: (a, b) for key, (a, b) in sums.items() if a or b}


def by_words(found: Booked, *, at: int) -> dict[tuple[Any, ...], Fraction]:
    """Cost of what devices cost, by the first `at` words and the currency."""
    sums: dict[tuple[Any, ...], Fraction] = defaultdict(Fraction)
    for key, (_, amount) in found.items():
        if not key[-2]:
            sums[(*key[:at], key[-1])] += amount
    return {key: amount for key, amount in sums.items() if amount}


def cuts(rng: random.Random) -> tuple[int, int, int]:
    """Three instants of three days, some of them midnights."""
    chosen = rng.sample(range(3 * DAY_US), 3)
    return tuple(sorted(T0_US + (at // DAY_US * DAY_US if rng.random() < 0.3 else at) for at in chosen))  # type: ignore[return-value]


# What must not happen.


def test_without_a_policy_the_plain_bill_is_reported() -> None:
    world, state, window = two_teams()
    plain = chargeback.chargeback(world.store, state, window)

    assert plain == chargeback.chargeback(world.store, state, window, policy=Policies())
    assert plain == chargeback.chargeback(world.store, state, window, policy=made(preset="showback"))
    assert DEFAULT == Policies().at(0)


def test_nobody_pays_for_a_model_that_he_never_held() -> None:
    world, state, window = two_teams()

    found = bill(world, state, made(preset="share-idle"), window, "team", "gpu_model")
    assert {"a": Decimal("18.00"), "b": Decimal("36.00")} == {k[0]: v for k, v in found.items() if k[2] == "shared"}
    assert Decimal("24.00") == found[("__platform__", A100, "platform", None)]


def test_a_basis_does_not_charge_less_for_time_that_nobody_observed() -> None:
    world = World().add(samples(Gpu(), minutes(0, HOUR), {}), claim("1", 0, HOUR, account="acct-a", gpus="GPU-a"))
    state = stated(world.book(), [Rate("*", "owned", Decimal(1), us(-DAY))], rules("a"))

    found = bill(world, state, made(basis="effective"), Window(us(0), us(HOUR)))
    assert {("a", "allocated", None): Decimal("1.00")} == found


def test_a_run_that_goes_on_is_not_rounded_up() -> None:
    world = World().add(
        samples(Gpu(), minutes(0, HOUR)), claim("1", 0, None, evidence=HOUR, account="acct-a", gpus="GPU-a")
    )
    state = stated(world.book(), [Rate("*", "owned", Decimal(1), us(-DAY))], rules("a"))

    found = bill(world, state, made(minimum_billing_seconds=86_400), Window(us(0), us(DAY)))
    assert {("a", "allocated", None): Decimal("1.00")} == found


# Values.

VALUES: dict[str, tuple[dict[str, Any], dict[Any, str]]] = {
    "idle GPUs are shared by those who held others of the model": (
        {"preset": "share-idle"},
        {
            ("a", "allocated", None): "6.00",
            ("a", "shared", "idle"): "18.00",
            ("b", "allocated", None): "12.00",
            ("b", "shared", "idle"): "36.00",
            ("__platform__", "platform", "idle"): "24.00",
        },
    ),
    "a team pays for the time in which its engines ran": (
        {"preset": "pay-for-use", "payers": {}},
        {
            ("a", "allocated", None): "5.40",
            ("b", "allocated", None): "0.00",
            ("__platform__", "platform", "idle"): "78.00",
            ("__platform__", "platform", "unused"): "12.60",
        },
    ),
    "a blend is the mean of its bases": (
        {"basis": {"allocated": "0.5", "used": "0.5"}},
        {
            ("a", "allocated", None): "5.70",
            ("b", "allocated", None): "6.00",
            ("__platform__", "platform", "idle"): "78.00",
            ("__platform__", "platform", "unused"): "6.30",
        },
    ),
    "a wide scope shares every model": (
        {"payers": {"idle": {"payer": "even", "scope": ["cluster"]}}},
        {
            ("a", "allocated", None): "6.00",
            ("a", "shared", "idle"): "39.00",
            ("b", "allocated", None): "12.00",
            ("b", "shared", "idle"): "39.00",
            ("__platform__", "platform", "idle"): "0.00",
        },
    ),
    "a quota pays for what it keeps free": (
        {"payers": {"idle": "quota_holder"}, "quotas": [{"team": "a", "gpus": "1", "gpu_model": "H100"}]},
        {
            ("a", "allocated", None): "6.00",
            ("a", "shared", "idle"): "18.00",
            ("b", "allocated", None): "12.00",
            ("__platform__", "platform", "idle"): "60.00",
        },
    ),
    "a discount stays with the platform": (
        {"discounts": [{"qos": "l*", "factor": "0.25"}, {"qos": "*", "factor": "0"}]},
        {
            ("a", "allocated", None): "1.50",
            ("b", "allocated", None): "12.00",
            ("__platform__", "platform", "discount"): "4.50",
            ("__platform__", "platform", "idle"): "78.00",
        },
    ),
    "runs are rounded up to whole increments": (
        {"minimum_billing_seconds": 25_200},
        {
            ("a", "allocated", None): "6.00",
            ("a", "allocated", "minimum"): "1.00",
            ("b", "allocated", None): "12.00",
            ("b", "allocated", "minimum"): "2.00",
            ("__platform__", "platform", "idle"): "78.00",
            ("__platform__", "platform", "minimum"): "-3.00",
        },
    ),
    "the platform pays for the work that a preempted run lost": (
        {"payers": {"lost_work": "platform"}, "checkpoint_minutes": 120},
        {
            ("a", "allocated", None): "6.00",
            ("a", "allocated", "lost_work"): "-1.00",
            ("b", "allocated", None): "12.00",
            ("__platform__", "platform", "idle"): "78.00",
            ("__platform__", "platform", "lost_work"): "1.00",
        },
    ),
    "whoever caused lost work pays for it: a preemption is the platform's": (
        {"payers": {"lost_work": "cause"}, "checkpoint_minutes": 120},
        {
            ("a", "allocated", None): "6.00",
            ("a", "allocated", "lost_work"): "-1.00",
            ("b", "allocated", None): "12.00",
            ("__platform__", "platform", "idle"): "78.00",
            ("__platform__", "platform", "lost_work"): "1.00",
        },
    ),
    "a fixed split of a shared cost": (
        {
            "shared": [
                {
                    "name": "support",
                    "amount": "3000",
                    "per": "month",
                    "currency": "USD",
                    "split": "fixed",
                    "percentages": {"a": "60", "c": "40"},
                }
            ]
        },
        {
            ("a", "allocated", None): "6.00",
            ("a", "shared", "support"): "60.00",
            ("b", "allocated", None): "12.00",
            ("c", "shared", "support"): "40.00",
            ("__platform__", "platform", "idle"): "78.00",
        },
    ),
}


@pytest.fixture(scope="module")
def day() -> tuple[World, State, Window]:
    return two_teams()


@pytest.fixture(scope="module")
def worded() -> tuple[World, State, Window]:
    """A day whose run of team a has a queue, a label and two workloads."""
    world, state, window = two_teams()
    store = world.store
    store.sql("""update run set queue = 'batch', labels = '{"a.b/tier": "spot-1"}' where job_id = '1'""")
    for at_us, name in ((1, "high"), (2, "low")):
        row = "insert into workload (cluster, job_id, priority_class, observed_us) values ('c1', '1', $name, $at_us)"
        store.sql(row, name=name, at_us=at_us)
    store.sql("delete from rolled_day")
    roll(store, CLUSTER)
    return world, state, window


@pytest.mark.parametrize("case", VALUES, ids=str)
def test_a_policy_charges(day: tuple[World, State, Window], case: str) -> None:
    world, state, window = day
    fields, expected = VALUES[case]

    found = bill(world, state, made(**fields), window, "team", "cause")
    assert expected == {(key[0], key[2], key[3]): str(amount) for key, amount in found.items()}


def test_the_worked_example_of_the_page(day: tuple[World, State, Window]) -> None:
    world, state, window = day
    page = (
        (Path(__file__).parents[2] / "docs" / "charge-back" / "policies.md")
        .read_text()
        .partition("## Worked example")[2]
    )
    rows = re.findall(r"^\| ([^|]*) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", page, re.MULTILINE)
    rules = (
        {},
        {"preset": "share-idle"},
        {"basis": "used"},
        {"basis": {"allocated": "0.5", "used": "0.5"}},
        {"minimum_billing_seconds": 25_200},
        {"payers": {"lost_work": "platform"}, "checkpoint_minutes": 120},
    )

    for (_, *entry), fields in zip(rows, rules, strict=True):
        sums: dict[str, Decimal] = defaultdict(Decimal)
        for (team, *_rest), amount in bill(world, state, made(**fields), window).items():
            sums[team] += amount
        assert entry == [str(sums[name]) for name in ("a", "b", "__platform__")]


def test_an_amount_in_another_currency_is_that_of_the_day(day: tuple[World, State, Window]) -> None:
    world, _, window = day
    found = made(shared=[{"name": "net", "amount": "10", "per": "day", "currency": "EUR", "split": "even"}])
    exchange = Fx((Exchange("EUR", "USD", Decimal("1.1"), us(-DAY)),), "USD")
    with working_tables(world.store):
        scale, _ = policy_charges.fill_charges(world.store, found, window, ("team",), None, None, None, exchange)
        rows = world.store.sql("select team, currency, amount from charge_group where external order by 1")

    assert [("a", "USD", Fraction(11, 2)), ("b", "USD", Fraction(11, 2))] == [
        (team, currency, Fraction(int(amount), scale.hour)) for team, currency, amount in rows
    ]


def test_shared_costs_are_reported_beside_what_devices_cost(day: tuple[World, State, Window]) -> None:
    world, state, window = day
    found = made(shared=[{"name": "net", "amount": "0.5", "per": "hour", "currency": "USD", "split": "even"}])

    answer = chargeback.chargeback(world.store, state, window, policy=found)
    assert (Decimal("108.00"), Decimal("12.00")) == (answer.cost, answer.external_cost)
    assert {("a", "net"), ("b", "net")} == {(c.group["team"], c.cause) for c in answer.items if c.kind == "shared"}
    half = chargeback.chargeback(world.store, state, Window(us(0), us(12 * HOUR)), policy=found)
    assert Decimal("6.00") == half.external_cost


@pytest.mark.parametrize(
    ("expected", "discounts"),
    [
        pytest.param("6.00", [{"queue": "Batch", "factor": "0"}], id="case counts"),
        pytest.param("6.00", [{"queue": "bat", "factor": "0"}], id="a part of a word is not it"),
        pytest.param("6.00", [{"label:tier": "spot*", "factor": "0"}], id="another label"),
        pytest.param("6.00", [{"priority": "high", "factor": "0"}], id="an older workload's class"),
        pytest.param("6.00", [{"qos": "l.w", "factor": "0"}], id="a dot is itself"),
        pytest.param("3.00", [{"queue": "b*h", "factor": "0.5"}], id="a queue with a star"),
        pytest.param("1.80", [{"label:a.b/tier": "spot*", "factor": "0.3"}], id="a label of a domain"),
        pytest.param("0.60", [{"priority": "low", "factor": "0.1"}], id="the newest workload's class"),
        pytest.param("3.00", [{"label:a.b/tier": "*", "factor": "0.5"}, {"qos": "*", "factor": "0"}], id="first rule"),
        pytest.param("0.00", [{"qos": "*", "factor": "0"}, {"label:a.b/tier": "*", "factor": "0.5"}], id="it decides"),
        pytest.param("0.01", [{"queue": "*", "factor": "0.0009"}], id="four decimals"),
    ],
)
def test_a_run_pays_less_by_its_words(worded: tuple[World, State, Window], expected: str, discounts: Any) -> None:
    world, state, window = worded

    found = bill(world, state, made(discounts=discounts), window)
    assert Decimal(expected) == found[("a", "allocated", None)]
    assert Decimal("96.00") == sum(found.values())


def test_a_run_is_preemptible_where_its_qos_says_how(day: tuple[World, State, Window]) -> None:
    world, state, window = day
    row = "insert into queue (cluster, kind, name, preemption) values ('c1', 'qos', 'low', $mode)"
    for mode, expected in (("off", "6.00"), ("requeue", "3.00")):
        world.store.sql("delete from queue")
        world.store.sql(row, mode=f'{{"mode": "{mode}"}}')
        found = bill(world, state, made(discounts=[{"preemptible": True, "factor": "0.5"}]), window)
        assert Decimal(expected) == found[("a", "allocated", None)]
    world.store.sql("delete from queue")


def with_another_cluster(world: World, hours: list[int]) -> World:
    """And cluster c2: one GPU that nobody holds, known for these hours of the day."""
    moved = {
        "device": "",
        "capacity": "where start_us = $a",
        "segment": "where start_us = $a and run_id is null",
        "ledger_hour": "where hour_us in (select unnest($hours::bigint[])) and run_id is null",
    }
    (free,) = world.store.sql("select device_id from device where gpu = 'GPU-2'")[0]
    for table, where in moved.items():
        assert table.isidentifier()
        names = [row[0] for row in world.store.sql("select name from pragma_table_info($t)", t=table)]
        change = {"cluster": "'c2'", "device_id": "device_id + 1", "pool": "null"}
        words = ", ".join(change.get(name, name) for name in names)
        text = f"insert into {table} select {words} from {table} {where or 'where true'} and device_id = $d"
        used = {
            name: value
            for name, value in (("a", us(0)), ("hours", [us(h * HOUR) for h in hours]))
            if f"${name}" in text
        }
        world.store.sql(text, d=free, **used)
    spans = [(min(hours), max(hours) + 1)] if len(hours) == max(hours) - min(hours) + 1 else [(h, h + 1) for h in hours]
    for table in ("capacity", "segment"):
        first = world.store.sql(f"select * from {table} where cluster = 'c2'")
        names = [row[0] for row in world.store.sql("select name from pragma_table_info($t)", t=table)]
        world.store.sql(f"delete from {table} where cluster = 'c2'")
        for start, end in spans:
            row = dict(zip(names, first[0], strict=True)) | {"start_us": us(start * HOUR), "end_us": us(end * HOUR)}
            world.store.sql(f"insert into {table} by name select {', '.join(f'${n} as {n}' for n in names)}", **row)
    return world


@pytest.mark.parametrize(
    ("expected", "hours"),
    [
        pytest.param("6.00", list(range(12)), id="half a day is known: half of the quota"),
        pytest.param("4.00", [0, 1, 22, 23], id="a gap is known too, but no more is paid than is free"),
        pytest.param("1.00", [0, 1], id="two hours"),
    ],
)
def test_a_quota_is_for_as_much_of_a_day_as_the_books_know(expected: str, hours: list[int]) -> None:
    """Half a GPU of a cluster without pools; another cluster is known all day."""
    world, _, window = two_teams()
    state = stated(with_another_cluster(world, hours), [Rate("*", "owned", Decimal(1), us(-DAY))], rules("a", "b"))
    found = made(payers={"idle": "quota_holder"}, quotas=[{"team": "a", "gpus": "0.5", "cluster": "c2"}])

    result = bill(world, state, found, window, "team", "cluster")
    assert Decimal(expected) == result[("a", "c2", "shared", None)]
    halves = [exact(world, found, Window(us(a * HOUR), us(b * HOUR)), "team", "cluster") for a, b in ((0, 5), (5, 24))]
    assert added(exact(world, found, window, "team", "cluster")) == added(*halves)


def test_prices_of_many_decimals_leave_room_for_large_fleets() -> None:
    """Amounts have as many decimals as prices and policies need together, and at least ten."""
    world, state, window = two_teams("2.163466894977")
    places = []
    for fields in ({"preset": "share-idle"}, {"basis": {"allocated": "0.25", "used": "0.75"}}, DISCOUNTED):
        with working_tables(world.store):
            scale, _ = policy_charges.fill_charges(world.store, made(**fields), window, ("team",), None, None, None)
        places.append(scale.places)
        found = bill(world, state, made(**fields), window)
        assert Decimal("207.69") == sum(found.values())
    assert [12, 14, 13] == places
    # 10,000 GPUs for a month, in 56ths of a GPU: below 2^126.
    assert 10_000 * 30 * DAY_US * 56 * 2163466894977 * 100 < AMOUNT_MAX


def test_shared_costs_that_do_not_fit_are_reported() -> None:
    world, state, window = two_teams()
    large = {"amount": "9999999999.999999999999", "per": "hour", "currency": "USD", "split": "even"}
    fits = bill(world, state, made(shared=[large | {"name": "net"}]), window)
    assert Decimal("120000000000.00") == fits[("a", "shared", "net")]

    with pytest.raises(UsageError, match="shared costs are too large"):
        many = [large | {"name": f"net {n}"} for n in range(1000)]
        world.store.sql("update device_price set usd_per_gpu_hour = '0.000000000001'")  # the most decimals
        bill(world, state, made(shared=many, discounts=[{"qos": "*", "factor": "0.0001"}]), window)


# It closes, whatever the policy.


@pytest.mark.parametrize("seed", range(3))
def test_charges_and_platform_are_rates_times_capacity(seed: int) -> None:
    """Per day, model and currency exactly; and to the cent as it is published."""
    world, state, _ = drawn(seed % 2)
    rng = random.Random(seed)
    found = random_policies(rng)
    for day_us in range(T0_US, T0_US + 3 * DAY_US, DAY_US):
        span = Window(day_us, day_us + DAY_US)
        base = exact(world, Policies(), span, "gpu_model")
        assert by_words(base, at=1) == by_words(exact(world, found, span, "gpu_model"), at=1)
    window = Window(*cuts(rng)[::2])
    plain = chargeback.chargeback(world.store, state, window, ("gpu_model", "team"))
    moved = chargeback.chargeback(world.store, state, window, ("gpu_model", "team"), policy=found)
    external = sum((c.cost or 0 for c in moved.items if c.kind == "shared" and c.cause), Decimal(0))
    for currency in {c.currency for c in plain.items if c.cost is not None}:
        paid = [sum((c.cost or 0 for c in a.items if c.currency == currency), Decimal(0)) for a in (plain, moved)]
        assert paid[0] == paid[1] - (external if currency == "USD" else 0)
    assert plain.gpu_seconds == moved.gpu_seconds


@pytest.mark.parametrize("seed", range(3))
def test_the_parts_of_a_window_pay_what_the_whole_pays(seed: int) -> None:
    world, _, _ = drawn(seed % 2)
    rng = random.Random(seed)
    found = random_policies(rng)
    a, b, c = cuts(rng)
    if a == b or b == c:
        return

    by = rng.choice((("team", "cause"), ("team", "job", "gpu_model")))
    parts = [exact(world, found, Window(*span), *by) for span in ((a, b), (b, c))]
    assert added(exact(world, found, Window(a, c), *by)) == added(*parts)


@pytest.mark.parametrize(("number", "team"), [(0, "a"), (1, "__platform__")])
def test_a_filter_changes_no_number(number: int, team: str) -> None:
    world, state, rng = drawn(number)
    found = random_policies(rng)
    window = Window(T0_US, T0_US + 3 * DAY_US)
    for by in (("team", "cause"), ("team", "job")):
        whole = chargeback.chargeback(world.store, state, window, by, policy=found)
        own = chargeback.chargeback(world.store, state, window, by, policy=found, teams=[team])
        assert exactly(c for c in whole.items if c.group["team"] == team) == exactly(own.items)


def test_the_order_of_the_input_changes_nothing() -> None:
    world, state, rng = drawn(0)
    found = random_policies(rng)
    window = Window(T0_US, T0_US + 2 * DAY_US + HOUR)
    before = chargeback.chargeback(world.store, state, window, ("team", "cause", "job"), policy=found)
    for table in ("segment", "ledger_hour", "device_minute", "run", "run_team", "book_day", "team_day"):
        world.store.sql(f"create or replace temp table mixed as select * from {table} t order by hash(t)")
        world.store.sql(f"delete from {table}")
        world.store.sql(f"insert into {table} select * from mixed")
        world.store.sql("drop table mixed")

    assert before == chargeback.chargeback(world.store, state, window, ("team", "cause", "job"), policy=found)
