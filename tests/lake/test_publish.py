"""What a publish writes is what the store has, bit for bit; and it writes only what has changed."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.billing.chargeback import chargeback
from gpuwatch.billing.focus.export import write
from gpuwatch.core.clock import DAY_US, HOUR_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.lake import guard, notes
from gpuwatch.lake.connection import Lake, LakeError
from gpuwatch.lake.export import export
from gpuwatch.lake.maintain import maintain
from gpuwatch.lake.publish import Published, Publisher
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.lake.status import cells
from gpuwatch.lake.tables import SAMPLES, published_tables
from gpuwatch.lake.units import Stamps, of_store
from gpuwatch.lake.verify import DAMAGED, LATE, Difference, verify
from gpuwatch.report.weekly import report_files
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.lake.conftest import FEW, START_US, Fleet, Make, bring
from tests.lake.through import as_in_the_store, store_through
from tests.worlds.postgres import PASSWORD, Postgres

NOW_US = START_US + 2 * DAY_US
"""Of two days, the samples of the first are settled."""


def now_us() -> int:
    return NOW_US


@pytest.fixture
def store(fleet: Fleet) -> Iterator[Store]:
    with Store.open(fleet.directory) as opened:
        yield opened


def differences(lake: Lake, store: Store | None) -> list[Difference]:
    """What verify finds."""
    return [found for report in verify(lake, store, NOW_US) for found in report.differences]


def rows_of(store: Store, query: str) -> tuple[int, str]:
    """How many rows, and a digest of their texts in order, which has every bit of a number."""
    text = "select count(*), md5(coalesce(string_agg(t::varchar, chr(10) order by t::varchar), ''))"
    count, digest = store._connection.sql(f"{text} from ({query}) t").fetchall()[0]
    return count, digest


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgresql", "bucket"])
def test_every_table_is_equal_bit_for_bit(make_lake: Make, kind: str, fleet: Fleet, store: Store) -> None:
    settings = make_lake(kind)
    with Lake.open(settings, create=True) as lake:
        done = Publisher(settings, now_us).publish(lake, store)
        assert [] == differences(lake, store)

    tables = {table.name: table for table in published_tables(store)}
    through = store_through(settings)
    with Lake.open(settings) if settings.on_server else through as other:
        lake = other if isinstance(other, Lake) else Lake(through._connection, settings)
        filled = 0
        for table in tables.values():
            where = "" if table.name != SAMPLES else f" where observed_us < {START_US + DAY_US}"
            own = rows_of(store, f"select * from {table.name}{where}")
            assert own == rows_of(through, as_in_the_store(lake, table)), table.name
            filled += own[0] > 0
    assert 35 < filled
    assert store.sql("select count(*) from ledger_hour")[0][0] > 500
    assert (
        done.rows
        == sum(store.sql(f"select count(*) from {name}")[0][0] for name in tables if name != SAMPLES)
        + store.sql(f"select count(*) from sample where observed_us < {START_US + DAY_US}")[0][0]
    )


def test_money_read_through_the_lake_is_that_of_the_cell(make_lake: Make, fleet: Fleet, store: Store) -> None:
    settings = make_lake("postgresql")
    with Lake.open(settings, create=True) as lake:
        Publisher(settings, now_us).publish(lake, store)
    window = Window(START_US, START_US + 2 * DAY_US)
    with store_through(settings) as through, State.open(fleet.directory) as state:
        for by in (("team",), ("job",), ("team", "gpu_model"), ("user", "day")):
            own, there = chargeback(store, state, window, by), chargeback(through, state, window, by)
            assert own == there, by
            assert own.lines if hasattr(own, "lines") else own
        files = [io.BytesIO(), io.BytesIO()]
        for where, file in zip((store, through), files, strict=True):
            write(where, state, window, file)
        assert files[0].getvalue() == files[1].getvalue() and 2000 < len(files[0].getvalue())
        reports = [
            {file.name: file.content for file in report_files(where, state, "2026-W45", None, NOW_US)}
            for where in (store, through)
        ]
        assert reports[0] == reports[1] and 3 < len(reports[0])


def test_a_repeated_publish_writes_nothing(few: None, make_lake: Make, store: Store) -> None:
    settings = make_lake("postgresql")
    with Lake.open(settings, create=True) as lake:
        one = Publisher(settings, now_us)
        assert one.publish(lake, store).tables
        before = guard.read(lake)
        assert Published() == one.publish(lake, store)
        assert Published() == Publisher(settings, now_us).publish(lake, store), "nor by another process"
        assert before == guard.read(lake)
        assert 1 == before.epoch


def test_a_new_hour_writes_the_days_that_it_changes(make_lake: Make, fleet: Fleet, store: Store) -> None:
    settings = make_lake("postgresql")
    with Lake.open(settings, create=True) as lake, State.open(fleet.directory) as state:
        one = Publisher(settings, now_us)
        whole = one.publish(lake, store)
        before = notes.read(lake)
        bring(store, state, fleet.hours[0], fleet.now_us + 3_600_000_000)
        done = one.publish(lake, store)
        after = notes.read(lake)

        changed = {
            table: {str(key.day) for key, content in units.items() if before.get(table, {}).get(key) != content}
            for table, units in after.items()
        }
        hourly = ("ledger_hour", "device_hour", "device_window", "device_minute", "book_day", "team_day")
        assert {name: {"2026-11-03"} for name in hourly} == {name: changed[name] for name in hourly}
        assert 0 < done.rows < whole.rows / 2
        assert [] == differences(lake, store)
        second = bring(store, state, fleet.hours[1], fleet.now_us + 2 * 3_600_000_000)
        assert second is None and one.publish(lake, store).units
        assert [] == differences(lake, store)


def test_a_stamp_that_is_trusted_says_the_truth(fleet: Fleet, store: Store) -> None:
    """After each pass, what number and stamp of a day take for unchanged has the same content."""
    with State.open(fleet.directory) as state:
        known = {
            table.name: of_store(store, table, {}, Stamps(store), NOW_US, whole=True)
            for table in published_tables(store)
        }
        for number, hour in enumerate(fleet.hours):
            bring(store, state, hour, fleet.now_us + (number + 1) * 3_600_000_000)
            for table in published_tables(store):
                quick = of_store(store, table, known[table.name], Stamps(store), NOW_US)
                real = of_store(store, table, {}, Stamps(store), NOW_US, whole=True)
                assert real == quick, table.name
                known[table.name] = real


def test_samples_stay_when_retention_deletes_them(few: None, make_lake: Make, fleet: Fleet, store: Store) -> None:
    settings = make_lake("duckdb")
    with Lake.open(settings, create=True) as lake:
        Publisher(settings, now_us).publish(lake, store)
        there = lake.sql("select count(*) from lake.cell_east.sample")
        assert there[0][0] > 5000
        with store.transaction():  # as sql/store/retention/retain.sql does
            store.sql(f"delete from sealed_day where day_us = {START_US}")
            store.sql(f"delete from sample where observed_us < {START_US + DAY_US // 2}")
        Publisher(settings, now_us).publish(lake, store)
        assert there == lake.sql("select count(*) from lake.cell_east.sample")
        assert [] == differences(lake, store)


def test_samples_that_were_taken_back_leave_the_lake(few: None, make_lake: Make, store: Store) -> None:
    settings = make_lake("duckdb")
    with Lake.open(settings, create=True) as lake:
        Publisher(settings, now_us).publish(lake, store)
        with store.transaction():
            for name in ("sample", "context_span", "sealed_day"):
                store.sql(f"delete from {name}")
        Publisher(settings, now_us).publish(lake, store)
        assert [(0,)] == lake.sql("select count(*) from lake.cell_east.sample")


def test_a_day_of_samples_settles_with_time_alone(few: None, make_lake: Make, fleet: Fleet, store: Store) -> None:
    """Nothing is written between the publishes: the second one finds the samples of the day all the same."""
    settings, moment = make_lake("duckdb"), [START_US + DAY_US + 2 * HOUR_US - 1]
    with Lake.open(settings, create=True) as lake:
        publisher = Publisher(settings, lambda: moment[0])
        publisher.publish(lake, store)
        assert SAMPLES not in notes.read(lake)
        moment[0] += 1
        done = publisher.publish(lake, store)
        assert (1, 1) == (done.tables, done.units) and done.rows > 5000
        assert Published() == publisher.publish(lake, store)
        moment[0] += HOUR_US
        store.sql(f"delete from sealed_day where day_us = {START_US}")
        assert Published() == publisher.publish(lake, store), "retention alone takes nothing back"
        store.sql(f"delete from context_span where hour_us < {START_US + DAY_US}")
        assert 1 == publisher.publish(lake, store).removed


def test_old_notes_are_written_again(few: None, make_lake: Make, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes are added until there are too many; a unit that is gone is no longer noted, before that and after."""
    monkeypatch.setattr(notes, "OLD_MAX", 5)
    settings = make_lake("duckdb")
    with Lake.open(settings, create=True) as lake:
        publisher = Publisher(settings, now_us)
        publisher.publish(lake, store)
        units = sum(map(len, notes.read(lake).values()))
        assert units == notes.count(lake)
        counted = []
        for number in range(units + 8):
            store.sql("update run set name = 'name ' || $number", number=number)
            publisher.publish(lake, store)
            counted.append(notes.count(lake))
            assert (units, 0) == (sum(map(len, notes.read(lake).values())), len(differences(lake, None)))
        changed = counted[0] - units
        assert 0 < changed and max(counted) <= 2 * units + 5 + 2 * changed and units in counted
        store.sql("delete from finding")
        assert publisher.publish(lake, store).removed
        assert "finding" not in notes.read(lake)
        own = Publisher(settings, now_us)
        assert Published() == own.publish(lake, store), "another process reads the same"
        own.whole, own._found = True, None
        store.sql("update run set name = 'last'")
        own.publish(lake, store)
        assert sum(map(len, notes.read(lake).values())) == notes.count(lake)
        assert [] == differences(lake, store)


