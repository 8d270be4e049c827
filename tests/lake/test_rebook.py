"""Hours that are computed from the lake's samples are those that the store's own samples give; or nothing is stored."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.core.errors import StoreError, UsageError
from gpuwatch.lake import guard
from gpuwatch.lake.connection import Lake, LakeError
from gpuwatch.lake.publish import Publisher
from gpuwatch.lake.verify import verify
from gpuwatch.ledger.parts import WRITTEN
from gpuwatch.rebook import part
from gpuwatch.rebook.compute import InTurn
from gpuwatch.rebook.files import FOLDER
from gpuwatch.rebook.kept_samples import kept_samples
from gpuwatch.rebook.rebook import rebook
from gpuwatch.store.database import Store
from tests.lake.conftest import START_US, Fleet, Make, bring
from tests.lake.rebooking import CHANGED, NOW_US, Rows, Spoiled, opened, plainly, rebooked, rows_of, small_parts


@pytest.fixture(scope="module")
def expected(history: Fleet, lake_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return plainly(history, tmp_path_factory.mktemp("plain") / "data")


@pytest.fixture(autouse=True)
def several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)


@pytest.mark.parametrize("kind", ["duckdb", "bucket"])
def test_every_row_is_as_from_the_store(kind: str, make_lake: Make, fleet: Fleet, expected: Rows) -> None:
    with opened(fleet.directory, make_lake(kind)) as (lake, store, state):
        done = rebooked(lake, store, state, Spoiled())

        assert ([], 2, 4) == (done.failed_rules, done.days, done.tasks)
        assert expected == rows_of(store)
        assert [] == [each for report in verify(lake, store, NOW_US) for each in report.differences], "it is published"
    if kind == "duckdb":
        assert [] == list((Path(lake.settings.data) / FOLDER).iterdir()), "the files of the tasks are deleted"


def test_days_that_the_store_has_deleted_are_computed_too(make_lake: Make, fleet: Fleet, expected: Rows) -> None:
    """An analysis alone leaves them as they are."""
    with opened(fleet.directory, make_lake("duckdb")) as (lake, store, state):
        Publisher(lake.settings, lambda: NOW_US).publish(lake, store)
        store.run("store/retention/retain", raw_until_us=START_US + DAY_US, minute_until_us=0)
        kept = store.sql("select count(*) from sample")[0][0]
        assert kept < store.sql("select sum(samples) from context_span")[0][0] / 2
        done = rebooked(lake, store, state, Spoiled())

        assert 2 == done.days
        found = rows_of(store)
        assert {name: expected[name] for name in WRITTEN} == {name: found[name] for name in WRITTEN}
        assert kept == store.sql("select count(*) from sample")[0][0]
        assert [] == [each for report in verify(lake, store, NOW_US) for each in report.differences]


def test_a_day_whose_next_one_is_not_in_the_lake_is_computed_from_the_store(
    make_lake: Make, fleet: Fleet, expected: Rows
) -> None:
    """Its last hours depend on the first two of the next."""
    with opened(fleet.directory, make_lake("duckdb")) as (lake, store, state):
        at_us = START_US + 2 * DAY_US
        done = rebook(lake, store, state, CHANGED, nullcontext(Spoiled()), lambda: at_us)

        assert [START_US // DAY_US] == list(kept_samples(lake).samples)
        assert (36, 0, 0) == (done.hours, done.days, done.tasks)
        found = rows_of(store)
        assert {name: expected[name] for name in WRITTEN} == {name: found[name] for name in WRITTEN}


def test_days_with_samples_that_the_lake_lacks_are_computed_from_the_store(
    make_lake: Make, fleet: Fleet, tmp_path: Path
) -> None:
    """Samples of an hour that came after `samples = false`: the lake keeps the day as it was before."""
    settings = make_lake("duckdb")
    with opened(fleet.directory, settings) as (lake, store, state):
        Publisher(settings, lambda: NOW_US).publish(lake, store)
        bring(store, state, fleet.hours[0], fleet.now_us + HOUR_US)
    expected = plainly(fleet, tmp_path / "plain")
    with opened(fleet.directory, replace(settings, samples=False)) as (lake, store, state):
        assert [START_US // DAY_US, START_US // DAY_US + 1] == sorted(kept_samples(lake).samples)
        done = rebooked(lake, store, state, Spoiled())

        assert (0, 0) == (done.days, done.tasks)
        found = rows_of(store)
        assert {name: expected[name] for name in WRITTEN} == {name: found[name] for name in WRITTEN}


def lose_a_file(folder: str, found: list[list[str]]) -> None:
    (Path(folder) / found[1][0]).unlink()


def name_another_part(folder: str, found: list[list[str]]) -> None:
    found[1] = found[0]


def leave_the_folder(folder: str, found: list[list[str]]) -> None:
    found[1][0] = "../" + found[1][0]


def lack_a_table(folder: str, found: list[list[str]]) -> None:
    found[1].pop()


def give_a_table_twice(folder: str, found: list[list[str]]) -> None:
    found[1].append(found[1][0])


@pytest.mark.parametrize("spoil", [lose_a_file, name_another_part, leave_the_folder, lack_a_table, give_a_table_twice])
def test_other_files_than_those_of_the_parts_are_refused(
    spoil: Callable[[str, list[list[str]]], None], few: None, make_lake: Make, fleet: Fleet
) -> None:
    """Nothing of the slice is stored, and the next run computes it."""
    with opened(fleet.directory, make_lake("duckdb")) as (lake, store, state):
        before = {name: rows_of(store)[name] for name in WRITTEN}
        with pytest.raises((StoreError, LakeError), match="a task returned|No files found|No such file"):
            rebooked(lake, store, state, Spoiled(spoil))

        found = rows_of(store)
        assert before == {name: found[name] for name in WRITTEN}
        assert store.sql("select count(*) from dirty_hour")[0][0] > 30


def test_a_part_that_ran_twice_counts_once(few: None, make_lake: Make, fleet: Fleet, expected: Rows) -> None:
    """The files of the first run stay unread."""

    def twice(folder: str, found: list[list[str]]) -> None:
        contents = {name: (Path(folder) / name).read_bytes() for name in found[1]}
        found[1] = [re.sub("-[0-9a-f]{32}-", f"-{'0' * 32}-", name) for name in contents]
        for name, content in zip(found[1], contents.values(), strict=True):
            (Path(folder) / name).write_bytes(content)

        assert 2 * len(WRITTEN) == len(list(Path(folder).glob("1-*")))

    with opened(fleet.directory, make_lake("duckdb")) as (lake, store, state):
        rebooked(lake, store, state, Spoiled(twice))

        found = rows_of(store)
        assert {name: expected[name] for name in WRITTEN} == {name: found[name] for name in WRITTEN}


def test_a_holder_that_was_fenced_meanwhile_stores_and_publishes_nothing(
    few: None, make_lake: Make, fleet: Fleet
) -> None:
    """Another process takes the cell over while tasks run."""
    settings = make_lake("postgresql")

    def take_over(folder: str, found: list[list[str]]) -> None:
        with Lake.open(settings) as other:
            guard.fence(other, 7, "process 2 on another", NOW_US)

    with opened(fleet.directory, settings) as (lake, store, state):
        Publisher(settings, lambda: NOW_US).publish(lake, store)
        before, published = rows_of(store), guard.read(lake)
        with pytest.raises(guard.Fenced, match="process 2 on another took over cell east"):
            rebooked(lake, store, state, Spoiled(take_over))

        found, after = rows_of(store), guard.read(lake)
        assert {name: before[name] for name in WRITTEN} == {name: found[name] for name in WRITTEN}
        assert (7, published.n + 1) == (after.epoch, after.n), "the take-over alone"


def test_a_lake_without_samples_is_refused(few: None, make_lake: Make, fleet: Fleet) -> None:
    settings = make_lake("duckdb", samples=False)
    with (
        opened(fleet.directory, settings) as (lake, store, state),
        pytest.raises(UsageError, match="has no samples of cell east"),
    ):
        rebooked(lake, store, state, Spoiled())


def test_files_with_other_rows_than_were_published_are_refused(few: None, make_lake: Make, fleet: Fleet) -> None:
    with opened(fleet.directory, make_lake("duckdb")) as (lake, store, _):
        Publisher(lake.settings, lambda: NOW_US).publish(lake, store)
        lake.sql(
            "delete from lake.cell_east.sample where device_id = (select min(device_id) from lake.cell_east.sample)"
        )
        with pytest.raises(LakeError, match="samples of 2026-11-0., and .* were published"):
            kept_samples(lake)


def task(folder: Path, settings: dict[str, object], **other: object) -> dict[str, object]:
    return {
        "lake": settings, "folder": str(folder), "samples": [], "number": 0, "devices": (0, 1), "parameters": {},
        "memory_limit": "1GB", "expected": part.versions(),
    } | other  # fmt: skip


def test_a_machine_without_the_data_says_so(make_lake: Make, tmp_path: Path) -> None:
    given = task(tmp_path / "elsewhere", part.plain(make_lake("duckdb")))
    with pytest.raises(StoreError, match="all nodes must see the lake's data"):
        part.compute(**given)  # type: ignore[arg-type]


def test_a_machine_with_another_version_says_so(make_lake: Make, tmp_path: Path) -> None:
    given = task(tmp_path, part.plain(make_lake("duckdb")), expected=part.versions() | {"duckdb": "9.9"})
    with pytest.raises(StoreError, match=r"has duckdb .*, and the store is computed with duckdb 9\.9"):
        part.compute(**given)  # type: ignore[arg-type]


def test_samples_that_cannot_be_read_are_named(few: None, make_lake: Make, fleet: Fleet) -> None:
    """The lake's disk may be full or gone: there is nothing to do about the directory."""
    settings = make_lake("duckdb")
    with opened(fleet.directory, settings) as (lake, store, state):
        Publisher(settings, lambda: NOW_US).publish(lake, store)
        before = {name: rows_of(store)[name] for name in WRITTEN}

        class Unread(InTurn):
            def run(self, calls: Sequence[Mapping[str, Any]]) -> list[list[str]]:
                Path(calls[0]["samples"][0]).unlink()
                return super().run(calls)

        with pytest.raises(StoreError, match=r"cannot compute part \d+ from the lake's data in .*sample") as raised:
            rebooked(lake, store, state, Unread())

        assert "make room" not in str(raised.value)
        found = rows_of(store)
        assert before == {name: found[name] for name in WRITTEN}


