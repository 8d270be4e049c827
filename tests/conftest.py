"""The places that tests use, the environment they run in, and the marks of the slower ones."""

from __future__ import annotations

import gc
import importlib
import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pytest

CHECKOUT = Path(__file__).parents[1]
MARKED_FOLDERS = ("real", "e2e")
"""Every test in one of these carries its name as a mark: `make test-fast` leaves them out, and those marked slow."""
LONGEST = (
    "real/test_slurm.py",
    "real/test_focus_validator.py",
    "e2e/test_dashboard_browser.py",
    "real/test_ray.py",
    "real/test_remote_write.py",
    "e2e/test_process.py",
    "e2e/test_hostile.py",
    "e2e/test_get_started.py",
    "e2e/test_accessible.py",
    "real/test_backfill.py",
    "report/test_one_waste.py",
    "billing/test_periods.py",
    "billing/test_cost_days.py",
    "imports/test_later_jobs.py",
    "analysis/test_pipeline.py",
    "billing/test_policy_charges.py",
    "billing/test_explain.py",
    "billing/test_dimensions.py",
    "ledger/test_attribution_passes.py",
    "commands/test_minimal_fleets.py",
    "analysis/test_rebuild.py",
    "report/test_formats.py",
    "ledger/test_ledger_properties.py",
    "billing/test_chargeback.py",
    "store/test_day_sums.py",
    "lake/test_lease_cells.py",
    "lake/test_lead.py",
)
"""Files of half a minute and more, longest first."""
GARBAGE_THRESHOLDS = 20_000, 20, 20
"""Objects after which Python looks for garbage among the youngest; how often for one look among the older ones."""
MIGRATING = ("tests/store/", "tests/state/")
"""The tests that look at how a store and a state on disk are made."""
FOREIGN = ("GPUWATCH_", "KUBE", "PROMETHEUS_", "RAY_", "SLURM", "SACCT_", "SINFO_", "SQUEUE_", "XDG_")
"""Variables of the user's own clusters and desktop: no test may depend on them."""
KEPT = ("GPUWATCH_SHARED", "GPUWATCH_TEST_")
"""Variables that are meant for the tests."""


