"""A publisher that is paused while another one takes over, at random instants: what it wakes up to write is refused."""

from __future__ import annotations

import random
import shutil
import signal
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from gpuwatch.lake import guard
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.settings import LakeSettings
from tests.lake.conftest import Fleet, Make
from tests.lake.publishing import NOW_US, ROUNDS, change, is_equal, is_whole, publish, publish_all, seconds_of, start
from tests.worlds.patience import PATIENCE_S
from tests.worlds.postgres import Postgres

pytestmark = pytest.mark.slow


def test_a_paused_publisher_that_wakes_after_a_take_over(make_lake: Make, fleet: Fleet, tmp_path: Path) -> None:
    """Another directory with a copy of the same store goes on meanwhile, as after the loss of a machine."""
    settings = make_lake("postgresql")
    copy = tmp_path / "copy"
    publish_all(settings, fleet.directory, tmp_path)
    change(fleet.directory, 0)
    long_s = seconds_of(settings, fleet.directory, tmp_path)
    rng = random.Random(3)
    for number in range(1, max(ROUNDS // 3, 1) + 1):
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
        refused = child.wait(PATIENCE_S) != 0
        with Lake.open(settings) as lake:
            after = guard.read(lake)
        assert before.n + 1 + (after.epoch > before.epoch + 1) == after.n, (
            "two commits only where the child began after it"
        )
        assert not refused or after.n == before.n + 1
        if after.n == before.n + 1:
            is_equal(settings, copy)
        is_whole(settings)
        shutil.rmtree(copy)
    assert publish_all(settings, fleet.directory, tmp_path)
    is_equal(settings, fleet.directory)


def test_a_session_that_stopped_in_a_commit_does_not_stop_a_take_over(
    few: None, make_lake: Make, fleet: Fleet, catalogues: Postgres, tmp_path: Path
) -> None:
    """As of a machine that is gone: PostgreSQL does not know for hours, and keeps its locks."""
    import psycopg

    settings = make_lake("postgresql")
    publish(settings, fleet.directory)
    with ExitStack() as sessions:
        for name, statement in (
            ("gpuwatch east 6 reader", "select count(*) from lake.ducklake_table"),
            ("gpuwatch east 7 other", "lock table lake.ducklake_snapshot"),
            ("gpuwatch west 7 other", "lock table lake.ducklake_schema in row exclusive mode"),
        ):
            url = catalogues.url(settings.catalogue.rpartition("/")[2]).replace("+psycopg", "")
            session = sessions.enter_context(closing(psycopg.connect(url, application_name=name)))
            session.execute(statement)
        with Lake.open(LakeSettings(**{**settings.__dict__, "cell": "west"})) as other:
            other.end_others()
            stopped = catalogues.sql(
                "select count(*) from pg_stat_activity where application_name like 'gpuwatch % other'"
            )
            assert [(1,)] == stopped, "only those of its own cell"
        with Lake.open(settings) as lake:
            began = time.monotonic()
            guard.fence(lake, 9, "process 8", NOW_US)
            assert time.monotonic() - began < 30
            assert (9, "process 8") == (guard.read(lake).epoch, guard.read(lake).holder)
            with pytest.raises(guard.Fenced):
                guard.fence(lake, 9, "process 7", NOW_US)
        reading = catalogues.sql(
            "select count(*) from pg_stat_activity where application_name like 'gpuwatch % reader'"
        )
        assert [(1,)] == reading, "one that only reads holds nothing up"