def test_no_message_of_a_task_has_a_key(make_lake: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(make_lake("bucket"), s3_access_key_file=None, s3_secret_key_file=None)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "s3cret")

    def shows(store: Store, folder: str) -> None:
        store.sql("select error('the key is s3cret')")

    monkeypatch.setattr(part, "read_inputs", shows)
    with pytest.raises(StoreError, match=r"the key is \.\.\.") as raised:
        part.compute(**task(tmp_path, part.plain(settings)))  # type: ignore[arg-type]

    assert "s3cret" not in str(raised.value)


def test_a_task_spills_to_a_folder_of_its_own(make_lake: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not to the folder in which the command or Ray was started: nobody may write there, perhaps."""
    found: list[str] = []

    def shows(store: Store, folder: str) -> None:
        found.append(store.sql("select current_setting('temp_directory')")[0][0])
        assert Path(found[0]).is_dir()
        raise StoreError("enough")

    monkeypatch.setattr(part, "read_inputs", shows)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(StoreError, match="enough"):
        part.compute(**task(tmp_path, part.plain(make_lake("duckdb"))))  # type: ignore[arg-type]

    assert tmp_path in Path(found[0]).parents
    assert not Path(found[0]).exists()


def test_no_secret_leaves_with_a_task(make_lake: Make) -> None:
    """Each machine reads keys from its own files or variables."""
    settings = replace(make_lake("duckdb"), environ={"AWS_SECRET_ACCESS_KEY": "s3cret"})

    assert "s3cret" not in str(part.plain(settings))
