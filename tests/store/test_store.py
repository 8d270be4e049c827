"""The DuckDB file: migrations, what it holds after a fault, and how samples are sealed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from gpuwatch.core import sqlfile
from gpuwatch.core.errors import StoreError
from gpuwatch.core.model import POINT, SERIES, Points, Records, device_key
from gpuwatch.core.sqlfile import Statement
from gpuwatch.imports.files import seal_all
from gpuwatch.store import connection, database
from gpuwatch.store.database import BLOCK_BYTES, FILE_NAME, STORAGE_VERSION, Store
from tests.worlds.world import BUSY, CLUSTER, HOUR, STEP_S, Gpu, World, batch, claim, minutes, samples, us

DAY = 24 * HOUR
A = Gpu()
B = Gpu("GPU-b", index=1)


def instants(store: Store, table: str = "sample") -> list[int]:
    """Seconds of every row of sample or sample_tail in stored order."""
    rows = store.sql(f"select observed_us from {table} order by rowid")
    return [(at - us(0)) // 1_000_000 for (at,) in rows]


def spans(store: Store) -> list[tuple[int, int, int]]:
    """(first, last, samples) of every context span, in seconds."""
    rows = store.sql("select first_us, last_us, samples from context_span order by all")
    return [((a - us(0)) // 1_000_000, (b - us(0)) // 1_000_000, n) for a, b, n in rows]


# Opening.


def test_a_new_directory_gets_the_newest_schema_and_opening_again_changes_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path / "new" / "data") as store:
        applied = store.sql("select version, name, applied_us from schema_migration order by version")
    with Store.open(tmp_path / "new" / "data") as store:
        again = store.sql("select version, name, applied_us from schema_migration order by version")

    assert sqlfile.names_in("schema") == [name for _, name, _ in applied]
    assert applied == again


def test_a_statement_is_parsed_once_for_all_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "select $n::integer + 1"
    monkeypatch.setattr(connection, "_parsed", {})
    with Store.open(None) as one, Store.open(None) as other:
        answers = [store.sql(text, n=n) for store, n in ((one, 1), (other, 2), (one, 3))]
        assert [[(2,)], [(3,)], [(4,)]] == answers
        assert text in connection._parsed
        monkeypatch.setattr(connection, "PARSED_MAX", len(connection._parsed))
        assert [(7,)] == one.sql("select 7")
        assert ["select 7"] == list(connection._parsed), "it is emptied when it is full"
        with pytest.raises(duckdb.ParserException, match="selekt"):
            one.sql("selekt 1")
        assert [(9,)] == one.sql("select 8; select 9"), "a text with several statements is not kept"
        assert ["select 7"] == list(connection._parsed)


@pytest.mark.parametrize("broken", ["create table half (a integer); select * from nowhere", "no sql"])
def test_a_migration_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    Store.open(tmp_path).close()
    names, load = sqlfile.names_in, sqlfile.load

    def with_broken(folder: str) -> list[str]:
        return [*names(folder), "schema/9998_broken"]

    def load_broken(name: str) -> tuple[Statement, ...]:
        return sqlfile.split(broken) if name == "schema/9998_broken" else load(name)

    with monkeypatch.context() as patch:
        patch.setattr(sqlfile, "names_in", with_broken)
        patch.setattr(sqlfile, "load", load_broken)
        with pytest.raises(Exception, match="nowhere|no sql|syntax"):
            Store.open(tmp_path)

    with Store.open(tmp_path) as store:
        assert [] == store.sql("select * from schema_migration where version = 9998")
        assert [] == store.sql("select * from duckdb_tables() where table_name = 'half'")


def test_a_schema_from_the_future_is_refused(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.sql("insert into schema_migration values (9999, 'schema/9999_future', 0)")

    with pytest.raises(StoreError, match="schema version 9999 was written by a newer gpuwatch; upgrade"):
        Store.open(tmp_path)


def test_a_missing_directory_is_not_made_when_only_reading(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no gpuwatch data in .*absent: import something first"):
        Store.open(tmp_path / "absent", create=False)

    assert not (tmp_path / "absent").exists()


def test_a_file_that_is_no_database_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"this is no database" * 1000)

    with pytest.raises(StoreError, match="is damaged") as refused:
        Store.open(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")

    with pytest.raises(StoreError, match="data directory .*choose another with --data"):
        Store.open(tmp_path / "data")


def test_a_second_process_learns_who_holds_the_store(tmp_path: Path) -> None:
    holding = (
        "import sys; from gpuwatch.store.database import Store; store = Store.open(sys.argv[1]); "
        "print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", holding, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert "open\n" == holder.stdout.readline()

        with pytest.raises(StoreError, match=f"is in use by process {holder.pid}: stop it, or ask it"):
            Store.open(tmp_path)
        holder.stdin.close()

    Store.open(tmp_path).close()


def test_memory_spill_directory_and_threads_are_bounded(tmp_path: Path) -> None:
    with Store.open(tmp_path, memory_limit="512MB", threads=3) as store:
        settings = dict(
            store.sql(
                "select name, value from duckdb_settings() where name in ('memory_limit', 'temp_directory', 'threads')"
            )
        )

    assert {"memory_limit": "488.2 MiB", "temp_directory": str(tmp_path / "tmp"), "threads": "3"} == settings


def test_the_file_can_be_read_by_the_oldest_engine_that_the_lake_needs(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        result = store.sql("select value from duckdb_settings() where name = 'storage_compatibility_version'")

    assert [(STORAGE_VERSION,)] == result


def block_bytes(store: Store) -> int:
    return int(store.sql("select block_size from pragma_database_size()")[0][0])


def store_in_large_blocks(directory: Path) -> None:
    """A store as earlier versions created it: a quarter of a megabyte for every table."""
    directory.mkdir()
    with duckdb.connect(str(directory / FILE_NAME), config={"storage_compatibility_version": STORAGE_VERSION}):
        pass
    with Store.open(directory) as store:
        store.sql("insert into dirty_hour select 'c1', unnest(range(2000000))")
        store.checkpoint()
        store.sql("delete from dirty_hour where hour_us > 0")
        store.checkpoint()


def test_a_new_file_has_small_blocks_and_so_has_one_whose_creation_was_interrupted(tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    cut.mkdir()
    with duckdb.connect() as connection:
        connection.execute(database._attach(cut / FILE_NAME, "new_store"))
    with Store.open(tmp_path / "new") as new, Store.open(cut) as finished:
        assert [BLOCK_BYTES, BLOCK_BYTES] == [block_bytes(new), block_bytes(finished)]
        assert [] == finished.sql("from dirty_hour")


def test_a_file_with_large_blocks_keeps_them_and_its_copy_has_small_ones(tmp_path: Path) -> None:
    store_in_large_blocks(tmp_path / "old")
    (tmp_path / "copy").mkdir()
    with Store.open(tmp_path / "old") as store:
        assert 262144 == block_bytes(store)
        store.copy_to(tmp_path / "copy" / FILE_NAME)

    with Store.open(tmp_path / "copy") as copied:
        assert BLOCK_BYTES == block_bytes(copied)
        assert [("c1", 0)] == copied.sql("from dirty_hour")
    old, new = ((tmp_path / name / FILE_NAME).stat().st_size for name in ("old", "copy"))
    assert new < old / 3


# Appending.


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(lambda s: s.keep("filled", "select * from source where false"), id="made of nothing"),
        pytest.param(lambda s: s.insert_as("filled", "select * from source where false"), id="nothing inserted"),
        pytest.param(lambda s: s.insert("filled", ["number"], "none"), id="nothing appended"),
    ],
)
def test_what_is_written_after_nothing_in_one_transaction_is_read(first: Callable[[Store], None]) -> None:
    """More rows than a row group has, written by several threads."""
    store = Store.open(None, threads=2)
    store.keep("source", "select range as number, 'n' || range as name from range(300000)")
    store.keep("none", "select * from source where false")
    store.keep("filled", "select * from source where number < 7")

    with store.transaction():
        first(store)
        before = len(store.sql("select * from filled"))
        store.insert_as("filled", "select * from source")
        read = len(store.sql("select * from filled"))

    assert (300_000, 300_000) == (read - before, len(store.sql("select * from filled")) - before)


def test_an_append_is_all_or_nothing_within_a_transaction() -> None:
    store = Store.open(None)
    contexts, rows = batch(samples(A, [30, 90]))
    bad = Records("sample", rows.rows.append_column("not_a_field", pa.array([1.0, 2.0])))

    with pytest.raises(Exception, match="not_a_field"), store.transaction():
        store.append(contexts)
        store.append(rows)
        store.append(bad)

    assert [(0,)] == store.sql("select count(*) from sample_tail")
    assert [(0,)] == store.sql("select count(*) from context")
    with store.transaction():
        store.append(contexts)
        store.append(rows)
    assert [30, 90] == instants(store, "sample_tail")


def test_what_was_committed_is_there_after_a_kill(tmp_path: Path) -> None:
    writing = (
        "import os, sys; from gpuwatch.store.database import Store; from tests.worlds.world import *; "
        "store = Store.open(sys.argv[1]); kept, torn = batch(samples(Gpu(), [30, 90])), batch(samples(Gpu(), [150]))\n"
        "with store.transaction(): [store.append(b) for b in kept]\n"
        "store.sql('begin transaction'); [store.append(b) for b in torn]; os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", writing, str(tmp_path)], cwd=Path(__file__).parents[2], check=False)

    with Store.open(tmp_path) as store:
        assert [30, 90] == instants(store, "sample_tail")


def test_names_of_tables_and_columns_come_from_us_only() -> None:
    store = Store.open(None)
    rows = pa.table({"device_id": [1], 'a" b': [1]})

    with pytest.raises(ValueError, match="no table 'sample_tail; drop'"):
        store.append(Records("sample_tail; drop", rows))
    with pytest.raises(ValueError, match="not a column or table name"):
        store.append(Records("sample", rows))


def test_a_context_is_kept_once() -> None:
    store = Store.open(None)
    contexts = batch(samples(A, [30]))[0]
    store.append(contexts)
    store.append(Records("context", pa.concat_tables([contexts.rows, contexts.rows])))

    assert [(1,)] == store.sql("select count(*) from context")


def test_points_become_one_wide_row_an_instant() -> None:
    store = Store.open(None)
    device = device_key(CLUSTER, "GPU-a")
    series = pa.Table.from_pylist(
        [
            {"series": 0, "device_id": device, "context_id": 5, "field": "gr_engine_ratio"},
            {"series": 1, "device_id": device, "context_id": 5, "field": "fb_used_bytes"},
            {"series": 2, "device_id": device, "context_id": 5, "field": "no_such_field"},
        ],
        schema=SERIES,
    )
    points: list[dict[str, Any]] = [
        {"series": 0, "observed_us": 10, "value": 0.5},
        {"series": 1, "observed_us": 10, "value": 2.0**40},
        {"series": 1, "observed_us": 20, "value": 3.0},
        {"series": 2, "observed_us": 30, "value": 1.0},
    ]
    store.append(Points(series, pa.Table.from_pylist(points[:3], schema=POINT)))

    rows = store.sql("select observed_us, gr_engine_ratio, fb_used_bytes from sample_tail order by 1")
    assert [(10, 0.5, 2**40), (20, None, 3)] == rows


def test_points_of_unknown_fields_only_add_nothing() -> None:
    store = Store.open(None)
    series = pa.Table.from_pylist([{"series": 0, "device_id": 1, "context_id": 5, "field": "other"}], schema=SERIES)

    rows = pa.Table.from_pylist([{"series": 0, "observed_us": 10, "value": 0.5}], schema=POINT)
    assert 0 == store.append(Points(series, rows))
    assert [(0,)] == store.sql("select count(*) from sample_tail")


# Sealing.


def test_sealing_sorts_by_device_and_time_and_drops_repeats() -> None:
    world = World().add(samples(A, [150, 30, 90])).add(samples(A, [90, 210]))
    world.add(samples(B, [60]))

    assert 5 == seal_all(world.store)
    rows = world.store.sql("select device_id, observed_us from sample order by rowid")
    assert sorted(rows) == rows
    assert [30, 60, 90, 150, 210] == sorted(instants(world.store))
    assert [] == instants(world.store, "sample_tail")


def test_sealing_nothing_is_nothing() -> None:
    assert 0 == seal_all(World().store)
    assert 0 == World().store.seal(us(DAY))


def test_repeats_are_merged_field_by_field() -> None:
    one = samples(A, [30], {"gr_engine_ratio": 0.5})
    two = samples(A, [30], {"sm_active_ratio": 0.25})
    world = World().add(one).add(two).seal()

    assert [(0.5, 0.25)] == world.store.sql("select gr_engine_ratio, sm_active_ratio from sample")


def test_only_what_is_older_is_sealed() -> None:
    world = World().add(samples(A, [30, 90, 150]))

    world.store.seal(us(90))

    assert [30] == instants(world.store)
    assert [90, 150] == instants(world.store, "sample_tail")


def test_sealing_an_hour_in_two_parts_is_sealing_it_at_once() -> None:
    rows = samples(A, minutes(0, 2 * HOUR), job="1")
    parts, whole = World().add(rows), World().add(rows).seal()

    for until in (1000, 1815, 4000, 2 * HOUR):
        parts.store.seal(us(until))

    assert spans(whole.store) == spans(parts.store)
    assert instants(whole.store) == sorted(instants(parts.store))


LATE = {
    "in the middle of a sealed hour": 615,
    "at the start of a sealed hour": 0,
    "at its end": HOUR - 1,
    "in another hour of a sealed day": 5 * HOUR,
    "on a day before": -DAY,
    "on a day after": DAY + 30,
}


@pytest.mark.parametrize("at", LATE.values(), ids=LATE)
def test_a_late_sample_merges_into_what_is_sealed(at: int) -> None:
    rows = samples(A, minutes(0, HOUR), job="1")
    world = World().add(rows).seal().add(samples(A, [at], job="1")).seal()
    together = World().add(rows, samples(A, [at], job="1")).seal()

    assert sorted([int(i) for i in minutes(0, HOUR)] + [at]) == sorted(instants(world.store))
    assert spans(together.store) == spans(world.store)
    assert together.rows("sealed_day") == world.rows("sealed_day")


def test_repeating_part_of_a_sealed_hour_changes_nothing() -> None:
    rows = samples(A, minutes(0, HOUR), job="1")
    world = World().add(rows, claim("1", 0, HOUR)).book()
    before = world.derived()

    world.add(rows[5:15]).book()

    assert before == world.derived()


def test_late_samples_dirty_their_hour_and_both_neighbours() -> None:
    world = World().add(samples(A, minutes(0, 8 * HOUR), job="1"), claim("1", 0, 8 * HOUR)).book()

    world.add(samples(A, [4 * HOUR + 45], job="1")).seal()

    hours = world.store.sql("select (hour_us - $t) // 3600000000 from dirty_hour order by 1", t=us(0))
    assert [(3,), (4,), (5,)] == hours


def test_an_interrupted_seal_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World().add(samples(A, [30, DAY + 30, 2 * DAY + 30], BUSY))
    store, run = world.store, Store.run

    def torn(own: Store, name: str, /, **parameters: object) -> int:
        if name == "store/sealed_day" and parameters["day_us"] == us(DAY):
            raise KeyboardInterrupt
        return run(own, name, **parameters)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "run", torn)
        with pytest.raises(KeyboardInterrupt):
            seal_all(store)

    assert [30] == instants(store)
    assert [DAY + 30, 2 * DAY + 30] == instants(store, "sample_tail")
    assert 2 == seal_all(store)
    assert [30, DAY + 30, 2 * DAY + 30] == instants(store)


def test_labels_that_take_turns_are_spans_of_their_own() -> None:
    world = World().add(
        samples(A, minutes(0, 600), job="1"), samples(A, minutes(600, 660)), samples(A, minutes(660, 1200), job="1")
    )
    world.seal()

    assert [(30, 570, 10), (630, 630, 1), (690, 1170, 9)] == spans(world.store)


def test_labels_of_the_same_instants_are_shared_spans() -> None:
    world = World().add(samples(A, minutes(0, 600), job="1"), samples(A, minutes(0, 300), job="2")).seal()

    assert [(30, 270, 5), (30, 570, 10)] == spans(world.store)
    assert [(True,)] == world.store.sql("select distinct shared from context_span")


def test_the_step_of_these_worlds_is_the_default_interval() -> None:
    assert STEP_S == World().settings.default_interval_s


def test_a_copy_may_go_to_a_folder_with_a_quote_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "ada's"
    folder.mkdir()
    with Store.open(None) as store:
        store.sql("insert into dirty_hour values ('c1', 1)")
        store.copy_to(folder / "gpuwatch.duckdb")

    with Store.open(folder) as copied:
        assert [("c1", 1)] == copied.sql("select * from dirty_hour")


def test_every_migration_has_a_number_of_its_own() -> None:
    """Of two with one number, only one would be applied."""
    numbers = [int(name.split("/")[1][:4]) for name in sqlfile.names_in("schema")]

    assert list(range(1, len(numbers) + 1)) == sorted(numbers)
