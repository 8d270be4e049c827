"""Columns of samples: a field has a stored one once a sample has it, and every query reads all fields before and after that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.fields import columns
from gpuwatch.core.model import POINT, SERIES, Points, Records
from gpuwatch.imports import read_ahead
from gpuwatch.imports.files import import_paths, seal_all
from gpuwatch.lake.tables import published_tables
from gpuwatch.state import State
from gpuwatch.store import database, sample_columns
from gpuwatch.store.database import Store
from gpuwatch.store.sample_columns import KEYS, ORDER, SAMPLE_TABLES, stored_fields

LOAD, FAULT, HEAT = "sm_active_ratio", "ecc_dbe_volatile_count", "memory_temp_celsius"
DAY_US = 86_400_000_000


def sample(at_us: int, fields: Mapping[str, float | None]) -> Records:
    kinds = {"DOUBLE": pa.float64(), "BIGINT": pa.int64()}
    keys = {"device_id": [1], "context_id": [1], "observed_us": [at_us]}
    values = {name: pa.array([value], kinds[columns()[name].type]) for name, value in fields.items()}
    return Records("sample", pa.table({name: pa.array(key, pa.int64()) for name, key in keys.items()} | values))


def read(store: Store, table: str = "sample") -> list[tuple[int, float | None, int | None, float | None]]:
    return store.sql(f"select observed_us, {LOAD}, {FAULT}, {HEAT} from {table} order by 1")


def physical(store: Store, table: str) -> set[str]:
    """The columns that DuckDB has storage for."""
    found = store.sql(f"select distinct column_name from pragma_storage_info('{table}') where column_name <> 'file_id'")
    return {name for (name,) in found} - set(KEYS)


def test_a_field_that_no_sample_has_is_read_as_unknown_and_takes_no_space() -> None:
    store = Store.open(None)
    assert not stored_fields(store)

    store.append(sample(60, {LOAD: 0.5, HEAT: None}))
    seal_all(store)
    store.append(sample(90, {LOAD: 0.25}))

    assert ({LOAD}, {LOAD}) == (physical(store, "sample"), physical(store, "sample_tail"))
    assert [(60, 0.5, None, None)] == read(store)
    assert [(90, 0.25, None, None)] == read(store, "sample_tail")
    for table in SAMPLE_TABLES:
        types = dict(store.sql(f"select column_name, column_type from (describe {table})"))
        assert types == dict.fromkeys([*KEYS, "file_id"], "BIGINT") | {n: f.type for n, f in columns().items()}


def test_a_field_that_appears_later_is_unknown_before_and_known_after() -> None:
    store = Store.open(None)
    store.append(sample(60, {LOAD: 0.5}))
    seal_all(store)
    store.append(sample(90, {LOAD: 0.25}))
    store.append(sample(120, {LOAD: 0.125, FAULT: 3}))
    assert [(90, 0.25, None, None), (120, 0.125, 3, None)] == read(store, "sample_tail")

    seal_all(store)
    store.append(sample(60, {HEAT: 40.0}))
    seal_all(store)

    assert [(60, 0.5, None, 40.0), (90, 0.25, None, None), (120, 0.125, 3, None)] == read(store)
    assert {LOAD, FAULT, HEAT} == physical(store, "sample")


def test_a_new_field_needs_its_column_before_the_first_sample_of_a_transaction() -> None:
    store = Store.open(None)
    late = sample(90, {FAULT: 1})
    with store.transaction():
        store.append(sample(60, {LOAD: 0.5}))
        assert (False, True) == (store.lacks(sample(90, {LOAD: 1.0, FAULT: None})), store.lacks(late))
    with pytest.raises(RuntimeError, match=r"Store\.prepare"), store.transaction():
        store.append(sample(75, {LOAD: 0.5}))
        store.append(late)
    assert [(60, 0.5, None, None)] == read(store, "sample_tail")

    store.prepare([late])
    with store.transaction():
        store.append(sample(75, {LOAD: 0.5}))
        store.append(late)
    assert [(60, 0.5, None, None), (75, 0.5, None, None), (90, None, 1, None)] == read(store, "sample_tail")


def test_a_column_of_a_transaction_that_failed_is_made_by_the_next() -> None:
    store = Store.open(None)
    with pytest.raises(ZeroDivisionError), store.transaction():
        store.append(sample(60, {LOAD: 0.5}))
        store.append(sample(90, {LOAD: 0.5}))
        raise ZeroDivisionError
    assert not stored_fields(store)

    store.append(sample(60, {LOAD: 0.25}))
    assert [(60, 0.25, None, None)] == read(store, "sample_tail")


def test_a_new_field_waits_for_the_transaction_that_seals_and_a_known_one_does_not() -> None:
    store = Store.open(None)
    store.append(sample(60, {LOAD: 0.5}))

    def appended(batch: Records) -> threading.Thread:
        thread = threading.Thread(target=lambda: store.cursor().append(batch))
        thread.start()
        return thread

    with store.changes.sample_lock:
        known = appended(sample(90, {LOAD: 0.25}))
        known.join(30)
        new = appended(sample(120, {FAULT: 2}))
        new.join(0.2)
        waits = new.is_alive()
    new.join(30)

    assert (False, True, False) == (known.is_alive(), waits, new.is_alive())
    seal_all(store)
    assert [(60, 0.5, None, None), (90, 0.25, None, None), (120, None, 2, None)] == read(store)


def test_a_lake_and_a_copy_have_the_same_columns_before_and_after_a_field_appears(tmp_path: Path) -> None:
    with Store.open(tmp_path / "own") as store:
        store.append(sample(60, {LOAD: 0.5}))
        seal_all(store)
        before = {table.name: table.columns for table in published_tables(store)}
        store.append(sample(90, {FAULT: 2}))
        after = {table.name: table.columns for table in published_tables(store)}
        (tmp_path / "copy").mkdir()
        store.copy_to(tmp_path / "copy" / database.FILE_NAME)

    assert before == after
    assert list(ORDER) == [name for name, _ in after["sample"]]
    with Store.open(tmp_path / "copy") as copied:
        assert [(60, 0.5, None, None)] == read(copied)
        assert [(90, None, 2, None)] == read(copied, "sample_tail")
        copied.append(sample(120, {HEAT: 50.0}))
        seal_all(copied)
        assert [(60, 0.5, None, None), (90, None, 2, None), (120, None, None, 50.0)] == read(copied)


# Stores of earlier versions.


def make_earlier(store: Store) -> None:
    """Gives a store the tables of an earlier version: two sealed samples, one that waits."""
    listed = ", ".join([*(f"{n} bigint" for n in KEYS), *(f"{n} {f.type}" for n, f in columns().items())])
    with store.transaction():
        for table in SAMPLE_TABLES:
            store.sql(f"drop table {table}")
            store.sql(f"create table {table} ({listed}, file_id bigint)")
        names = f"device_id, context_id, observed_us, {LOAD}, {HEAT}, file_id"
        store.sql(f"insert into sample ({names}) values (1, 1, 60, 0.5, null, 7), (1, 1, 90, null, 40, -1)")
        store.sql(f"insert into sample_origin ({names}) values (1, 1, 90, null, 40, 7), (1, 1, 90, null, 39, 8)")
        store.sql("insert into sample_tail (device_id, context_id, observed_us, xid_code) values (1, 1, 120, 79)")
        store.sql("delete from schema_migration where version = 29")


def contents(store: Store) -> dict[str, list[tuple[object, ...]]]:
    return {table: store.sql(f"select {', '.join(ORDER)} from {table} order by rowid") for table in SAMPLE_TABLES}


@pytest.mark.parametrize("most", [1_000, 1], ids=["a small store", "a store too large to copy"])
def test_a_store_of_an_earlier_version_keeps_every_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(sample_columns, "COPIED_ROWS_MAX", most)
    with Store.open(tmp_path) as store:
        make_earlier(store)
        before = contents(store)
    for _ in range(2):
        with Store.open(tmp_path) as store:
            assert before == contents(store)
            assert {LOAD, HEAT, "xid_code"} == stored_fields(store)
            assert physical(store, "sample") == ({LOAD, HEAT, "xid_code"} if most > 1 else set(columns()))
    with Store.open(tmp_path) as store:
        store.append(sample(90, {LOAD: 0.75, FAULT: 4}))
        seal_all(store)
        assert [(60, 0.5, None, None), (90, 0.75, 4, 40.0), (120, None, None, None)] == read(store)
        assert [(79,)] == store.sql("select xid_code from sample where observed_us = 120")


def test_a_migration_that_was_stopped_is_done_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path) as store:
        make_earlier(store)
        before = contents(store)
    whole = sample_columns._make

    def stops(store: Store, table: str, fields: set[str], *, copied: bool) -> None:
        whole(store, table, fields, copied=copied)
        if table == "sample_tail":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(sample_columns, "_make", stops)
        Store.open(tmp_path)

    with Store.open(tmp_path) as store:
        assert before == contents(store)
        assert {LOAD, HEAT, "xid_code"} == physical(store, "sample")


# Files.


def points(field: str, at_us: int, value: float) -> Points:
    series = {"series": [0], "device_id": [1], "context_id": [1], "field": [field]}
    rows = {"series": [0], "observed_us": [at_us], "value": [value]}
    return Points(pa.Table.from_pydict(series, schema=SERIES), pa.Table.from_pydict(rows, schema=POINT))


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Points | Exception]], None]:
    """Makes a reader of files return these batches, and raise what is an error."""

    def give(batches: list[Points | Exception]) -> None:
        def read_file(source: object, rejects: object) -> object:
            for batch in batches:
                if isinstance(batch, Exception):
                    raise batch
                yield batch

        reader = SimpleNamespace(read=read_file, naive_times=False)
        monkeypatch.setattr(read_ahead, "find_importer", lambda kind: reader)

    return give


def imported(store: Store, state: State, path: Path) -> int:
    path.write_text("a file")
    return import_paths(store, state, "openmetrics", [path], cluster="c1", now_us=2 * DAY_US).records


def test_a_file_whose_fields_come_one_after_the_other_is_stored_whole(
    tmp_path: Path, given: Callable[[list[Points | Exception]], None]
) -> None:
    given(
        [points(LOAD, DAY_US, 0.5), points(FAULT, DAY_US, 2), points(HEAT, DAY_US + 9, 40), points(LOAD, DAY_US + 9, 1)]
    )
    with Store.open(tmp_path / "data") as store, State.open(tmp_path / "data") as state:
        assert 4 == imported(store, state, tmp_path / "one")
        assert [(DAY_US, 0.5, 2, None), (DAY_US + 9, 1.0, None, 40.0)] == read(store)
        assert 1 == len(store.sql("from import_file"))


def test_a_file_that_breaks_after_a_new_field_leaves_nothing(
    tmp_path: Path, given: Callable[[list[Points | Exception]], None]
) -> None:
    given([points(LOAD, DAY_US, 0.5), points(FAULT, DAY_US, 2), UnreadableInput("cut off")])
    with Store.open(tmp_path / "data") as store, State.open(tmp_path / "data") as state:
        with pytest.raises(UnreadableInput, match="cut off"):
            imported(store, state, tmp_path / "one")
        assert [(0, 0)] == store.sql("select (select count(*) from sample_tail), (select count(*) from import_file)")

        given([points(LOAD, DAY_US, 0.75)])
        assert 1 == imported(store, state, tmp_path / "one")
        assert [(DAY_US, 0.75, None, None)] == read(store)
