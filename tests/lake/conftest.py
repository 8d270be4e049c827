"""A small fleet, and lakes to publish it to: catalogues in files and on PostgreSQL, data in folders and in a bucket."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.core.clock import HOUR_US
from gpuwatch.core.errors import UsageError
from gpuwatch.imports.files import import_paths
from gpuwatch.lake import extensions, publish, verify
from gpuwatch.lake.settings import LakeSettings, configured
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.settings import Settings
from gpuwatch.simulate.live import LiveFleet
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds.patience import PATIENCE_S, wait_until
from tests.worlds.ports import free_port
from tests.worlds.postgres import PASSWORD, Postgres, postgres_server

NODE_PACKAGE = "s3rver"
KEY = "S3RVER"
"""The only key that this server accepts, as access and as secret key."""
BUCKET = "lake"
START_US = 1_793_577_600_000_000
"""Monday 2026-11-02T00:00:00Z."""
STEP_S = 120
SETTINGS = Settings(default_interval_s=STEP_S)
A_STEP = HOUR_US // (STEP_S * 1_000_000)
HOURS = 2
PAST_DAYS = 1.5


@pytest.fixture(scope="session")
def lake_engine() -> None:
    """Skips the test where the extensions of gpuwatch[lake] are absent or do not fit the installed DuckDB."""
    try:
        for name in ("ducklake", "postgres_scanner", "httpfs", "sqlite_scanner"):
            extensions.path_of(name, duckdb.__version__)
    except UsageError as error:
        pytest.skip(f"{error}; make test-lake runs this")


@dataclass
class Fleet:
    """A fleet's directory after its history, and the hours that follow."""

    directory: Path
    hours: list[Path]
    now_us: int


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """16 GPUs of one cluster over a day and a half, analyzed and priced; made once."""
    folder = tmp_path_factory.mktemp("fleet")
    fleet = LiveFleet(16, PAST_DAYS, 7, STEP_S, START_US)
    fleet.write_history(folder / "past", None)
    at = [
        fleet.epoch.start_us + n * STEP_S * 1_000_000
        for n in range(fleet.past, fleet.past + HOURS * A_STEP + 1, A_STEP)
    ]
    hours = []
    for number in range(HOURS):
        first = fleet.past + number * A_STEP
        fleet.write_since(folder / f"hour{number}", first, first + A_STEP)
        hours.append(folder / f"hour{number}")
    with Store.open(folder / "data") as store, State.open(folder / "data") as state:
        replace_rates(state, [Rate("*", "owned", Decimal("2.50"), 0)], "test", "test", START_US)
        bring(store, state, folder / "past", at[0])
        store.link_state(state.identity())
    return Fleet(folder / "data", hours, at[0])


@pytest.fixture
def fleet(history: Fleet, tmp_path: Path) -> Fleet:
    """A copy of it for one test."""
    shutil.copytree(history.directory, tmp_path / "data")
    return Fleet(tmp_path / "data", history.hours, history.now_us)


def bring(store: Store, state: State, bundle: Path, now_us: int) -> None:
    """Imports a bundle and analyzes what it changed."""
    import_paths(store, state, "bundle", [bundle], cluster=None, now_us=now_us)
    assert [] == analyze(store, state, SETTINGS, now_us=now_us).failed_rules


class Bucket:
    """An S3 server that keeps its objects as files. Killed and started again, it has what it had acknowledged."""

    def __init__(self, folder: Path) -> None:
        """Skips the test where the server is absent, and says which."""
        self._program = Path(__file__).parents[2] / "build" / NODE_PACKAGE / "node_modules" / ".bin" / NODE_PACKAGE
        if not self._program.exists() or shutil.which("node") is None:
            pytest.skip(f"no S3 server: make test-lake installs npm's {NODE_PACKAGE}, which needs node and npm")
        self._folder, self._port = folder, free_port()
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """It answers when this returns."""
        options = (
            "-a",
            "127.0.0.1",
            "-p",
            str(self._port),
            "-d",
            self._folder,
            "--silent",
            "--configure-bucket",
            BUCKET,
        )
        self._server = subprocess.Popen(("node", self._program, *options))
        at = ("127.0.0.1", self._port)
        wait_until(lambda: socket.create_connection(at, 1).close() is None, "the S3 server answers")

    def kill(self) -> None:
        """kill -9; it is gone when this returns."""
        if self._server is not None:
            self._server.kill()
            self._server.wait(PATIENCE_S)
            self._server = None


@pytest.fixture(scope="session")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an S3 server."""
    server = Bucket(tmp_path_factory.mktemp("bucket"))
    try:
        server.start()
        yield server.url
    finally:
        server.kill()


@pytest.fixture(scope="session")
def catalogues() -> Iterator[Postgres]:
    """A PostgreSQL server for the catalogues of lakes."""
    with postgres_server() as server:
        yield server


FEW = frozenset({"book_day", "device_hour", "finding", "finding_amount", "ledger_hour", "run", "sample"})
"""Tables of each kind: stamped ones, compared ones, and samples."""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publishes some tables only: a first publish of all takes many seconds."""
    for module in (publish, verify):
        every = module.published_tables
        monkeypatch.setattr(
            module,
            "published_tables",
            lambda store, samples=True, every=every: [one for one in every(store, samples) if one.name in FEW],
        )


Make = Callable[..., LakeSettings]


@pytest.fixture
def make_lake(request: pytest.FixtureRequest, lake_engine: None, tmp_path: Path) -> Make:
    """Settings of a new lake: kind is `duckdb`, `sqlite`, `postgresql` or `bucket` (PostgreSQL and S3)."""

    def made(kind: str, cell: str = "east", **options: Any) -> LakeSettings:
        table: dict[str, Any] = {"cell": cell, "data": str(tmp_path / "lake"), **options}
        environ: dict[str, str] = {}
        if kind in ("duckdb", "sqlite"):
            table["catalogue"] = str(tmp_path / f"catalogue.{kind}")
        else:
            server: Postgres = request.getfixturevalue("catalogues")
            database = server.new(empty=True)
            table["catalogue"] = server.tcp_url(database).replace("+psycopg", "")
            secret = tmp_path / "catalogue-password"
            secret.write_text(f"{PASSWORD}\n")
            table["catalogue_password_file"] = str(secret)
        if kind == "bucket":
            table |= {"s3_endpoint": request.getfixturevalue("bucket"), "s3_path_style": True}
            table["data"] = f"s3://{BUCKET}/{tmp_path.name.replace('[', '-').replace(']', '')}"
            environ |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": KEY}
        found = configured({"lake": table}, environ)
        assert found is not None
        return found

    return made
