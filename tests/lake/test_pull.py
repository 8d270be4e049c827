"""A directory that is filled from the lake has what its cells have, bit for bit, and gets only what has changed."""

from __future__ import annotations

import io
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuwatch.billing.chargeback import chargeback
from gpuwatch.billing.focus.export import write
from gpuwatch.core.clock import DAY_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.lake import mirror, pull
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.publish import Publisher
from gpuwatch.lake.pull import Pulled, Puller
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.report.weekly import report_files
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.lake import cells
from tests.lake.cells import NOW_US, OF_A_FILE, Cells, differing
from tests.lake.conftest import START_US, Fleet, Make, bring
from tests.lake.publishing import ROUNDS, change, config
from tests.worlds import processes
from tests.worlds.patience import PATIENCE_S

WEEK = "2026-W45"


def now_us() -> int:
    return NOW_US


@pytest.fixture(scope="module")
def four(history: Fleet, lake_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Cells:
    return cells.made(tmp_path_factory.mktemp("cells"), history)


def pulled(settings: LakeSettings, directory: Path, *only: str) -> Pulled:
    with Lake.open(settings) as lake, Store.open(directory) as store:
        return Puller(now_us, only).pull(lake, store)


def test_four_cells_make_the_directory_that_one_process_would_have(
    four: Cells, make_lake: Make, tmp_path: Path
) -> None:
    settings = four.publish(make_lake("postgresql"))["east"]
    done = pulled(settings, tmp_path / "copy")
    assert 4 == done.cells and 40 < done.tables and not done.removed
    assert Pulled(done.snapshot, 4) == pulled(settings, tmp_path / "copy"), "another process copies nothing"

    with Store.open(tmp_path / "copy") as copy, Store.open(four.one) as one, State.open(four.one) as state:
        assert OF_A_FILE.keys() == set(differing(one, copy))
        for name in OF_A_FILE:
            count = f"select count(*) from {name}"
            assert one.sql(count) == copy.sql(count)
        assert [(4,)] == copy.sql(
            "select count(distinct import_id) from import_given join import_run using (import_id)"
        )
        assert (done.rows,) == copy.sql('select sum("rows")::bigint from mirror.unit_note')[0]
        window = Window(START_US, START_US + 2 * DAY_US)
        for by in (("team",), ("job",), ("team", "gpu_model"), ("user", "day"), ("cluster",)):
            lines = chargeback(one, state, window, by)
            assert lines == chargeback(copy, state, window, by), by
        assert {"sim", "west", "north", "south"} <= {item.group["cluster"] for item in lines.items}
        own, there = io.BytesIO(), io.BytesIO()
        write(one, state, window, own)
        write(copy, state, window, there)
        assert own.getvalue() == there.getvalue() and 2000 < len(own.getvalue())
        reports = [
            {file.name: file.content for file in report_files(store, state, WEEK, None, NOW_US)}
            for store in (one, copy)
        ]
        assert reports[0] == reports[1] and 3 < len(reports[0])


def test_only_what_has_changed_is_copied(make_lake: Make, fleet: Fleet, tmp_path: Path) -> None:
    settings = make_lake("postgresql")
    with (
        Lake.open(settings, create=True) as lake,
        Store.open(fleet.directory) as store,
        State.open(fleet.directory) as state,
        Lake.open(settings) as reading,
        Store.open(tmp_path / "copy") as copy,
    ):
        publisher, puller = Publisher(settings, now_us), Puller(now_us)
        publisher.publish(lake, store)
        whole = puller.pull(reading, copy)
        bring(store, state, fleet.hours[0], fleet.now_us + 3_600_000_000)
        published = publisher.publish(lake, store)
        before = copy.changes.counts()
        done = puller.pull(reading, copy)

        assert (published.units, published.rows, published.removed) == (done.units, done.rows, done.removed)
        assert 0 < done.rows < whole.rows / 2
        assert [] == list(differing(store, copy))
        touched = {name for name, count in copy.changes.counts().items() if count != before[name]}
        assert "ledger_hour" in touched and "clock_step" not in touched, "answers about other tables stay remembered"

        assert Pulled(done.snapshot) == puller.pull(reading, copy)
        store.sql("delete from finding")
        publisher.publish(lake, store)
        assert puller.pull(reading, copy).removed
        assert [] == list(differing(store, copy))


def test_a_pull_that_breaks_off_is_finished_by_the_next(
    few: None, make_lake: Make, fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull, "ROWS_MAX", 500)
    settings = make_lake("postgresql")
    with Lake.open(settings, create=True) as lake, Store.open(fleet.directory) as store:
        publisher = Publisher(settings, now_us)
        publisher.publish(lake, store)

        def broken(done: int, total: int) -> None:
            if done > 600:
                raise KeyboardInterrupt

        with Store.open(tmp_path / "copy") as copy, pytest.raises(KeyboardInterrupt):
            Puller(now_us).pull(lake, copy, broken)
        with Store.open(tmp_path / "copy") as copy:
            last = mirror.last_pull(copy)
            assert last is not None and not last.whole and {} == mirror.cells(copy)
            store.sql("update run set name = 'changed meanwhile'")
            publisher.publish(lake, store)
            done = Puller(now_us).pull(lake, copy)
            last = mirror.last_pull(copy)
            assert last is not None and last.whole and done.snapshot == last.snapshot
            assert (
                0
                < done.rows
                < sum(content.rows for units in mirror.units(copy)["east"].values() for content in units.values())
            )
            for name in ("ledger_hour", "run", "book_day", "finding", "device_hour"):
                rows = f"select count(*), sum(hash(t)::hugeint) from {name} t"
                assert store.sql(rows) == copy.sql(rows), name


KILLED = "from gpuwatch.lake import pull; pull.ROWS_MAX = 300; from gpuwatch.cli import main; main()"


@pytest.mark.slow
def test_a_killed_pull(few: None, make_lake: Make, fleet: Fleet, tmp_path: Path) -> None:
    settings = make_lake("postgresql")
    rng, killed, long_s = random.Random(4), 0, 0.0
    with Lake.open(settings, create=True) as lake, Store.open(fleet.directory) as store:
        Publisher(settings, now_us).publish(lake, store)
    command = [sys.executable, "-c", KILLED, "lake", "pull", "--data", tmp_path / "copy"]
    command += ["--config", config(settings, tmp_path)]
    for number in range(max(ROUNDS // 2, 2)):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        began = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            if number:
                time.sleep(rng.uniform(0.5, 1) * long_s)
                child.kill()
            killed += child.wait(PATIENCE_S) != 0
        long_s = long_s or time.monotonic() - began
        if number:
            change(fleet.directory, number)
            with Lake.open(settings) as lake, Store.open(fleet.directory) as store:
                Publisher(settings, now_us).publish(lake, store)
            assert 0 == subprocess.run(command, stdout=subprocess.DEVNULL, timeout=PATIENCE_S, check=False).returncode
        with Store.open(fleet.directory) as store, Store.open(tmp_path / "copy") as copy:
            for name in ("ledger_hour", "run", "book_day", "finding", "device_hour"):
                rows = f"select count(*), sum(hash(t)::hugeint) from {name} t"
                assert store.sql(rows) == copy.sql(rows), name
    assert killed


@pytest.fixture
def refused(make_lake: Make, few: None) -> tuple[LakeSettings, Callable[[str, Path], None]]:
    """A lake, and what publishes a cell to it."""
    settings = make_lake("duckdb")

    def publish(cell: str, directory: Path) -> None:
        named = LakeSettings(**{**settings.__dict__, "cell": cell})
        with Lake.open(named, create=True) as lake, Store.open(directory) as store:
            Publisher(named, now_us).publish(lake, store)

    return settings, publish


def test_a_cluster_of_two_cells_is_refused(
    refused: tuple[LakeSettings, Callable[[str, Path], None]], fleet: Fleet, tmp_path: Path
) -> None:
    settings, publish = refused
    publish("east", fleet.directory)
    publish("twin", fleet.directory)
    with pytest.raises(
        UsageError, match="cells east and twin both have cluster sim, so its GPU time would count twice"
    ):
        pulled(settings, tmp_path / "copy")
    assert pulled(settings, tmp_path / "copy", "twin").rows
    with pytest.raises(UsageError, match="has cell twin, which is not wanted"):
        pulled(settings, tmp_path / "copy", "east")
    with pytest.raises(UsageError, match="has no cell nosuch: gpuwatch lake status"):
        pulled(settings, tmp_path / "new", "nosuch")


def test_a_directory_with_data_of_its_own_is_left_alone(
    refused: tuple[LakeSettings, Callable[[str, Path], None]], fleet: Fleet
) -> None:
    settings, publish = refused
    publish("east", fleet.directory)
    with pytest.raises(UsageError, match="has data of its own, which a copy of the lake would replace"):
        pulled(settings, fleet.directory)


def test_a_newer_cell_is_refused_and_an_older_one_is_read(
    refused: tuple[LakeSettings, Callable[[str, Path], None]], fleet: Fleet, tmp_path: Path
) -> None:
    settings, publish = refused
    publish("east", fleet.directory)
    with Lake.open(settings) as lake:
        lake.sql("update lake.cell_east._guard set schema_version = 9999, n = n + 1")
        with Store.open(tmp_path / "copy") as copy, pytest.raises(UsageError, match="published by a newer gpuwatch"):
            Puller(now_us).pull(lake, copy)
        lake.sql("update lake.cell_east._guard set schema_version = 1, n = n + 1")
        lake.sql("alter table lake.cell_east.finding drop column severity")
        with Store.open(tmp_path / "copy") as copy:
            Puller(now_us).pull(lake, copy)
            assert [(None,)] == copy.sql("select distinct severity from finding")


def test_the_command_says_what_it_has_copied(make_lake: Make, few: None, fleet: Fleet, tmp_path: Path) -> None:
    settings = make_lake("postgresql")
    with Lake.open(settings, create=True) as lake, Store.open(fleet.directory) as store:
        Publisher(settings, now_us).publish(lake, store)
    file = config(settings, tmp_path)
    arguments = ("lake", "pull", "--data", tmp_path / "copy", "--config", file, "--format", "table")
    ran = processes.run(arguments)
    assert 0 == ran.returncode, ran.stderr
    assert "east" not in ran.stdout and "rows" in ran.stdout
    again = processes.run(arguments)
    assert (0, True) == (again.returncode, "Nothing has changed since the last pull." in again.stdout), again.stderr
