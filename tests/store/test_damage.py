"""Damaged files of the store and the state: named as such, with a way out, and never gone on without."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuwatch.core.errors import StoreError
from gpuwatch.state import FILE, State
from gpuwatch.store.database import FILE_NAME, Store

CHILD = """
import os, sys
from gpuwatch.state.core import State
from gpuwatch.store.database import Store
store = Store.open(sys.argv[1])
store.checkpoint()
for number in range(20):
    with store.transaction():
        store.sql("insert into import_file (path) select 'file ' || (range + $n * 1000) from range(1000)", n=number)
state = State.open(sys.argv[1])
for number in range(20):
    state.set_setting("name", str(number), "test", number)
os._exit(9)
"""
"""Commits that are only in the logs when it is killed."""
LOG, STATE_LOG = f"{FILE_NAME}.wal", f"{FILE}-wal"

Damage = Callable[[Path], None]


def flip(at: float, count: int = 8) -> Damage:
    """Inverts bytes at an offset, or at a share of the file."""

    def apply(path: Path) -> None:
        content = bytearray(path.read_bytes())
        start = int(at * len(content)) if isinstance(at, float) else at
        content[start : start + count] = bytes(byte ^ 0xFF for byte in content[start : start + count])
        path.write_bytes(content)

    return apply


def fill(content: bytes) -> Damage:
    """Overwrites the whole file."""
    return lambda path: path.write_bytes((content * path.stat().st_size)[: path.stat().st_size]) and None


def cut(share: float) -> Damage:
    """Cuts the file's end off."""
    return lambda path: os.truncate(path, int(share * path.stat().st_size))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("killed")
    assert 9 == subprocess.run([sys.executable, "-c", CHILD, str(directory)], check=False).returncode
    return directory


@pytest.fixture
def data(killed: Path, tmp_path: Path) -> Path:
    for path in killed.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_what_a_crash_leaves_is_whole(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Store.open(data) as store, State.open(data) as state:
        assert ([(20_000,)], "19") == (store.sql("select count(*) from import_file"), state.setting("name"))
    assert [] == caplog.records


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        pytest.param(FILE_NAME, flip(8, 4), id="the store's first bytes"),
        pytest.param(FILE_NAME, flip(100), id="the store's head"),
        pytest.param(FILE_NAME, flip(4100, 40), id="the store's first block list"),
        pytest.param(FILE_NAME, fill(b"\0"), id="a store of zeros"),
        pytest.param(FILE_NAME, fill(b"no database "), id="a store of text"),
    ],
)
def test_a_damaged_store_is_no_store_in_use(data: Path, name: str, damage: Damage) -> None:
    damage(data / name)

    with pytest.raises(StoreError, match="is damaged.*gpuwatch restore") as raised:
        Store.open(data)
    assert "in use" not in str(raised.value)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(flip(0.5), id="a change in the middle"),
        pytest.param(flip(3, 4), id="its head"),
        pytest.param(flip(12, 6), id="the name of its store"),
        pytest.param(fill(b"\0"), id="zeros"),
        pytest.param(fill(b"hello"), id="text"),
        pytest.param(cut(0.00001), id="all but a few bytes lost"),
    ],
)
def test_a_damaged_log_of_the_store_is_refused_and_kept(data: Path, damage: Damage) -> None:
    damage(data / LOG)
    before = (data / LOG).read_bytes()

    for _ in range(2):
        with pytest.raises(StoreError, match=r"cannot be read.*the last of 20\d\d-.*gpuwatch restore.*mv ") as raised:
            Store.open(data)
        assert "in use" not in str(raised.value)
    assert before == (data / LOG).read_bytes()
    os.replace(data / LOG, data / f"{LOG}.damaged")
    with Store.open(data) as store:
        assert [(0,)] == store.sql("select count(*) from import_file")


def test_a_log_that_was_cut_off_is_reported(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    cut(0.5)(data / LOG)
    with Store.open(data) as store:
        assert 0 < store.sql("select count(*) from import_file")[0][0] < 20_000
    (record,) = caplog.records

    assert ("WARNING", True) == (record.levelname, "may be missing" in record.getMessage())


FIRST_COMMIT = bytes.fromhex("640064ffff")


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_a_kill_during_the_first_transaction_of_a_log_loses_nothing_acknowledged(
    data: Path, share: float, caplog: pytest.LogCaptureFixture
) -> None:
    unfinished = (data / LOG).read_bytes().index(FIRST_COMMIT)
    os.truncate(data / LOG, int(share * unfinished))

    with Store.open(data) as store:
        assert [(0,)] == store.sql("select count(*) from import_file")
        store.sql("insert into import_file (path) values ('next')")
    with Store.open(data) as store:
        assert [("next",)] == store.sql("select path from import_file")
    assert any("unfinished or damaged change" in record.getMessage() for record in caplog.records)


def test_a_first_transaction_whose_size_is_damaged_is_no_unfinished_one(data: Path) -> None:
    head = (data / LOG).read_bytes().index(b"\xff\xff") + 2
    flip(head + 4, 4)(data / LOG)

    with pytest.raises(StoreError, match="an entry before its first commit is damaged"):
        Store.open(data)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(flip(0.5), id="a change in the middle"),
        pytest.param(flip(0, 4), id="its first bytes"),
        pytest.param(flip(20, 4), id="its head"),
        pytest.param(fill(b"\0"), id="zeros"),
        pytest.param(fill(b"hello"), id="text"),
        pytest.param(flip(32 + 8, 8), id="the salt of its first frame"),
    ],
)
def test_a_damaged_log_of_the_state_is_refused_and_kept(data: Path, damage: Damage) -> None:
    """A token, or its revocation, may be in it."""
    damage(data / STATE_LOG)
    before = (data / STATE_LOG).read_bytes()

    with pytest.raises(StoreError, match=r"damaged: .*the last of 20\d\d-.*gpuwatch restore.*mv "):
        State.open(data)
    assert before == (data / STATE_LOG).read_bytes()


def test_an_unfinished_last_change_of_the_state_is_reported(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    flip(-20, 8)(data / STATE_LOG)
    with State.open(data) as state:
        assert "18" == state.setting("name")
    (record,) = caplog.records

    assert "incomplete" in record.getMessage()


def test_a_log_of_another_store_is_refused(data: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    Store.open(other).close()
    (other / LOG).write_bytes((data / LOG).read_bytes())

    with pytest.raises(StoreError, match="cannot be read"):
        Store.open(other)
