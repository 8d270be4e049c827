"""A store and its state: a lost or foreign one of the two is refused before it lets anybody in or drops the books."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from gpuwatch.cli import run
from gpuwatch.core.errors import StoreError, UnreadableInput, UsageError
from gpuwatch.service.backup import backup
from gpuwatch.service.restore import Parts, restore
from gpuwatch.service.service import Service
from gpuwatch.settings import Settings
from gpuwatch.state import FILE, State
from gpuwatch.state.pairing import STORE, open_state_of, open_state_only
from gpuwatch.state.tokens import Tokens
from gpuwatch.store.database import FILE_NAME, Store
from tests.worlds.world import Gpu, World, minutes, samples


def make(directory: Path) -> None:
    """A store with samples, its state with a token."""
    world = World()
    world.store = Store.open(directory, threads=1)
    with world.store as store, open_state_of(store, directory) as state:
        world.add(samples(Gpu(), minutes(0, 3600)))
        Tokens(state).create("robot", "admin", None, None, "test", 1)


def lose(directory: Path) -> None:
    for path in directory.glob(f"{FILE}*"):
        path.unlink()


def tokens(directory: Path) -> list[str]:
    with Store.open(directory, create=False) as store, open_state_of(store, directory) as state:
        return [token.name for token in Tokens(state).list()]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    make(tmp_path / "data")
    return tmp_path / "data"


def test_a_fresh_directory_needs_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        with Store.open(tmp_path) as store, open_state_of(store, tmp_path) as state:
            assert state.identity() == store.linked_state()


def test_a_state_that_was_there_first_is_adopted(tmp_path: Path) -> None:
    """A token may be made before the first start."""
    with open_state_only(tmp_path) as first:
        name = first.identity()
    with Store.open(tmp_path) as store, open_state_of(store, tmp_path):
        assert name == store.linked_state()


def test_a_store_of_an_older_version_adopts_its_state_once(data: Path) -> None:
    with Store.open(data) as store:
        store.sql("delete from state_link")

    assert ["robot"] == tokens(data)
    lose(data)
    with pytest.raises(StoreError, match="--new-state"):
        tokens(data)


def test_a_store_of_an_older_version_without_its_state_is_refused(data: Path) -> None:
    with Store.open(data) as store:
        store.sql("delete from state_link")
    lose(data)

    with pytest.raises(StoreError, match="is missing"):
        tokens(data)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["chargeback", "--window", "2026-11-01,2026-11-02"], id="chargeback"),
        pytest.param(["analyze"], id="analyze"),
        pytest.param(["serve", "--port", "0"], id="serve"),
        pytest.param(["token", "create", "--scope", "admin", "--name", "x"], id="a token"),
        pytest.param(["token", "list"], id="the tokens"),
        pytest.param(["period", "list"], id="the periods"),
        pytest.param(["audit-log"], id="the audit log"),
    ],
)
@pytest.mark.parametrize("how", ["lost", "empty", "another"])
def test_a_lost_or_foreign_state_is_refused(
    data: Path, tmp_path: Path, how: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lose(data)
    if how == "empty":
        (data / FILE).touch()
    if how == "another":
        State.open(tmp_path / "other").close()
        shutil.copy(tmp_path / "other" / FILE, data / FILE)
    before = (data / FILE).read_bytes() if how != "lost" else None

    assert 3 == run([*words, "--data", str(data)])
    message = capsys.readouterr().err
    assert ("gpuwatch restore" in message, "--new-state" in message, 1) == (True, True, message.count("\n"))
    assert before == ((data / FILE).read_bytes() if (data / FILE).exists() else None)


def test_new_state_goes_on_without(data: Path) -> None:
    lose(data)
    with pytest.raises(StoreError):
        Service.open(data, Settings(), {}, now_us=lambda: 0, live=False)
    service = Service.open(data, Settings(), {}, now_us=lambda: 0, live=False, new_state=True)
    service.start()
    service.stop()

    assert [] == tokens(data)


def lose_store(directory: Path) -> None:
    for path in directory.glob(f"{FILE_NAME}*"):
        path.unlink()


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["chargeback", "--window", "2026-11-01,2026-11-02"], id="chargeback"),
        pytest.param(["analyze"], id="analyze"),
        pytest.param(["import", "sacct", __file__], id="import"),
        pytest.param(["serve", "--port", "0"], id="serve"),
    ],
)
@pytest.mark.parametrize("how", ["lost", "another"])
def test_a_lost_or_foreign_store_is_refused(
    data: Path, tmp_path: Path, how: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lose_store(data)
    if how == "another":
        with Store.open(tmp_path / "other"):
            pass
        shutil.copy(tmp_path / "other" / FILE_NAME, data / FILE_NAME)

    assert 3 == run([*words, "--data", str(data)])
    message = capsys.readouterr().err
    assert ("gpuwatch restore" in message, "--new-store" in message, 1) == (True, True, message.count("\n"))
    assert (how == "another") == (data / FILE_NAME).exists()


def test_new_store_goes_on_without(data: Path, tmp_path: Path) -> None:
    with Store.open(data) as store, open_state_of(store, data) as state:
        backup(store, state, tmp_path / "copy")
    lose_store(data)
    with pytest.raises(StoreError, match="--new-store"):
        Service.open(data, Settings(), {}, now_us=lambda: 0, live=False)
    Service.open(data, Settings(), {}, now_us=lambda: 0, live=False, new_store=True).stop()

    assert ["robot"] == tokens(data)
    restore(tmp_path / "copy", data, 0)
    assert ["robot"] == tokens(data)


def test_the_backup_is_a_way_out_of_a_lost_store(data: Path, tmp_path: Path) -> None:
    with Store.open(data) as store, open_state_of(store, data) as state:
        backup(store, state, tmp_path / "copy")
    lose_store(data)
    restore(tmp_path / "copy", data, 0)

    with Store.open(data) as store:
        assert not store.is_empty()
    assert ["robot"] == tokens(data)


@pytest.mark.parametrize("killed", ["before the state", "before the store knows", "before the state knows"])
def test_a_kill_while_the_two_are_made_locks_nobody_out(tmp_path: Path, killed: str) -> None:
    with Store.open(tmp_path) as store:
        if killed != "before the state":
            with State.open(tmp_path) as state:
                if killed == "before the state knows":
                    store.link_state(state.identity())

    for _ in range(2):
        with Store.open(tmp_path) as store, open_state_of(store, tmp_path) as state:
            assert (store.linked_state(), state.setting(STORE)) == (state.identity(), store.identity())


def test_a_kill_while_a_new_store_is_made_leaves_the_way_out(data: Path) -> None:
    lose_store(data)
    Store.open(data).close()
    with pytest.raises(StoreError, match="--new-store"):
        tokens(data)
    with Store.open(data) as store, open_state_of(store, data, new_store=True):
        pass

    assert ["robot"] == tokens(data)


def test_a_pair_of_an_older_version_remembers_its_store_from_now_on(data: Path) -> None:
    with State.open(data) as state:
        state.note(STORE, None)
    assert ["robot"] == tokens(data)
    lose_store(data)

    assert 3 == run(["analyze", "--data", str(data)])


def test_a_backup_is_restored_as_a_pair(data: Path, tmp_path: Path) -> None:
    with Store.open(data) as store, open_state_of(store, data) as state:
        backup(store, state, tmp_path / "copy")
    lose(data)
    kept = restore(tmp_path / "copy", data, 0)

    assert ["robot"] == tokens(data)
    assert kept is not None
    assert (kept / FILE_NAME).exists()
    assert ["robot"] == (restore(tmp_path / "copy", tmp_path / "new", 0), tokens(tmp_path / "new"))[1]


def test_only_the_state_is_restored(data: Path, tmp_path: Path) -> None:
    with Store.open(data) as store, open_state_of(store, data) as state:
        backup(store, state, tmp_path / "copy")
    with Store.open(data) as store:
        store.sql("insert into state_link values ('later')")
        store.sql("delete from state_link where state_id = 'later'")
    size = (data / FILE_NAME).stat().st_mtime_ns
    lose(data)
    restore(tmp_path / "copy", data, 0, Parts(store=False))

    assert ["robot"] == tokens(data)
    assert size <= (data / FILE_NAME).stat().st_mtime_ns


def test_a_backup_of_two_stores_is_refused(data: Path, tmp_path: Path) -> None:
    with Store.open(data) as store, open_state_of(store, data) as state:
        backup(store, state, tmp_path / "copy")
    State.open(tmp_path / "other").close()
    shutil.copy(tmp_path / "other" / FILE, tmp_path / "copy" / FILE)

    with pytest.raises(StoreError, match="not the state that the store remembers"):
        restore(tmp_path / "copy", data, 0)
    assert ["robot"] == tokens(data)


@pytest.mark.parametrize("missing", [FILE, FILE_NAME])
def test_half_a_backup_is_refused(data: Path, tmp_path: Path, missing: str) -> None:
    with Store.open(data) as store, open_state_of(store, data) as state:
        backup(store, state, tmp_path / "copy")
    (tmp_path / "copy" / missing).unlink()

    with pytest.raises(UnreadableInput, match=missing):
        restore(tmp_path / "copy", data, 0)
    assert ["robot"] == tokens(data)


def test_a_restore_into_a_directory_in_use_is_refused(data: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    with Store.open(data) as store, open_state_of(store, data) as state:
        backup(store, state, tmp_path / "copy")
    script = "import sys,duckdb; c=duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(data / FILE_NAME)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(StoreError, match="in use"):
            restore(tmp_path / "copy", data, 0)
        holder.kill()


def test_backups_are_private_and_outside(data: Path, tmp_path: Path) -> None:
    with Store.open(data) as store, open_state_of(store, data) as state:
        backup(store, state, tmp_path / "copy")
        for inside in (data, data / "backups" / "one"):
            with pytest.raises(UsageError, match="inside the data directory"):
                backup(store, state, inside)

    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "copy", *(tmp_path / "copy").iterdir())
    }
    assert {"copy": 0o700, FILE: 0o600, FILE_NAME: 0o600} == modes
