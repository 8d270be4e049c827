"""Import: repeated, in another order, packed, grown, and past its retention, the books stay the same."""

from __future__ import annotations

import gzip
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.core.registry import plan_bundle
from gpuwatch.imports.files import ImportReport, import_paths
from gpuwatch.policy.repository import load_team_rules
from gpuwatch.rates.repository import load_rates
from gpuwatch.settings import Settings
from gpuwatch.simulate import simulate
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.store.retention import Retained, drop_late, retain, skip_retired
from tests.worlds.retention import retain_all
from tests.worlds.templates import computed_once
from tests.worlds.world import HOUR, T0_US, Gpu, World, claim, minutes, samples, us

SETTINGS = Settings(default_interval_s=60.0)
DERIVED = (
    "device",
    "capacity",
    "run",
    "segment",
    "idle_span",
    "device_minute",
    "ledger_hour",
    "unjudged",
    "run_team",
    "device_price",
    "context_span",
)
"""Tables that are computed, without device_window: means of floats depend on the order of rows."""
FIRE = ("blind-spot", "false-utilization", "idle-hoarding")
"""The rules that find something in the bundle."""

Tables = dict[str, tuple[int, int]]


@dataclass
class Books:
    """An empty store and state."""

    store: Store
    state: State

    def load(self, kind: str, *paths: Path) -> ImportReport:
        cluster = None if kind == "bundle" else "sim"
        return import_paths(self.store, self.state, kind, paths, cluster=cluster, now_us=0)

    def analyze(self, rules: Sequence[str] = ()) -> Tables:
        """Derived tables, and the findings that stand: those whose records changed stay as resolved rows."""
        assert [] == analyze(self.store, self.state, SETTINGS, now_us=0, detectors=rules).failed_rules
        standing = self.store.sql(
            """select count(*), coalesce(sum(hash(finding)::hugeint), 0)
            from finding where resolved_reason is distinct from 'records changed'"""
        )[0]
        return {**self.tables(DERIVED), "finding": standing}

    def tables(self, names: tuple[str, ...] = ()) -> Tables:
        """(rows, order-free checksum) of tables, all of them unless named."""
        every = [row[0] for row in self.store.sql("select table_name from duckdb_tables() where not temporary")]
        return {
            name: self.store.sql(f"select count(*), coalesce(sum(hash({name})::hugeint), 0) from {name}")[0]
            for name in sorted(names or every)
        }


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Books]:
    with Store.open(None, threads=1) as store, State.open(tmp_path / "state") as state:
        yield Books(store, state)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "b"
    simulate(folder, gpus=8, days=0.25, seed=3, step_s=60)
    return folder


