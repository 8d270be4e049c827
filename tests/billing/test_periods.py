"""Periods over books: refused where books are not done, conserved whatever comes later, told from what was frozen."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.billing import chargeback, records
from gpuwatch.billing.periods import close as periods_close
from gpuwatch.billing.periods.billed import CORRECTIONS_FROM, corrected, corrections_in, frozen_answer
from gpuwatch.billing.periods.corrections.repository import Corrections
from gpuwatch.billing.periods.frozen import NOTHING, WORDS, by_key, cents_by_currency, differences, digest_of, sums_of
from gpuwatch.billing.periods.repository import PeriodConflict, Periods
from gpuwatch.core.clock import Window
from gpuwatch.core.errors import StoreError, UsageError
from gpuwatch.policy.inferred import INFER, NONE
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.parse import parse
from gpuwatch.policy.policy import as_dict
from gpuwatch.policy.repository import replace_team_rules, set_ownership_default
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import FILE, State
from gpuwatch.state.versioned_lists import VersionedLists
from tests.worlds.steady import DEPTH
from tests.worlds.templates import computed_once
from tests.worlds.world import H100, HOUR, IDLE, Gpu, World, claim, minutes, samples, us

pytestmark = pytest.mark.both_engines

WEEK = "2026-W45"
DAY = 24 * HOUR
WINDOW = Window(us(0), us(7 * DAY))
NOW = us(8 * DAY)
BYS = (("team",), ("job",), (), ("user", "mig_profile"), ("gpu_model", "cluster", "pool"), WORDS)


def rate(price: str, profile: str | None = None, currency: str = "USD", model: str = H100) -> Rate:
    return Rate(model, "owned", Decimal(price), us(-HOUR), None, None, None, profile, currency)


def rules(**teams: str) -> list[TeamRule]:
    return [TeamRule("account", account, team) for account, team in teams.items()]


@computed_once
def two_hours() -> World:
    """Two GPUs and two MIG slices for two hours: accounts a and b hold one GPU and one slice."""
    slices = [Gpu("GPU-m", "n3", 0, gi, "1g.10gb") for gi in (3, 4)]
    rows: list[Any] = [samples(Gpu(f"GPU-{n}", f"n{n}"), minutes(0, 2 * HOUR), IDLE) for n in (1, 2)]
    rows += [samples(gpu, minutes(0, HOUR + 420)) for gpu in slices]
    claims = [
        claim("1", 0, HOUR, "n1", gpus="GPU-1", account="a", user_name="ann"),
        claim("2", HOUR / 2, 2 * HOUR, "n2", gpus="GPU-2", account="b", user_name="bob"),
        claim("3", 0, HOUR + 7, "n3", gpus="GPU-m/GI-3", profile="1g.10gb", account="a", user_name="ann"),
    ]
    return World().add(*rows, *claims).book()


@contextmanager
def books(path: Path, *rates: Rate) -> Iterator[tuple[World, State]]:
    """The two hours at these rates, with accounts a and b owned by teams."""
    world = two_hours()
    with State.open(path) as state:
        replace_rates(state, list(rates or (rate("2.49"),)), "test", "test", 0)
        replace_team_rules(state, rules(a="red", b="blue"), "test", "test", 0)
        chargeback.price_all(world.store, state)
        yield world, state


def close(world: World, state: State, at_us: int = NOW, name: str = WEEK) -> periods_close.Closing:
    return periods_close.close(world.store, state, name, "ada", at_us, force=True)


def repriced(world: World, state: State, *rates: Rate) -> None:
    replace_rates(state, list(rates), "test", "test", 1)
    chargeback.price_all(world.store, state)


def live(world: World, state: State) -> records.Chargeback:
    return periods_close._live(world.store, state, WINDOW, periods_close.FINE)


def assert_conserved(world: World, state: State) -> None:
    """Frozen rows and all corrections of the week are what the books say: by row exactly, by currency in cents."""
    now = live(world, state)
    current = by_key(periods_close._row(charge) for charge in now.items)
    found = Periods(state).get(WEEK)
    assert found is not None
    listed = Periods(state).rows(found)
    lines = Corrections(state).of(WEEK)
    known = by_key(listed["rows"])
    for key, amounts in sums_of(lines).items():
        known[key] = known.get(key, NOTHING).plus(amounts)
    frozen = cents_by_currency([(row["currency"], row["cost"]) for row in listed["published"]])
    for currency, cents in cents_by_currency([(line.currency, line.cost) for line in lines]).items():
        frozen[currency] = frozen.get(currency, 0) + cents

    assert {} == differences(known, current)
    assert cents_by_currency([(c.currency, c.cost) for c in now.items]) == {k: v for k, v in frozen.items() if v}


# What must not happen.


def test_a_week_that_is_not_over_is_not_closed(tmp_path: Path) -> None:
    with books(tmp_path) as (world, state), pytest.raises(PeriodConflict, match="not over before 2026-11-09"):
        close(world, state, us(7 * DAY) - 1)


def test_days_without_books_are_named(tmp_path: Path) -> None:
    with books(tmp_path) as (world, state), pytest.raises(PeriodConflict, match="7 of its days: 2026-11-02, .*force"):
        periods_close.close(world.store, state, WEEK, "ada", NOW)


def test_time_without_a_price_is_named(tmp_path: Path) -> None:
    """The rate that lacks, and that force closes it all the same."""
    with books(tmp_path, rate("2", model="A100")) as (world, state):
        # Every day has books where the test says so: only the price is looked at.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(periods_close, "_check", lambda *_: [])
            with pytest.raises(PeriodConflict, match="GPU-seconds have no price: no rate for model 'NVIDIA H100"):
                periods_close.close(world.store, state, WEEK, "ada", NOW)
        closed = close(world, state)
        repriced(world, state, rate("2"))
        periods_close.find_corrections(world.store, state, NOW)
        lines = Corrections(state).of(WEEK)

        gone = sum((line.gpu_seconds for line in lines if line.currency is None), Decimal(0))
        assert Decimal(closed.context["unpriced_gpu_seconds"]) == -round(gone, 6)
        assert_conserved(world, state)


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        pytest.param("insert into dirty_hour (cluster, hour_us) values ('c1', $at)", "1 of its hours", id="dirty hour"),
        pytest.param(
            "update ledger_hour set schedulable_us = schedulable_us + 1 where hour_us = $at",
            "does not close: GPU GPU-",
            id="a microsecond too much",
        ),
    ],
)
def test_books_that_are_not_done_are_not_frozen(tmp_path: Path, broken: str, expected: str) -> None:
    """Not by force either."""
    with books(tmp_path) as (world, state):
        world.store.sql(broken, at=us(0))
        with pytest.raises(PeriodConflict, match=expected):
            close(world, state)
        assert [] == Periods(state).names()


def test_samples_that_came_meanwhile_are_not_booked(tmp_path: Path) -> None:
    """They lie in the tail: the week waits for the analysis."""
    with books(tmp_path) as (world, state):
        world.add(samples(Gpu("GPU-9", "n9"), minutes(0, HOUR)))
        with pytest.raises(PeriodConflict, match="1 of its hours are not in the ledger yet"):
            close(world, state)


def test_a_period_that_touches_a_closed_one_is_refused(tmp_path: Path) -> None:
    with books(tmp_path) as (world, state):
        close(world, state)
        with pytest.raises(PeriodConflict, match="is closed already"):
            close(world, state)
        with pytest.raises(PeriodConflict, match="overlaps 2026-W45"):
            close(world, state, us(40 * DAY), "2026-11")


def test_rates_that_change_while_it_is_closed_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is frozen is of one version."""
    with books(tmp_path) as (world, state):
        context = periods_close.summary

        def late(*rows: Any) -> Any:
            replace_rates(state, [rate("9")], "eve", "test", 2)
            return context(*rows)

        monkeypatch.setattr(periods_close, "summary", late)
        with pytest.raises(PeriodConflict, match="changed meanwhile; close it again"):
            close(world, state)
        assert [] == Periods(state).names()


