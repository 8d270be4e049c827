"""Kubernetes over real HTTP: a scripted API server for what goes wrong, and kmock for a whole life of a pod."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from gpuwatch.collectors.kubernetes import source as kubernetes_source
from gpuwatch.collectors.kubernetes.source import configure
from gpuwatch.core.clock import SECOND_US, rfc3339
from gpuwatch.core.model import Points, Records, Rejects
from tests.worlds.patience import PATIENCE_S

T0_US = 1_793_577_600_000_000
Json = dict[str, Any]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults are tried again at once."""
    monkeypatch.setattr(kubernetes_source, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(kubernetes_source, "BEAT_S", 0.01)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.us = T0_US

    def __call__(self) -> int:
        return self.us

    def at(self, seconds: float) -> None:
        self.us = T0_US + round(seconds * SECOND_US)


class FakeSink:
    """Keeps rows as they are committed, and wakes who waits for them."""

    def __init__(self, open_claims: Sequence[Json] = (), **open_rows: Sequence[Json]) -> None:
        self.rows: list[tuple[str, Json]] = []
        self.clocks: list[tuple[str, str, int, int]] = []
        self.refused = Rejects()
        self.errors: list[str] = []
        self.successes = 0
        self.read = 0
        self._open = list(open_claims)
        self._open_rows = open_rows
        self._changed = asyncio.Event()

    async def commit(self, source: str, batches: Sequence[Records | Points], rejects: Rejects | None = None) -> None:
        for batch in batches:
            assert isinstance(batch, Records)
            self.rows += [(batch.table, row) for row in batch.rows.to_pylist()]
        for reason, count in (rejects or Rejects()).counts.items():
            self.refused.counts[reason] = self.refused.counts.get(reason, 0) + count
        self._changed.set()

    def succeeded(self, source: str, at_us: int, samples: int) -> None:
        self.successes += 1
        self.read += samples
        self._changed.set()

    def failed(self, source: str, at_us: int, error: str) -> None:
        self.errors.append(error)
        self._changed.set()

    def clock(self, cluster: str, name: str, offset_us: int, at_us: int) -> None:
        self.clocks.append((cluster, name, offset_us, at_us))

    async def open_claims(self, cluster: str, scheduler: str) -> list[Json]:
        return self._open

    async def open_rows(self, cluster: str, table: str) -> list[Json]:
        return list(self._open_rows.get(table, ()))

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits for a condition on what was committed or said."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    def table(self, name: str) -> list[Json]:
        return [row for table, row in self.rows if table == name]

    def ends(self) -> dict[str, float]:
        """End of every claim that has one, in seconds after T0, by pod."""
        return {r["pod"]: (r["end_us"] - T0_US) / SECOND_US for r in self.table("claim") if r["end_us"] is not None}


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Api:
    """Answers what it was told to, in order, by path; afterwards lists are empty and watches stay open."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], str]] = []
        self._script: dict[tuple[str, str], deque[Answer]] = {}
        self.closing = asyncio.Event()
        self.server = ""

    def on(self, verb: str, resource: str, *answers: Answer) -> None:
        """What the next requests of a verb (list, watch) for a resource are answered with."""
        self._script.setdefault((verb, resource), deque()).extend(answers)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        verb = "watch" if request.query.get("watch") else "list"
        resource = request.path.rpartition("/")[2]
        self.asked.append((f"{verb} {resource}", dict(request.query), request.headers.get("Authorization", "")))
        script = self._script.get((verb, resource))
        if script:
            return await script.popleft()(request)
        return await (lines(self)(request) if verb == "watch" else items()(request))

    def queries(self, what: str) -> list[dict[str, str]]:
        return [query for name, query, _ in self.asked if name == what]


def items(*objects: Json, version: str = "10", more: str = "") -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        metadata = {"resourceVersion": version} | ({"continue": more} if more else {})
        return web.json_response({"kind": "PodList", "metadata": metadata, "items": list(objects)})

    return answer


def lines(
    api: Api, *events: Json | bytes, end: bool = False, cut: bytes = b"", clock: Callable[[], None] | None = None
) -> Answer:
    """A watch that says the events, then stays open, ends cleanly (`end`), or breaks off within a line (`cut`)."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if clock is not None:
            clock()
        for event in events:
            await response.write((event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n")
        if cut:
            await response.write(cut)
            assert request.transport is not None
            request.transport.abort()
        elif not end:
            await api.closing.wait()
        return response

    return answer


def status(code: int, message: str = "", **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "code": code, "message": message}, status=code, headers=headers)

    return answer


def pod(
    name: str, start: float = 0, end: float | None = None, gpus: int = 1, version: str = "5", **metadata: Any
) -> Json:
    """A pod that runs on n1 from `start` to `end` (seconds after T0)."""
    began = rfc3339(T0_US + round(start * SECOND_US))
    state: Json = {"running": {"startedAt": began}}
    if end is not None:
        state = {"terminated": {"startedAt": began, "finishedAt": rfc3339(T0_US + round(end * SECOND_US))}}
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
    return {
        "metadata": {
            "namespace": "lab",
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "creationTimestamp": began,
            **metadata,
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": {"limits": limits}}]},
        "status": {
            "phase": "Running" if end is None else "Succeeded",
            "startTime": began,
            "containerStatuses": [{"name": "main", "state": state, "restartCount": 0}],
        },
    }


def event(kind: str, item: Json, version: str | None = None) -> Json:
    if version is not None:
        item = {**item, "metadata": {**item.get("metadata", {}), "resourceVersion": version}}
    return {"type": kind, "object": item}


def bookmark(version: str) -> Json:
    return {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": version}}}


GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}

Scenario = Callable[[Api, FakeSink, Clock], Awaitable[None]]


def run(scenario: Scenario, open_claims: Sequence[Json] = (), **options: Any) -> FakeSink:
    """Plays a scenario: it scripts the server, is called with the source running, and ends it by returning."""

    async def play() -> FakeSink:
        api, sink, clock = Api(), FakeSink(open_claims), Clock()
        app = web.Application()
        app.router.add_get("/{path:.*}", api.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        api.server = f"http://127.0.0.1:{runner.addresses[0][1]}"
        problems: list[str] = []
        table = {"cluster": "c1", "server": api.server, "events": False, "nodes": False, **options}
        source = configure([table], problems)[0]
        assert [] == problems
        player = asyncio.ensure_future(scenario(api, sink, clock))
        await asyncio.sleep(0)  # the script is written before the source asks
        reader = asyncio.ensure_future(source.run(sink, clock))
        try:
            done, _ = await asyncio.wait({player, reader}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
            assert done, f"nothing came of it: {sink.errors} {sink.rows} {api.asked}"
            for task in done:
                task.result()
        finally:
            for task in (player, reader):
                task.cancel()
            await asyncio.gather(player, reader, return_exceptions=True)
            api.closing.set()
            await runner.cleanup()
        return sink

    return asyncio.run(play())


def test_pods_without_gpus_leave_nothing() -> None:
    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        api.on("list", "pods", items(pod("web", gpus=0)))
        api.on("watch", "pods", lines(api, event("MODIFIED", pod("web", gpus=0)), event("DELETED", pod("web", gpus=0))))
        await sink.until(lambda: sink.read >= 3)

    assert [] == run(scenario).rows


def test_a_list_comes_in_pages_and_its_version_is_where_the_watch_starts() -> None:
    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        api.on("list", "pods", items(pod("a"), more="next"), items(pod("b"), version="11"))
        api.on("watch", "pods", lines(api, event("ADDED", pod("c", version="12"))))
        await sink.until(lambda: len(sink.table("claim")) >= 3)

        assert [{"limit": "1"}, {"limit": "1", "continue": "next"}] == api.queries("list pods")
        assert ["11"] == [query["resourceVersion"] for query in api.queries("watch pods")]
        assert {"true"} == {query["allowWatchBookmarks"] for query in api.queries("watch pods")}

    assert {"a", "b", "c"} == {row["pod"] for row in run(scenario, page_size=1).table("claim")}


def test_a_continue_that_expired_begins_the_list_again() -> None:
    """Half a list must not end the pods of the other half."""

    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        api.on("list", "pods", items(pod("a"), more="old"), status(410), items(pod("a"), pod("b")))
        await sink.until(lambda: len(sink.table("claim")) >= 2)
        assert ["old" in query.values() for query in api.queries("list pods")] == [False, True, False]

    sink = run(scenario)

    assert {} == sink.ends()
    assert [] == sink.errors


def test_a_broken_line_is_heard_again_from_the_version_before_it() -> None:
    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        api.on("list", "pods", items(pod("a")))
        api.on(
            "watch",
            "pods",
            lines(api, bookmark("20"), cut=b'{"type": "ADDED", "obj'),
            lines(api, event("ADDED", pod("b", version="21"))),
        )
        await sink.until(lambda: "b" in {row["pod"] for row in sink.table("claim")})

        assert ["10", "20"] == [query["resourceVersion"] for query in api.queries("watch pods")]
        assert 1 == len(api.queries("list pods"))

    sink = run(scenario)

    assert {} == sink.refused.counts
    assert 1 == len(sink.errors)


def test_a_clean_end_goes_on_where_it_was_and_is_no_fault() -> None:
    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        api.on(
            "watch", "pods", lines(api, bookmark("30"), end=True), lines(api, event("ADDED", pod("a", version="31")))
        )
        await sink.until(lambda: bool(sink.table("claim")))  # with it may come the row that says it still runs
        assert ["10", "30"] == [query["resourceVersion"] for query in api.queries("watch pods")]

    assert [] == run(scenario).errors


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("http", id="410 as an answer"),
        pytest.param("event", id="410 as an event"),
        pytest.param("garbage", id="a line that is no event"),
        pytest.param("list", id="a line that is JSON and no event"),
    ],
)
def test_a_pod_that_vanished_in_a_gap_ends_when_the_server_was_last_heard(answer: str) -> None:
    """Bookmark at 60 s, gap, list at 500 s without the pod: its end is at 60 s, nothing is invented."""

    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        faults = {
            "http": status(410, "too old resource version"),
            "event": lines(api, GONE, clock=lambda: clock.at(500)),
            "garbage": lines(api, b"<html>bad gateway</html>", clock=lambda: clock.at(500)),
            "list": lines(api, b"[1, 2]", clock=lambda: clock.at(500)),
        }

        async def late(request: web.Request) -> web.StreamResponse:
            clock.at(500)
            return await items(pod("b"), version="90")(request)

        api.on("list", "pods", items(pod("a"), pod("b")), late)
        api.on("watch", "pods", lines(api, bookmark("20"), end=True, clock=lambda: clock.at(60)), faults[answer])
        await sink.until(lambda: "a" in sink.ends())
        await sink.until(lambda: len(api.queries("watch pods")) == 3)
        assert "90" == api.queries("watch pods")[-1]["resourceVersion"]

    sink = run(scenario)

    assert {"a": 60.0} == sink.ends()
    assert ({"a line of a watch is not an event": 1} if answer in ("garbage", "list") else {}) == sink.refused.counts


def test_a_pod_that_vanished_while_nothing_ran_ends_at_the_last_sign_of_life_in_the_store() -> None:
    """Another open pod was said to be alive at 300 s: so was this one. A pod of a namespace not asked for stays."""
    shared = {"cluster": "c1", "scheduler": "kubernetes", "kind": "k8s-json", "node": "n1", "device_count": 1}

    def stored(name: str, evidence: int, namespace: str = "lab") -> Json:
        record = {"start_us": T0_US, "end_us": None, "evidence_us": T0_US + evidence * SECOND_US, "profile": None}
        named = {"job_id": f"{namespace}/{name}", "run_key": name, "pod_uid": f"uid-{name}", "pod": name}
        return {**shared, **record, **named, "namespace": namespace, "state": "Running"}

    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        clock.at(5000)
        api.on("list", "pods", items(pod("still")))
        await sink.until(lambda: bool(sink.ends()))

    sink = run(scenario, [stored("gone", 10), stored("still", 300), stored("other", 0, "sales")], namespaces=["lab"])

    assert {"gone": 300.0} == sink.ends()


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(pod("a", 0, 100), 100.0, id="its container says when it ended"),
        pytest.param(pod("a"), 60.0, id="no time: held up to the last sign of life"),
        pytest.param(
            pod("a", deletionTimestamp=rfc3339(T0_US + 150 * SECOND_US)), 150.0, id="deleted after last heard"
        ),
        pytest.param(pod("a", deletionTimestamp=rfc3339(T0_US + 30 * SECOND_US)), 60.0, id="alive past its deletion"),
        pytest.param(
            pod("a", deletionTimestamp=rfc3339(T0_US + 999 * SECOND_US)), 200.0, id="gone before its deadline"
        ),
        pytest.param({"metadata": {"uid": "uid-a"}, "spec": 1}, 60.0, id="a torn last object"),
    ],
)
def test_a_deleted_pod_ends(item: Json, expected: float) -> None:
    """Last known alive at 60 s; a new watch replays the deletion at 200 s."""

    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        api.on("list", "pods", items(pod("a")))
        api.on(
            "watch",
            "pods",
            lines(api, bookmark("20"), end=True, clock=lambda: clock.at(60)),
            lines(api, event("DELETED", item), clock=lambda: clock.at(200)),
        )
        await sink.until(lambda: bool(sink.ends()))

    assert {"a": expected} == run(scenario).ends()


def test_a_refused_list_names_the_missing_rule_and_the_rest_goes_on() -> None:
    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        api.on("list", "nodes", *[status(403, "nodes is forbidden")] * 50)
        api.on("list", "pods", items(pod("a")))
        await sink.until(lambda: bool(sink.table("claim")) and bool(sink.errors))

    sink = run(scenario, nodes=True)

    assert 'resources: ["nodes"], verbs: ["list", "watch"]' in sink.errors[0]
    assert "ClusterRole" in sink.errors[0]
    assert "nodes is forbidden" in sink.errors[0]


def test_a_token_is_read_again_and_never_reported(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old-secret\n")

    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        async def refuse(request: web.Request) -> web.StreamResponse:
            token.write_text("new-secret\n")
            return await status(401, "Unauthorized")(request)

        api.on("list", "pods", refuse, items(pod("a")))
        await sink.until(lambda: bool(sink.table("claim")))
        asked = [header for what, _, header in api.asked if what == "list pods"]
        assert ["Bearer old-secret", "Bearer new-secret"] == asked

    sink = run(scenario, bearer_token_file=str(token))

    assert "bearer_token_file" in sink.errors[0]
    assert "secret" not in sink.errors[0]


def test_a_busy_server_is_given_the_time_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float, *more: Any) -> Any:
        waited.append(seconds)
        return await sleep(0, *more)

    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        api.on("list", "pods", status(429, "slow down", **{"Retry-After": "7"}), status(503), items(pod("a")))
        monkeypatch.setattr(kubernetes_source.asyncio, "sleep", note)
        await sink.until(lambda: bool(sink.table("claim")))

    sink = run(scenario)

    assert 7.0 in waited
    assert 2 == len(sink.errors)


def test_what_runs_is_reported_once_a_minute() -> None:
    """The evidence is the time the server was last heard, not the time of writing."""

    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        ends = [lines(api, bookmark(str(n)), end=True, clock=lambda n=n: clock.at(n)) for n in (61, 70, 130)]  # type: ignore[misc]
        api.on("list", "pods", items(pod("a"), pod("b")))
        api.on("watch", "pods", *ends)
        await sink.until(lambda: (T0_US + 130 * SECOND_US) in {row["evidence_us"] for row in sink.table("claim")})

    evidence = [(row["evidence_us"] - T0_US) // SECOND_US for row in run(scenario).table("claim")]

    assert [0, 0] == evidence[:2]
    assert evidence[-1] == 130
    assert len(evidence) <= 5


def test_an_event_that_comes_in_pieces_is_one_event() -> None:
    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        async def slowly(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            line = json.dumps(event("ADDED", pod("a"))).encode() + b"\n"
            for at in range(0, len(line), 100):
                await response.write(line[at : at + 100])
                await asyncio.sleep(0)
            await api.closing.wait()
            return response

        api.on("watch", "pods", slowly)
        await sink.until(lambda: bool(sink.table("claim")))

    sink = run(scenario)

    assert [] == sink.errors
    assert {} == sink.refused.counts


def test_a_line_without_end_is_given_up_and_the_list_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwatch.collectors.kubernetes.client.MAX_LINE_BYTES", 1000)

    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        api.on("list", "pods", items(), items(pod("a")))
        api.on("watch", "pods", lines(api, b"x" * 2000))
        await sink.until(lambda: bool(sink.table("claim")))

    assert "an event is longer than 1000 bytes" in run(scenario).errors[0]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(b"<html>", "not JSON", id="a page for people"),
        pytest.param(b"[1]", "not a list of objects", id="another kind of JSON"),
        pytest.param(b'{"items": 7}', "the answer has no list", id="items that are none"),
        pytest.param(b'"' + b"x" * 5000, "a page is larger than 4000 bytes", id="more than a page"),
    ],
)
def test_an_answer_that_is_no_list_is_reported(body: bytes, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwatch.collectors.kubernetes.client.MAX_PAGE_BYTES", 4000)

    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        async def answer(_: web.Request) -> web.StreamResponse:
            return web.Response(body=body)

        api.on("list", "pods", answer, items(pod("a")))
        await sink.until(lambda: bool(sink.table("claim")))

    assert words in run(scenario).errors[0]


def test_a_redirect_is_not_followed_with_the_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")

    async def scenario(api: Api, sink: FakeSink, clock: Clock) -> None:
        async def elsewhere(_: web.Request) -> web.StreamResponse:
            return web.Response(status=307, headers={"Location": f"{api.server}/stolen/pods"})

        api.on("list", "pods", elsewhere, items(pod("a")))
        await sink.until(lambda: bool(sink.table("claim")))
        assert 2 == len(api.queries("list pods"))

    assert "307" in run(scenario, bearer_token_file=str(token)).errors[0]


def test_nobody_listening_is_reported() -> None:
    async def play() -> FakeSink:
        sink = FakeSink()
        source = configure([{"cluster": "c1", "server": "http://127.0.0.1:9"}], [])[0]
        reader = asyncio.ensure_future(source.run(sink, Clock()))
        await sink.until(lambda: bool(sink.errors))
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        return sink

    assert "check that the API server runs" in asyncio.run(play()).errors[0]


def test_a_server_is_known_by_its_ca_only(tmp_path: Path) -> None:
    """The same server with the CA that signed it, without it, and without looking."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl to make a certificate with")
    command = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=k8s"
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "ca.pem")]
    alternative = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        ["openssl", *command.split(), *files, *alternative], check=True, capture_output=True, timeout=PATIENCE_S
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "ca.pem", tmp_path / "key.pem")

    async def play(**options: Any) -> FakeSink:
        api, sink = Api(), FakeSink()
        app = web.Application()
        app.router.add_get("/{path:.*}", api.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        table = {"cluster": "c1", "server": f"https://127.0.0.1:{runner.addresses[0][1]}", "nodes": False, **options}
        reader = asyncio.ensure_future(configure([table], [])[0].run(sink, Clock()))
        await sink.until(lambda: bool(sink.errors) or sink.successes > 0)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        api.closing.set()
        await runner.cleanup()
        return sink

    assert [] == asyncio.run(play(ca_file=str(tmp_path / "ca.pem"))).errors
    assert [] == asyncio.run(play(insecure_skip_verify=True)).errors
    assert "set ca_file in [[kubernetes]]" in asyncio.run(play()).errors[0]


def test_kmock_pods_live_from_creation_to_deletion() -> None:
    """Another server's idea of the same protocol: list, watch, create, patch and delete over HTTP."""
    kmock = pytest.importorskip("kmock")

    async def play() -> FakeSink:
        emulator = kmock.KubernetesEmulator()
        verbs = {"get", "list", "watch", "create", "patch", "delete"}
        emulator.resources["v1/pods"] = {"namespaced": True, "kind": "Pod", "verbs": verbs}
        sink, clock = FakeSink(), Clock()
        async with kmock.Server(emulator) as server, ClientSession() as session:
            url = str(server.url).rstrip("/")
            table = {"cluster": "c1", "server": url, "events": False, "nodes": False}
            reader = asyncio.ensure_future(configure([table], [])[0].run(sink, clock))
            try:
                await sink.until(lambda: sink.successes > 0)
                await session.post(f"{url}/api/v1/namespaces/lab/pods", json=pod("a", version=""))
                await sink.until(lambda: bool(sink.table("claim")))
                clock.at(90)
                await session.delete(f"{url}/api/v1/namespaces/lab/pods/a")
                await sink.until(lambda: bool(sink.ends()))
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)
        return sink

    assert {"a"} == asyncio.run(play()).ends().keys()
