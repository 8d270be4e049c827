"""Publishing in a process of its own, and what must hold of the lake whatever happened to it."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from gpuwatch.core.clock import DAY_US
from gpuwatch.lake import guard
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.publish import Published, Publisher
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.lake.verify import verify
from gpuwatch.store.database import Store
from tests.lake.conftest import START_US
from tests.worlds import processes
from tests.worlds.patience import PATIENCE_S

ROUNDS = int(os.environ.get("GPUWATCH_TEST_KILL_ROUNDS", "10"))
NOW_US = START_US + 3 * DAY_US
CHANGES = (
    "update ledger_hour set estimated = not estimated",
    "update day_stamp set stamp = uuid()::varchar",
    "update run set name = coalesce(name, '') || 'x'",
    "update finding set severity = 'round ' || $round",
    "update segment set method = 'round ' || $round",
    "insert into event (cluster, event_id, first_us, last_us) select 'new', 'e' || $round, 1, 1",
)


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
    lines = [f'{name} = "{value}"' for name in names if (value := getattr(settings, name))]
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


def publish_all(settings: LakeSettings, directory: Path, folder: Path) -> bool:
    """Publishes every table in a process, to its end."""
    return start(settings, directory, folder).wait(PATIENCE_S) == 0