def test_nothing_changed_is_nothing_corrected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the second look reads numbers only."""
    with books(tmp_path) as (world, state):
        close(world, state)
        assert 0 == periods_close.find_corrections(world.store, state, NOW)
        monkeypatch.setattr(periods_close, "_live", None)
        assert 0 == periods_close.find_corrections(world.store, state, NOW)


def test_a_period_with_hours_that_wait_waits_too(tmp_path: Path) -> None:
    with books(tmp_path) as (world, state):
        close(world, state)
        repriced(world, state, rate("5"))
        world.store.sql("insert into dirty_hour (cluster, hour_us) values ('c1', $at)", at=us(0))
        assert 0 == periods_close.find_corrections(world.store, state, NOW)
        world.store.sql("delete from dirty_hour")
        assert 0 < periods_close.find_corrections(world.store, state, NOW)


# What a closing says.


def test_a_closed_window_is_reported_as_it_was(tmp_path: Path) -> None:
    """At the closing the same numbers as the books; later still those, whatever the books say."""
    with books(tmp_path, rate("2.4912345"), rate("1.1", "1g.10gb")) as (world, state):
        live_bills = {by: chargeback.chargeback(world.store, state, WINDOW, by) for by in BYS}
        close(world, state)
        repriced(world, state, rate("7"))
        frozen_bills = {by: frozen_answer(state, WINDOW, by) for by in BYS}

    for by, before in live_bills.items():
        after = frozen_bills[by]
        assert after is not None, by
        assert (before.cost, before.gpu_seconds, before.currency) == (after.cost, after.gpu_seconds, after.currency)
        assert [c.group for c in before.items] == [c.group for c in after.items]
        assert [c.cost for c in before.items] == [c.cost for c in after.items]
        assert [c.gpu_seconds for c in before.items] == pytest.approx(
            [c.gpu_seconds for c in after.items], abs=Decimal("0.000001")
        )


def test_slices_and_other_windows_come_from_the_ledger(tmp_path: Path) -> None:
    with books(tmp_path) as (world, state):
        close(world, state)
        day = Window(us(0), us(DAY))

        assert [None] * 2 == [frozen_answer(state, WINDOW, ("slice",)), frozen_answer(state, day, ("team",))]


def test_a_filter_tells_the_same_numbers(tmp_path: Path) -> None:
    """A team's rows are those that it has among all; totals are sums of the rows told."""
    with books(tmp_path) as (world, state):
        close(world, state)
        whole, red = (frozen_answer(state, WINDOW, ("job", "team"), teams=teams) for teams in (None, ["red"]))
        pages = [frozen_answer(state, WINDOW, ("job", "team"), limit=2, offset=n) for n in (0, 2)]

    assert whole is not None
    assert red is not None
    mine = tuple(c for c in whole.items if c.group["team"] == "red")
    assert (mine, sum(c.cost or 0 for c in mine)) == (red.items, red.cost)
    assert whole.items == tuple(c for page in pages if page is not None for c in page.items)
    assert [2, None] == [None if page is None else page.next_offset for page in pages]


