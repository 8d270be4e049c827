"""Temporary tables of a question: none is left, and none is dropped that was not made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuwatch.ledger.totals import working_tables
from gpuwatch.store.database import Store

TEMPORARY = "select table_name from duckdb_tables() where temporary"


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(None) as found:
        yield found


@pytest.fixture
def drops(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables and views that were dropped."""
    found: list[str] = []
    plain = Store._execute

    def execute(self: Store, text: str, parameters: object = None) -> object:
        if " if exists " in text:
            found.append(text.split()[-1])
        return plain(self, text, parameters)

    monkeypatch.setattr(Store, "_execute", execute)
    return found


def test_only_what_was_made_is_dropped(store: Store, drops: list[str]) -> None:
    with working_tables(store):
        store.sql("create or replace temp table kind as select 1 as kind_id")
        store.sql("create or replace temp table cut_bucket as select 1 as us")
        store.keep("ledger_group", "select 1 as us")
        store.sql("create temp table run_team as select 1 as run_id")

    assert ["cut_bucket", "kind", "ledger_group", "temp.run_team"] == sorted(drops)
    assert [] == store.sql(TEMPORARY)
    assert [(0,)] == store.sql("select count(*) from run_team")  # the table of the store is still there

    with working_tables(store):
        pass
    assert 4 == len(drops)


def test_a_table_that_is_made_again_is_dropped_again(store: Store, drops: list[str]) -> None:
    for _ in range(2):
        with working_tables(store):
            store.sql("create or replace temp table unit as select 1 as unit_id")

    assert ["unit", "unit"] == drops


def test_what_a_failed_question_made_does_not_stop_the_next(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), working_tables(store):
        store.sql("create or replace temp table unit as select 1 as unit_id")
        raise ZeroDivisionError
    with working_tables(store):
        store.sql("create or replace temp table unit as select 2 as unit_id")

    assert [] == store.sql(TEMPORARY)


def test_a_question_within_a_transaction_uses_it(store: Store) -> None:
    with store.transaction(), working_tables(store):
        assert store.within
        store.sql("create or replace temp table unit as select 1 as unit_id")

    assert (False, []) == (store.within, store.sql(TEMPORARY))