@pytest.fixture(scope="module")
def expected(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """What one plain import and analysis computes."""
    with Store.open(None, threads=1) as store, State.open(tmp_path_factory.mktemp("state")) as state:
        books = Books(store, state)
        books.load("bundle", bundle)
        return books.analyze()


def test_a_bundle_imported_twice_changes_no_row(books: Books, bundle: Path) -> None:
    first = books.load("bundle", bundle)
    after_first = books.tables()
    again = books.load("bundle", bundle)

    assert (first.files, 0, 0) == (again.repeated, again.files, again.records)
    assert after_first == books.tables()

    analyzed = books.analyze()
    everything = books.tables()
    books.load("bundle", bundle)

    assert analyzed == books.analyze()
    assert everything == books.tables()


def test_a_bundle_under_another_name_changes_no_row(books: Books, bundle: Path, tmp_path: Path) -> None:
    books.load("bundle", bundle)
    before = books.tables()
    moved = shutil.copytree(bundle, tmp_path / "moved")
    report = books.load("bundle", moved)

    assert 0 == report.files
    assert before == books.tables()


@pytest.mark.parametrize("seed", [1, 2])
def test_files_one_by_one_in_any_order_give_the_same_books(
    books: Books, bundle: Path, expected: Tables, seed: int
) -> None:
    plan = plan_bundle(bundle)
    parts = list(plan.parts)
    random.Random(seed).shuffle(parts)
    for kind, path in parts:
        books.load(kind, path)
    # Rates and teams come with the bundle; its files are known by now.
    report = books.load("bundle", bundle)

    assert 0 == report.files
    assert expected == books.analyze()


def test_an_analysis_between_the_files_changes_nothing(books: Books, bundle: Path, expected: Tables) -> None:
    """After every kind of file, and between the metrics of two nodes."""
    parts = sorted(plan_bundle(bundle).parts, reverse=True)
    for (kind, path), (next_kind, _) in pairwise([*parts, ("", bundle)]):
        books.load(kind, path)
        if kind != next_kind or kind == "openmetrics":
            books.analyze(FIRE)
    books.load("bundle", bundle)

    assert expected == books.analyze()
    assert set(FIRE) == {row[0] for row in books.store.sql("select detector from finding")}


def test_the_same_content_packed_and_plain_gives_the_same_books(
    books: Books, bundle: Path, expected: Tables, tmp_path: Path
) -> None:
    other = shutil.copytree(bundle, tmp_path / "other")
    for _, path in plan_bundle(bundle).parts:
        copy = other / path.relative_to(bundle)
        if path.suffix == ".gz":
            twin = copy.with_suffix("")
            twin.write_bytes(gzip.decompress(path.read_bytes()))
        elif path.suffix == ".json" or path.name in ("sacct.txt", "scontrol_node.txt"):
            twin = copy.with_name(f"{path.name}.gz")
            twin.write_bytes(gzip.compress(path.read_bytes()))
        else:
            continue
        # The time of a file is the time of what it says of nodes.
        os.utime(twin, ns=(0, path.stat().st_mtime_ns))
        copy.unlink()
    books.load("bundle", other)

    assert expected == books.analyze()

    report = books.load("bundle", bundle)

    assert report.files > 0
    assert expected == books.analyze()


def test_a_file_that_grew_is_merged_without_repeats(
    books: Books, bundle: Path, expected: Tables, tmp_path: Path
) -> None:
    part = shutil.copytree(bundle, tmp_path / "part")
    for path in part.glob("metrics/*.prom.gz"):
        text = gzip.decompress(path.read_bytes())
        path.write_bytes(gzip.compress(text[: text.index(b"\n", len(text) // 2) + 1]))
    sacct = part / "slurm/sacct.txt"
    lines = sacct.read_text().splitlines(keepends=True)
    sacct.write_text("".join(lines[: len(lines) // 2]))
    books.load("bundle", part)
    books.analyze(FIRE)
    books.load("bundle", bundle)
    repeated = books.store.sql("select count(*) - count(distinct (device_id, context_id, observed_us)) from sample")[0][
        0
    ]

    assert 0 == repeated
    assert expected == books.analyze()


def test_notes_name_the_missing_parts(books: Books, bundle: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    shutil.copytree(bundle / "metrics", small / "metrics")
    notes = "\n".join(books.load("bundle", small).notes)

    for part in ("bundle.toml", "sacct.txt", "topo/", "rates.csv", "teams.csv"):
        assert part in notes
    assert "metrics/*.prom" not in notes


def test_rates_and_teams_land_in_the_state_once(books: Books, bundle: Path) -> None:
    books.load("bundle", bundle)
    versions = [books.state.card_version(kind) for kind in ("rates", "teams")]
    books.load("bundle", bundle)

    assert versions == [books.state.card_version(kind) for kind in ("rates", "teams")]
    assert len((bundle / "rates.csv").read_text().splitlines()) - 1 == len(load_rates(books.state))
    assert len((bundle / "teams.csv").read_text().splitlines()) - 1 == len(load_team_rules(books.state))


def test_a_refused_line_is_stored_with_file_line_and_reason(books: Books, tmp_path: Path) -> None:
    file = tmp_path / "a.prom"
    file.write_text('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 5 1793577600000\nnonsense here\n')
    books.load("openmetrics", file)
    books.load("openmetrics", file)

    assert [("openmetrics", "sim", str(file), "value or timestamp is not a number", 1, 2, "nonsense here")] == (
        books.store.sql("select kind, cluster, path, reason, count, line, example from reject")
    )


# Retention --------------------------------------------------------------------------------------------------------

GPU, OTHER = Gpu(), Gpu("GPU-b", index=1)
DAY = 24 * HOUR
FAR_US = T0_US + 10_000 * DAY_US
KEEP = Settings(default_interval_s=600.0, raw_retention_days=2, minute_retention_days=4)


@computed_once
def week() -> World:
    """Two GPUs measured every ten minutes for seven days and held by one job, booked."""
    return (
        World(KEEP)
        .add(
            claim("job", 0, 7 * DAY, count=2, device_indexes="0,1"),
            samples(GPU, minutes(0, 7 * DAY, 600), job="job"),
            samples(OTHER, minutes(0, 7 * DAY, 600), job="job"),
        )
        .book()
    )


def days_of(world: World, table: str, column: str) -> list[int]:
    rows = world.store.sql(f"select distinct ({column} - {T0_US}) // {DAY_US} from {table} order by 1")
    return [row[0] for row in rows]


def test_nothing_is_deleted_from_an_empty_store() -> None:
    assert Retained() == retain(World(KEEP).store, KEEP, FAR_US)


def test_history_within_the_retention_stays_however_old_it_is() -> None:
    world = week()

    assert Retained() == retain(world.store, Settings(), FAR_US)


def test_a_sample_from_the_future_does_not_make_the_others_old() -> None:
    world = week().add(samples(GPU, [20 * DAY], job="job")).book()

    assert Retained() == retain(world.store, Settings(), us(8 * DAY))


def test_a_clock_that_jumped_ahead_for_minutes_makes_one_day_old_at_most() -> None:
    """Samples of a day 25 days ahead, under a clock that is as far ahead: of seven days within retention one goes."""
    world = week().add(samples(GPU, [31 * DAY, 31 * DAY + 600], job="job")).book()
    retain_all(world.store, Settings(raw_retention_days=6, minute_retention_days=6), us(32 * DAY))

    assert [1, 2, 3, 4, 5, 6, 31] == days_of(world, "sealed_day", "day_us")
    assert {1, 2, 3, 4, 5, 6} < set(days_of(world, "device_minute", "hour_us"))


def test_a_run_deletes_one_day_at_most_and_the_first_run_none() -> None:
    world = week()
    days = []
    for _ in range(3):
        gone = retain(world.store, KEEP, FAR_US)
        days.append((days_of(world, "sealed_day", "day_us")[0], gone.more))

    assert [(0, True), (1, True), (2, True)] == days


def test_what_two_runs_do_not_agree_on_stays() -> None:
    """The first run sees a day of a wrong clock, the second one does not: it was withdrawn meanwhile."""
    keep = Settings(raw_retention_days=6, minute_retention_days=6)
    world = week().add(samples(GPU, [31 * DAY], job="job")).book()
    retain(world.store, keep, us(32 * DAY))

    assert Retained() == retain(world.store, keep, us(7 * DAY))
    assert 0 == days_of(world, "sealed_day", "day_us")[0]


@pytest.mark.parametrize("now", [6 * DAY, 7 * DAY - 1])
def test_the_current_day_stays_whatever_lies_behind_it(now: int) -> None:
    world = week()
    retain_all(world.store, replace(KEEP, raw_retention_days=1, minute_retention_days=1), us(now))

    assert 6 in days_of(world, "sealed_day", "day_us")


def test_a_day_that_waits_to_be_booked_stays() -> None:
    world = week()
    world.store.sql("insert into dirty_hour values ('c1', $h)", h=T0_US + HOUR_US)

    assert 0 == retain(world.store, KEEP, FAR_US).samples


def test_old_samples_and_minutes_go_and_the_books_stay() -> None:
    world = week()
    kept = {name: world.rows(name) for name in ("ledger_hour", "segment", "finding", "capacity", "context_span")}
    gone = retain_all(world.store, KEEP, FAR_US)

    # The newest sample is of day 6; raw of two days back and minutes of four days back stay, whole days only.
    assert [4, 5, 6] == [day for day in days_of(world, "sample", "observed_us") if day > 3]
    assert [2, 3, 4, 5, 6] == days_of(world, "device_minute", "hour_us")
    # Days 0 to 3, but for the first hour of either device and the three hours before the kept days.
    assert 2 * (4 * 24 - 1 - 3) * 6 == gone.samples
    assert kept == {name: world.rows(name) for name in kept}
    assert Retained() == retain_all(world.store, KEEP, FAR_US)


def test_attributing_again_after_retention_changes_nothing() -> None:
    world = week()
    before = {name: world.rows(name) for name in ("device", "segment", "capacity", "run", "ledger_hour")}
    retain_all(world.store, KEEP, FAR_US)
    world.attribute()

    assert [] == world.rows("dirty_hour")
    assert before == {name: world.rows(name) for name in before}


def test_booked_hours_without_their_samples_are_not_computed_again() -> None:
    world = week()
    before = world.rows("ledger_hour")
    retain_all(world.store, KEEP, FAR_US)
    world.store.run("analysis/mark_dirty", cluster="c1", since_us=None, until_us=None)

    assert 4 * 24 == skip_retired(world.store, "c1")
    # The first kept hours are computed from the samples before them, which stayed.
    assert [4, 5, 6] == days_of(world, "dirty_hour", "hour_us")

    world.book()

    assert before == world.rows("ledger_hour")


def test_late_samples_of_a_retired_day_are_dropped() -> None:
    world = week()
    retain_all(world.store, KEEP, FAR_US)
    spans = world.rows("context_span")
    world.add(samples(GPU, [DAY + 61, 5 * DAY + 61], job="job"))

    assert 1 == drop_late(world.store)
    world.book()

    assert [day for day in days_of(world, "sample", "observed_us") if 0 < day < 3] == []
    assert len(spans) == len(world.rows("context_span"))