def test_a_correction_is_billed_when_it_is_found(tmp_path: Path) -> None:
    """In the first window that is open: a row of its own, in the totals, behind the last page."""
    with books(tmp_path) as (world, state):
        close(world, state)
        repriced(world, state, rate("4.98"))
        periods_close.find_corrections(world.store, state, NOW)
        week = Window(us(7 * DAY), us(14 * DAY))
        answer = chargeback.chargeback(world.store, state, week)
        empty = chargeback.chargeback(world.store, state, week, limit=1, closed=False)
        page = corrected(state, empty, limit=1)
        following = corrected(state, empty, limit=1, offset=page.next_offset or 0)
        old = frozen_answer(state, WINDOW, ("team",))

        assert old is not None
        assert [old.cost, "correction"] == [answer.cost, *{c.kind for c in answer.items}]
        assert {"red", "blue", "__platform__"} == {c.group["team"] for c in answer.items}
        assert ["red"] == [c.group["team"] for c in corrections_in(state, week, ("team",), ["red"])]
        assert (1, CORRECTIONS_FROM + 1, answer.cost) == (len(page.items), page.next_offset, page.cost)
        assert answer.items[:2] == (*page.items, *following.items)


def test_windows_add_up_to_the_books(tmp_path: Path) -> None:
    """What is billed later is not billed twice: a window that holds the period leaves it out, one that holds both has it."""
    with books(tmp_path) as (world, state):
        before = chargeback.chargeback(world.store, state, WINDOW).cost
        close(world, state)
        repriced(world, state, rate("4.98"))
        periods_close.find_corrections(world.store, state, NOW)
        spans = [(-9, 9), (-9, 7), (0, 7), (7, 9), (7, 8), (8, 9)]
        by_name = {
            (a, b): chargeback.chargeback(world.store, state, Window(us(a * DAY), us(b * DAY))).cost for a, b in spans
        }
        by_slice = chargeback.chargeback(world.store, state, WINDOW, ("slice",))
        Periods(state).reopen(WEEK, "ada", "rates", us(9 * DAY))
        opened = chargeback.chargeback(world.store, state, Window(us(-9 * DAY), us(10 * DAY)))

    assert before is not None
    zero = Decimal(0)
    # The first window that is open begins at NOW, the eighth day.
    assert {
        (-9, 9): 2 * before,
        (-9, 7): before,
        (0, 7): before,
        (7, 9): before,
        (7, 8): zero,
        (8, 9): before,
    } == by_name
    assert (before, 2 * before) == (by_slice.cost, opened.cost)


