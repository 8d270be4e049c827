"""kill -9 and a full disk: nothing acknowledged is lost, nothing is counted twice, the next run finishes the work."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.billing import chargeback
from gpuwatch.core.clock import Window
from gpuwatch.core.errors import GpuwatchError, StoreError
from gpuwatch.imports.files import import_paths
from gpuwatch.settings import Settings
from gpuwatch.simulate import simulate
from gpuwatch.state import State
from gpuwatch.store.database import FILE_NAME, Store
from tests.worlds.patience import PATIENCE_S

ROUNDS = 9
KILLS_A_DIRECTORY = 4
SEED = 20261121
SETTINGS = Settings(default_interval_s=60.0)
LENGTH_S = {"import": 1.2, "analyze": 1.0}
"""About how long a child works: kills are spread over a little more than that."""
UNEXACT = ("device_window", "schema_migration", "day_stamp", "state_link", "store_identity")
"""Tables that are not compared: means of floats depend on the order of rows; migrations say when they were applied; stamps and
ids of states and stores are random names."""

Tables = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Reference:
    """What an uninterrupted run leaves: after the import, and after the analysis."""

    bundle: Path
    imported_directory: Path
    imported: Tables
    analyzed: Tables
    bill: tuple[object, ...]


def tables(store: Store) -> Tables:
    """(rows, order-free checksum) of every table."""
    names = [
        row[0]
        for row in store.sql("select table_name from duckdb_tables() where not temporary order by 1")
        if row[0] not in UNEXACT
    ]
    return {
        name: store.sql(f"select count(*), coalesce(sum(hash({name})::hugeint), 0) from {name}")[0] for name in names
    }


def do_import(directory: Path, bundle: Path) -> Tables:
    with Store.open(directory, threads=1) as store, State.open(directory) as state:
        import_paths(store, state, "bundle", [bundle], cluster=None, now_us=0)
        return tables(store)


def do_analyze(directory: Path) -> tuple[Tables, tuple[object, ...]]:
    with Store.open(directory, threads=1) as store, State.open(directory) as state:
        report = analyze(store, state, SETTINGS, now_us=0)
        assert [] == report.failed_rules
        low, high = store.sql("select min(start_us), max(end_us) from segment")[0]
        bill = chargeback.chargeback(store, state, Window(low, high), ["team", "job"])
        assert state.setting("judge_from:sim") is None
        return tables(store), (bill.items, bill.gpu_seconds, bill.cost)


def child(work: str, directory: Path, bundle: Path, say: Connection) -> None:
    """What is killed: says `open`, works, says `done`."""
    with Store.open(directory, threads=1) as store, State.open(directory) as state:
        say.send("open")
        if work == "import":
            import_paths(store, state, "bundle", [bundle], cluster=None, now_us=0)
        else:
            analyze(store, state, SETTINGS, now_us=0)
        say.send("done")
        say.recv()  # waits for the kill, so that closing the store saves nothing


def kill_once(work: str, directory: Path, bundle: Path, after_s: float) -> bool:
    """Runs a child and kills it `after_s` after it opened the store; True when it had said `done`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["gpuwatch.analysis.pipeline", "gpuwatch.imports.files", "gpuwatch.state", "gpuwatch.store.database"]
    )
    ours, theirs = context.Pipe()
    process = context.Process(target=child, args=(work, directory, bundle, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        assert ours.poll(PATIENCE_S), "the child did not start"
        assert ours.recv() == "open"
        done = ours.poll(after_s) and ours.recv() == "done"
    finally:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    return done


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    folder = tmp_path_factory.mktemp("reference")
    bundle, directory, imported = folder / "bundle", folder / "data", folder / "imported"
    simulate(bundle, gpus=8, days=0.25, seed=3, step_s=60)
    after_import = do_import(directory, bundle)
    shutil.copytree(directory, imported)
    after_analyze, bill = do_analyze(directory)
    return Reference(bundle, imported, after_import, after_analyze, bill)


def assert_not_counted_twice(directory: Path, expected: Tables) -> None:
    with Store.open(directory, threads=1, create=False) as store:
        now = tables(store)
        repeated = store.sql(
            """select count(*) - count(distinct (device_id, context_id, observed_us))
            from (
                select device_id, context_id, observed_us from sample
                union all
                select device_id, context_id, observed_us from sample_tail
            )"""
        )[0][0]

    assert 0 == repeated
    too_many = {name: rows for name, (rows, _) in now.items() if rows > expected[name][0]}
    too_many.pop("sample_tail", None)
    too_many.pop("dirty_hour", None)
    assert {} == too_many


def test_an_import_killed_at_any_moment_is_finished_by_the_next(reference: Reference, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    finished = 0
    directory, kills = tmp_path / "0", 0
    for number in range(ROUNDS):
        done = kill_once("import", directory, reference.bundle, chance.uniform(0, LENGTH_S["import"]))
        kills += 1
        assert_not_counted_twice(directory, reference.imported)
        if done:
            with Store.open(directory, threads=1, create=False) as store:
                assert reference.imported == tables(store), "what was acknowledged is not there after the kill"
        if done or kills == KILLS_A_DIRECTORY or number == ROUNDS - 1:
            assert reference.imported == do_import(directory, reference.bundle)
            finished += 1
            directory, kills = tmp_path / str(number + 1), 0

    assert finished >= ROUNDS / KILLS_A_DIRECTORY


def test_an_analysis_killed_at_any_moment_is_finished_by_the_next(reference: Reference, tmp_path: Path) -> None:
    chance = random.Random(SEED + 1)
    directory, kills = tmp_path / "0", 0
    shutil.copytree(reference.imported_directory, directory)
    for number in range(ROUNDS):
        done = kill_once("analyze", directory, reference.bundle, chance.uniform(0, LENGTH_S["analyze"]))
        kills += 1
        if done:
            with Store.open(directory, threads=1, create=False) as store:
                assert reference.analyzed == tables(store), "what was acknowledged is not there after the kill"
        if done or kills == KILLS_A_DIRECTORY or number == ROUNDS - 1:
            assert (reference.analyzed, reference.bill) == do_analyze(directory)
            directory, kills = tmp_path / str(number + 1), 0
            shutil.copytree(reference.imported_directory, directory)


def test_a_kill_between_import_and_analysis_changes_nothing(reference: Reference, tmp_path: Path) -> None:
    directory = tmp_path / "data"

    assert kill_once("import", directory, reference.bundle, PATIENCE_S)
    assert (reference.analyzed, reference.bill) == do_analyze(directory)


# A full disk -----------------------------------------------------------------------------------------------------

MIB = 2**20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, Callable[[int], None]]]:
    """A file system of its own, and a function that sets its size in bytes."""
    if os.geteuid() != 0:
        pytest.skip("not root: a small file system cannot be mounted")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={256 * MIB}", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"tmpfs cannot be mounted here: {mounted.stderr.decode().strip()}")

    def resize(size: int) -> None:
        options = f"remount,size={size}"
        subprocess.run(["mount", "-o", options, str(disk)], check=True, capture_output=True)

    try:
        yield disk, resize
    finally:
        subprocess.run(["umount", str(disk)], check=True, capture_output=True)


def test_a_full_disk_fails_clearly_and_the_import_completes_when_space_returns(
    reference: Reference, small_disk: tuple[Path, Callable[[int], None]]
) -> None:
    disk, resize = small_disk
    directory = disk / "data"
    sacct = reference.bundle / "slurm/sacct.txt"
    with Store.open(directory, threads=1) as store, State.open(directory) as state:
        import_paths(store, state, "sacct", [sacct], cluster="sim", now_us=0)
        claims = store.sql("select count(*) from claim")
        used = sum(f.stat().st_blocks * 512 for f in disk.rglob("*") if f.is_file())
        resize(used + MIB // 4)
        with pytest.raises(GpuwatchError) as caught:
            import_paths(store, state, "bundle", [reference.bundle], cluster=None, now_us=0)

        assert isinstance(caught.value, StoreError)
        assert str(directory / FILE_NAME) in str(caught.value) or str(directory) in str(caught.value)
        assert claims == store.sql("select count(*) from claim where kind = 'sacct'")

        resize(256 * MIB)
        import_paths(store, state, "bundle", [reference.bundle], cluster=None, now_us=0)

        assert reference.imported["sample"] == tables(store)["sample"]
    done, bill = do_analyze(directory)
    assert reference.analyzed["ledger_hour"] == done["ledger_hour"]
    assert reference.bill == bill
