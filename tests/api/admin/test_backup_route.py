"""The back-up and the samples that the command line asks a server for: for who owns the data directory only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


# Samples.


SAMPLES = "/api/v1/samples"


def test_samples_need_the_owner_too(books: Api, tmp_path: Path) -> None:
    body = {"directory": str(tmp_path / "out")}
    assert 403 == books.request("POST", SAMPLES, json=body, token=books.token("admin")).status_code
    assert (
        400 == books.request("POST", SAMPLES, json={"directory": "out"}, token=books.service.local_secret).status_code
    )
    assert not (tmp_path / "out").exists()


def test_the_owner_gets_one_day_of_samples_a_request_until_all_are_there(books: Api, tmp_path: Path) -> None:
    def asked(after: list[str] | None) -> dict[str, Any]:
        body = {"directory": str(tmp_path / "out"), "after": after}
        answer = books.request("POST", SAMPLES, json=body, token=books.service.local_secret)
        assert 200 == answer.status_code
        found: dict[str, Any] = answer.json()
        return found

    with books.service.reader() as store:
        days = [(row["cluster"], row["rows"]) for row in store.rows("store/samples/days")]
    seen: list[dict[str, Any]] = []
    for _ in days:
        answer = asked([seen[-1]["cluster"], seen[-1]["day"]] if seen else None)
        assert [("written",), True] == [tuple(file["result"] for file in answer["files"]), answer["more"]]
        seen += answer["files"]
    assert days == [(file["cluster"], file["samples"]) for file in seen]
    assert {"files": [], "more": False} == asked([seen[-1]["cluster"], seen[-1]["day"]])

    again = asked(None)
    assert (["unchanged"] * len(days), False) == ([file["result"] for file in again["files"]], again["more"])
    assert [Path(file["file"]).stat().st_size for file in seen] == [file["bytes"] for file in again["files"]]
