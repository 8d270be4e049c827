"""The whole way from records to findings: once, again, interrupted, by window, and with broken books."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import gpuwatch.analysis.pipeline as analysis
from gpuwatch.billing import chargeback
from gpuwatch.core.errors import LedgerDoesNotClose, UsageError
from gpuwatch.findings import evaluate
from gpuwatch.ledger import hours as ledger_hours
from tests.worlds.detectors import CLUSTER, HOLLOW, IDLE, WORK, World, hour_us, us, without
from tests.worlds.templates import computed_once

DERIVED = ("device", "run", "segment", "capacity", "device_minute", "device_window", "idle_span", "ledger_hour")
VERDICTS = ("finding", "unjudged")
PRICES = ("run_team", "device_price", "priced")


def planted(where: Path | str) -> World:
    """Six hours: one job idles, one is hollow, one is never measured, one has no SM_ACTIVE, one slice works."""
    made = World(where)
    made.gpu("G0", (60, WORK), (100, IDLE), (200, WORK)).job("idle", ["G0"], 0, 360)
    made.gpu("G1", (360, HOLLOW)).job("hollow", ["G1"], 30, 330)
    made.node("n2", 0, {"": 1}).job("blind", 1, 0, 200, node="n2")
    made.gpu("G2", (360, without(HOLLOW, "sm_active_ratio"))).job("lite", ["G2"], 0, 300)
    made.gpu("G3", (360, WORK), gi=1, profile="1g.10gb", job="slice").job("slice", 1, 0, 300, profile="1g.10gb")
    return made


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """The six hours, not analysed."""
    made = planted(tmp_path)
    yield made
    made.store.close()


@computed_once
def planted_and_analysed() -> World:
    made = planted("sqlite://")
    made.analyze(now=360)
    return made


@pytest.fixture
def analysed() -> Iterator[World]:
    """The six hours, analysed at their end."""
    made = planted_and_analysed()
    yield made
    made.store.close()


def everything(world: World, *tables: str) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of derived tables, in order."""
    return {table: world.rows(table) for table in tables or (*DERIVED, *VERDICTS, *PRICES)}


def found(world: World) -> list[tuple[str, str]]:
    """Detector and subject of every finding."""
    return world.store.sql("select detector, subject_id from finding order by all")


EXPECTED = [("blind-spot", "n2"), ("false-utilization", "hollow"), ("idle-hoarding", "idle")]
FIRING = tuple(rule for rule, _ in EXPECTED)


def test_nothing_was_imported(tmp_path: Path) -> None:
    """An empty store has no cluster, and that is no error."""
    empty = World(tmp_path)

    assert analysis.AnalyzeReport() == empty.analyze()


def test_an_unknown_detector_is_named_with_those_there_are(world: World) -> None:
    """Before anything is written."""
    with pytest.raises(UsageError, match=r"^--detector idle: unknown; known: .*idle-hoarding"):
        world.analyze(detectors=["idle"])

    assert [] == world.rows("ledger_hour")


def test_it_finds_what_was_planted(world: World) -> None:
    """One finding a cause; the report counts them and the hours."""
    report = world.analyze(now=360)

    assert EXPECTED == found(world)
    assert ([CLUSTER], 3, []) == (report.clusters, report.findings, report.failed_rules)
    # 00:00 to 06:00, both inclusive, and an hour on either side
    assert 9 == report.hours


def test_the_books_close(analysed: World) -> None:
    """What the segments own is what the ledger booked, GPU by GPU and hour by hour."""
    ledger_hours.check(analysed.store, CLUSTER, us(0), us(360))
    (owned,) = analysed.store.sql(
        "select sum((end_us - start_us)::hugeint * share_num * 5040 // share_den) from capacity"
    )[0]
    assert Fraction(int(owned), 5040) / 1_000_000 == sum(analysed.booked_s(name) for name in ledger_hours.BUCKETS)


def test_a_second_analysis_changes_no_row(analysed: World) -> None:
    """Not at another time either."""
    before = everything(analysed)
    report = analysed.analyze(now=999)

    assert 0 == report.hours
    assert 3 == report.findings
    assert before == everything(analysed)


@pytest.mark.parametrize(
    ("since", "until"),
    [
        pytest.param(0, None, id="from the start"),
        pytest.param(None, 360, id="up to the end"),
        pytest.param(120, 180, id="one hour in the middle of the idleness"),
        pytest.param(61, 62, id="one minute"),
    ],
)
def test_a_recomputed_window_is_the_same(analysed: World, since: float | None, until: float | None) -> None:
    """What depends on the hours around is read from beyond the window."""
    before = everything(analysed)
    report = analysed.analyze(
        now=999, since_us=None if since is None else us(since), until_us=None if until is None else us(until)
    )

    assert report.hours > 0
    assert before == everything(analysed)


