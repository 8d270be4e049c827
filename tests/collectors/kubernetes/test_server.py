"""Every kind over real HTTP: a small API server that keeps objects, their versions and a log of changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from aiohttp import web

from gpuwatch.collectors.kubernetes import source as kubernetes_source
from gpuwatch.collectors.kubernetes import writer
from gpuwatch.core.clock import SECOND_US, rfc3339
from gpuwatch.core.model import Points, Records, Rejects
from tests.real.test_kubernetes import Clock, FakeSink
from tests.worlds.kubernetes_api import EVENTS, NODES, PODS, Json, Server, run

T0_US = 1_793_577_600_000_000
UUID = "GPU-aaaaaaaa-0000-0000-0000-000000000001"
JOBS, QUOTAS = "/apis/batch/v1/jobs", "/api/v1/resourcequotas"
CLAIMS, SLICES = "/apis/resource.k8s.io/v1/resourceclaims", "/apis/resource.k8s.io/v1/resourceslices"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_source, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(kubernetes_source, "BEAT_S", 0.01)
    monkeypatch.setattr(kubernetes_source, "DISCOVER_S", 0.05)


def job(uid: str = "j", active: int = 0, gpus: int = 1) -> Json:
    limits = {"nvidia.com/gpu": str(gpus)}
    template = {"spec": {"containers": [{"name": "m", "resources": {"limits": limits}}]}}
    metadata = {"name": f"train-{uid}", "namespace": "lab", "uid": uid, "creationTimestamp": rfc3339(T0_US)}
    return {"metadata": metadata, "spec": {"template": template}, "status": {"active": active}}


def quota(used: int = 0) -> Json:
    key = "requests.nvidia.com/gpu"
    metadata = {"name": "gpus", "namespace": "lab", "uid": "q"}
    return {"metadata": metadata, "status": {"hard": {key: "8"}, "used": {key: str(used)}}}


def node() -> Json:
    ready = [{"type": "Ready", "status": "True"}]
    return {"metadata": {"name": "n1", "uid": "n1"}, "status": {"capacity": {"cpu": "8"}, "conditions": ready}}


def pod() -> Json:
    state = {"running": {"startedAt": rfc3339(T0_US)}}
    return {
        "metadata": {"namespace": "lab", "name": "a", "uid": "uid-a", "creationTimestamp": rfc3339(T0_US)},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "m"}],
            "resourceClaims": [{"name": "g", "resourceClaimName": "c"}],
        },
        "status": {"phase": "Running", "containerStatuses": [{"name": "m", "state": state}]},
    }


def claim() -> Json:
    result = {"request": "r", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"}
    reserved = [{"resource": "pods", "name": "a", "uid": "uid-a"}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    return {"metadata": {"namespace": "lab", "name": "c", "uid": "c"}, "spec": {}, "status": status}


def resource_slice() -> Json:
    attributes = {"type": {"string": "gpu"}, "uuid": {"string": UUID}, "productName": {"string": "NVIDIA H100"}}
    spec = {"driver": "gpu.nvidia.com", "nodeName": "n1", "pool": {"name": "n1", "generation": 1}}
    return {
        "metadata": {"name": "s", "uid": "s"},
        "spec": spec | {"devices": [{"name": "gpu-0", "attributes": attributes}]},
    }


def base(*more: str) -> Server:
    return Server(PODS, NODES, EVENTS, *more)


def states(sink: FakeSink) -> list[str]:
    return [row["state"] for row in sink.table("workload")]


def test_a_server_with_nothing_but_the_core_is_no_fault() -> None:
    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        await sink.until(lambda: sink.successes > 0)
        while len(api.requests("list", "/apis")) < 2:
            await asyncio.sleep(0.01)

    sink = run(base, scenario)

    assert [] == sink.errors + sink.rows
    assert {} == sink.refused.counts


def test_the_date_of_its_answers_shows_the_clock_of_the_server() -> None:
    """Its own time, whatever our clock shows."""

    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        await sink.until(lambda: sink.successes > 0)

    sink = run(base, scenario)

    assert sink.clocks
    assert all(name.startswith("kubernetes http") for _, name, _, _ in sink.clocks)
    assert all(
        abs(at_us + offset_us - time.time_ns() // 1000) < 600 * SECOND_US for *_, offset_us, at_us in sink.clocks
    )


def test_all_pieces_of_a_claim_over_http() -> None:
    """Pod, claim, slice and node, each from its own watch."""

    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        for path, item in ((PODS, pod()), (CLAIMS, claim()), (SLICES, resource_slice()), (NODES, node())):
            api.put(path, item)
        await sink.until(lambda: bool(sink.table("claim")) and bool(sink.table("node")))

    sink = run(lambda: base(CLAIMS, SLICES), scenario)

    assert {("dra", 1, UUID)} == {(r["kind"], r["device_count"], r["gpus"]) for r in sink.table("claim")}
    assert {('{"":1}', "NVIDIA H100")} == {(r["devices"], r["gpu_model"]) for r in sink.table("node")}
    assert {} == sink.refused.counts


def test_a_kind_that_the_server_gets_later_is_found() -> None:
    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        await sink.until(lambda: sink.successes > 0)
        api.collections.add(JOBS)
        api.put(JOBS, job())
        await sink.until(lambda: states(sink) == ["pending"])

    assert [] == run(base, scenario).errors


def test_the_newest_version_that_both_know_is_read() -> None:
    path, older = "/apis/kueue.x-k8s.io/v1beta1/workloads", "/apis/kueue.x-k8s.io/v1alpha1/workloads"

    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        while not api.requests("watch", path):
            await asyncio.sleep(0.01)
        assert [] == api.requests("list", older)

    run(lambda: base(path, older), scenario)


def test_a_server_that_does_not_say_what_it_has_is_asked_for_the_newest() -> None:
    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        api.forbidden.add("/apis")
        api.put(JOBS, job())
        await sink.until(lambda: states(sink) == ["pending"])

    sink = run(lambda: base(JOBS), scenario)

    assert [] == sink.errors
    assert {} == sink.refused.counts


def test_a_kind_that_may_not_be_read_is_reported_once_with_its_rule_and_stops_no_other() -> None:
    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        api.forbidden.add(JOBS)
        api.put(QUOTAS, quota())
        api.put(JOBS, job())
        await sink.until(lambda: bool(sink.table("queue")) and bool(sink.errors))
        while len(api.requests("list", JOBS)) < 3:
            await asyncio.sleep(0.01)
        before = sink.successes
        api.put(QUOTAS, quota(used=4))
        await sink.until(lambda: sink.successes > before and len(sink.table("queue")) == 2)
        api.forbidden.clear()
        await sink.until(lambda: states(sink) == ["pending"])

    sink = run(lambda: base(JOBS, QUOTAS), scenario)
    rule = 'a ClusterRole with the rule apiGroups: ["batch"], resources: ["jobs"], verbs: ["list", "watch"]'

    assert [True] == [rule in error for error in sink.errors]
    assert {f"no permission to read {JOBS}: bind {rule}": 1} == sink.refused.counts


@pytest.mark.parametrize("path", [NODES, EVENTS])
def test_nodes_or_events_that_may_not_be_read_are_reported_once_and_stop_no_pod(path: str) -> None:
    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        api.forbidden.add(path)
        api.put(JOBS, job())
        while len(api.requests("list", path)) < 4:
            await asyncio.sleep(0.01)
        before = sink.successes
        api.put(JOBS, job(active=1))
        await sink.until(lambda: states(sink) == ["pending", "running"] and sink.successes > before)

    sink = run(lambda: base(JOBS), scenario)

    assert [True] == [f'resources: ["{path.rpartition("/")[2]}"]' in error for error in sink.errors]
    assert [1] == list(sink.refused.counts.values())


def test_pages_that_go_round_in_a_circle_are_no_list() -> None:
    class Circle(Server):
        def _list(self, path: str, query: dict[str, str]) -> web.Response:
            body = {"metadata": {"resourceVersion": "1", "continue": "again"}, "items": [job()]}
            return web.json_response(body) if path == JOBS else super()._list(path, query)

    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        await sink.until(lambda: bool(sink.errors))

    sink = run(lambda: Circle(PODS, NODES, EVENTS, JOBS), scenario)

    assert "its pages repeat" in sink.errors[0]


def test_what_went_while_the_source_did_not_run_has_ended() -> None:
    """The store has two jobs and a quota of that job's namespace open; the first lists have one of the jobs."""

    def sink() -> FakeSink:
        gangs = [
            {"scheduler": "kubernetes", "kind": "Job", "uid": uid, "namespace": "lab", "state": "running"}
            | {"start_us": T0_US - 10 * SECOND_US, "end_us": None, "observed_us": T0_US - 5 * SECOND_US}
            for uid in ("j", "old")
        ]
        bound = {"scheduler": "kubernetes", "kind": "resource_quota", "name": "gpus", "namespace": "lab"}
        return FakeSink(workload=gangs, queue=[bound | {"flavor": None, "state": "Active", "observed_us": T0_US}])

    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        api.put(JOBS, job())
        await sink.until(lambda: {"pending", "deleted"} <= set(states(sink)) and bool(sink.table("queue")))

    found = run(lambda: base(JOBS, QUOTAS), scenario, sink)

    gone = [(row["uid"], row["end_us"]) for row in found.table("workload") if row["state"] == "deleted"]
    assert [("old", T0_US)] == gone, "it ended when anything was last heard"
    assert [("gpus", "deleted")] == [(row["name"], row["state"]) for row in found.table("queue")]


