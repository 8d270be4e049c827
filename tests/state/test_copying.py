"""A state is moved to another database with all of its rows, and only one of the two is used afterwards."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpuwatch.cli import run
from gpuwatch.core.errors import StoreError
from gpuwatch.findings.repository import Action, Actions
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.service.backup import backup
from gpuwatch.service.restore import Parts, restore
from gpuwatch.state import FILE, State
from gpuwatch.state.copying import same_content
from gpuwatch.state.pairing import open_state_of
from gpuwatch.state.server import Server
from gpuwatch.state.sessions import Sessions
from gpuwatch.state.tokens import Tokens
from gpuwatch.store.database import Store
from tests.worlds.postgres import Postgres

ADDED_BY_COPY = "state copied"


def fill(state: State) -> None:
    """Rows in tables of every form: text keys, numbered ones, and parts of a list."""
    token, _ = Tokens(state).create("robot", "admin", None, None, "ann", 1)
    Sessions(state).start(token, 2)
    replace_rates(state, [Rate("H100", "spot", Decimal("2.123456789012"), 0, 10, currency="EUR")], "ann", "api", 3)
    for n in range(3):
        Actions(state).act(Action(f"rule-{n}", "ack", None, "known", "ann", 4 + n))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with Store.open(tmp_path / "data") as store, open_state_of(store, tmp_path / "data") as state:
        fill(state)
    return tmp_path / "data"


def contents(state: State) -> dict[str, list[Any]]:
    """All rows, without those that copying adds."""
    tables = sa.MetaData()
    with state.transaction(write=False) as connection:
        tables.reflect(connection)
        rows = {
            table.name: sorted(tuple(row) for row in connection.execute(sa.select(table)))
            for table in tables.sorted_tables
        }
    rows["audit_log"] = [row for row in rows["audit_log"] if ADDED_BY_COPY not in row]
    rows["setting"] = [row for row in rows["setting"] if row[0] != "moved_to"]
    return rows


def test_a_state_moves_to_a_server_and_back(
    data: Path, tmp_path: Path, postgres: Postgres, capsys: pytest.CaptureFixture[str]
) -> None:
    url = postgres.url(postgres.new(empty=True))
    with State.open(data) as state:
        before = contents(state)

    assert 0 == run(["state", "copy", url, "--data", str(data)])
    with State.open(url) as copied:
        assert before == contents(copied)
        # Numbered rows go on after the copied ones.
        Actions(copied).act(Action("rule-9", "ack", None, "known", "ann", 9))
        changed = contents(copied)
    assert 3 == run(["token", "list", "--data", str(data)])
    assert "was copied to postgresql://" in capsys.readouterr().err
    assert 0 == run(["token", "list", "--data", str(data), "--state", url, "--format", "json"])
    assert "robot" in capsys.readouterr().out

    assert 0 == run(["state", "copy", str(tmp_path / "back"), "--data", str(data), "--state", url])
    with State.open(tmp_path / "back") as back:
        assert changed == contents(back)
    shutil.copyfile(tmp_path / "back" / FILE, data / FILE)
    assert 0 == run(["token", "list", "--data", str(data)])
    assert 3 == run(["token", "list", "--data", str(data), "--state", url])


def test_a_state_is_not_copied_over_another(data: Path, postgres: Postgres, capsys: pytest.CaptureFixture[str]) -> None:
    url = postgres.url(postgres.new())
    with State.open(url) as other:
        other.note("a", "1")

    assert 2 == run(["state", "copy", url, "--data", str(data)])
    assert "is not empty (1 rows in setting)" in capsys.readouterr().err
    assert 0 == run(["token", "list", "--data", str(data)])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        pytest.param("mysql://ann:secret@h/x", "is not the URL of a PostgreSQL database", id="another database"),
        pytest.param("postgresql://ann:se@cret@h/x", "percent-encode", id="a password that is not encoded"),
        pytest.param("postgresql://ann@h", "names no database", id="no database"),
    ],
)
def test_a_wrong_target_is_named(data: Path, target: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == run(["state", "copy", target, "--data", str(data)])

    error = capsys.readouterr().err
    assert message in error
    assert "cret" not in error


def test_a_backup_has_the_state_of_a_server(data: Path, tmp_path: Path, postgres: Postgres) -> None:
    """It can be restored to an empty database, and into a directory without a server."""
    url, empty = postgres.url(postgres.new(empty=True)), Server(postgres.url(postgres.new(empty=True)))
    assert 0 == run(["state", "copy", url, "--data", str(data)])
    with Store.open(data) as store, open_state_of(store, data, server=Server(url)) as state:
        backup(store, state, tmp_path / "copy")
        expected = contents(state)

    restore(tmp_path / "copy", tmp_path / "one", 0, Parts(server=empty))
    restore(tmp_path / "copy", tmp_path / "two", 0)

    for directory, server in ((tmp_path / "one", empty), (tmp_path / "two", None)):
        with Store.open(directory) as store, open_state_of(store, directory, server=server) as state:
            assert expected == contents(state)
    assert not (tmp_path / "one" / FILE).exists()
    assert [] == [path.name for path in (tmp_path / "copy").iterdir() if path.is_dir()]
    third = Server(postgres.url(postgres.new(empty=True)))
    restore(tmp_path / "copy", data, 0, Parts(store=False, server=third))
    with Store.open(data) as store, open_state_of(store, data, server=third) as state:
        assert expected == contents(state)


def test_a_store_is_not_restored_beside_a_state_of_another_time(data: Path, tmp_path: Path, postgres: Postgres) -> None:
    server = Server(postgres.url(postgres.new(empty=True)))
    assert 0 == run(["state", "copy", server.url, "--data", str(data)])
    with Store.open(data) as store, open_state_of(store, data, server=server) as state:
        backup(store, state, tmp_path / "copy")
    (data / FILE).unlink()

    restore(tmp_path / "copy", data, 0, Parts(server=server))
    with State.open(server) as state:
        state.set_setting("changed", "since", "ann", 20)
    with pytest.raises(StoreError, match="not as it was at the time of the backup.*--store-only"):
        restore(tmp_path / "copy", data, 0, Parts(server=server))
    restore(tmp_path / "copy", data, 0, Parts(state=False, server=server))

    with Store.open(data) as store, open_state_of(store, data, server=server) as state:
        assert "since" == state.setting("changed")
    other = Server(postgres.url(postgres.new()))
    with pytest.raises(StoreError, match="is not the state of this backup's store"):
        restore(tmp_path / "copy", data, 0, Parts(state=False, server=other))


def test_states_of_one_content_are_known_by_their_last_change(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "twin")
    with State.open(data) as one, State.open(tmp_path / "twin") as other:
        assert same_content(one, other)
        other.set_setting("a", "b", "ann", 30)
        assert not same_content(one, other)
