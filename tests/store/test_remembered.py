"""Answers of single statements that are given again while their tables are unchanged."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from gpuwatch.store import remembered
from gpuwatch.store.connection import Connection
from gpuwatch.store.database import Store
from tests.worlds.patience import PATIENCE_S

NAME = "quality/doctor_profiles"
"""Reads `device` alone."""
SLICE = "insert into device (cluster, device_id, parent_id, gpu, gi, model, profile, node, measured)"


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(None) as found:
        yield found


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that were run by name."""
    names: list[str] = []
    plain = Connection.rows

    def rows(self: Connection, name: str, /, **parameters: object) -> list[dict[str, object]]:
        names.append(name)
        return plain(self, name, **parameters)

    monkeypatch.setattr(Connection, "rows", rows)
    return names


def adds(store: Store, number: int) -> None:
    """A slice with a profile that no GPU has."""
    store.sql(f"{SLICE} values ('c', {number}, {number}, 'GPU-{number}', {number}, 'H100', '9g.odd', 'n', true)")


def test_a_statement_runs_again_only_after_a_change_of_its_tables(store: Store, ran: list[str]) -> None:
    first = remembered.rows(store, NAME)
    store.sql("insert into run_team (cluster, run_id, team) values ('c', 1, 't')")
    assert first == remembered.rows(store, NAME)
    assert [NAME] == ran

    adds(store, 1)
    assert first != remembered.rows(store, NAME)
    assert [NAME, NAME] == ran


def test_a_short_query_runs_again_only_after_a_change_of_its_tables(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, asked = "select count(*) from device where cluster = $c", []
    plain = Connection.sql

    def sql(self: Connection, text: str, **parameters: object) -> list[tuple[object, ...]]:
        asked.append(text)
        return plain(self, text, **parameters)

    adds(store, 1)
    monkeypatch.setattr(Connection, "sql", sql)
    assert [(1,)] == remembered.sql(store, query, c="c") == remembered.sql(store, query, c="c")
    assert [(0,)] == remembered.sql(store, query, c="other")
    assert [query, query] == asked

    adds(store, 2)
    assert [(2,)] == remembered.sql(store, query, c="c")


def test_other_connections_share_it_and_see_committed_changes(store: Store, ran: list[str]) -> None:
    with store.cursor() as other:
        empty = remembered.rows(store, NAME)
        with store.transaction():
            adds(store, 1)
            assert empty == remembered.rows(other, NAME)
            assert empty != remembered.rows(store, NAME)  # its own change, which nobody else may see
            assert empty == remembered.rows(other, NAME)
        assert empty != remembered.rows(other, NAME)


def test_two_stores_do_not_share(store: Store) -> None:
    adds(store, 1)
    with Store.open(None) as other:
        assert remembered.rows(store, NAME) != remembered.rows(other, NAME)


def test_who_changes_a_row_changes_only_its_own(store: Store) -> None:
    adds(store, 1)
    remembered.rows(store, NAME)[0].clear()

    assert remembered.rows(store, NAME)[0]


def test_an_answer_made_of_it_names_its_tables(store: Store) -> None:
    """Whoever keeps an answer has to know when it is old."""
    for _ in range(2):
        with store.reading() as tables:
            remembered.rows(store, NAME)
        assert {"device"} <= tables


def test_parameters_are_part_of_the_question(store: Store, ran: list[str]) -> None:
    for since_us in (0, 3_600_000_000, 0):
        remembered.rows(store, "quality/doctor_clusters", since_us=since_us)

    assert 2 == len(ran)


def test_what_is_kept_has_a_bound(store: Store, ran: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "ROWS_MAX", 2)
    for since_us in (1, 2, 3, 3, 1):
        remembered.rows(store, "quality/doctor_clusters", since_us=since_us)

    assert 4 == len(ran)


def test_a_store_that_knows_no_tables_remembers_nothing(store: Store, ran: list[str]) -> None:
    store.changes.learn(())
    assert [] == remembered.rows(store, NAME)
    adds(store, 1)

    assert 1 == len(remembered.rows(store, NAME))
    assert [NAME, NAME] == ran


def test_what_is_given_to_a_statement_is_part_of_the_question(store: Store, ran: list[str]) -> None:
    def ends(*at_us: int) -> dict[str, pa.Table]:
        rows = [{"cluster": "c", "as_of_us": one, "at_us": one} for one in at_us]
        schema = pa.schema([("cluster", pa.string()), ("as_of_us", pa.int64()), ("at_us", pa.int64())])
        return {"cluster_end": pa.Table.from_pylist(rows, schema=schema)}

    for at_us in ((5,), (5,), (6,), ()):
        remembered.rows(store, "capacity/gpu", ends(*at_us), stale_us=1)

    assert 3 == len(ran)


def test_who_asks_the_same_meanwhile_waits_for_the_first(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    began, goes_on = threading.Event(), threading.Event()
    asked: list[str] = []
    plain = Connection.rows

    def slow(self: Connection, name: str, /, **parameters: object) -> list[dict[str, object]]:
        asked.append(name)
        began.set()
        assert goes_on.wait(PATIENCE_S)
        return plain(self, name, **parameters)

    monkeypatch.setattr(Connection, "rows", slow)
    adds(store, 1)
    found: list[list[dict[str, object]]] = []

    def ask() -> None:
        with store.cursor() as own:
            found.append(remembered.rows(own, NAME))

    first, second = threading.Thread(target=ask), threading.Thread(target=ask)
    first.start()
    assert began.wait(PATIENCE_S)
    second.start()
    goes_on.set()
    first.join(PATIENCE_S)
    second.join(PATIENCE_S)

    assert [NAME] == asked
    assert found[0] == found[1] != []


def test_after_a_failure_the_next_one_asks(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Connection, name: str, /, **parameters: object) -> list[dict[str, object]]:
        raise ValueError("interrupted")

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "rows", fails)
        with pytest.raises(ValueError, match="interrupted"):
            remembered.rows(store, NAME)
    adds(store, 1)

    assert 1 == len(remembered.rows(store, NAME))


def test_what_has_changed_is_not_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of one minute take no room from those of the next."""
    monkeypatch.setattr(remembered, "ROWS_MAX", 8)
    for number in range(20):
        remembered.rows(store, "quality/doctor_clusters", since_us=number)
        adds(store, number)
    assert remembered.rows(store, NAME)
    memory = remembered._memories[store.changes]

    assert all(one.holds(store.changes.counts()) for one in memory._kept.values())
