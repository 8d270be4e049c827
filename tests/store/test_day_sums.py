"""Sums of whole days by words, slices and teams: they say what segments and hours say, and are made anew when those change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuwatch.billing import chargeback, records
from gpuwatch.core.clock import Window
from gpuwatch.jobs.loss_parts import BY_KIND, kinds_of
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.store.day_sums import roll
from tests.billing.test_cost_days import days, drawn, rate, rules, stated, windows
from tests.worlds.world import CLUSTER, HOUR, Gpu, World, claim, minutes, samples, us

DAY = 24 * HOUR
DIMENSIONS = (
    *((name,) for name in chargeback.CHARGE_DIMENSIONS),
    ("slice", "team", "gpu_model"),
    ("slice", "namespace", "cause"),
    ("user", "mig_profile", "pool"),
    ("account", "queue", "team"),
    ("job", "slice"),
)
SOME = (*DIMENSIONS[::6], *DIMENSIONS[-2:])
SUMS = ("word_day", "slice_day", "team_day")
BUCKETS = ("charged", "schedulable", "stranded", "unobserved", "hoarded", "gap", "below_roof", "compute")


def sums_by(world: World, state: State, window: Window, by: tuple[str, ...]) -> list[Any]:
    """Charges and books by some dimensions, and what one team sees of them."""
    found: list[Any] = [chargeback.chargeback(world.store, state, window, by)]
    found.append(chargeback.chargeback(world.store, state, window, by, teams=["a"]))
    if chargeback.CHARGE_DIMENSIONS[-1] not in by:
        found.append(chargeback.ledger(world.store, state, window, by))
    return found


def from_segments(world: World, state: State, window: Window, by: tuple[str, ...]) -> list[Any]:
    """The same where no day is rolled."""
    rolled = world.store.sql("select cluster, day_us from rolled_day")
    world.store.sql("delete from rolled_day")
    found = sums_by(world, state, window, by)
    for cluster, day_us in rolled:
        world.store.sql("insert into rolled_day values ($c, $d)", c=cluster, d=day_us)
    return found


def sums(store: Store, table: str) -> list[tuple[Any, ...]]:
    """Microseconds of a table by day, class and share."""
    columns = ", ".join(f"sum({bucket}_us)::bigint" for bucket in BUCKETS)
    return store.sql(
        f"select day_us, class_id, share_num, share_den, {columns} from {table} group by 1, 2, 3, 4 order by all"
    )


def by_queue(world: World, state: State) -> dict[str | None, int]:
    """Held seconds of the first day by queue."""
    window = Window(us(0), us(DAY))
    charges = chargeback.chargeback(world.store, state, window, ["queue"]).items
    assert sums_by(world, state, window, ("queue",)) == from_segments(world, state, window, ("queue",))
    return {charge.group["queue"]: int(charge.gpu_seconds) for charge in charges if charge.kind == "allocated"}


# What changes a sum.


def test_a_run_whose_queue_is_corrected_moves_its_day() -> None:
    world = World().add(samples(Gpu(), minutes(0, HOUR), job="1"), samples(Gpu(), minutes(DAY, DAY + HOUR)))
    world.add(claim("1", 0, HOUR, gpus="GPU-a", queue="long", evidence=HOUR)).book()
    state = stated(world, [rate("2", 0)], [])
    assert {"long": HOUR} == by_queue(world, state)
    assert [0, 1] == days(world.store)

    world.add(claim("1", 0, HOUR, gpus="GPU-a", queue="short", evidence=2 * HOUR)).book()
    assert [1] == days(world.store)
    assert {"short": HOUR} == by_queue(world, state)
    chargeback.price_all(world.store, state)
    assert [0, 1] == days(world.store)
    assert {"short": HOUR} == by_queue(world, state)


def test_runs_of_the_same_words_are_one_row_until_a_rule_parts_them() -> None:
    world = World().add(*(samples(Gpu(), minutes(n * HOUR, (n + 1) * HOUR), job=str(n)) for n in range(3)))
    world.add(*(claim(str(n), n * HOUR, (n + 1) * HOUR, gpus="GPU-a", queue="q", user_name="u") for n in range(3)))
    state = stated(world.book(), [rate("2", 0)], [])
    count = "select count(*) from word_day where run_id is not null"
    assert [(1,)] == world.store.sql(count)

    world.add(
        claim("1", HOUR, 2 * HOUR, gpus="GPU-a", queue="q", user_name="u", labels='{"team": "x"}', evidence=DAY)
    ).book()
    replace_team_rules(state, [TeamRule("label:team", "x", "x")], "test", "test", 1)
    chargeback.price_all(world.store, state)
    assert [(2,)] == world.store.sql(count)
    found = chargeback.chargeback(world.store, state, Window(us(0), us(DAY)), ["team", "queue"]).items
    assert {("x", HOUR), ("__unallocated__", 2 * HOUR)} == {
        (c.group["team"], int(c.gpu_seconds)) for c in found if c.kind == "allocated"
    }


def test_a_store_of_before_is_rolled_again_when_it_is_upgraded(tmp_path: Path) -> None:
    world, state, rng = drawn(1)
    window = windows(rng)[1]
    before = [sums_by(world, state, window, by) for by in SOME]
    store = world.store
    tables = [name for (name,) in store.sql("select table_name from duckdb_tables() where not temporary order by 1")]
    store.sql(f"attach '{tmp_path / 'gpuwatch.duckdb'}' as old")
    for table in tables:
        store.sql(f"create table old.{table} as from {table}")
    store.sql("alter table old.book_day drop column device_id")
    for table in (*SUMS[:2], "day_stamp"):
        store.sql(f"drop table old.{table}")
    store.sql("delete from old.schema_migration where version in (8, 9)")
    store.sql("detach old")

    with Store.open(tmp_path) as opened:
        upgraded = World()
        upgraded.store.close()
        upgraded.store = opened
        assert [] == days(opened)
        assert before == [sums_by(upgraded, state, window, by) for by in SOME]
        chargeback.price_all(opened, state)
        assert days(store) == days(opened)
        assert before == [sums_by(upgraded, state, window, by) for by in SOME]
        assert [sums(store, table) for table in SUMS] == [sums(opened, table) for table in SUMS]


# What they say.


def test_every_dimension_is_reported_alike_by_days_and_by_segments() -> None:
    world, state, rng = drawn(0)
    assert days(world.store)
    window = windows(rng)[1]
    for by in DIMENSIONS:
        assert from_segments(world, state, window, by) == sums_by(world, state, window, by)


@pytest.mark.parametrize(("number", "by"), [(0, ("account", "queue", "team")), (1, ("slice", "namespace", "cause"))])
def test_late_samples_rates_and_rules_reach_every_sum(number: int, by: tuple[str, ...]) -> None:
    world, state, rng = drawn(number)
    window = windows(rng)[0]
    world.add(samples(Gpu("GPU-late", index=7), minutes(DAY - HOUR, DAY + HOUR))).book()
    assert from_segments(world, state, window, by) == sums_by(world, state, window, by)
    chargeback.price_all(world.store, state)
    assert from_segments(world, state, window, by) == sums_by(world, state, window, by)
    replace_rates(state, [rate("3.5", -DAY, DAY), rate("5.25", DAY)], "test", "test", 1)
    replace_team_rules(state, [*rules("b"), TeamRule("queue", "q1", "a")], "test", "test", 1)
    chargeback.price_all(world.store, state)
    assert from_segments(world, state, window, by) == sums_by(world, state, window, by)
    whole = sums(world.store, "book_day")
    for table in SUMS:
        assert whole == sums(world.store, table)


@pytest.mark.parametrize("number", [0, 1])
def test_kinds_of_work_are_reported_alike_by_days_and_by_hours(number: int) -> None:
    """Runs of the same team and words are of two kinds of work; even numbers have two currencies, odd ones time without a price."""
    world, _, rng = drawn(number)
    store = world.store
    store.sql("update run set name = case when run_id % 2 = 0 then 'bash' end")
    store.sql("delete from rolled_day")
    roll(store, CLUSTER)
    pools = [None, *(pool for (pool,) in store.sql("select distinct pool from class_price where pool is not null"))]

    def kinds() -> list[Any]:
        return [
            kinds_of(store, window, bucket, cluster, pool, teams)
            for window in spans
            for bucket in BY_KIND
            for cluster, pool, teams in [(None, pools[-1], None), (CLUSTER, None, None), (None, None, ["a"])]
        ]

    spans = windows(rng)
    by_day = kinds()
    store.sql("delete from rolled_day")
    assert by_day == kinds()
    assert {"batch", "session"} == {row["kind"] for rows in by_day for row in rows}
    assert (number == 0) == any(row["value"] is not None for rows in by_day for row in rows)


def test_a_rule_for_the_same_team_ends_the_mark_of_its_day() -> None:
    """Team and words stay: only whether a rule decides them changes. The other job of these words stays inferred."""
    world = World().add(*(samples(Gpu(), minutes(n * HOUR, (n + 1) * HOUR), job=str(n)) for n in range(2)))
    labels = [None, '{"team": "lab"}']
    world.add(
        *(claim(str(n), n * HOUR, (n + 1) * HOUR, gpus="GPU-a", account="lab", labels=labels[n]) for n in range(2))
    )
    state = stated(world.add(samples(Gpu(), minutes(DAY, DAY + HOUR))).book(), [rate("2", 0)], [])
    day = Window(us(0), us(DAY))

    def marks(*by: str) -> list[tuple[bool, bool]]:
        charges = chargeback.chargeback(world.store, state, day, ["team", *by], closed=False).items
        books = chargeback.ledger(world.store, state, day, ["team", *by]).items
        found = [sorted({tuple(row.mark) for row in rows if row.group["team"] == "lab"}) for rows in (charges, books)]
        assert found[0] == found[1]
        return found[0]

    assert [0, 1] == days(world.store)
    assert [(True, False)] == marks() == marks("account")
    assert [(True, False)] == marks("job")
    replace_team_rules(state, [TeamRule("label:team", "lab", "lab")], "test", "test", 1)
    chargeback.price_all(world.store, state)
    assert [0, 1] == days(world.store)
    assert [(True, True)] == marks() == marks("account")
    assert [(False, False), (True, False)] == marks("job")
    replace_team_rules(state, [TeamRule("account", "lab", "lab")], "test", "test", 2)
    chargeback.price_all(world.store, state)
    assert [(False, False)] == marks() == marks("account") == marks("job")


def test_a_job_that_becomes_a_session_moves_its_day() -> None:
    """Its team and words stay; only its name says what it is."""
    world = World().add(samples(Gpu(), minutes(0, HOUR), job="1"), samples(Gpu(), minutes(DAY, DAY + HOUR)))
    world.add(claim("1", 0, HOUR, gpus="GPU-a", name="train", evidence=HOUR)).book()
    state = stated(world, [rate("2", 0)], [])
    assert [0, 1] == days(world.store)

    world.add(claim("1", 0, HOUR, gpus="GPU-a", name="wrap", evidence=2 * HOUR)).book()
    assert [1] == days(world.store)
    chargeback.price_all(world.store, state)
    assert [0, 1] == days(world.store)


# What was asked before.


def test_an_answer_is_given_again_until_something_changes_that_it_follows_from() -> None:
    world = World().add(samples(Gpu(), minutes(0, DAY), job="1"), claim("1", 0, DAY, account="acct-a", gpus="GPU-a"))
    state = stated(world.book(), [rate("2", 0)], rules("a"))
    window, by = Window(us(0), us(DAY)), ("team",)

    def ask(**where: Any) -> records.Chargeback:
        return chargeback.chargeback(world.store, state, where.pop("window", window), by, closed=False, **where)

    first = ask()
    assert first is ask()
    assert first is not ask(teams=["a"])
    assert ["48.00"] == [f"{c.cost}" for c in ask().items]

    replace_rates(state, [rate("3", 0)], "test", "test", 1)
    chargeback.price_all(world.store, state)
    assert ["72.00"] == [f"{c.cost}" for c in ask().items]
    replace_team_rules(state, [TeamRule("account", "acct-a", "other")], "test", "test", 1)
    chargeback.price_all(world.store, state)
    assert ["other"] == [c.group["team"] for c in ask().items]

    world.add(samples(Gpu("GPU-b", index=1), minutes(0, HOUR))).attribute()
    assert 2 * DAY == int(ask().gpu_seconds)
    world.book()
    assert 2 * DAY == int(ask().gpu_seconds)
    chargeback.price_all(world.store, state)
    assert 2 * DAY == int(ask().gpu_seconds)
    assert ask() is ask()


def test_what_whole_days_do_not_tell_is_not_given_again() -> None:
    world = World().add(samples(Gpu(), minutes(0, DAY)))
    state = stated(world.book(), [rate("2", 0)], [])
    for window in (Window(us(0), us(DAY + 1)), Window(us(1), us(DAY)), Window(us(-DAY), us(DAY))):
        asked = [chargeback.chargeback(world.store, state, window, closed=False) for _ in range(2)]
        assert asked[0] is not asked[1]
        assert asked[0] == asked[1]