def test_notes_without_a_number_are_older(few: None, make_lake: Make, store: Store) -> None:
    """A version before this one deleted what was noted before, and numbered nothing."""
    settings = make_lake("duckdb")
    with Lake.open(settings, create=True) as lake:
        Publisher(settings, now_us).publish(lake, store)
        before = notes.read(lake)
        lake.sql("alter table lake.cell_east._published drop column n")
        assert Published() == Publisher(settings, now_us).publish(lake, store)
        assert before == notes.read(lake)
        store.sql("update run set name = 'new'")
        Publisher(settings, now_us).publish(lake, store)
        assert before["run"] != notes.read(lake)["run"]
        assert [] == differences(lake, store)


def test_samples_can_be_left_out(few: None, make_lake: Make, store: Store) -> None:
    settings = make_lake("duckdb", samples=False)
    with Lake.open(settings, create=True) as lake:
        Publisher(settings, now_us).publish(lake, store)
        assert SAMPLES not in notes.read(lake)
        assert [] == differences(lake, store)


def test_verify_names_the_first_row_that_differs(few: None, make_lake: Make, store: Store) -> None:
    settings = make_lake("postgresql")
    with Lake.open(settings, create=True) as lake:
        Publisher(settings, now_us).publish(lake, store)
        store.sql("update finding set severity = 'changed' where key = (select min(key) from finding)")
        (late,) = differences(lake, store)
        assert ("finding", LATE, late.store_rows) == (late.table, late.kind, late.lake_rows)
        assert late.row.startswith("only in the store: {") and '"severity": "changed"' in late.row

        lake.sql(
            "delete from lake.cell_east.ledger_hour where hour_us = (select min(hour_us) from lake.cell_east.ledger_hour)"
        )
        late, damaged = sorted(differences(lake, store), key=lambda found: found.table)
        assert ("ledger_hour", DAMAGED) == (damaged.table, damaged.kind)
        assert damaged.store_rows is not None and damaged.lake_rows < damaged.store_rows
        assert f'"hour_us": {START_US}' in damaged.row
        assert ["ledger_hour"] == [found.table for found in differences(lake, None)], "without the store, too"


