"""The data directory and its files are readable by their owner only."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch.commands.shared import opened, write
from gpuwatch.report.files import ReportFile
from gpuwatch.report.files import write as write_reports
from gpuwatch.service.service import Service
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """The usual umask of a person: others may read."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def exposed(directory: Path) -> list[str]:
    """What others may open."""
    return [str(path.relative_to(directory)) for path in directory.rglob("*") if mode(path) & 0o077]


def test_a_new_directory_is_private(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    with opened(data, create=True) as (store, state, _):
        store.checkpoint()
        store.sql("insert into import_file (path) values ('a')")
        state.set_setting("a", "b", "test", 1)

        assert (0o700, [], True) == (mode(data), exposed(data), (data / "gpuwatch.duckdb.wal").exists())
    assert [] == exposed(data)


def test_a_service_writes_private_files(tmp_path: Path) -> None:
    service = Service.open(tmp_path / "data", Settings(), {}, now_us=lambda: 0, live=False)
    service.start()
    service.stop()

    assert (0o700, []) == (mode(tmp_path / "data"), exposed(tmp_path / "data"))


def test_an_existing_directory_is_closed_to_others(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Store.open(data), State.open(data):
        pass
    (data / "reports" / "2026-W46").mkdir(parents=True)
    (data / "reports" / "2026-W46" / "fleet.csv").write_text("x")
    for path in (data, *data.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    Store.open(data).close()

    assert (0o700, []) == (mode(data), exposed(data))


def test_a_directory_with_files_of_others_keeps_its_mode(tmp_path: Path) -> None:
    data = tmp_path / "shared"
    data.mkdir(mode=0o755)
    (data / "index.html").write_text("hello")
    Store.open(data).close()

    assert (0o755, ["index.html"]) == (mode(data), exposed(data))


def test_a_file_that_somebody_asked_for_is_theirs_to_share(tmp_path: Path) -> None:
    with opened(tmp_path / "data", create=True):
        write("x", tmp_path / "out.csv")
        write_reports([ReportFile("2026-W46/fleet.csv", b"x")], tmp_path / "reports")

    assert [0o644, 0o755, 0o640] == [
        mode(tmp_path / name) for name in ("out.csv", "reports/2026-W46", "reports/2026-W46/fleet.csv")
    ]


def test_reports_in_the_data_directory_are_private(tmp_path: Path) -> None:
    write_reports([ReportFile("2026-W46/fleet.csv", b"x")], tmp_path / "reports", private=True)

    assert [] == exposed(tmp_path)