def test_a_correction_is_never_of_a_closed_period(tmp_path: Path) -> None:
    """A clock that was set back finds every instant closed up to the end of the last week."""
    with books(tmp_path) as (world, state):
        close(world, state)
        close(world, state, us(15 * DAY), "2026-W46")
        repriced(world, state, rate("3"))
        assert 0 < periods_close.find_corrections(world.store, state, us(3 * DAY))
        assert {us(14 * DAY)} == {line.posted_us for line in Corrections(state).of(WEEK)}


def test_a_policy_that_changes_is_a_correction(tmp_path: Path) -> None:
    """Also of money that no device costs."""
    with books(tmp_path) as (world, state):
        close(world, state)
        other_policies(world, state, random.Random(1))
        assert 0 < periods_close.find_corrections(world.store, state, NOW)
        lines = Corrections(state).of(WEEK)

        assert {"policies version 1"} == {line.why for line in lines}
        assert "net" in {line.words["cause"] for line in lines}
        assert_conserved(world, state)


# What is kept, whatever happens.


def late_data(world: World, state: State, rng: random.Random) -> None:
    start = rng.randrange(0, 3 * HOUR, 60)
    gpu = Gpu(f"GPU-{rng.randrange(1, 6)}", f"n{rng.randrange(1, 6)}")
    world.add(samples(replace(gpu, node=f"n{gpu.uuid[-1]}"), minutes(start, start + 600)))


def late_claim(world: World, state: State, rng: random.Random) -> None:
    number = rng.randrange(1, 4)
    start = rng.randrange(2 * HOUR)
    words = {"gpus": f"GPU-{number}", "account": rng.choice("abc"), "user_name": rng.choice(("ann", "bob"))}
    world.add(claim(f"late{rng.random()}", start, start + rng.randrange(1, HOUR), f"n{number}", **words))


def other_rates(world: World, state: State, rng: random.Random) -> None:
    chosen = [rate(f"{rng.randrange(1, 10**6) / 10**5:.5f}")]
    if rng.random() < 0.5:
        chosen.append(rate("0.7", "1g.10gb", rng.choice(("USD", "EUR"))))
    replace_rates(state, chosen if rng.random() < 0.8 else [rate("1", model="A100")], "test", "test", 3)


def other_teams(world: World, state: State, rng: random.Random) -> None:
    replace_team_rules(state, rules(a=rng.choice("xyz"), b=rng.choice("xyz")), "test", "test", 3)


def other_policies(world: World, state: State, rng: random.Random) -> None:
    """Who pays idle time, and a cost that no device has; then neither any more."""
    found = {
        "name": "p",
        "valid_from": "2026-11-02",
        "payers": {"idle": rng.choice(("platform", "even")), "out_of_service": "platform"},
        "shared": [
            {"name": "net", "amount": f"{rng.randrange(1, 999)}.01", "per": "day", "currency": "USD", "split": "even"}
        ],
    }
    rows = [as_dict(item) for item in parse({"policies": [found]})]
    VersionedLists(state).replace("policies", [] if VersionedLists(state).rows("policies") else rows, "test", "test", 3)


