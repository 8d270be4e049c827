"""Processes and servers that are killed, and processes that are paused, at random instants: no row twice, no half of a day."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gpuwatch.core.clock import DAY_US
from gpuwatch.lake import guard
from gpuwatch.lake.connection import Lake, LakeError
from gpuwatch.lake.publish import Published, Publisher
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.lake.verify import verify
from gpuwatch.store.database import Store
from tests.lake.conftest import START_US, Fleet, Make
from tests.worlds import processes
from tests.worlds.patience import PATIENCE_S, wait_until
from tests.worlds.postgres import Postgres, postgres_server

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("GPUWATCH_KILL_ROUNDS", "10"))
NOW_US = START_US + 3 * DAY_US
CHANGES = (
    "update ledger_hour set estimated = not estimated",
    "update day_stamp set stamp = uuid()::varchar",
    "update run set name = coalesce(name, '') || 'x'",
    "update finding set severity = 'round ' || $round",
    "update segment set method = 'round ' || $round",
    "insert into event (cluster, event_id, first_us, last_us) select 'new', 'e' || $round, 1, 1",
)


@pytest.fixture
def server(lake_engine: None) -> Iterator[Postgres]:
    """A PostgreSQL server of this test alone."""
    with postgres_server() as started:
        yield started


def now_us() -> int:
    return NOW_US


def change(directory: Path, number: int) -> None:
    """Changes rows of several tables and days."""
    with Store.open(directory) as store:
        for statement in CHANGES:
            store.sql(statement, **({"round": str(number)} if "$round" in statement else {}))


def is_whole(settings: LakeSettings) -> None:
    """Every unit of the lake has just the rows that were noted in the transaction that wrote them."""
    with Lake.open(settings, create=True) as lake:
        if guard.exists(lake):
            assert [] == [found for report in verify(lake, None, NOW_US) for found in report.differences]


def is_equal(settings: LakeSettings, directory: Path) -> None:
    """The lake has just the rows of the store."""
    with Lake.open(settings) as lake, Store.open(directory) as store:
        assert [] == [found for report in verify(lake, store, NOW_US) for found in report.differences]


def publish(settings: LakeSettings, directory: Path) -> Published:
    with Lake.open(settings, create=True) as lake, Store.open(directory) as store:
        return Publisher(settings, now_us).publish(lake, store)


def config(settings: LakeSettings, folder: Path) -> Path:
    """The settings as a file."""
    names = ("catalogue", "data", "cell", "catalogue_password_file", "s3_endpoint")
    lines = [f'{name} = "{value}"' for name in names if (value := getattr(settings, name)) is not None]
    path = folder / "gpuwatch.toml"
    path.write_text("\n".join(["[lake]", *lines, f"s3_path_style = {str(settings.s3_path_style).lower()}"]) + "\n")
    return path


def start(settings: LakeSettings, directory: Path, folder: Path) -> processes.Child:
    """A process that publishes."""
    arguments = ("lake", "publish", "--data", directory, "--config", config(settings, folder))
    return processes.start(arguments, env={**os.environ, **settings.environ}, stderr=subprocess.DEVNULL)


def seconds_of(settings: LakeSettings, directory: Path, folder: Path) -> float:
    """How long a process needs to publish."""
    began = time.monotonic()
    assert 0 == start(settings, directory, folder).wait(PATIENCE_S)
    return time.monotonic() - began


def test_a_killed_publisher(make_lake: Make, fleet: Fleet, tmp_path: Path) -> None:
    settings = make_lake("bucket")
    publish(settings, fleet.directory)
    change(fleet.directory, 0)
    long_s = seconds_of(settings, fleet.directory, tmp_path)
    rng, killed = random.Random(1), 0
    for number in range(1, ROUNDS + 1):
        change(fleet.directory, number)
        child = start(settings, fleet.directory, tmp_path)
        time.sleep(rng.uniform(0, long_s))
        child.kill()
        killed += child.wait(PATIENCE_S) != 0
        is_whole(settings)
    assert 0 < killed
    change(fleet.directory, 99)
    assert publish_all(settings, fleet.directory, tmp_path)
    is_equal(settings, fleet.directory)


def publish_all(settings: LakeSettings, directory: Path, folder: Path) -> bool:
    """Publishes every table in a process, to its end."""
    return start(settings, directory, folder).wait(PATIENCE_S) == 0


def kill(server: Postgres) -> None:
    """kill -9 of the server and all its processes."""
    assert server._child is not None
    own = server._child.pid
    children = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/stat")
        if (words := _stat(path)) and int(words.rpartition(")")[2].split()[1]) == own
    ]
    for pid in (own, *children):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    server._child.wait(PATIENCE_S)
    server._child = None
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), "its processes have ended")


def attempt(publisher: Publisher, lake: Lake, store: Store, errors: list[Exception]) -> None:
    """Publishes, and keeps the error."""
    try:
        publisher.publish(lake, store)
    except Exception as error:  # noqa: BLE001 - the test looks at it
        errors.append(error)


def _stat(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def test_a_killed_catalogue(few: None, make_lake: Make, fleet: Fleet, server: Postgres, tmp_path: Path) -> None:
    settings = make_lake("duckdb")
    database = server.new(empty=True)
    settings = LakeSettings(
        **{
            **settings.__dict__,
            "catalogue": f"postgresql://gpuwatch@/{database}?host={server.folder}&port={server.port}",
        }
    )
    began = time.monotonic()
    publish(settings, fleet.directory)
    long_s, rng, failed = (time.monotonic() - began) / 2, random.Random(2), 0
    with Store.open(fleet.directory) as store:
        publisher, lake = Publisher(settings, now_us), Lake.open(settings)
        for number in range(1, ROUNDS + 1):
            for statement in CHANGES:
                store.sql(statement, **({"round": str(number)} if "$round" in statement else {}))
            errors: list[Exception] = []

            thread = threading.Thread(target=attempt, args=(publisher, lake, store, errors))
            thread.start()
            time.sleep(rng.uniform(0, long_s))
            kill(server)
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
            lake.close()
            assert all(isinstance(error, LakeError) for error in errors), errors
            failed += len(errors)
            server.start()
            is_whole(settings)
            lake = Lake.open(settings)
            publisher.publish(lake, store)
            assert [] == [found for report in verify(lake, store, NOW_US) for found in report.differences]
            assert 2 == guard.read(lake).epoch, "one process published first, this one ever since"
        lake.close()
    assert 0 < failed


def test_a_paused_publisher_that_wakes_after_a_take_over(make_lake: Make, fleet: Fleet, tmp_path: Path) -> None:
    """Another directory with a copy of the same store goes on meanwhile, as after the loss of a machine."""
    settings = make_lake("postgresql")
    copy = tmp_path / "copy"
    publish_all(settings, fleet.directory, tmp_path)
    change(fleet.directory, 0)
    long_s = seconds_of(settings, fleet.directory, tmp_path)
    rng, refused, rounds = random.Random(3), 0, max(ROUNDS // 2, 1)
    for number in range(1, rounds + 1):
        change(fleet.directory, number)
        child = start(settings, fleet.directory, tmp_path)
        time.sleep(rng.uniform(0.3, 0.9) * long_s)
        child.send_signal(signal.SIGSTOP)
        with Lake.open(settings) as lake:
            before = guard.read(lake)
        shutil.copytree(fleet.directory, copy, dirs_exist_ok=True)
        change(copy, number * 1000)
        assert publish_all(settings, copy, tmp_path)
        child.send_signal(signal.SIGCONT)
        code = child.wait(PATIENCE_S)
        with Lake.open(settings) as lake:
            after = guard.read(lake)
        assert before.n + 1 + (after.epoch > before.epoch + 1) == after.n, (
            "two commits only where the child began after it"
        )
        refused += code != 0
        if after.n == before.n + 1:
            is_equal(settings, copy)
        is_whole(settings)
        shutil.rmtree(copy)
    assert publish_all(settings, fleet.directory, tmp_path)
    is_equal(settings, fleet.directory)