def test_a_kind_whose_definition_went_is_no_fault() -> None:
    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        api.put(JOBS, job())
        await sink.until(lambda: states(sink) == ["pending"])
        lists = len(api.requests("list", JOBS))
        api.collections.discard(JOBS)
        api.forget()
        api.disconnect()
        while len(api.requests("list", JOBS)) < lists + 2:
            await asyncio.sleep(0.01)
        api.collections.add(JOBS)
        api.put(JOBS, job(active=1))
        await sink.until(lambda: states(sink) == ["pending", "running"])

    sink = run(lambda: base(JOBS), scenario)

    assert [] == [error for error in sink.errors if "404" in error]


def test_a_job_from_creation_to_deletion() -> None:
    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        for item, seen in ((job(), "pending"), (job(active=1), "running")):
            api.put(JOBS, item)
            await sink.until(lambda seen=seen: states(sink)[-1:] == [seen])  # type: ignore[misc]
        clock.at(60)
        api.bookmark(JOBS)
        api.delete(JOBS, "j")
        await sink.until(lambda: states(sink)[-1] == "deleted")

    sink = run(lambda: base(JOBS), scenario)

    assert ["pending", "running", "deleted"] == states(sink)
    assert T0_US + 60 * SECOND_US == sink.table("workload")[-1]["end_us"]


