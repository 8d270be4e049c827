"""A process with a role does its part of the work alone, and says so where it cannot."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.alerts.repository import Channels
from gpuwatch.api.app import create_app
from gpuwatch.core.errors import StoreError, UsageError
from gpuwatch.service.roles import API, CELL, LEAD, Role, check_directory, role_of
from gpuwatch.service.service import Service
from gpuwatch.settings import Settings
from gpuwatch.store import lockfile
from gpuwatch.store.database import Store
from tests.worlds.api import NOW_US, Api, Clock, fill, open_api
from tests.worlds.patience import wait_until

CHANNEL = {"name": "ops", "kind": "webhook", "url": "https://hooks.example.com/T/B"}
SOURCE = {"dcgm": [{"cluster": "c1", "targets": ["http://127.0.0.1:1/metrics"]}]}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of two teams, analysed."""
    directory = tmp_path_factory.mktemp("roles") / "data"
    made = open_api(directory)
    fill(made.service)
    made.service.stop()
    return directory


@pytest.fixture
def data(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled, tmp_path / "data"))


@contextmanager
def serving(data: Path, role: Role, config: Any = None, **settings: Any) -> Iterator[Api]:
    service = Service.open(data, Settings(**settings), config or {}, now_us=lambda: NOW_US, role=role)
    service.start()
    clock = Clock()
    try:
        yield Api(service, create_app(service, clock=clock), clock, [NOW_US])
    finally:
        service.stop()


def threads(service: Service) -> dict[str, bool]:
    """Which parts of a service run."""
    return {
        "writer": service._writer.alive,
        "analyzer": service._analyzer.alive,
        "alerts": service._alerting._thread.is_alive(),
        "collectors": service._collectors._thread.is_alive(),
    }


def test_an_api_answers_and_neither_collects_nor_analyses(data: Path) -> None:
    with serving(data, API, SOURCE) as api:
        assert {False} == set(threads(api.service).values())
        assert [] == api.service.sources()
        assert "ready" == api.get("/readyz").json()["status"]
        assert {"red", "blue"} <= {
            row["team"] for row in api.get("/api/v1/chargeback?window=2026-11-02,2026-11-03").json()["items"]
        }
        refused = api.request("POST", "/api/v1/events", json=[])
        assert (503, "30") == (refused.status_code, refused.headers["Retry-After"])
        assert "role is api: send it to one with role all or cell" in refused.json()["error"]["message"]
        assert "/ui/" == api.get("/").headers["Location"]
        assert not api.service.reprice()


def test_a_cell_collects_and_analyses_without_pages_or_alerts(data: Path) -> None:
    with serving(data, CELL, SOURCE) as api:
        assert {"alerts": False, "analyzer": True, "collectors": True, "writer": True} == threads(api.service)
        wait_until(lambda: api.service.analysis().last_success_us is not None, "a pass ends")
        assert 204 == api.request("POST", "/api/v1/events", json=[]).status_code
        assert "/docs" == api.get("/").headers["Location"]

        Channels(api.service.state).put(CHANNEL, "ann", NOW_US)
        ready = api.get("/readyz").json()
        assert "degraded" == ready["status"]
        assert "channel ops is configured, but role cell sends no alerts" in ready["reasons"][0]
    with pytest.raises(UsageError, match=r"channel ops is configured.*run --role all, or disable it"):
        Service.open(data, Settings(), {}, now_us=lambda: NOW_US, role=CELL)
    with pytest.raises(UsageError, match="report_directory is configured"):
        Service.open(data, Settings(report_directory="reports"), {}, now_us=lambda: NOW_US, role=CELL)


def test_a_lead_sends_and_reports_what_others_analysed(data: Path, tmp_path: Path) -> None:
    with Store.open(data) as store:
        before = store.sql("select count(*), max(hour_us) from ledger_hour")
    with serving(data, LEAD, SOURCE, report_directory=str(tmp_path / "reports")) as api:
        assert {"alerts": True, "analyzer": True, "collectors": False, "writer": False} == threads(api.service)
        wait_until(lambda: list((tmp_path / "reports").rglob("*.pdf")), "the report of the last week is written")
        assert 503 == api.request("POST", "/api/v1/events", json=[]).status_code
        assert "/docs" == api.get("/").headers["Location"]
        assert before == api.service.store.sql("select count(*), max(hour_us) from ledger_hour")


def test_everything_is_the_default() -> None:
    role = role_of("all")

    assert (True, True, True) == (role.analyses, role.leads, role.pages)


@pytest.mark.parametrize("role", ["api", "lead", "cell"])
def test_a_directory_in_use_has_no_second_role(tmp_path: Path, role: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        lockfile.leave(tmp_path, lockfile.Note(os.getpid(), url, "secret"))
        with pytest.raises(StoreError) as caught:
            check_directory(role_of(role), tmp_path)
        check_directory(role_of("all"), tmp_path)

    expected = (
        f"--role {role}: {tmp_path} is in use by process {os.getpid()}, which serves {url}. The embedded store can be"
    )
    assert str(caught.value).startswith(expected)
    assert "--role all" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(lambda data: role_of("queen"), "use one of all, cell, api, lead", id="no such role"),
        pytest.param(
            lambda data: Service.open(data / "new", Settings(), {}, now_us=lambda: 0, role=API),
            "there is no data in .*this role collects none",
            id="nothing to answer from",
        ),
    ],
)
def test_what_cannot_work_is_named(tmp_path: Path, call: Callable[[Path], object], message: str) -> None:
    with pytest.raises((UsageError, StoreError), match=message):
        call(tmp_path)