def pytest_configure(config: pytest.Config) -> None:
    """Gives the tests, and every process they start, an empty home directory: the user's holds tokens and settings.

    The tools that build packages keep the user's package index and interpreters.
    """
    home = Path.home()
    for name in list(os.environ):
        if name.startswith(FOREIGN) and not name.startswith(KEPT):
            del os.environ[name]
    pip = next((path for path in (home / ".config/pip/pip.conf", home / ".pip/pip.conf") if path.exists()), None)
    if pip is not None:
        os.environ.setdefault("PIP_CONFIG_FILE", str(pip))
    os.environ.setdefault("PYENV_ROOT", str(home / ".pyenv"))
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does; numpy reads it when it is imported
    folder = tempfile.TemporaryDirectory(prefix="gpuwatch-home-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    os.environ["HOME"] = folder.name


def pytest_sessionstart() -> None:
    """Objects of the collection live as long as the worker: looking for garbage among them is a tenth of the computing."""
    gc.disable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test marked both_engines runs with the state in a file and on PostgreSQL."""
    if metafunc.definition.get_closest_marker("both_engines"):
        metafunc.fixturenames.insert(0, "engine")  # before those that open a state
        only_file = metafunc.definition.get_closest_marker("sqlite_only") is not None
        metafunc.parametrize("engine", ["sqlite"] if only_file else ["sqlite", "postgresql"], indirect=True)


def pytest_collection_finish() -> None:
    """From here garbage is looked for again, among new objects, and less often: the machine has the memory."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.enable()


def pytest_unconfigure() -> None:
    """At the end everything can be freed, which DuckDB's binding checks."""
    gc.unfreeze()


def pytest_collection(session: pytest.Session) -> None:
    """Where workers collect the whole suite, each first imports its share of the files, then all import the rest.

    Pytest rewrites the assertions of a file when it is imported for the first time and saves the result. In a new
    checkout every worker rewrote every file: half of the time to collect.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode or session.config.args != session.config.getini("testpaths"):
        return
    number, count = int(worker["workerid"].removeprefix("gw")), int(worker["workercount"])
    for path in sorted((CHECKOUT / "tests").rglob("test_*.py"))[number::count]:
        with suppress(Exception, pytest.skip.Exception):  # collecting the file reports it
            importlib.import_module(".".join(path.relative_to(CHECKOUT).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests by their folder and sorts files, longest first.

    Workers take whole files in this order. First come those that wait for servers, while other workers compute; a long
    file at the end would leave one worker alone with it.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    ranks = {name: rank for rank, name in enumerate(LONGEST)}

    def rank(item: pytest.Item) -> tuple[int, bool, bool]:
        path = item.path.relative_to(CHECKOUT / "tests")
        return ranks.get(path.as_posix(), len(ranks)), path.parts[0] not in MARKED_FOLDERS, item.path not in slow

    for item in items:
        folder = item.path.relative_to(CHECKOUT / "tests").parts[0]
        if folder in MARKED_FOLDERS:
            item.add_marker(folder)
    items.sort(key=rank)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """DuckDB uses one thread unless a test asks for more: for tiny tables a second one is only overhead."""
    connect = duckdb.connect

    def with_one_thread(database: str = ":memory:", config: dict[str, Any] | None = None, **options: Any) -> Any:
        return connect(database, config={"threads": 1} | (config or {}), **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "connect", with_one_thread)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_migration(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """New stores and states copy the empty tables of the first ones: migrating each takes several times as long.

    Those of tests/store and tests/state are migrated, as are all that another process opens.
    """
    from gpuwatch.core import sqlfile
    from gpuwatch.state import State
    from gpuwatch.state import core as state_core
    from gpuwatch.store.database import Store

    folder = tmp_path_factory.mktemp("migrated")
    store, state = str(folder / "empty.duckdb"), folder / "empty.sqlite"
    with Store.open(None) as first:
        first.copy_to(Path(store))
        tables = [str(name) for (name,) in first.sql("select table_name from duckdb_tables()")]
        filled = [name for name in tables if first.sql(f'select exists(from "{name}")') == [(True,)]]
    own = {"store_identity": "select uuid()::varchar"}  # no two stores have the same
    rows = "; ".join(f'insert into "{name}" ' + own.get(name, f'from empty."{name}"') for name in filled)
    with State.open("sqlite://") as first_state:
        first_state.copy_to(state)
    with closing(sqlite3.connect(state)) as saved:
        statements = [line for line in saved.iterdump() if line not in ("BEGIN TRANSACTION;", "COMMIT;")]
    migrations, schema = sqlfile.names_in("schema"), state_core.SCHEMA
    migrate_store, migrate_state = Store._migrate, State._migrate

    def copies(path: str | Path | None) -> bool:
        """Whether what is opened there may be a copy."""
        return not path or not os.environ.get("PYTEST_CURRENT_TEST", "").startswith(MIGRATING)

    def copy_store(opened: Store) -> None:
        new = opened.path is None or not opened.sql("from information_schema.tables limit 1")
        if new and copies(opened.path) and sqlfile.names_in("schema") == migrations:
            name = opened.sql("select current_database()")[0][0]
            opened._connection.execute(f"attach '{store}' as empty (read_only)")
            # Copying all tables with their rows takes five times as long, and few have any.
            opened._connection.execute(f'copy from database empty to "{name}" (schema)')
            opened._connection.execute(rows)
            opened._connection.execute("detach empty")
        if opened.path is None:
            opened.changes.learn(tables)  # listing them is a fifth of opening a store
        else:
            migrate_store(opened)

    def copy_state(opened: State, create: bool) -> None:
        if create and copies(opened.name) and opened._engine.dialect.name == "sqlite" and schema == state_core.SCHEMA:
            with opened.transaction(write=True) as connection:
                if connection.exec_driver_sql("select count(*) from sqlite_master").scalar() == 0:
                    for statement in statements:
                        connection.exec_driver_sql(statement)
                    values = (uuid4().hex, state_core.IDENTITY)
                    connection.exec_driver_sql("update setting set value = ? where name = ?", values)
        migrate_state(opened, create)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "_migrate", copy_store)
        patch.setattr(State, "_migrate", copy_state)
        yield


@pytest.fixture(scope="module")
def town(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The cases of a file after their pass, by test: see tests/worlds/town.py. TOWN of the file has other settings."""
    from tests.worlds.town import computed
    from tests.worlds.world import SETTINGS, World

    whole = World(getattr(request.module, "TOWN", SETTINGS))
    return computed((item for item in request.session.items if item.path == request.path), whole)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """A PostgreSQL server of this worker, or a skip that says what is absent."""
    from tests.worlds.postgres import postgres_server

    with postgres_server() as server:
        yield server


@pytest.fixture
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the test's states are kept: `sqlite` or `postgresql`."""
    from tests.worlds.postgres import on_server

    name: str = request.param
    if name == "postgresql":
        on_server(monkeypatch, request.getfixturevalue("postgres"))
    return name


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The folder that holds pyproject.toml."""
    return CHECKOUT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real inputs, or a skip that says what is absent."""
    path = Path(os.environ.get("GPUWATCH_SHARED", CHECKOUT.parent / "shared"))
    if not path.is_dir():
        pytest.skip("no shared inputs beside the checkout: set GPUWATCH_SHARED")
    return path
