"""Data that any process of the fleet takes: a replica, a waiting process and another cell pass them on to the holder."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gpuwatch.core.clock import rfc3339
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.state import State
from gpuwatch.state.tokens import Tokens
from gpuwatch.store.database import Store
from tests.api.sources.test_ingest_routes import request_2
from tests.lake.conftest import Make
from tests.lake.leasing import LEASE_S, Cell, Sender, holder, running, stored
from tests.real import test_prometheus as world
from tests.worlds.patience import wait_until
from tests.worlds.ports import free_port
from tests.worlds.postgres import Postgres

exporter = world.exporter
pytestmark = pytest.mark.slow
EVENTS = "/api/v1/events?cluster={}"
NEVER_US = 4_102_444_800_000_000


class Fleet:
    """Two cells, of which one has a second process that waits, and a replica."""

    def __init__(self, settings: LakeSettings, url: str, folder: Path, token: str, lease_s: int) -> None:
        def one(name: str, cell: str, role: str = "cell") -> Cell:
            return Cell(replace(settings, cell=cell), url, folder / name, role=role, token=token, lease_s=lease_s)

        self.east, self.second, self.west = one("east", "east"), one("second", "east"), one("west", "west")
        self.west.arguments = ("--new-store",)
        self.replica = one("replica", "", "api")
        self.all = (self.east, self.second, self.west, self.replica)


LONG_S = 300
"""A lease that ends in no test, however busy the machine is."""


@pytest.fixture
def fleet(request: pytest.FixtureRequest, make_lake: Make, catalogues: Postgres, tmp_path: Path) -> Iterator[Fleet]:
    """With the length of its leases as a parameter."""
    url = catalogues.url(catalogues.new(empty=True))
    with State.open(url) as state:
        token = Tokens(state).create("sender", "ingest", None, None, "test", 1)[1]
    found = Fleet(make_lake("postgresql"), url, tmp_path, token, getattr(request, "param", LONG_S))
    with running(found.east):
        assert holder(found.east) is found.east
        with running(found.west, found.second, found.replica):
            assert holder(found.west) is found.west
            for other in (found.second, found.replica):
                wait_until(lambda other=other: other.readiness()[0], "it answers", poll_s=0.1)  # type: ignore[misc]
            yield found


def asked(cell: Cell, path: str, body: bytes, **headers: str) -> tuple[int, dict[str, str], Any]:
    """The answer, once a lease that a busy machine has let run out is renewed: until then nobody holds the cell."""

    def answer() -> tuple[int, dict[str, str], Any] | None:
        found = cell.ask("POST", path, body, **headers)
        return None if found[0] == 503 and "no process holds it now" in str(found[2]) else found

    return wait_until(answer, f"an answer to {path}", poll_s=0.2)  # type: ignore[return-value]


def event(name: str) -> bytes:
    return json.dumps(
        [{"id": name, "type": "event", "reason": "Test", "last": rfc3339(1_793_577_600_000_000)}]
    ).encode()


def test_data_reach_the_holder_of_their_cluster_through_any_process(fleet: Fleet, tmp_path: Path) -> None:
    east, second, west, replica = fleet.all
    status, _, body = replica.ask("POST", EVENTS.format("c1"), event("none"))
    assert (503, "not_holder") == (status, body["error"]["code"])
    assert (
        f"no cell has it yet; send its first data to the cell that is to have it: east ({east.address}), west"
        in str(body)
    )
    for cell, cluster in ((east, "c1"), (west, "c2")):
        status, headers, _ = asked(cell, EVENTS.format(cluster), event(f"e{1 if cell is east else 2}"))
        assert (204, None) == (status, headers.get("gpuwatch-holder")), "its own it takes itself"

    for each in (second, west, replica):
        status, headers, body = asked(each, EVENTS.format("c1"), event("none"), Authorization="Bearer wrong")
        assert (401, "unauthorized") == (status, body["error"]["code"])
        each.token = ""
        status = each.ask("POST", EVENTS.format("c1"), event("none"))[0]
        assert (503 if each is second else 401) == status, "though it is on this machine"
        each.token = east.token

    def both_know() -> bool:
        """The places of clusters are read again after two seconds."""
        answers = [
            asked(each, EVENTS.format("c1"), event("none"), Gpuwatch_Forwarded="1") for each in (second, replica)
        ]
        return all("gpuwatch-holder" in headers for _, headers, _ in answers)

    wait_until(both_know, "the others know where c1 is", poll_s=0.2)
    for each in (second, replica):
        status, headers, body = asked(each, EVENTS.format("c1"), event("none"), Gpuwatch_Forwarded="1")
        assert (503, "not_holder", east.address) == (status, body["error"]["code"], headers["gpuwatch-holder"])

    number = 10
    for each, cluster, place in (
        (second, "c1", east),
        (second, "c2", west),
        (east, "c2", west),
        (west, "c1", east),
        (replica, "c1", east),
        (replica, "c2", west),
    ):
        number += 1
        status, headers, body = asked(each, EVENTS.format(cluster), event(f"e{number}"))
        assert (204, place.address) == (status, headers["gpuwatch-holder"]), body
    assert (400, "bad_request") == _short(asked(replica, EVENTS.format("c1"), b"[{"))

    wire = pa.Codec("snappy").compress(
        request_2(("DCGM_FI_DEV_GPU_UTIL", time.time_ns() // 1_000_000, 1.0)), asbytes=True
    )
    kind = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
    status, headers, _ = asked(
        replica, "/api/v1/write", wire, Content_Type=kind, Content_Encoding="snappy", X_Gpuwatch_Cluster="c2"
    )
    assert (204, "1", west.address) == (
        status,
        headers["x-prometheus-remote-write-samples-written"],
        headers["gpuwatch-holder"],
    )
    status, headers, body = asked(replica, "/api/v1/otlp/v1/metrics?cluster=c2", b"{}")
    assert (200, {}, west.address) == (status, body, headers["gpuwatch-holder"])

    for cell in fleet.all:
        assert 0 == cell.end(), cell.log[-2000:]
    with Store.open(tmp_path / "east") as store:
        assert [1, 11, 14, 15] == stored(store)
    with Store.open(tmp_path / "west") as store:
        assert [2, 12, 13, 16] == stored(store)
        assert [("GPU-a", "c2")] == store.sql("select distinct gpu, cluster from context")


def _short(answer: tuple[int, dict[str, str], dict[str, dict[str, str]]]) -> tuple[int, str]:
    return answer[0], answer[2]["error"]["code"]


@pytest.mark.parametrize("fleet", [LEASE_S], indirect=True, ids=["short leases"])
def test_a_sender_at_a_replica_loses_nothing_when_the_holder_is_killed(fleet: Fleet, tmp_path: Path) -> None:
    replica, sender = fleet.replica, Sender()
    sender.deliver(fleet.east)
    for _ in range(10):
        sender.deliver(replica)
    now = holder(fleet.east, fleet.second)
    other = fleet.second if now is fleet.east else fleet.east
    now.kill()
    assert sender.send(replica) in (503, 204), "no answer after which data are dropped"
    assert holder(other) is other
    sender.deliver(replica)
    now.start()
    wait_until(lambda: now.readiness()[0] == 503, "it waits", poll_s=0.1)
    sender.deliver(now)

    for cell in fleet.all:
        assert 0 == cell.end(), cell.log[-2000:]
    found: list[int] = []
    for name in ("east", "second"):
        with Store.open(tmp_path / name) as store:
            found += stored(store)
    assert set(sender.acknowledged) <= set(found)
    with Store.open(tmp_path / "west") as store:
        assert [] == stored(store)


def test_a_real_prometheus_writes_to_a_replica(fleet: Fleet, exporter: world.Exporter, tmp_path: Path) -> None:
    executable = shutil.which("prometheus")
    if executable is None:
        pytest.skip("no prometheus program: install the package prometheus")
    fleet.east.ask("POST", EVENTS.format("c1"), event("e1"))
    (tmp_path / "token").write_text(fleet.east.token)
    yaml = tmp_path / "prometheus.yml"
    yaml.write_text(
        f"global: {world.SCRAPE_TIMES}\n"
        "scrape_configs: [{job_name: dcgm, metrics_path: /theirs, static_configs: [{targets: "
        f"['127.0.0.1:{exporter.server_address[1]}']}}]}}]\n"
        f"remote_write: [{{url: '{fleet.replica.address}/api/v1/write?cluster=c1', "
        f"authorization: {{credentials_file: {tmp_path / 'token'}}}, "
        "queue_config: {batch_send_deadline: 1s, max_backoff: 200ms}}]\n"
    )
    prometheus = f"http://127.0.0.1:{free_port()}"
    command = [executable, f"--config.file={yaml}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"]
    command.append(f"--web.listen-address={prometheus.removeprefix('http://')}")

    with world.running(world.program(command), tmp_path / "prometheus.log"):
        wait_until(lambda: exporter.served.get("/theirs", 0) > world.SCRAPES + 1, "all scrapes")
        sent = wait_until(lambda: world._sent(world.get(f"{prometheus}/metrics")), "the queue to empty")
        counts = world._by_field(prometheus, "count_over_time")

    assert 0 == fleet.east.end()
    assert (0, 0) == (sent["failed"], sent["dropped"])
    assert {world.SCRAPES} == set(counts.values())
    assert counts == {key: count for key, (count, _) in world.stored(tmp_path / "east", "c1").items()}
