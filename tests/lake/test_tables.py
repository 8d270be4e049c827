"""Which tables are published: decided by a rule, so that a new one needs no edit, and what the rule rests on."""

from __future__ import annotations

import re
from datetime import date

import pytest

from gpuwatch.core import sqlfile
from gpuwatch.core.clock import DAY_US
from gpuwatch.lake.tables import DAY_COLUMNS, NOT_PUBLISHED, SAMPLES, STAMPED, Table, every_table, published_tables
from gpuwatch.lake.units import Key, exactly, within
from gpuwatch.store.database import Store
from tests.house.source_tree import ROOT

EXACT = re.compile(
    r"(BIGINT|INTEGER|BOOLEAN|VARCHAR|DOUBLE|FLOAT|DATE|DECIMAL\(\d+,\d+\)|MAP\(VARCHAR, (DOUBLE|VARCHAR)\))(\[\])?"
)
"""Types that Parquet keeps bit for bit."""
WRITERS = {
    "ledger/clear_hours": "hours that are computed again, in the transaction that unrolls their day",
    "ledger/idle": "the same",
    "ledger/strand": "the same",
    "ledger/workload_hour": "the same",
    "ledger/write_hours": "the same",
    "store/day_sums/roll": "the sums of a day, before its new stamp",
    "store/day_sums/roll_sums": "the sums of a day, with its new stamp",
    "store/repair/reopen": "hours that are computed again",
    "store/repair/withdraw": "rows of a time, whose number changes",
    "store/retention/retain": "rows of a time, whose number changes",
}
"""Every query that changes a stamped table, and why a change cannot be missed by stamp and number of rows."""


@pytest.fixture(scope="module")
def store() -> Store:
    return Store.open(None)


def test_every_table_is_published_or_has_a_reason(store: Store) -> None:
    tables = {table.name for table in every_table(store)}

    assert tables == {table.name for table in published_tables(store)} | NOT_PUBLISHED.keys()
    assert NOT_PUBLISHED.keys() <= tables, "remove tables that are gone"
    assert STAMPED <= tables - NOT_PUBLISHED.keys()
    assert all(len(why) > 20 for why in NOT_PUBLISHED.values())


def test_a_new_table_is_published_by_day_and_cluster() -> None:
    with Store.open(None) as store:
        store.sql("create table invented (cluster varchar, hour_us bigint, big hugeint, x double)")
        found = {table.name: table for table in published_tables(store)}["invented"]

    assert (True, "hour_us", False) == (found.cluster, found.day_column, found.stamped)
    kept = [("cluster", "VARCHAR"), ("hour_us", "BIGINT"), ("big", "VARCHAR"), ("x", "DOUBLE"), ("_day", "DATE")]
    assert kept == found.kept_columns


def test_every_type_is_kept_bit_for_bit(store: Store) -> None:
    kinds = {kind for table in published_tables(store) for _, kind in table.kept_columns}

    assert set() == {kind for kind in kinds if not EXACT.fullmatch(kind)}, "see kept_type in gpuwatch/lake/tables.py"


def test_names_do_not_meet_those_of_the_lake(store: Store) -> None:
    names = {name for table in every_table(store) for name in (table.name, *table.names)}

    assert set() == {name for name in names if name.startswith("_")}


def test_stamped_tables_are_written_where_the_stamp_changes() -> None:
    """Another writer of these tables needs a new stamp of the day, or a place in WRITERS with the reason."""
    target = re.compile(rf"\b(?:insert into|delete from|update)\s+({'|'.join(sorted(STAMPED - {SAMPLES}))})\b")
    files = {str(path.relative_to(ROOT / "sql").with_suffix("")): path for path in (ROOT / "sql").rglob("*.sql")}
    found = {
        name
        for name, path in files.items()
        if not name.startswith("schema/") and target.search(path.read_text("utf-8"))
    }

    assert set(WRITERS) == found


@pytest.mark.parametrize(
    ("at_us", "day"),
    [
        (None, None),
        (-1, None),
        (0, date(1970, 1, 1)),
        (DAY_US - 1, date(1970, 1, 1)),
        (20_759 * DAY_US, date(2026, 11, 2)),
        (2**62, None),
    ],
)
def test_the_day_of_a_row(store: Store, at_us: int | None, day: date | None) -> None:
    table = Table("t", (("start_us", "BIGINT"),))

    assert [(day,)] == store.sql(f"select {table.day} from (select $at::bigint as start_us)", at=at_us)


def test_rows_of_a_unit_are_found(store: Store) -> None:
    table = Table("t", (("cluster", "VARCHAR"), ("hour_us", "BIGINT")))
    keys = [Key("it's", date(1970, 1, 2)), Key(None, None), Key("it's", None)]

    assert (
        "(cluster = 'it''s' and (_day in (date '1970-01-02') or _day is null)) or (cluster is null and (_day is null))"
        == exactly(keys, table)
    )
    assert "true" == within(table, keys), "a row of no day can be anywhere"
    assert f"hour_us >= {DAY_US} and hour_us < {2 * DAY_US}" == within(table, keys[:1])


def test_the_sql_of_the_lake_runs_on_an_empty_store(store: Store) -> None:
    for name in sqlfile.names_in("lake"):
        assert [] == store.rows(name, now_us=0, settled_us=0), name


def test_the_days_come_first(store: Store) -> None:
    """A table by days is cut by them even where it has other times."""
    by_day = {table.name: table.day_column for table in every_table(store) if "day_us" in table.names}

    assert {"day_us"} == set(by_day.values()) and "day_us" == DAY_COLUMNS[0]
