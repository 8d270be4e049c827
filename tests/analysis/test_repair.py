"""`gpuwatch repair`: a store that was served for minutes by a clock days ahead becomes what it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.analysis.repair import repair
from gpuwatch.cli import app
from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.core.errors import LedgerDoesNotClose
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.clock_damage import Damage, Span, after, find
from gpuwatch.store.database import Store
from tests.worlds.world import HOUR, T0_US, Gpu, World, claim, minutes, samples, us

DAY = 24 * HOUR
SETTINGS = Settings(default_interval_s=600.0)
GPU, OTHER = Gpu(), Gpu("GPU-b", index=1)
JUMP = 6 * DAY
RULE = ("blind-spot",)
NOON = 2 * DAY + 12 * HOUR
"""When the clock jumped ahead: noon of the third day."""
RUNNER = CliRunner()
TABLES = ("ledger_hour", "capacity", "segment", "device", "run", "context_span")


def measured(start: float, end: float) -> list[Any]:
    """Two GPUs, held by one job, sampled every ten minutes."""
    return [samples(gpu, minutes(start, end, 600), job="job") for gpu in (GPU, OTHER)]


def held(evidence: float) -> dict[str, Any]:
    return claim("job", 0, None, count=2, device_indexes="0,1", evidence=evidence)


def analyzed(store: Store, state: State, now: float) -> None:
    analyze(store, state, SETTINGS, now_us=us(now), detectors=RULE)


def books(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    return {name: store.sql(f"select * from {name} order by all") for name in TABLES}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State.open(tmp_path / "state") as opened:
        yield opened


def sound(state: State) -> World:
    world = World(SETTINGS).add(held(NOON), *measured(0, NOON))
    analyzed(world.store, state, NOON)
    return world


def damaged(state: State) -> World:
    """What a server did whose clock was six days ahead for an hour: it recorded, and retired every day before."""
    world = sound(state).add(held(NOON + JUMP + HOUR), *measured(NOON + JUMP, NOON + JUMP + HOUR))
    analyzed(world.store, state, NOON + JUMP + HOUR)
    world.store.run("store/retention/retain", raw_until_us=us(5 * DAY), minute_until_us=T0_US)
    return world


def found(world: World, now: float) -> Damage:
    return find(world.store, SETTINGS, after(us(now)))


def test_a_sound_store_has_nothing_to_repair(state: State) -> None:
    world = sound(state)
    before = books(world.store)
    damage = found(world, NOON)

    assert not damage.found
    repair(world.store, state, SETTINGS, damage, us(NOON), detectors=RULE)
    assert before == books(world.store)


def test_days_that_were_rightly_retired_stay_so(state: State) -> None:
    keep = Settings(default_interval_s=600.0, raw_retention_days=1, minute_retention_days=1)
    world = sound(state)
    world.store.run("store/retention/retain", raw_until_us=us(DAY), minute_until_us=T0_US)

    assert not find(world.store, keep, after(us(NOON))).found


def test_future_hours_are_withdrawn_and_the_rest_stays_to_the_microsecond(state: State) -> None:
    """Without retention in between, the store becomes exactly what it was."""
    world = sound(state)
    before = books(world.store)
    world.add(held(NOON + JUMP + HOUR), *measured(NOON + JUMP, NOON + JUMP + HOUR))
    analyzed(world.store, state, NOON + JUMP + HOUR)
    damage = found(world, NOON + HOUR)

    assert [("claim", 1), ("sample", 12)] == [(row["kind"], row["rows"]) for row in damage.future]
    # From the second hour after the jump on: that it is noon + 1 h allows for samples up to 10 minutes ahead.
    assert 2 * (6 * 24 - 1) == damage.gpu_hours
    assert 6 * 24 - 1 == damage.hours

    repair(world.store, state, SETTINGS, damage, us(NOON + HOUR), detectors=RULE)

    assert before == books(world.store)
    assert not found(world, NOON + HOUR).found


def test_repaired_days_take_samples_again_and_keep_the_ledger_they_had(state: State) -> None:
    world = damaged(state)
    before = books(world.store)["ledger_hour"]
    damage = found(world, NOON + HOUR)

    assert damage.evident
    assert [T0_US, T0_US + DAY_US, T0_US + 2 * DAY_US] == damage.days

    done = repair(world.store, state, SETTINGS, damage, us(NOON + HOUR), detectors=RULE)
    kept = books(world.store)["ledger_hour"]

    assert {T0_US + n * HOUR_US for n in range(60)} == {row[1] for row in kept}
    assert [row for row in before if row[1] < us(NOON)] == kept
    assert [] == done.recomputed

    world.add(held(3 * DAY), *measured(NOON, 3 * DAY))
    analyzed(world.store, state, 3 * DAY)
    after_it = books(world.store)["ledger_hour"]

    assert [row for row in before if row[1] < us(NOON)] == [row for row in after_it if row[1] < us(NOON)]
    assert {T0_US + n * HOUR_US for n in range(72)} == {row[1] for row in after_it}
    measured_us = world.store.sql(
        "select sum(unobserved_us) from ledger_hour where hour_us >= $h", h=us(NOON) + HOUR_US
    )
    assert [(0,)] == measured_us


@pytest.mark.parametrize("before", [True, False], ids=["repaired at once", "repaired after the job went on"])
def test_an_hour_that_the_loss_cut_in_two_closes_again(state: State, before: bool) -> None:
    """The clock jumped at half past: the samples of the first half hour are lost, and the job went on."""
    half, start = NOON + HOUR // 2, NOON - HOUR
    world = World(SETTINGS).add(held(half), *measured(start, half))
    analyzed(world.store, state, half)
    world.store.run("store/retention/retain", raw_until_us=us(5 * DAY), minute_until_us=T0_US)
    world.store.sql("delete from sample")
    if before:
        repair(world.store, state, SETTINGS, found(world, NOON + HOUR), us(NOON + HOUR), detectors=RULE)
    world.add(held(NOON + 3 * HOUR), *measured(NOON + HOUR, NOON + 3 * HOUR))
    analyzed(world.store, state, NOON + 3 * HOUR)
    if not before:
        with pytest.raises(LedgerDoesNotClose):
            world.check()
        repair(world.store, state, SETTINGS, found(world, NOON + 3 * HOUR), us(NOON + 3 * HOUR), detectors=RULE)
    world.check()

    assert 2 * HOUR_US == sum(world.buckets(hour=60).values())


def test_samples_that_come_back_are_computed_again(state: State) -> None:
    world = damaged(state)
    repair(world.store, state, SETTINGS, found(world, NOON + HOUR), us(NOON + HOUR), detectors=RULE)
    lost = world.store.sql("select count(*) from lost_hour")[0][0]
    world.add(*measured(0, NOON))
    analyzed(world.store, state, NOON + HOUR)

    assert 0 < lost
    assert [(0,)] == world.store.sql("select count(*) from lost_hour")
    assert books(sound(state).store)["ledger_hour"] == books(world.store)["ledger_hour"]


def test_a_named_time_is_withdrawn_when_it_is_no_longer_in_the_future(state: State) -> None:
    world = sound(state)
    before = books(world.store)
    world.add(held(NOON + 2 * DAY), *measured(NOON + 2 * DAY, NOON + 2 * DAY + HOUR))
    analyzed(world.store, state, NOON + 2 * DAY)
    span = Span(us(NOON + DAY), us(NOON + 3 * DAY))
    repair(world.store, state, SETTINGS, find(world.store, SETTINGS, span), us(NOON + 9 * DAY), detectors=RULE)

    assert before == books(world.store)


# The command.


@pytest.fixture
def data(tmp_path: Path, state: State) -> Path:
    directory = tmp_path / "data"
    world = World(SETTINGS)
    world.store.close()
    world.store = Store.open(directory, threads=1)
    far = 2_000 * 365 * DAY // 100  # decades ahead of the test's real clock
    world.add(held(HOUR), *measured(0, HOUR), *measured(far, far + HOUR))
    world.store.close()
    with State.open(directory):
        pass
    return directory


def run(data: Path, *arguments: str) -> list[dict[str, Any]]:
    result = RUNNER.invoke(app, ["repair", "--data", str(data), "--format", "json", *arguments])
    assert 0 == result.exit_code, result.output
    items: list[dict[str, Any]] = json.loads(result.stdout)["items"]
    return items


def test_a_dry_run_lists_what_would_be_done_and_changes_nothing(data: Path) -> None:
    first, second = run(data, "--dry-run"), run(data, "--dry-run")

    assert first == second
    assert [("withdraw", "sample records", 12)] == [(row["action"], row["what"], row["count"]) for row in first]
    assert first == run(data)
    assert [] == run(data)