def test_a_broken_watch_goes_on_from_its_last_bookmark() -> None:
    """The log before the bookmark may go: nothing has to be listed again."""

    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        api.put(JOBS, job("a"))
        await sink.until(lambda: len(states(sink)) == 1)
        while not all(api.requests("watch", path) for path in (JOBS, PODS, NODES, "/api/v1/events")):
            await asyncio.sleep(0.01)
        heard = sink.read
        result = api.bookmark(JOBS)
        await sink.until(lambda: sink.read > heard)
        api.forget(result)
        api.disconnect()
        api.put(JOBS, job("b"))
        await sink.until(lambda: len(states(sink)) == 2)
        assert 1 == len(api.requests("list", JOBS))
        assert "true" == api.requests("watch", JOBS)[0]["allowWatchBookmarks"]

    run(lambda: base(JOBS), scenario)


def test_what_was_deleted_in_a_gap_is_deleted_by_the_next_list() -> None:
    """The watch breaks, the log goes, 410: the list lacks one job and one quota."""

    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        api.put(JOBS, job("a"))
        api.put(JOBS, job("b"))
        api.put(QUOTAS, quota())
        await sink.until(lambda: len(states(sink)) == 2 and len(sink.table("queue")) == 1)
        clock.at(500)
        api.disconnect()
        api.delete(JOBS, "a")
        api.delete(QUOTAS, "q")
        api.forget()
        await sink.until(lambda: "deleted" in states(sink) and len(sink.table("queue")) == 2)

    sink = run(lambda: base(JOBS, QUOTAS), scenario)
    gone = [row for row in sink.table("workload") if row["state"] == "deleted"]

    assert [("a", T0_US)] == [(row["uid"], row["end_us"]) for row in gone], "it ended when the server was last heard"
    assert ["Active", "deleted"] == [row["state"] for row in sink.table("queue")]


def test_only_the_chosen_kinds_are_asked_for() -> None:
    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        api.put(QUOTAS, quota())
        await sink.until(lambda: bool(sink.table("queue")))
        while len(api.requests("list", "/apis")) < 2:
            await asyncio.sleep(0.01)
        assert [] == api.requests("list", JOBS)

    run(lambda: base(JOBS, QUOTAS), scenario, kinds=["ResourceQuota"])


def test_kinds_of_namespaces_are_read_there() -> None:
    path, elsewhere = "/apis/batch/v1/namespaces/lab/jobs", "/apis/batch/v1/jobs"

    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        api.put(path, job())
        await sink.until(lambda: states(sink) == ["pending"])
        assert [] == api.requests("list", elsewhere)

    places = ("/api/v1/namespaces/lab/pods", "/api/v1/namespaces/lab/events")
    run(lambda: Server(*places, NODES, path, elsewhere), scenario, namespaces=["lab"])


class SlowSink(FakeSink):
    """A store that takes nothing until it is told to."""

    def __init__(self, open_claims: Sequence[Json] = ()) -> None:
        super().__init__(open_claims)
        self.open = asyncio.Event()
        self.commits = 0

    async def commit(self, source: str, batches: Sequence[Records | Points], rejects: Rejects | None = None) -> None:
        self.commits += 1
        await self.open.wait()
        await super().commit(source, batches, rejects)


def test_while_the_store_is_busy_what_waits_is_bounded_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_ROWS", 10)
    taken: list[int] = []

    async def scenario(api: Server, sink: FakeSink, clock: Clock) -> None:
        assert isinstance(sink, SlowSink)
        for number in range(200):
            api.put(JOBS, job(f"j{number:03d}"))
        while len(api.requests("list", JOBS)) < 3 or not sink.commits:
            await asyncio.sleep(0.01)
        for _ in range(20):
            await asyncio.sleep(0)
        taken.append(len(api.requests("list", JOBS)))
        sink.open.set()
        await sink.until(lambda: len(sink.table("workload")) == 200)

    sink = run(lambda: base(JOBS), scenario, sink=SlowSink, page_size=5)

    assert taken[0] < 10, "of 40 pages the others were left with the server"
    assert 200 == len({row["uid"] for row in sink.table("workload")})
