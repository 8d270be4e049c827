"""The state on a real PostgreSQL server: what is not the same as with a file."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest
import sqlalchemy as sa

from gpuwatch.core.errors import StoreError, UsageError
from gpuwatch.state import SCHEMA, State, core
from gpuwatch.state import server as on_server
from gpuwatch.state.pairing import check_store, open_state_of, open_state_only
from gpuwatch.state.server import Server
from gpuwatch.state.sqlite_file import StateMissing
from gpuwatch.state.versioned_lists import VersionedLists
from gpuwatch.store.database import Store
from tests.worlds.patience import PATIENCE_S
from tests.worlds.postgres import PASSWORD, Postgres

ROUNDS = 25
CHANGING = """
import sys
from gpuwatch.state import State
from gpuwatch.state.versioned_lists import VersionedLists
url, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
with State.open(url) as state:
    for n in range(rounds):
        state.set_setting("shared", f"{name}-{n}", name, n)
        VersionedLists(state).replace("fx", [{"by": name, "n": n}], name, "test", n)
"""
"""Changes one setting and one list as often as it is asked to."""


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.url(postgres.new())


def test_two_processes_that_change_the_same_things_lose_no_update(postgres: Postgres) -> None:
    """Also on a server whose default would let one of two writers fail."""
    database = postgres.new()
    postgres.sql(f"alter database {database} set default_transaction_isolation = 'serializable'")
    url = postgres.url(database)
    commands = [(sys.executable, "-c", CHANGING, url, name, str(ROUNDS)) for name in ("ann", "bob")]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    errors = [process.communicate(timeout=PATIENCE_S)[1] for process in running]

    assert ["", ""] == errors
    with State.open(url) as state:
        entries = list(reversed(state.audit(1000)))
        assert (2 * ROUNDS, 4 * ROUNDS) == (state.card_version("fx"), len(entries))
        for what in ("setting shared", "fx replaced"):
            mine = [entry for entry in entries if entry.what == what]
            values = [json.loads(entry.after or "null") for entry in mine]
            before = [json.loads(entry.before or "null") for entry in mine]
            if what == "fx replaced":
                values = [value["version"] for value in values]
                before = [value and value["version"] for value in before]
            # Each change began where the one before it ended.
            assert [None, *values[:-1]] == before


def test_processes_that_start_at_once_migrate_once(postgres: Postgres) -> None:
    url = postgres.url(postgres.new(empty=True))

    def opened(_: int) -> str:
        with State.open(url) as state:
            return state.identity()

    with ThreadPoolExecutor(4) as pool:
        assert 1 == len(set(pool.map(opened, range(4))))


def test_a_state_of_an_older_version_is_migrated_with_its_rows(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = postgres.new(empty=True)
    monkeypatch.setattr(core, "SCHEMA", "0002")
    State.open(postgres.url(database)).close()
    postgres.sql("insert into period values ('2026-W40', 1, 2, 3, 'ann', 'digest', '[]')", database)
    monkeypatch.setattr(core, "SCHEMA", SCHEMA)

    with State.open(postgres.url(database)) as state:
        assert 32 == len(state.identity())
    assert [("2026-W40", 1, "coarse")] == postgres.sql("select name, number, level from period_closing", database)


def test_a_state_of_a_newer_version_is_refused(postgres: Postgres) -> None:
    database = postgres.new()
    postgres.sql("update alembic_version set version_num = '9999'", database)

    with pytest.raises(StoreError, match=r"written by a newer gpuwatch \(schema 9999"):
        State.open(postgres.url(database))


def test_a_server_that_was_away_is_used_again(postgres: Postgres, url: str) -> None:
    with State.open(url) as state:
        state.note("a", "1")
        postgres.stop()
        try:
            (problem,) = state.problems()
            with pytest.raises(StoreError, match="connection"):
                state.note("a", "2")
        finally:
            postgres.start()

        assert state.name in problem
        assert ([], "1") == (state.problems(), state.setting("a"))


def test_the_password_is_read_from_its_file_at_each_connect(postgres: Postgres, tmp_path: Path) -> None:
    database, file = postgres.new(), tmp_path / "password"
    server = Server(postgres.tcp_url(database), str(file))
    messages = []
    for content in (None, "", "wr0ng"):
        if content is not None:
            file.write_text(content)
        with pytest.raises(StoreError) as caught:
            State.open(server)
        messages.append(str(caught.value))
    file.write_text(PASSWORD + "\n")
    with State.open(server) as state:
        assert state.setting("a") is None
        state._engine.dispose()
        file.write_text("changed meanwhile")
        (problem,) = state.problems()

    expected = ("No such file", "is empty", "password authentication failed")
    assert [True] * 3 == [part in message for part, message in zip(expected, messages, strict=True)]
    assert "password authentication failed" in problem
    assert "wr0ng" not in "".join(messages) + problem + repr(server)


def test_a_password_in_the_url_is_in_no_message(postgres: Postgres) -> None:
    database = postgres.new()
    encoded = quote(PASSWORD, safe="")
    with State.open(postgres.tcp_url(database, encoded)) as state:
        assert state.name == f"postgresql://gpuwatch@127.0.0.1:{postgres.port}/{database}"
    urls = [
        postgres.tcp_url("nothing", encoded),
        postgres.tcp_url(database, PASSWORD),
        postgres.tcp_url(database) + f"?password={encoded}&application_name=x&bad_option=1",
    ]
    for url in urls:
        with pytest.raises(StoreError) as caught:
            State.open(url)
        assert [] == [part for part in (PASSWORD, encoded, PASSWORD.split("@")[1]) if part in str(caught.value)]


def test_a_writer_does_not_wait_forever(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other writer may hang."""
    monkeypatch.setattr(on_server, "LOCK_WAIT", "50ms")
    with (
        State.open(url) as one,
        State.open(url) as other,
        one.transaction(write=True),
        pytest.raises(StoreError, match="another process writes for long"),
    ):
        other.note("a", "1")


