"""Publishers and catalogues that are killed at random instants: no row twice, no half of a day, everything with the next publish."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gpuwatch.lake import guard
from gpuwatch.lake.connection import Lake, LakeError
from gpuwatch.lake.publish import Publisher
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.lake.verify import verify
from gpuwatch.store.database import Store
from tests.lake.conftest import Fleet, Make
from tests.lake.publishing import (
    CHANGES,
    NOW_US,
    ROUNDS,
    change,
    is_equal,
    is_whole,
    now_us,
    publish,
    publish_all,
    seconds_of,
    start,
)
from tests.worlds.patience import PATIENCE_S, wait_until
from tests.worlds.postgres import Postgres, postgres_server

pytestmark = pytest.mark.slow


@pytest.fixture
def server(lake_engine: None) -> Iterator[Postgres]:
    """A PostgreSQL server of this test alone."""
    with postgres_server() as started:
        yield started


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
