"""Hours computed by a real Ray cluster: the same rows, also where a node is killed; nothing is stored where the head is."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

import pytest

from gpuwatch.core.errors import StoreError
from gpuwatch.lake import guard
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.publish import Publisher
from gpuwatch.ledger.parts import WRITTEN
from gpuwatch.rebook import compute
from gpuwatch.rebook.files import FOLDER, write_inputs
from gpuwatch.rebook.ray_cluster import connected
from gpuwatch.store.connection import Connection
from tests.lake.conftest import KEY, Fleet, Make
from tests.lake.rebooking import NOW_US, Rows, opened, plainly, rebooked, rows_of, small_parts
from tests.worlds.patience import PATIENCE_S, wait_until
from tests.worlds.ray_nodes import LOCK, descendants, free_port

pytest.importorskip("ray", reason="ray is not installed: pip install 'gpuwatch[ray]'")

MARK = "GPUWATCH_TEST_RAY_NODE"


@dataclass
class Nodes:
    """A head without CPUs for tasks, and nodes with two each."""

    folder: Path
    token: Path
    address: str = ""
    names: list[str] = field(default_factory=list)

    def start(self, name: str, *arguments: str) -> None:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(str(Path(each).absolute()) for each in sys.path if each),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token),
            "RAY_TMPDIR": str(self.folder),
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": KEY,
            MARK: f"{self.folder}/{name}/",
        }
        command = [str(Path(sys.executable).with_name("ray")), "start", "--disable-usage-stats", *arguments]
        command += ["--num-gpus=0", "--object-store-memory=100000000"]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False
        )
        assert 0 == done.returncode, done.stdout + done.stderr
        self.names.append(name)

    def kill(self, name: str) -> None:
        for pid in descendants(f"{MARK}={self.folder}/{name}/"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def nodes(lake_engine: None) -> Iterator[Nodes]:
    folder = Path(mkdtemp(prefix="ray", dir="/tmp"))
    token = folder / "token"
    token.write_text(secrets.token_hex(32))
    made = Nodes(folder, token)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            port = free_port(20100)
            made.address = f"127.0.0.1:{port}"
            made.start(
                "head", "--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=0",
                "--include-dashboard=false", f"--temp-dir={folder}",
            )  # fmt: skip
            made.start("first", f"--address={made.address}", "--node-ip-address=127.0.0.2", "--num-cpus=2")
            yield made
        finally:
            for name in ("first", "second", "head"):
                made.kill(name)
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def expected(history: Fleet, lake_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """What an analysis in the store's own process gives."""
    return plainly(history, tmp_path_factory.mktemp("plain") / "data")


@pytest.fixture(autouse=True)
def client(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small parts, and the variables with which Ray's clients find their token."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(nodes.token))
    small_parts(monkeypatch)


def once(condition: Callable[[], bool], act: Callable[[], None]) -> threading.Thread:
    """Acts as soon as a condition holds, beside what the test does."""

    def watch() -> None:
        wait_until(condition, "the instant to act")
        act()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("kind", ["duckdb", "bucket"])
def test_a_cluster_gives_the_same_rows(kind: str, make_lake: Make, fleet: Fleet, nodes: Nodes, expected: Rows) -> None:
    """From a folder that all nodes see, and from a bucket whose keys each node has."""
    with opened(fleet.directory, make_lake(kind)) as (lake, store, state):
        done = rebooked(lake, store, state, connected(nodes.address))

        assert (2, True) == (done.days, done.tasks >= 2)
        assert expected == rows_of(store)


def test_a_node_that_is_killed_costs_time_only(
    few: None, make_lake: Make, fleet: Fleet, nodes: Nodes, expected: Rows
) -> None:
    """It is killed as soon as a task has written its first file: others are at work on both nodes then."""
    nodes.start("second", f"--address={nodes.address}", "--node-ip-address=127.0.0.3", "--num-cpus=2")
    settings = make_lake("duckdb")
    at_work = once(
        lambda: any((Path(settings.data) / FOLDER).glob("*/*-device_minute.parquet")), lambda: nodes.kill("second")
    )
    with opened(fleet.directory, settings) as (lake, store, state):
        rebooked(lake, store, state, connected(nodes.address))

        at_work.join(PATIENCE_S)
        assert [] == descendants(f"{MARK}={nodes.folder}/second/")
        found = rows_of(store)
        assert {name: expected[name] for name in WRITTEN} == {name: found[name] for name in WRITTEN}


def test_a_wrong_token_is_refused(nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = tmp_path / "token"
    wrong.write_text(secrets.token_hex(32))
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(wrong))

    with pytest.raises(StoreError, match=f"Ray at {nodes.address}"), connected(nodes.address):
        raise AssertionError("connected")


def test_a_task_that_fails_names_the_cause(
    few: None, make_lake: Make, fleet: Fleet, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of its hours is stored, and the next run computes them."""

    def without_segments(lake: Lake, store: Connection, folder: str, parameters: dict[str, object]) -> None:
        write_inputs(lake, store, folder, parameters)
        Path(folder, "segment.parquet").write_bytes(b"no Parquet")

    monkeypatch.setattr(compute, "write_inputs", without_segments)
    with opened(fleet.directory, make_lake("duckdb")) as (lake, store, state):
        before = rows_of(store)
        with pytest.raises(StoreError, match=r"segment\.parquet.*nothing of these hours was stored"):
            rebooked(lake, store, state, connected(nodes.address))

        found = rows_of(store)
        assert {name: before[name] for name in WRITTEN} == {name: found[name] for name in WRITTEN}


def test_a_head_that_is_killed_leaves_nothing_half_done(
    few: None, make_lake: Make, fleet: Fleet, nodes: Nodes, expected: Rows
) -> None:
    """The last test with these nodes. Nothing is published; without Ray the same run gives the same rows afterwards."""
    settings = make_lake("duckdb")
    with opened(fleet.directory, settings) as (lake, store, state):
        Publisher(settings, lambda: NOW_US).publish(lake, store)
        before, published = rows_of(store), guard.read(lake)
        once(lambda: any((Path(settings.data) / FOLDER).glob("*/device.parquet")), lambda: nodes.kill("head"))
        with pytest.raises(StoreError, match="nothing of (them|these hours) was stored"):
            rebooked(lake, store, state, connected(nodes.address))

        found = rows_of(store)
        assert {name: before[name] for name in WRITTEN} == {name: found[name] for name in WRITTEN}
        assert published == guard.read(lake)
        rebooked(lake, store, state, compute.InTurn())
        found = rows_of(store)
        assert {name: expected[name] for name in WRITTEN} == {name: found[name] for name in WRITTEN}


def test_an_address_without_a_cluster_is_an_error() -> None:
    address = f"127.0.0.1:{free_port(21000)}"
    with pytest.raises(StoreError, match=f"Ray at {address}"), connected(address):
        raise AssertionError("connected")


def test_ray_can_be_started_here(
    few: None, make_lake: Make, fleet: Fleet, expected: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For one run."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH")
    with opened(fleet.directory, make_lake("duckdb")) as (lake, store, state):
        done = rebooked(lake, store, state, connected("local"))

        assert done.tasks
        found = rows_of(store)
        assert {name: expected[name] for name in WRITTEN} == {name: found[name] for name in WRITTEN}