def test_a_damaged_lake_is_repaired(few: None, make_lake: Make, store: Store, tmp_path: Path) -> None:
    settings = make_lake("duckdb")
    with Lake.open(settings, create=True) as lake:
        Publisher(settings, now_us).publish(lake, store)
        lake.sql(
            "delete from lake.cell_east.ledger_hour where hour_us < (select max(hour_us) from lake.cell_east.ledger_hour)"
        )
        lost = next((tmp_path / "lake" / "cell_east" / "device_hour").rglob("*.parquet"))
        lost.unlink()
        assert {"ledger_hour", "device_hour"} == {found.table for found in differences(lake, store)}
        assert Published() == Publisher(settings, now_us).publish(lake, store), "what was noted hides it"

        done = Publisher(settings, now_us, whole=True).publish(lake, store)

        assert 2 == done.tables
        assert [] == differences(lake, store)


def test_a_cell_belongs_to_one_directory(few: None, make_lake: Make, store: Store) -> None:
    settings = make_lake("duckdb")
    with Lake.open(settings, create=True) as lake, Store.open(None) as empty:
        Publisher(settings, now_us).publish(lake, store)
        with pytest.raises(UsageError, match=r"cell east belongs to another data directory.*--take-over"):
            Publisher(settings, now_us).publish(lake, empty)
        with pytest.raises(UsageError, match="belongs to another"):
            differences(lake, empty)
        assert [] == differences(lake, store)

        Publisher(settings, now_us, take_over=True).publish(lake, empty)
        assert [(0,)] == lake.sql("select count(*) from lake.cell_east.ledger_hour")
        assert 2 == guard.read(lake).epoch