@pytest.mark.slow
def test_hour_by_hour_is_all_at_once(world: World, tmp_path: Path) -> None:
    """An analysis after every hour of samples ends where one analysis of all of it ends."""
    other = World(tmp_path / "other")
    for hour in range(4):
        other.gpu("G0", (60, WORK if hour != 1 else IDLE), start=60 * hour)
        other.job("idle", ["G0"], 0, None, heard=60 * (hour + 1))
        other.analyze(now=60 * (hour + 1), detectors=["idle-hoarding"])
    whole = World(tmp_path / "whole")
    whole.gpu("G0", (60, WORK), (60, IDLE), (120, WORK)).job("idle", ["G0"], 0, None, heard=240)
    whole.analyze(now=240, detectors=["idle-hoarding"])

    assert everything(whole, *DERIVED) == everything(other, *DERIVED)
    assert [f.key for f in whole.findings("idle-hoarding")] == [f.key for f in other.findings("idle-hoarding")]
    assert [59 * 60] == [f.wasted_s for f in other.findings("idle-hoarding")]


def test_two_clusters_know_nothing_of_each_other(analysed: World) -> None:
    """The same names elsewhere change nothing here."""
    before = everything(analysed, *VERDICTS)
    analysed.cluster = "c2"
    analysed.gpu("G0", (120, WORK)).job("idle", ["G0"], 0, 120)
    report = analysed.analyze(now=500, detectors=FIRING)

    assert ["c1", "c2"] == report.clusters
    assert before == everything(analysed, *VERDICTS)


# One rule ------------------------------------------------------------------------------------------------------------


def test_one_detector_asked_for_does_not_lose_the_others(world: World) -> None:
    """Their verdicts on the new hours are still owed, and given by the next analysis."""
    world.analyze(now=360, detectors=["blind-spot"])
    asked = found(world)
    world.analyze(now=361)

    assert [("blind-spot", "n2")] == asked
    assert EXPECTED == found(world)


def test_a_rule_that_fails_does_not_stop_the_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named with its error; when it works again it judges what it missed."""
    real = evaluate.findings_of

    def broken(store: Any, rule: Any, *rest: Any) -> Any:
        if rule.id == "idle-hoarding":
            raise RuntimeError("this rule is broken\nin two lines")
        return real(store, rule, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(evaluate, "findings_of", broken)
        report = world.analyze(now=360)
    without_it = found(world)
    world.analyze(now=361)

    assert ["idle-hoarding: RuntimeError: this rule is broken"] == report.failed_rules
    assert EXPECTED[:2] == without_it
    assert EXPECTED == found(world)


# Interrupted ---------------------------------------------------------------------------------------------------------


def test_a_rule_that_a_stop_interrupts_is_not_a_failed_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass ends; the next one evaluates the rule."""

    def interrupted(*_: Any) -> Any:
        raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")

    with monkeypatch.context() as patch:
        patch.setattr(evaluate, "findings_of", interrupted)
        with pytest.raises(duckdb.InterruptException):
            world.analyze(now=360)
    world.analyze(now=361)

    assert [] == evaluate.failures(world.store)
    assert EXPECTED == found(world)


