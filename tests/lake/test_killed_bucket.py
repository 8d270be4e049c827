"""An S3 server that is killed at random instants of publishes and pulls: nothing twice, nothing torn, all of it with the next one."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuwatch.core.errors import GpuwatchError
from gpuwatch.lake import guard
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.publish import Publisher
from gpuwatch.lake.pull import Puller
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.lake.verify import verify
from gpuwatch.store.database import Store
from tests.lake.conftest import FEW, Bucket, Fleet, Make
from tests.lake.publishing import NOW_US, ROUNDS, change, is_equal, is_whole, now_us, publish
from tests.worlds.patience import PATIENCE_S

pytestmark = pytest.mark.slow


@pytest.fixture
def own_bucket(tmp_path: Path, lake_engine: None) -> Iterator[Bucket]:
    """An S3 server of this test alone."""
    server = Bucket(tmp_path / "objects")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def settings(few: None, make_lake: Make, own_bucket: Bucket) -> LakeSettings:
    return LakeSettings(**{**make_lake("bucket").__dict__, "s3_endpoint": own_bucket.url})


def killed_meanwhile(server: Bucket, after_s: float, work: Callable[[], object]) -> list[Exception]:
    """The errors of work during which the server is killed; it runs again when this returns."""
    errors: list[Exception] = []

    def attempt() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            errors.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    time.sleep(after_s)
    server.kill()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "it waits for no server for ever"
    server.start()
    assert [] == [error for error in errors if not isinstance(error, GpuwatchError)]
    return errors


def test_a_bucket_killed_during_a_publish(settings: LakeSettings, own_bucket: Bucket, fleet: Fleet) -> None:
    publish(settings, fleet.directory)
    change(fleet.directory, 0)
    began = time.monotonic()
    publish(settings, fleet.directory)
    long_s, rng, failed = time.monotonic() - began, random.Random(6), 0
    for number in range(1, ROUNDS + 1):
        change(fleet.directory, number)
        with Store.open(fleet.directory) as store:
            lake, publisher = Lake.open(settings), Publisher(settings, now_us)
            failed += len(
                killed_meanwhile(own_bucket, rng.uniform(0, long_s), lambda: publisher.publish(lake, store))  # noqa: B023
            )
            lake.close()
        is_whole(settings)
        publish(settings, fleet.directory)
        is_equal(settings, fleet.directory)
    assert 0 < failed


def test_a_bucket_killed_during_a_pull(
    settings: LakeSettings, own_bucket: Bucket, fleet: Fleet, tmp_path: Path
) -> None:
    publish(settings, fleet.directory)

    def pull() -> None:
        with Lake.open(settings) as lake, Store.open(tmp_path / "copy") as copy:
            Puller(now_us).pull(lake, copy)

    began = time.monotonic()
    pull()
    long_s, rng, failed = time.monotonic() - began, random.Random(7), 0
    for number in range(1, ROUNDS + 1):
        change(fleet.directory, number)
        publish(settings, fleet.directory)
        failed += len(killed_meanwhile(own_bucket, rng.uniform(0, long_s), pull))
        pull()
        with Store.open(fleet.directory) as store, Store.open(tmp_path / "copy") as copy:
            for name in sorted(FEW - {"sample"}):
                rows = f"select count(*), sum(hash(t)::hugeint) from {name} t"
                assert store.sql(rows) == copy.sql(rows), name
    assert 0 < failed
    with Lake.open(settings) as lake:
        assert ROUNDS + 1 <= guard.read(lake).epoch
        assert [] == [found for report in verify(lake, None, NOW_US) for found in report.differences]