def reopen(world: World, state: State, rng: random.Random) -> None:
    if Periods(state).get(WEEK) is not None:
        Periods(state).reopen(WEEK, "ada", "checked again", NOW + rng.randrange(1000))


STEPS: tuple[Callable[[World, State, random.Random], None], ...] = (
    late_data,
    late_claim,
    other_rates,
    other_teams,
    other_policies,
    reopen,
)


@pytest.mark.sqlite_only
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2 * DEPTH))
def test_frozen_and_corrections_are_the_books(tmp_path: Path, seed: int) -> None:
    """Late data, other owners, other prices, opened and closed again, in any order; nothing is posted twice."""
    rng = random.Random(seed)
    with books(tmp_path) as (world, state):
        close(world, state)
        for step in rng.sample(STEPS, 5):
            step(world, state, rng)
            world.book()
            chargeback.price_all(world.store, state)
            if Periods(state).get(WEEK) is None:
                assert {} == {k: a for k, a in sums_of(Corrections(state).of(WEEK)).items() if a.gpu_seconds or a.cost}
                close(world, state)
            periods_close.find_corrections(world.store, state, NOW + rng.randrange(1000))
            assert_conserved(world, state)
            assert 0 == periods_close.find_corrections(world.store, state, NOW)
        for one in Periods(state).history(WEEK):
            assert one.digest == digest_of(Periods(state).content(WEEK, one.number))


def test_opening_again_leaves_a_trail(tmp_path: Path) -> None:
    with books(tmp_path) as (world, state):
        first = close(world, state)
        Periods(state).sign(WEEK, "Ada", "agreed", "cli", NOW)
        repriced(world, state, rate("3"))
        periods_close.find_corrections(world.store, state, NOW)
        with pytest.raises(UsageError, match="reason: say one"):
            Periods(state).reopen(WEEK, "bob", " ", NOW)
        Periods(state).reopen(WEEK, "bob", "wrong rate", NOW + 1)
        assert [] == corrections_in(state, Window(NOW, NOW + 9), ("team",))
        assert frozen_answer(state, WINDOW, ("team",)) is None
        second = close(world, state, NOW + 2)

        assert [(2, None, None), (1, "bob", "wrong rate")] == [
            (one.number, one.reopened_by, one.reason) for one in Periods(state).history(WEEK)
        ]
        assert [("Ada", 1, first.digest)] == [(s.signer, s.number, s.digest) for s in Periods(state).signatures(WEEK)]
        assert first.digest != second.digest