@pytest.mark.parametrize(
    ("place", "name"),
    [
        pytest.param(analysis, "attribute", id="before it was known who held what"),
        pytest.param(ledger_hours, "recompute_dirty", id="before the ledger"),
        pytest.param(ledger_hours, "check", id="between ledger and verdicts"),
        pytest.param(chargeback, "price", id="before the prices"),
        pytest.param(evaluate, "findings_of", id="within a verdict"),
    ],
)
def test_an_interrupted_analysis_is_finished_by_the_next(
    world: World, analysed: World, monkeypatch: pytest.MonkeyPatch, place: Any, name: str
) -> None:
    """Nothing is lost and nothing is counted twice: it ends where an analysis without an interruption ends."""

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(place, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            world.analyze(now=360, detectors=FIRING)
    unfinished = found(world)
    world.analyze(now=360, detectors=FIRING)

    assert [] == unfinished
    assert EXPECTED == found(world)
    assert everything(analysed, *DERIVED, *VERDICTS) == everything(world, *DERIVED, *VERDICTS)


def test_days_done_before_the_interruption_are_not_done_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each day with many samples is a transaction: what was dirty and computed is clean."""
    monkeypatch.setattr(ledger_hours, "BATCH_SAMPLES_MAX", 1)
    world.gpu("G0", (120, WORK), start=1440).job("later", ["G0"], 1440, 1560)
    real = ledger_hours._recompute_slice
    done: list[int] = []

    def second_fails(store: Any, cluster: Any, hours: list[int], *rest: Any) -> None:
        if len(done) == 1:
            raise KeyboardInterrupt
        done.append(len(hours))
        real(store, cluster, hours, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(ledger_hours, "_recompute_slice", second_fails)
        with pytest.raises(KeyboardInterrupt):
            world.analyze(now=1560, detectors=FIRING)
    left = world.store.sql("select count(distinct hour_us) from dirty_hour")[0][0]
    report = world.analyze(now=1560, detectors=FIRING)

    assert left == report.hours
    assert EXPECTED == found(world)


# A ledger that does not close ----------------------------------------------------------------------------------------------


def corrupt(world: World, hour: int) -> None:
    """One microsecond too much on G0 in one hour, and nothing that says so."""
    (changed,) = world.store.sql(
        """update ledger_hour set compute_us = compute_us + 1
        where hour_us = $hour and device_id = (select device_id from device where gpu = 'G0' and gi = -1)""",
        hour=hour_us(hour),
    )[0]
    assert 1 == changed


def test_a_microsecond_too_much_is_named(analysed: World) -> None:
    """With the GPU, the hour, and both numbers."""
    corrupt(analysed, 3)

    with pytest.raises(LedgerDoesNotClose) as error:
        ledger_hours.check(analysed.store, CLUSTER, us(0), us(360))

    assert "GPU G0 in the hour of 2026-01-05T03:00:00Z" in str(error.value)
    assert "3600000000 us of capacity and 3600000001 us recorded" in str(error.value)
    ledger_hours.check(analysed.store, CLUSTER, us(0), us(180))
    ledger_hours.check(analysed.store, CLUSTER, us(240), us(360))


def test_a_negative_bucket_is_named_although_the_sum_is_right(analysed: World) -> None:
    """Two errors that cancel are two errors."""
    analysed.store.sql(
        """update ledger_hour set gap_us = gap_us - 3600000000, stalled_us = stalled_us + 3600000000
        where hour_us = $hour and device_id = (select device_id from device where gpu = 'G0' and gi = -1)""",
        hour=hour_us(3),
    )

    with pytest.raises(LedgerDoesNotClose, match="GPU G0 in the hour of 2026-01-05T03:00:00Z"):
        ledger_hours.check(analysed.store, CLUSTER, us(0), us(360))


def test_analysis_refuses_over_a_window_that_does_not_close(analysed: World) -> None:
    """No verdict is written on books that are wrong; the refusal says which GPU and hour, and stays until they are right."""
    before = everything(analysed, *VERDICTS)
    corrupt(analysed, 3)
    # Late data made the first and the last hour dirty; the wrong one lies between them and is clean.
    for hour in (0, 5):
        analysed.store.sql("insert into dirty_hour values ($c, $hour)", c=CLUSTER, hour=hour_us(hour))

    for _ in range(2):
        with pytest.raises(LedgerDoesNotClose, match="GPU G0 in the hour of 2026-01-05T03:00:00Z"):
            analysed.analyze(now=400, detectors=FIRING)
        assert before == everything(analysed, *VERDICTS)

    analysed.analyze(now=401, since_us=us(180), until_us=us(240), detectors=FIRING)
    assert before == everything(analysed, *VERDICTS)
    assert [] == analysed.rows("dirty_hour")


def test_recomputing_the_window_repairs_it(analysed: World) -> None:
    """The ledger is derived: an hour that is wrong is computed again from samples and segments."""
    before = everything(analysed)
    corrupt(analysed, 3)
    analysed.analyze(now=400, since_us=us(180), until_us=us(240), detectors=FIRING)

    assert before == everything(analysed)


# Late records ----------------------------------------------------------------------------------------------------------


def test_late_samples_change_what_they_touch_only(analysed: World) -> None:
    """04:01 to 05:00, and an hour on either side; hours further away keep their rows."""
    far = analysed.store.sql("select * from ledger_hour where hour_us = $hour order by all", hour=hour_us(0))
    analysed.gpu("G0", (60, WORK), start=240)
    report = analysed.analyze(now=400, detectors=FIRING)

    assert 4 == report.hours
    assert far == analysed.store.sql("select * from ledger_hour where hour_us = $hour order by all", hour=hour_us(0))


@pytest.mark.slow
def test_the_order_of_arrival_does_not_matter(tmp_path: Path) -> None:
    """All at once, the last hour and the records first, and mixed: the same books and the same findings."""
    plays = [
        lambda w: w.gpu("G0", (60, WORK), (100, IDLE), (20, WORK)),
        lambda w: w.gpu("G0", (60, HOLLOW), start=180),
        lambda w: w.job("a", ["G0"], 0, 180),
        lambda w: w.job("b", ["G0"], 180, 240),
    ]
    results = []
    for number, batches in enumerate((((0, 1, 2, 3),), ((3,), (2,), (1,), (0,)), ((2, 0), (3, 1)))):
        made = World(tmp_path / str(number))
        for batch in batches:
            for step in batch:
                plays[step](made)
            made.analyze(now=300, detectors=FIRING)
        results.append(everything(made, *DERIVED) | {"keys": sorted((f.key, f.wasted_s) for f in standing(made))})

    assert results[0] == results[1] == results[2]


def standing(world: World) -> list[Any]:
    """Findings that were not withdrawn."""
    every = [f for rule in ("blind-spot", "false-utilization", "idle-hoarding") for f in world.findings(rule)]
    return [f for f in every if f.reason != "records changed"]