def test_a_newer_gpuwatch_is_left_alone(few: None, make_lake: Make, store: Store) -> None:
    settings = make_lake("duckdb")
    with Lake.open(settings, create=True) as lake:
        Publisher(settings, now_us).publish(lake, store)
        lake.sql("update lake.cell_east._guard set schema_version = 9999")
        with pytest.raises(UsageError, match=r"published by a newer gpuwatch \(schema version 9999.*upgrade"):
            Publisher(settings, now_us).publish(lake, store)


def test_a_new_column_of_the_store_is_published(few: None, make_lake: Make, store: Store) -> None:
    settings = make_lake("postgresql")
    with Lake.open(settings, create=True) as lake:
        Publisher(settings, now_us).publish(lake, store)
        store.sql("alter table finding add column more hugeint")
        store.sql("update finding set more = 170141183460469231731687303715884105727")
        done = Publisher(settings, now_us).publish(lake, store)
        assert 1 == done.tables
        assert {("170141183460469231731687303715884105727",)} == set(
            lake.sql("select more from lake.cell_east.finding")
        )
        assert [] == differences(lake, store)


def test_names_with_any_characters_are_kept(make_lake: Make) -> None:
    names = ["a/b=c d", "it's", "ünï", 'q"uote', "100%", "..", "tab\there", "x" * 200]
    settings = make_lake("bucket")
    with Lake.open(settings, create=True) as lake, Store.open(None) as store:
        for number, name in enumerate(names):
            store.sql("insert into priced values ($name, $number, 1, 'x')", name=name, number=number)
            store.sql("insert into rolled_day values ($name, $day)", name=name, day=START_US)
        store.sql("insert into rolled_day values (null, -5), ('late', 9000000000000000000), (null, null)")
        Publisher(settings, now_us).publish(lake, store)
        assert sorted(names) == sorted(name for (name,) in lake.sql("select cluster from lake.cell_east.priced"))
        assert [] == differences(lake, store)
        store.sql("update priced set basis = 'y'")
        store.sql("delete from rolled_day where cluster is null")
        Publisher(settings, now_us).publish(lake, store)
        assert [] == differences(lake, store)
        assert len(names) + 1 == lake.sql("select count(*) from lake.cell_east.rolled_day")[0][0]


@pytest.mark.parametrize("kind", ["duckdb", "bucket"])
def test_the_tables_can_be_taken_out(few: None, make_lake: Make, store: Store, kind: str, tmp_path: Path) -> None:
    settings = make_lake(kind)
    with Lake.open(settings, create=True) as lake:
        Publisher(settings, now_us).publish(lake, store)
        written = list(export(lake, tmp_path / "out"))
        with pytest.raises(UsageError, match="there is something in it"):
            list(export(lake, tmp_path / "out"))
        with pytest.raises(UsageError, match="--table nosuch: unknown"):
            list(export(lake, tmp_path / "other", ("nosuch",)))
    assert FEW == {one.table for one in written}
    for name in ("ledger_hour", "run", "book_day", "finding"):
        own = rows_of(store, f"select * from {name}")
        assert own == rows_of(store, f"from '{tmp_path / 'out' / name}.parquet'"), name
    days = rows_of(store, f"select * exclude (day) from read_parquet('{tmp_path / 'out' / 'sample'}/*/*.parquet')")
    assert days == rows_of(store, f"select * from sample where observed_us < {START_US + DAY_US}")


def test_few_files_are_left(few: None, make_lake: Make, fleet: Fleet, store: Store) -> None:
    settings = make_lake("postgresql")
    with Lake.open(settings, create=True) as lake, State.open(fleet.directory) as state:
        one = Publisher(settings, now_us)
        one.publish(lake, store)
        for number, hour in enumerate(fleet.hours):
            bring(store, state, hour, fleet.now_us + (number + 1) * 3_600_000_000)
            one.publish(lake, store)
        done = maintain(lake, keep_days=0)
        most = lake.sql(
            f"select max(files) from (select count(*) as files from {lake.metadata}.ducklake_data_file"
            " where end_snapshot is null group by table_id, regexp_replace(path, '[^/]*$', ''))"
        )[0][0]
        assert 1 == most, "one file for each table, cluster and day"
        (cell,) = cells(lake)
        assert ("east", 1, "2026-11-03", 0) == (cell.cell, cell.epoch, cell.newest_day, cell.delete_files)
        assert 0 == done.skipped and done.files_after <= done.files_before
        again = maintain(lake, keep_days=0)
        assert again.files_before == again.files_after == done.files_after
        assert [] == differences(lake, store)
        bring(store, state, fleet.hours[1], fleet.now_us + 2 * 3_600_000_000)
        store.sql("update finding set severity = 'x'")
        assert one.publish(lake, store).tables, "the same process goes on after the files were merged"
        assert [] == differences(lake, store)