def test_two_closers_at_once_close_it_once(tmp_path: Path) -> None:
    """One of them is told that it is closed."""
    with books(tmp_path) as (world, state):
        listed: list[str] = []
        ready = threading.Barrier(2)

        def work(store: Any) -> None:
            ready.wait()
            try:
                listed.append(periods_close.close(store, state, WEEK, "ada", NOW, force=True, price=lambda: True).name)
            except PeriodConflict as error:
                listed.append(error.message[:29])

        threads = [threading.Thread(target=work, args=(world.store.cursor(),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [WEEK, f"period {WEEK} is closed already"[:29]] == sorted(listed, key=len)
        assert [1] == [one.number for one in Periods(state).history(WEEK)]


def test_two_finders_at_once_post_once(tmp_path: Path) -> None:
    """The second sees that the lines it follows from are not the newest."""
    with books(tmp_path) as (world, state):
        close(world, state)
        repriced(world, state, rate("3"))
        line = {"words": {"team": "red"}, "currency": "USD", "gpu_seconds": "1", "cost_exact": "1", "cost": "1.00"}
        posts = [Corrections(state).post(WEEK, 1, 0, [line], "late data", NOW) for _ in range(2)]

        assert [1, 0] == posts


def test_data_that_arrives_while_it_is_closed_is_a_correction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is frozen is of before; the rest comes later, and together they are all."""
    with books(tmp_path) as (world, state):
        reader, result = world.store.cursor(), periods_close._live

        def interrupted(*arguments: Any) -> Any:
            found = result(*arguments)
            if left:
                left.pop()
                world.add(samples(Gpu("GPU-9", "n9"), minutes(0, HOUR))).book()
                chargeback.price_all(world.store, state)
            return found

        left = [1]
        monkeypatch.setattr(periods_close, "_live", interrupted)
        closed = periods_close.close(reader, state, WEEK, "ada", NOW, force=True, price=lambda: True)
        monkeypatch.undo()
        frozen = sum(Decimal(row["gpu_seconds"]) for row in closed.summary)
        assert 0 < periods_close.find_corrections(world.store, state, NOW)

        # A vanished device is owned, out of service, up to the last sample of its source: two hours.
        assert frozen + 7200 == live(world, state).gpu_seconds
        assert_conserved(world, state)


def test_a_process_that_ends_before_the_commit_has_closed_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frozen rows and their audit row are one transaction."""
    with books(tmp_path) as (world, state):
        before = state.audit()

        def gone(*_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("gpuwatch.billing.periods.repository.record", gone)
        with pytest.raises(KeyboardInterrupt):
            close(world, state)
        monkeypatch.undo()

        assert ([], before) == (Periods(state).names(), state.audit())
        assert 1 == close(world, state).number


def test_a_content_that_was_changed_is_found(tmp_path: Path) -> None:
    with books(tmp_path) as (world, state):
        closed = close(world, state)
        text = Periods(state).content(WEEK, 1).replace("red", "rad")
        with sqlite3.connect(tmp_path / FILE) as file:
            file.execute("update period_closing set content = ?", (zlib.compress(text.encode()),))
        assert closed.digest != digest_of(Periods(state).content(WEEK, 1))
        with sqlite3.connect(tmp_path / FILE) as file:
            file.execute("update period_closing set content = x'00'")
        with pytest.raises(StoreError, match="damaged"):
            Periods(state).content(WEEK, 1)


def test_a_period_that_an_earlier_release_closed_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its few words answer, and what changes is corrected by them."""
    words = {"cluster": "c1", "gpu_model": H100, "mig_profile": None, "kind": "allocated", "currency": "USD"}
    content = periods_rows_text([{"team": "red", "gpu_seconds": "3600.000000", "cost": "2.49", **words}])
    with monkeypatch.context() as patch:
        patch.setattr("gpuwatch.state.core.SCHEMA", "0002")
        State.open(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE) as file:
        row = (WEEK, WINDOW.start_us, WINDOW.end_us, NOW, "ada", digest_of(content), content)
        file.execute("insert into period values (?, ?, ?, ?, ?, ?, ?)", row)
    with books(tmp_path) as (world, state):
        result = frozen_answer(state, WINDOW, ("team",))
        assert result is not None
        assert [("red", Decimal("2.49"))] == [(c.group["team"], c.cost) for c in result.items]
        assert frozen_answer(state, WINDOW, ("user",)) is None
        assert digest_of(content) == digest_of(Periods(state).content(WEEK, 1))
        assert 0 < periods_close.find_corrections(world.store, state, NOW)
        assert 0 == periods_close.find_corrections(world.store, state, NOW)
        lines = corrections_in(state, Window(NOW, NOW + 1), ("team",))
        total = sum((c.cost or Decimal(0) for c in lines), Decimal("2.49"))
        assert chargeback.chargeback(world.store, state, WINDOW, closed=False).cost == total


def periods_rows_text(rows: list[dict[str, Any]]) -> str:
    """The content of a period as the release before wrote it."""
    return json.dumps(rows, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


# Teams that no rule decides.


def by_team(answer: records.Chargeback) -> dict[str, tuple[Decimal | None, bool]]:
    return {
        str(charge.group["team"]): (charge.cost, charge.inferred)
        for charge in answer.items
        if charge.kind != "platform"
    }


@pytest.mark.parametrize("policy", [None, "shared"], ids=["without a policy", "under a policy"])
def test_what_was_closed_keeps_its_teams_when_the_default_changes(tmp_path: Path, policy: str | None) -> None:
    """A closing without the inferred teams, as of earlier releases, gets no correction when they are inferred; nor the reverse."""
    with books(tmp_path) as (world, state):
        replace_team_rules(state, rules(a="red"), "test", "test", 0)
        if policy:
            other_policies(world, state, random.Random(1))
        set_ownership_default(state, NONE, "test", 1)
        chargeback.price_all(world.store, state)
        before = chargeback.chargeback(world.store, state, WINDOW)
        close(world, state)
        set_ownership_default(state, INFER, "test", 2)
        chargeback.price_all(world.store, state)
        now = chargeback.chargeback(world.store, state, WINDOW, closed=False)

        assert 0 == periods_close.find_corrections(world.store, state, NOW)
        assert by_team(before) == by_team(chargeback.chargeback(world.store, state, WINDOW))
        assert {"red", "__unallocated__"} <= by_team(before).keys()
        assert before.cost == now.cost
        assert (by_team(before)["__unallocated__"][0], True) == by_team(now)["b"] or policy
        assert [("b", True), ("red", False)] == sorted(
            (t, i) for t, (_, i) in by_team(now).items() if t in ("b", "red")
        )

        Periods(state).reopen(WEEK, "ada", "inferred from now on", NOW)
        close(world, state)
        set_ownership_default(state, NONE, "test", 3)
        chargeback.price_all(world.store, state)

        assert 0 == periods_close.find_corrections(world.store, state, NOW)
        assert by_team(now) == by_team(chargeback.chargeback(world.store, state, WINDOW))


# What a token of one team sees of a closed period: what was published, whatever others had then or have since.


def three_teams(unpriced: bool) -> World:
    """Red holds a GPU for an hour, blue and teal one for ten seconds less; blue two of models without a price as well."""
    gpus = [Gpu(f"GPU-{name}", f"n-{name}") for name in "rbt"]
    rows: list[Any] = [samples(gpu, minutes(0, HOUR), IDLE) for gpu in gpus]
    ends = {"r": HOUR, "b": HOUR - 10, "t": HOUR - 10}
    claims = [claim(name, 0, end, f"n-{name}", gpus=f"GPU-{name}", account=name) for name, end in ends.items()]
    for model in ("X1", "X2") if unpriced else ():
        rows.append(samples(Gpu(f"GPU-{model}", f"n-{model}", model=model), minutes(0, HOUR), IDLE))
        claims.append(claim(model, 0, HOUR, f"n-{model}", gpus=f"GPU-{model}", account="b"))
    return World().add(*rows, *claims).book()


def seen_by_red(world: World, state: State) -> list[tuple[str, list[records.Charge]]]:
    """What red's token is answered of the closed week, by every dimension."""
    every = (by for by in BYS if by)
    return [(str(by), list(chargeback.chargeback(world.store, state, WINDOW, by, teams={"red"}).items)) for by in every]


@pytest.mark.parametrize("unpriced", [False, True], ids=["all priced", "models of another team without a price"])
def test_red_is_shown_its_published_cents_and_nothing_that_others_do_later_moves_them(
    tmp_path: Path, unpriced: bool
) -> None:
    """33.49 cents: alone they are 33, and 34 in the bill of all, whose exact 100.28 cents are 100."""
    world = three_teams(unpriced)
    with State.open(tmp_path) as state:
        replace_rates(state, [rate("0.3349")], "test", "test", 0)
        replace_team_rules(state, rules(r="red", b="blue", t="teal"), "test", "test", 0)
        chargeback.price_all(world.store, state)
        close(world, state)
        (mine,) = chargeback.chargeback(world.store, state, WINDOW, ("team",), teams={"red"}).items
        bill = chargeback.chargeback(world.store, state, WINDOW, ("team",))

        assert Decimal("0.34") == mine.cost
        assert mine in bill.items
        assert sum(charge.cost or 0 for charge in bill.items) == bill.cost

        before = seen_by_red(world, state)
        repriced(world, state, rate("0.3349"), rate("9", model="X1"), rate("7", model="X2"))
        world.add(claim("late", 0, HOUR, "n-t", gpus="GPU-t", account="b")).book()
        chargeback.price_all(world.store, state)
        periods_close.find_corrections(world.store, state, NOW + 1)
        assert before == seen_by_red(world, state)
