"""A real Ray head with eight logical GPUs: the GPU-hours of its jobs are what they asked for, while they asked."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from gpuwatch.collectors.ray.files import read_ray_files
from gpuwatch.collectors.ray.paths import JOBS, NODES, VERSION
from gpuwatch.collectors.ray.source import LISTS, RaySource, configure
from gpuwatch.collectors.shared.http_json import Client
from gpuwatch.core.model import Points, Records, Rejects, Source
from gpuwatch.core.registry import LiveSource
from gpuwatch.ledger import attribution
from gpuwatch.settings import Settings
from gpuwatch.store.database import Store
from tests.worlds.patience import PATIENCE_S, wait_until
from tests.worlds.ray_nodes import LOCK, descendants, free_port

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'ray[default]'")

GPUS = 8
# One submission with an actor of half a GPU, one of two, a group of 2 x 1 and a task of a quarter.
SCRIPT = """
import os, time, ray
from ray.util.placement_group import placement_group
ray.init(address="auto")

@ray.remote(num_cpus=0)
class Holder:
    def ready(self):
        return True

@ray.remote(num_cpus=0, num_gpus=0.25)
def quarter(seconds):
    time.sleep(seconds)

group = placement_group([{"GPU": 1}] * 2, strategy="PACK")
ray.get(group.ready())
half, two = Holder.options(num_gpus=0.5).remote(), Holder.options(num_gpus=2).remote()
inside = Holder.options(num_gpus=1, placement_group=group).remote()
ray.get([half.ready.remote(), two.ready.remote(), inside.ready.remote()])
task = quarter.remote(3600)
never = Holder.options(num_gpus=64).remote()
open(os.environ["READY"], "w").close()
while not os.path.exists(os.environ["STOP"]):
    time.sleep(0.1)