def test_an_overtaken_process_never_publishes_again(few: None, make_lake: Make, store: Store) -> None:
    settings = make_lake("postgresql")
    with Lake.open(settings, create=True) as lake, Lake.open(settings) as other:
        old, new = Publisher(settings, now_us), Publisher(settings, now_us)
        old.publish(lake, store)
        store.sql("update finding set severity = 'new'")
        new.publish(other, store)
        for _ in range(3):
            store.sql("update finding set severity = severity || 'x'")
            with pytest.raises(
                guard.Fenced, match="took over cell east at .* this process does not publish it any more"
            ):
                old.publish(lake, store)
        new.publish(other, store)
        assert [] == differences(other, store)


@pytest.mark.parametrize("moment", ["before the guard", "after the guard", "before the notes", "before the commit"])
def test_a_process_that_is_overtaken_within_its_transaction_is_refused(
    few: None, make_lake: Make, store: Store, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was paused at that moment, another one published, then it goes on."""
    settings = make_lake("postgresql")
    with Lake.open(settings, create=True) as lake, Lake.open(settings) as other:
        old, new = Publisher(settings, now_us), Publisher(settings, now_us)
        old.publish(lake, store)
        store.sql("update finding set severity = 'old'")
        real_step, real_note, begun = guard.step, notes.add, []

        def overtaken() -> None:
            if not begun:
                begun.append(True)
                new.publish(other, store)

        def step(*arguments: Any) -> None:
            if moment == "before the guard":
                overtaken()
            real_step(*arguments)
            if moment == "after the guard":
                overtaken()

        def note(*arguments: Any) -> int:
            if moment == "before the notes":
                overtaken()
            count = real_note(*arguments)
            if moment == "before the commit":
                overtaken()
            return count

        monkeypatch.setattr(guard, "step", step)
        monkeypatch.setattr(notes, "add", note)
        with pytest.raises(guard.Fenced):
            old.publish(lake, store)
        assert [True] == begun
        assert 2 == guard.read(other).epoch
        assert [] == differences(other, store)


def test_two_cells_do_not_disturb_each_other(few: None, make_lake: Make, store: Store) -> None:
    east = make_lake("postgresql")
    west = LakeSettings(**{**east.__dict__, "cell": "west"})
    with Lake.open(east, create=True) as one, Lake.open(west) as two, Store.open(None) as other:
        first, second = Publisher(east, now_us), Publisher(west, now_us)
        first.publish(one, store)
        second.publish(two, other)
        other.sql("insert into priced values ('w', 1, 1, 'x')")
        store.sql("update finding set severity = 'x'")
        with one.transaction():
            one.sql("update lake.cell_east._guard set n = n")
            second.publish(two, other)
        first.publish(one, store)
        assert [] == differences(one, store) + differences(two, other)
        assert ["east", "west"] == [cell.cell for cell in cells(one)]


def test_no_message_shows_a_password(make_lake: Make, catalogues: Postgres, tmp_path: Path) -> None:
    settings = make_lake("postgresql")
    away = LakeSettings(**{**settings.__dict__, "catalogue": "postgresql://gpuwatch@127.0.0.1:1/none"})
    with pytest.raises(LakeError, match="Connection refused") as found:
        Lake.open(away, create=True)
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong-password")
    with pytest.raises(LakeError, match="authentication failed") as refused:
        Lake.open(LakeSettings(**{**settings.__dict__, "catalogue_password_file": str(wrong)}), create=True)
    for text in (str(found.value), str(refused.value), repr(settings)):
        assert PASSWORD not in text and "wrong-password" not in text


def test_a_lake_that_is_not_there_is_not_made_by_reading(make_lake: Make, tmp_path: Path) -> None:
    for kind in ("duckdb", "postgresql"):
        settings = make_lake(kind)
        with pytest.raises(LakeError, match="gpuwatch lake publish makes it"):
            Lake.open(settings)
    assert [] == [path.name for path in tmp_path.glob("catalogue.*")]
