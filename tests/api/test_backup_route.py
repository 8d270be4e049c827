"""The back-up that the command line asks a server for: for who owns the data directory only."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.store.database import Store
from tests.worlds.api import Api

ROUTE = "/api/v1/backup"


def test_a_token_is_not_enough(books: Api, tmp_path: Path) -> None:
    admin = books.token("admin")
    answer = books.request("POST", ROUTE, json={"directory": str(tmp_path / "copy")}, token=admin)

    assert 403 == answer.status_code
    assert not (tmp_path / "copy").exists()


def test_loopback_is_not_enough(books: Api, tmp_path: Path) -> None:
    assert 403 == books.request("POST", ROUTE, json={"directory": str(tmp_path / "copy")}).status_code


def test_the_owner_gets_a_whole_copy(books: Api, tmp_path: Path) -> None:
    answer = books.request("POST", ROUTE, json={"directory": str(tmp_path / "copy")}, token=books.service.local_secret)

    assert 200 == answer.status_code
    assert answer.json()["telemetry_bytes"] == (tmp_path / "copy" / "gpuwatch.duckdb").stat().st_size
    with books.service.reader() as here, Store.open(tmp_path / "copy", create=False) as there:
        asked = "select count(*) from ledger_hour"
        assert here.sql(asked) == there.sql(asked)
        assert there.sql(asked) != [(0,)]


@pytest.mark.parametrize(
    "directory",
    [
        pytest.param("copy", id="a relative path"),
        pytest.param("", id="nothing"),
        pytest.param("/", id="what has files"),
    ],
)
def test_a_wrong_directory_is_refused(books: Api, directory: str) -> None:
    assert (
        400 == books.request("POST", ROUTE, json={"directory": directory}, token=books.service.local_secret).status_code
    )