"""


@dataclass
class Head:
    """A running head, and the pids of what it started."""

    url: str
    address: str
    folder: Path
    pids: list[int] = field(default_factory=list)

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def stop(self) -> None:
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    # Not pytest's own folder: with several workers its path leaves no room for the names of Ray's sockets.
    folder = Path(mkdtemp(prefix="ray", dir="/tmp"))
    # One head at a time, whichever worker has these tests: two would take each other's ports.
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield from started(folder)


def started(folder: Path) -> Iterator[Head]:
    """A head that runs in `folder`, until the tests are done with it."""
    port, dashboard = free_port(20100), free_port(22200)
    program = Path(sys.executable).with_name("ray")
    environment = os.environ | {
        "RAY_USAGE_STATS_ENABLED": "0",
        "GPUWATCH_TEST_RAY": str(folder),
        "RAY_TMPDIR": str(folder),
        # Ray ends its dashboard when that took longer than 60 s, and `ray start` succeeds without it.
        "RAY_DASHBOARD_STARTUP_TIMEOUT_S": str(round(PATIENCE_S)),
    }
    command = [str(program), "start", "--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=4"]
    command += [f"--num-gpus={GPUS}", "--include-dashboard=true", f"--dashboard-port={dashboard}"]
    command += ["--disable-usage-stats", f"--temp-dir={folder}", "--object-store-memory=100000000"]
    running = Head(f"http://127.0.0.1:{dashboard}", f"127.0.0.1:{port}", folder)
    try:
        answer = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False
        )
        assert 0 == answer.returncode, answer.stdout + answer.stderr
        wait_until(lambda: running.get(VERSION), "the dashboard answers")
        wait_until(lambda: running.get(LISTS["nodes"])["data"]["result"]["result"], "the node is listed")
        yield running
    finally:
        running.pids = descendants(str(folder))
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


def submit(head: Head, name: str, script: str, **words: Any) -> Path:
    """Submits a script; returns the file whose creation ends it, when it says that it is ready."""
    (head.folder / f"{name}.py").write_text(script)
    stop, ready = head.folder / f"{name}.stop", head.folder / f"{name}.ready"
    body = {
        "entrypoint": f"{sys.executable} {head.folder / name}.py",
        "submission_id": name,
        "metadata": {"gpuwatch.io/team": "vision", "user": "alice"},
        "runtime_env": {"env_vars": {"READY": str(ready), "STOP": str(stop)}},
        **words,
    }
    request = urllib.request.Request(
        head.url + JOBS, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        assert 200 == answer.status
    wait_until(ready.exists, f"{name} holds its GPUs")
    return stop


class StoreSink:
    """Appends what a source commits to a store; remembers what the source says of itself."""

    def __init__(self) -> None:
        self.store = Store.open(None, threads=1)
        self.errors: list[str] = []
        self.refused: dict[str, int] = {}
        self.rows = 0

    async def commit(self, source: str, batches: Sequence[Records | Points], rejects: Rejects | None = None) -> None:
        self.refused |= rejects.counts if rejects else {}
        with self.store.transaction():
            for batch in batches:
                self.rows += self.store.append(batch)

    def succeeded(self, source: str, at_us: int, samples: int) -> None:
        assert samples > 0

    def failed(self, source: str, at_us: int, error: str) -> None:
        self.errors.append(error)

    def added(self, source: LiveSource) -> None:
        raise AssertionError("a head finds no other sources")

    def dropped(self, source: str) -> None:
        raise AssertionError("a head finds no other sources")

    def clock(self, cluster: str, name: str, offset_us: int, at_us: int) -> None:
        raise AssertionError("a head tells no clock")

    async def open_claims(self, cluster: str, scheduler: str) -> list[dict[str, Any]]:
        return self.store.rows("service/open_claim", cluster=cluster, scheduler=scheduler)

    async def open_rows(self, cluster: str, table: str) -> list[dict[str, Any]]:
        raise AssertionError("a head asks for claims alone")

    def held(self) -> dict[str, tuple[float, float]]:
        """(GPUs at most, GPU-seconds) of every job after attribution."""
        attribution.attribute(self.store, "c1", Settings())
        found: dict[str, list[tuple[int, int, Fraction]]] = {}
        for job, start, end, num, den in self.store.sql(
            "select r.job_id, s.start_us, s.end_us, s.share_num, s.share_den from segment s join run r using (run_id)"
        ):
            found.setdefault(job, []).append((start, end, Fraction(num, den)))
        return {
            job: (
                max(float(sum(x for a, b, x in spans if a <= at < b)) for at, _, _ in spans),
                float(sum((b - a) * x for a, b, x in spans)) / 1e6,
            )
            for job, spans in found.items()
        }

    def spans(self) -> dict[str, float]:
        """Seconds from start to end of every unit that a claim names, by its GPUs."""
        rows = self.store.sql(
            "select pod_uid, coalesce(max(fraction), max(device_count)), min(start_us), coalesce(max(end_us), max(evidence_us))"
            " from claim group by 1"
        )
        return {unit: float(gpus) * (end - start) / 1e6 for unit, gpus, start, end in rows}


def source(head: Head) -> RaySource:
    problems: list[str] = []
    made = configure([{"url": head.url, "cluster": "c1", "interval_s": 1, "timeout_s": PATIENCE_S}], problems)

    assert [] == problems
    assert isinstance(made[0], RaySource)
    return made[0]


def now_us() -> int:
    return time.time_ns() // 1000


async def polls(one: RaySource, sink: StoreSink, count: int = 1) -> list[bool]:
    async with Client(one.access) as client:
        return [await one.poll(client, sink, now_us) for _ in range(count)]


def test_a_job_holds_what_it_asked_for_and_its_hours_close(head: Head) -> None:
    one, sink = source(head), StoreSink()
    stop = submit(head, "sub-a", SCRIPT, entrypoint_num_gpus=1)

    def counted() -> bool:
        assert [True] == asyncio.run(polls(one, sink))
        return sink.held().get("sub-a", (0.0, 0.0))[0] == 5.75

    wait_until(counted, "all its GPUs are counted")
    most, _ = sink.held()["sub-a"]

    # 1 of the entrypoint, 2 of the group, 0.5 and 2 of the actors, 0.25 of the task.
    assert 5.75 == most
    assert [("vision", "alice", "running")] == sink.store.sql(
        """select labels ->> '$."gpuwatch.io/team"', user_name, arg_max(state, observed_us) from workload
        where kind = 'Job' and name = 'sub-a' group by all"""
    )
    assert [("sub-a", 64)] == sink.store.sql(
        "select job_id, arg_max(device_count, evidence_us) from pending group by all"
    )
    assert [('{"": 8}',)] == sink.store.sql("select distinct devices from node")

    def written() -> int:
        before = sink.rows
        assert [True, True] == asyncio.run(polls(one, sink, 2))
        return sink.rows - before

    # A job says once a minute that it runs, and Ray may still report details: between those, nothing is written.
    wait_until(lambda: written() == 0, "two polls that write nothing, as nothing changes")

    stop.touch()
    wait_until(lambda: head.get(JOBS + "sub-a")["status"] == "SUCCEEDED", "the job succeeds")

    def ended() -> bool:
        asyncio.run(polls(one, sink))
        return not sink.store.rows("service/open_claim", cluster="c1", scheduler="ray")

    wait_until(ended, "its claims end")
    most, seconds = sink.held()["sub-a"]

    assert 5.75 == most
    assert sum(sink.spans().values()) == pytest.approx(seconds, abs=0.01)
    assert {} == sink.refused


def test_saved_answers_give_the_same_claims_as_the_live_source(head: Head, tmp_path: Path) -> None:
    stop = submit(head, "sub-b", SCRIPT.replace("num_gpus=2)", "num_gpus=3)"))
    one, sink = source(head), StoreSink()

    def counted() -> bool:
        asyncio.run(polls(one, sink))
        return sink.held().get("sub-b", (0.0, 0.0))[0] == 5.75

    wait_until(counted, "all its GPUs are counted")
    # Saved answers are of the time of the nodes' own reports, which come every few seconds and have the indexes later.
    begun = time.time()
    wait_until(lambda: all(message["now"] > begun for message in head.get(NODES)["data"]["summary"]), "fresh reports")
    paths = {"version": VERSION, "jobs": JOBS, "summary": NODES, "logical": "/logical/actors", **LISTS}
    message = "select pod_uid, max(device_indexes) from claim where job_id = 'sub-b' group by 1 having count(device_indexes) > 0 order by 1"
    rejects, stores = Rejects(), [StoreSink()]

    def saved_with_indexes() -> bool:
        """Some reports lack the indexes: then everything is saved and read once more."""
        asyncio.run(polls(one, sink))
        for name, path in paths.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(head.get(path)))
        stores[0] = StoreSink()
        asyncio.run(stores[0].commit("import", list(read_ray_files(Source(str(tmp_path), "c1"), rejects))))
        return bool(stores[0].store.sql(message))

    wait_until(saved_with_indexes, "the GPUs' indexes")
    saved = stores[0]
    stop.touch()

    columns = "run_key, pod_uid, node, device_count, fraction, user_name, labels"
    query = f"select {columns}, min(start_us) from claim where job_id = 'sub-b' and end_us is null group by all order by all"
    assert sink.store.sql(query) == saved.store.sql(query)
    assert 5.75 == saved.held()["sub-b"][0]
    indexes, live = dict(saved.store.sql(message)), dict(sink.store.sql(message))
    assert {unit: indexes[unit] for unit in live.keys() & indexes.keys()} == {
        unit: live[unit] for unit in live.keys() & indexes.keys()
    }


def test_a_head_that_was_killed_is_reported_and_its_claims_end_at_its_last_word(head: Head) -> None:
    one, sink = source(head), StoreSink()
    submit(
        head,
        "sub-c",
        "import os, time\nopen(os.environ['READY'], 'w').close()\ntime.sleep(600)\n",
        entrypoint_num_gpus=2,
    )
    wait_until(lambda: asyncio.run(polls(one, sink)) and "sub-c" in sink.held(), "the job is held")
    assert [True] == asyncio.run(polls(one, sink))
    heard = now_us()
    before = sink.held()["sub-c"]

    head.pids = descendants(str(head.folder))
    head.stop()
    wait_until(lambda: asyncio.run(polls(one, sink)) == [False], "the head is away")

    assert "check that the Ray head runs" in sink.errors[-1]
    assert before == sink.held()["sub-c"]
    assert [(True,)] == sink.store.sql("select max(end_us) <= $heard from run where job_id = 'sub-c'", heard=heard)
