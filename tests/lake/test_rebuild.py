"""A cell that has lost its disk is made again from the lake: what was published is there, and it goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.lake import guard, mirror
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.publish import Publisher
from gpuwatch.lake.verify import verify
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.lake.cells import differing
from tests.lake.conftest import SETTINGS, START_US, Fleet, Make, bring
from tests.lake.publishing import config
from tests.worlds import processes

NOW_US = START_US + 2 * DAY_US


def test_a_lost_cell_goes_on(make_lake: Make, fleet: Fleet, tmp_path: Path) -> None:
    settings = make_lake("postgresql")
    again = tmp_path / "again"
    with Lake.open(settings, create=True) as lake, Store.open(fleet.directory) as store:
        Publisher(settings, lambda: NOW_US).publish(lake, store)
        hours = {hour for (hour,) in store.sql("select distinct hour_us from ledger_hour")}
    ran = processes.run(
        ("lake", "rebuild", "--data", again, "--config", config(settings, tmp_path), "--format", "table")
    )
    assert 0 == ran.returncode, ran.stderr
    assert "Prices, teams and tokens are not in the lake" in ran.stdout
    shutil.copyfile(fleet.directory / "state.sqlite", again / "state.sqlite")

    with (
        Store.open(again) as store,
        State.open(again) as state,
        Store.open(fleet.directory) as old,
        State.open(fleet.directory) as old_state,
        Lake.open(settings) as lake,
    ):
        assert not mirror.is_mirror(store) and old.identity() == store.identity()
        different = {report.table for report in verify(lake, store, NOW_US) if report.differences}
        assert {"lost_hour"} == different == set(differing(old, store))
        lost = {hour for (hour,) in store.sql("select hour_us from lost_hour")}
        without = {hour for hour in hours if hour >= START_US + DAY_US}
        assert without | {START_US + DAY_US - HOUR_US, START_US + DAY_US - 2 * HOUR_US} == lost

        assert [] == analyze(store, state, SETTINGS, now_us=fleet.now_us).failed_rules
        assert {"lost_hour"} == set(differing(old, store)), "a pass that finds no samples changes nothing"

        for each, its in ((old, old_state), (store, state)):
            bring(each, its, fleet.hours[0], fleet.now_us + HOUR_US)
        for name in ("ledger_hour", "device_hour", "device_minute", "device_window", "workload_hour", "idle_span"):
            rows = f"select hour_us, sum(hash(t)::hugeint) from {name} t group by hour_us order by hour_us"
            own, there = dict(old.sql(rows)), dict(store.sql(rows))
            changed = {hour for hour in own.keys() | there.keys() if own.get(hour) != there.get(hour)}
            assert changed <= {fleet.now_us - HOUR_US}, "only the hour of the loss lacks its last interval"
        new = f"select count(*) from ledger_hour where hour_us = {fleet.now_us}"
        assert old.sql(new) == store.sql(new) and store.sql(new) != [(0,)]

        assert Publisher(settings, lambda: NOW_US).publish(lake, store).units
        assert 2 == guard.read(lake).epoch, "the lost process is overtaken"
        assert [] == [found for report in verify(lake, store, NOW_US) for found in report.differences]