def test_a_transaction_reads_one_snapshot(url: str) -> None:
    with State.open(url) as state, state.transaction(write=False) as connection:
        count = "select count(*) from setting"
        before = connection.exec_driver_sql(count).scalar()
        state.note("a", "1")

        assert before == connection.exec_driver_sql(count).scalar()


def test_text_that_postgresql_cannot_hold_is_a_mistake_of_the_sender(url: str) -> None:
    with State.open(url) as state, pytest.raises(UsageError, match="a value cannot be stored"):
        state.note("a", "\x00")


def test_a_store_and_its_state_on_a_server_remember_each_other(postgres: Postgres, tmp_path: Path) -> None:
    server = Server(postgres.url(postgres.new(empty=True)))
    other = Server(postgres.url(postgres.new()))
    with Store.open(tmp_path / "data") as store, open_state_of(store, tmp_path / "data", server=server) as state:
        assert state.identity() == store.linked_state()
    assert ["gpuwatch.duckdb"] == [path.name for path in (tmp_path / "data").iterdir() if path.is_file()]

    with open_state_only(tmp_path / "data", server) as state:
        assert state.on_server
    refused: list[tuple[str, Callable[[], object]]] = [
        ("is not the state that the store remembers", lambda: open_state_only(tmp_path / "data", other)),
        ("is missing, but there is a store", lambda: open_state_only(tmp_path / "data")),
        ("is missing, but the state remembers one", lambda: check_store(tmp_path / "lost", server=server)),
    ]
    for message, call in refused:
        with pytest.raises(StoreError, match=message):
            call()
    with (
        Store.open(tmp_path / "new") as store,
        pytest.raises(StoreError, match="is not the store that the state remembers"),
    ):
        open_state_of(store, tmp_path / "new", server=server)


def test_an_empty_database_in_place_of_the_state_stays_empty(postgres: Postgres, tmp_path: Path) -> None:
    database = postgres.new(empty=True)
    with Store.open(tmp_path) as store, open_state_of(store, tmp_path):
        pass
    with Store.open(tmp_path) as store, pytest.raises(StoreError, match="gpuwatch state copy URL"):
        open_state_of(store, tmp_path, server=Server(postgres.url(database)))

    with pytest.raises(StateMissing):
        State.open(postgres.url(database), create=False)
    assert [] == postgres.sql("select tablename from pg_tables where schemaname = 'public'", database)


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_a_logged_error_has_no_values(engine: str, tmp_path: Path, url: str) -> None:
    """A traceback would show what was to be stored, for example the address of a channel."""
    secret = uuid4().hex
    with State.open(tmp_path if engine == "sqlite" else url) as state:
        statement = sa.text("insert into setting (name, value, other) values (:name, :value, 1)")
        with pytest.raises(StoreError) as caught, state.transaction(write=True) as connection:
            connection.execute(statement, {"name": "a", "value": secret})

    shown = "".join(traceback.format_exception(caught.value))
    assert "insert into setting" in shown
    assert secret not in shown


def test_many_versions_of_a_list_are_read_back(url: str) -> None:
    with State.open(url) as state:
        lists = VersionedLists(state)
        for n in range(3):
            lists.replace("policies", [{"n": n, "text": "ü€😀"}], "ann", "test", n)

        assert [3, 2, 1] == [version.version for version in lists.history("policies")]
        assert [{"n": 2, "text": "ü€😀"}] == lists.rows("policies")
