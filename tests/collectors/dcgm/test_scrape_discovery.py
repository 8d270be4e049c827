"""Targets that come and go: by file, DNS and Kubernetes, each scraped once, and never lost because a look failed."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import dns.asyncresolver
import dns.message
import dns.name
import dns.nameserver
import pytest
from aiohttp import web

from gpuwatch.collectors.dcgm.scrape import discovery as scrape_discovery
from gpuwatch.collectors.dcgm.scrape.config import Target
from gpuwatch.collectors.dcgm.scrape.discovery import Discovery, FoundTarget, TargetOwners
from gpuwatch.collectors.dcgm.scrape.discovery_dns import Addresses, Records, finder_of
from gpuwatch.collectors.dcgm.scrape.discovery_files import Files, read_targets
from gpuwatch.collectors.dcgm.scrape.discovery_kubernetes import Endpoints
from gpuwatch.collectors.dcgm.scrape.discovery_srv import NoSuchName, candidates, lookup, read_resolver
from gpuwatch.collectors.dcgm.scrape.source import configure
from gpuwatch.core.errors import SourceUnreachable
from gpuwatch.core.registry import LiveSource, Sink


class RecordingSink:
    """A sink that remembers what is listed and what was said."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self.failures: list[str] = []

    def added(self, source: LiveSource) -> None:
        self.listed.append(source.name)

    def dropped(self, source: str) -> None:
        self.listed.remove(source)

    def failed(self, source: str, at_us: int, error: str) -> None:
        self.failures.append(error)

    def succeeded(self, source: str, at_us: int, samples: int) -> None:
        """Nothing to remember."""


class Running:
    """A source that only runs, and what runs at a time."""

    now: dict[str, Target] = {}  # noqa: RUF012

    def __init__(self, target: Target) -> None:
        self.name, self.kind, self.cluster, self.interval_s = f"dcgm {target.shown}", "dcgm", target.cluster, 15.0
        self._target = target

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        Running.now[self._target.shown] = self._target
        try:
            await asyncio.Event().wait()
        finally:
            del Running.now[self._target.shown]


class Answers:
    """A finder that gives one answer after the other."""

    def __init__(self, *answers: Sequence[FoundTarget] | Exception, shown: str = "list") -> None:
        self.shown = shown
        self._answers = list(answers)

    async def find(self) -> tuple[Sequence[FoundTarget], Sequence[str]]:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer, []


def places(*addresses: str) -> list[FoundTarget]:
    return [FoundTarget(address) for address in addresses]


def discovery(*finders: Any, claims: TargetOwners | None = None, labels: Mapping[str, str] | None = None) -> Discovery:
    template = Target("", "c1", labels=labels or {})
    return Discovery("dcgm discovery 1", template, finders, 30.0, claims or TargetOwners(), Running)


async def after(rounds: int, *discoveries: Discovery, sink: RecordingSink | None = None) -> list[list[str]]:
    """Hosts that are scraped after each round of all discoveries, in order of their names."""
    result, found = sink or RecordingSink(), []
    for _ in range(rounds):
        for one in discoveries:
            for problem in await one.search(result, lambda: 0):  # type: ignore[arg-type]
                result.failures.append(problem)
        await asyncio.sleep(0)
        found.append(sorted(url.removeprefix("http://").partition(":")[0] for url in Running.now))
    for one in discoveries:
        await one._end(list(one._running), result)  # type: ignore[arg-type]
    return found


def test_targets_come_and_go() -> None:
    result = RecordingSink()
    one = discovery(Answers(places("n1", "n2"), places("n2", "n3")))

    assert [["n1", "n2"], ["n2", "n3"]] == asyncio.run(after(2, one, sink=result))
    assert ([], []) == (result.listed, result.failures)


def test_what_stays_is_not_started_again() -> None:
    started: list[str] = []

    class Counted(Running):
        async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
            started.append(self.name)
            await super().run(sink, now_us)

    one = Discovery("d", Target("", "c1"), [Answers(places("n1"))], 30.0, TargetOwners(), Counted)

    assert [["n1"]] * 3 == asyncio.run(after(3, one))
    assert ["dcgm http://n1:9400/metrics"] == started


def test_a_target_with_new_labels_is_scraped_with_them() -> None:
    one = discovery(Answers([FoundTarget("n1", {"node": "a"})], [FoundTarget("n1", {"node": "b"})]))

    async def work() -> list[str]:
        found, result = [], RecordingSink()
        for _ in range(2):
            await one.search(result, lambda: 0)  # type: ignore[arg-type]
            await asyncio.sleep(0)
            found.append(Running.now["http://n1:9400/metrics"].labels["node"])
        await one._end(list(one._running), result)  # type: ignore[arg-type]
        return found

    assert ["a", "b"] == asyncio.run(work())


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(SourceUnreachable("no answer"), id="no answer"),
        pytest.param(ZeroDivisionError("oops"), id="a fault of our own"),
    ],
)
def test_a_look_that_fails_keeps_the_last_known_targets(error: Exception) -> None:
    result = RecordingSink()
    one = discovery(Answers(places("n1"), error), Answers(places("n2"), places("n3"), shown="other"))

    assert [["n1", "n2"], ["n1", "n3"]] == asyncio.run(after(2, one, sink=result))
    assert 1 == len(result.failures) and "last known targets are kept" in result.failures[0]


def test_a_look_that_hangs_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape_discovery, "FIND_S", 0.01)

    class Hangs:
        shown = "hangs"

        async def find(self) -> tuple[Sequence[FoundTarget], Sequence[str]]:
            await asyncio.Event().wait()
            raise AssertionError

    result = RecordingSink()

    assert [["n1"]] == asyncio.run(after(1, discovery(Hangs(), Answers(places("n1"))), sink=result))
    assert "no answer within" in result.failures[0]


def test_what_two_find_is_scraped_once_and_goes_on_when_one_loses_it() -> None:
    claims = TargetOwners(["http://static:9400/metrics"])
    first = discovery(Answers(places("n1", "static"), places()), claims=claims)
    second = discovery(Answers(places("n1", "n2", "n2:9400")), claims=claims)

    assert [["n1", "n2"], ["n1", "n2"]] == asyncio.run(after(2, first, second))


def test_of_one_table_what_knows_the_node_tells_the_labels() -> None:
    one = discovery(Answers([FoundTarget("10.0.0.1:9400", {"node": "n1"})]), Answers(places("10.0.0.1"), shown="dns"))

    async def work() -> Mapping[str, str]:
        result = RecordingSink()
        await one.search(result, lambda: 0)  # type: ignore[arg-type]
        await asyncio.sleep(0)
        labels = Running.now["http://10.0.0.1:9400/metrics"].labels
        await one._end(list(one._running), result)  # type: ignore[arg-type]
        return labels

    assert {"instance": "10.0.0.1:9400", "node": "n1"} == asyncio.run(work())


def test_targets_are_bounded_and_bad_ones_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape_discovery, "MAX_FOUND", 2)
    result = RecordingSink()

    assert [["n1", "n2"]] == asyncio.run(after(1, discovery(Answers(places("n1", "ftp://x", "n2", "n3"))), sink=result))
    assert "ftp://x is not an address" in result.failures[0] and "more than 2 targets" in result.failures[1]


def test_a_discovery_that_is_stopped_ends_what_it_started() -> None:
    async def work() -> list[str]:
        result = RecordingSink()
        task = asyncio.create_task(discovery(Answers(places("n1"))).run(result, lambda: 0))  # type: ignore[arg-type]
        while not Running.now:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return [*Running.now, *result.listed]

    assert [] == asyncio.run(work())


# Files.


def test_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"targets": ["n1:9400"], "labels": {"node": "x", "__meta": "no"}}]')
    (tmp_path / "b.yml").write_text(
        "- targets: [n2]\n  labels: {__scheme__: https, __metrics_path__: /m}\n- targets: []\n"
    )
    finder = Files(f"{tmp_path}/*.*")

    def found() -> tuple[list[tuple[str, dict[str, str]]], int]:
        answer, problems = asyncio.run(finder.find())
        return [(place.address, dict(place.labels)) for place in answer], len(problems)

    assert ([("n1:9400", {"node": "x"}), ("https://n2/m", {})], 0) == found()

    (tmp_path / "a.json").write_text('[{"targets": ["n1:9400", "n')
    (tmp_path / "b.yml").unlink()

    assert ([("n1:9400", {"node": "x"})], 1) == found()

    (tmp_path / "a.json").write_text("[]")

    assert ([], 0) == found()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        pytest.param("a.json", "{", "is not JSON", id="torn JSON"),
        pytest.param("a.yml", "a: [", "is not YAML", id="torn YAML"),
        pytest.param("a.yml", "a: 1", "must be a list", id="no list"),
        pytest.param("a.json", '["n1"]', "entry 1 must be", id="targets without an entry"),
        pytest.param("a.json", '[{"targets": [1]}]', "entry 1 must be", id="a number for a target"),
        pytest.param("a.json", '[{"targets": [], "labels": {"a": 1}}]', "entry 1 must be", id="a number for a label"),
        pytest.param("a.yml", "!!python/object/apply:os.system ['x']", "is not YAML", id="code in YAML"),
        pytest.param("a.txt", "[]", "must end in", id="another name"),
        pytest.param("a.json", "[" * 100_000, "is not JSON", id="nested without end"),
    ],
)
def test_a_file_that_is_none_says_why(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)

    with pytest.raises(ValueError, match=words):
        read_targets(str(tmp_path / name))


def test_a_named_file_that_is_missing_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreachable, match="file not found"):
        asyncio.run(Files(f"{tmp_path}/a.json").find())


# DNS.


def test_every_address_of_a_name_is_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def getaddrinfo(host: str, port: int, **_: object) -> list[Any]:
        asked.append((host, port))
        return [
            (2, 1, 6, "", ("10.0.0.2", port)),
            (10, 1, 6, "", ("fd00::1", port, 0, 0)),
            (2, 1, 6, "", ("10.0.0.1", port)),
        ]

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)
    found, _ = asyncio.run(Addresses("https://dcgm.gpu.svc:9401/m").find())

    assert [("dcgm.gpu.svc", 9401)] == asked
    assert ["https://10.0.0.1:9401/m", "https://10.0.0.2:9401/m", "https://[fd00::1]:9401/m"] == [
        place.address for place in found
    ]


def test_a_name_that_is_not_known_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: object, **__: object) -> list[Any]:
        raise OSError(-2, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)

    with pytest.raises(SourceUnreachable, match="gone: Name or service not known; check the name"):
        asyncio.run(Addresses("gone:9400").find())


def encoded(name: str) -> bytes:
    return b"".join(bytes((len(label),)) + label.encode() for label in name.split(".")) + b"\0"


def message(number: int, *answers: tuple[int, str], flags: int = 0x8180, name: str = "_m._tcp.x.y") -> bytes:
    """An answer with SRV records (port, host), each name a pointer to the question's."""
    head = struct.pack(">6H", number, flags, 1, len(answers), 0, 0) + encoded(name) + struct.pack(">2H", 33, 1)
    rows = b""
    for place, (port, host) in enumerate(answers):
        data = struct.pack(">3H", place, 0, port) + encoded(host)
        rows += b"\xc0\x0c" + struct.pack(">2HIH", 33, 1, 30, len(data)) + data
    return head + rows


class NameServer(asyncio.DatagramProtocol):
    """Answers each question with `answer(question)`, over datagrams and streams of one port."""

    def __init__(self, answer: Callable[[bytes, bool], bytes]) -> None:
        self._answer = answer

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._transport.sendto(self._answer(data, True), addr)


@asynccontextmanager
async def name_server(answer: Callable[[bytes, bool], bytes]) -> Any:
    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (length,) = struct.unpack(">H", await reader.readexactly(2))
        found = answer(await reader.readexactly(length), False)
        writer.write(struct.pack(">H", len(found)) + found)
        writer.close()

    server = await asyncio.start_server(stream, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: NameServer(answer), local_addr=("127.0.0.1", port))
    yield ("127.0.0.1", port)
    transport.close()
    server.close()


def looked_up(answer: Callable[[bytes, bool], bytes], name: str = "_m._tcp.x.y", *search: str) -> list[tuple[str, int]]:
    async def work() -> list[tuple[str, int]]:
        async with name_server(answer) as server:
            return await lookup(name, resolver_at(server, *search))

    return asyncio.run(work())


def resolver_at(server: tuple[str, int], *search: str) -> dns.asyncresolver.Resolver:
    resolver = dns.asyncresolver.Resolver(configure=False)
    resolver.nameservers = [dns.nameserver.Do53Nameserver(*server)]
    resolver.domain = dns.name.root
    resolver.search = [dns.name.from_text(domain) for domain in search]
    return resolver


def number_of(question: bytes) -> int:
    return int.from_bytes(question[:2], "big")


def test_srv_records_give_host_and_port_by_priority() -> None:
    found = looked_up(lambda question, _: message(number_of(question), (9400, "n1.x.y"), (9401, "n2.x.y")))

    assert [("n1.x.y", 9400), ("n2.x.y", 9401)] == sorted(found)


def test_a_truncated_answer_is_asked_for_again_by_stream() -> None:
    def answer(question: bytes, datagram: bool) -> bytes:
        many = [(9400, f"n{k}.x.y") for k in range(200)]
        return message(number_of(question), flags=0x8380) if datagram else message(number_of(question), *many)

    assert 200 == len(looked_up(answer))


def test_a_short_name_is_looked_for_in_the_search_domains() -> None:
    asked: list[bytes] = []

    def answer(question: bytes, _: bool) -> bytes:
        asked.append(question[12:-4])
        good = question[12:-4] == encoded("_m._tcp.x.y")
        return message(
            number_of(question),
            *([(9400, "n1")] if good else []),
            flags=0x8180 if good else 0x8183,
            name=asked_name(question),
        )

    assert [("n1", 9400)] == looked_up(answer, "_m._tcp.x", "z", "y")
    assert [encoded(name) for name in ("_m._tcp.x", "_m._tcp.x.z", "_m._tcp.x.y")] == asked


def test_a_name_without_records_is_reported() -> None:
    with pytest.raises(NoSuchName, match="no SRV record _m._tcp.x.y"):
        looked_up(lambda question, _: message(number_of(question), flags=0x8183))


LOOP = struct.pack(">6H", 7, 0x8180, 1, 1, 0, 0) + b"\xc0\x0c" + bytes(4)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(b"", "gave no answer within 0.4 s", id="silence"),
        pytest.param(b"\0\7" + bytes(9), "gave no answer within", id="shorter than its head"),
        pytest.param(message(8, (1, "n1")), "gave no answer within", id="another question's"),
        pytest.param(message(7, (1, "n1"), flags=0x0180), "gave no answer within", id="a question"),
        pytest.param(message(7, flags=0x8182), "SERVFAIL", id="a server that failed"),
        pytest.param(message(7, (1, "n1"))[:-3], "gave no answer within", id="torn"),
        pytest.param(LOOP, "gave no answer within", id="a name that points to itself"),
        pytest.param(
            message(7, (1, "n1")).replace(b"\xc0\x0c", b"\xc0\xff"),
            "gave no answer within",
            id="a name that points ahead",
        ),
    ],
)
def test_an_answer_that_is_none_is_refused(answer: bytes, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwatch.collectors.dcgm.scrape.discovery_srv.QUERY_S", 0.2)
    own = struct.pack(">H", 7)

    with pytest.raises(SourceUnreachable, match=problem):
        looked_up(lambda question, _: question[:2] + answer[2:] if answer[:2] == own else answer)


@pytest.mark.parametrize("name", ["a..b", "x" * 64, ".".join(["abc"] * 70), "ä.b"])
def test_an_invalid_name_is_not_queried(name: str) -> None:
    with pytest.raises(SourceUnreachable, match="is not a DNS name"):
        looked_up(lambda question, _: question, name)


def test_the_resolver_of_the_machine_is_read(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("# x\nsearch gpu.svc.local svc.local\nnameserver 10.0.0.10\noptions ndots:5 edns0\n")
    found = read_resolver(str(file))

    assert ["10.0.0.10"] == found.nameservers
    assert ["_m._tcp.d.gpu.svc.local.", "_m._tcp.d.svc.local.", "_m._tcp.d."] == names("_m._tcp.d", found)
    assert ["_m._tcp.d."] == names("_m._tcp.d.", found)


def test_a_machine_without_name_server_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreachable, match="cannot be read, or has no nameserver"):
        read_resolver(str(tmp_path / "resolv.conf"))


def test_an_empty_answer_goes_on_with_the_next_search_domain() -> None:
    def answer(question: bytes, _: bool) -> bytes:
        good = question[12:-4] == encoded("_m._tcp.x.y")
        return message(number_of(question), *([(9400, "n1")] if good else []), name=asked_name(question))

    assert [("n1", 9400)] == looked_up(answer, "_m._tcp.x", "z", "y")


def asked_name(question: bytes) -> str:
    return dns.message.from_wire(question).question[0].name.to_text(omit_final_dot=True)


def names(name: str, resolver: dns.asyncresolver.Resolver) -> list[str]:
    return [full.to_text() for full in candidates(name, resolver)]


def test_srv_targets_keep_scheme_and_path() -> None:
    async def work() -> list[str]:
        async with name_server(
            lambda question, _: message(number_of(question), (9400, "n1.x"), name="_m._tcp.x")
        ) as server:
            found, _ = await Records("https://_m._tcp.x/p", lambda: resolver_at(server)).find()
            return [place.address for place in found]

    assert ["https://n1.x:9400/p"] == asyncio.run(work())
    assert isinstance(finder_of("_m._tcp.x"), Records) and isinstance(finder_of("m.x:9400"), Addresses)


# Kubernetes.


def endpoint(address: str, node: str, uid: str = "", **conditions: bool) -> dict[str, Any]:
    return {
        "addresses": [address], "nodeName": node, "conditions": conditions, "targetRef": {"kind": "Pod", "uid": uid},
    }  # fmt: skip


def a_slice(*endpoints: dict[str, Any], kind: str = "IPv4", service: str = "dcgm", **ports: int) -> dict[str, Any]:
    listed = [{"name": name, "port": port} for name, port in (ports or {"metrics": 9400}).items()]
    labels = {"kubernetes.io/service-name": service}
    return {"metadata": {"labels": labels}, "addressType": kind, "endpoints": list(endpoints), "ports": listed}


async def endpoints(
    answer: Callable[[web.Request], Awaitable[web.Response]], **options: Any
) -> tuple[list[FoundTarget], list[str]]:
    app = web.Application()
    app.router.add_get("/{rest:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[union-attr]
    problems: list[str] = []
    try:
        table = {"server": server, "namespace": "gpu", "service": "dcgm"} | options
        found, entry = await Endpoints({k: v for k, v in table.items() if v is not None}, "t", problems).find()
        assert [] == problems
        return list(found), list(entry)
    finally:
        await runner.cleanup()


def listing(
    *slices: dict[str, Any], asked: list[str] | None = None
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        if asked is not None:
            asked.append(f"{request.path} {request.query.get('labelSelector')}")
        return web.json_response({"metadata": {}, "items": list(slices)})

    return answer


def test_ready_endpoints_are_targets_with_their_node() -> None:
    asked: list[str] = []
    one = a_slice(
        endpoint("10.0.0.1", "n1", "a"),
        endpoint("10.0.0.2", "n2", "b", ready=False),
        endpoint("10.0.0.3", "n3", "c", ready=True),
    )
    found, entry = asyncio.run(
        endpoints(listing(one, a_slice(endpoint("10.9.9.9", "n9"), service="other"), asked=asked))
    )

    assert [("http://10.0.0.1:9400/metrics", {"node": "n1"}), ("http://10.0.0.3:9400/metrics", {"node": "n3"})] == [
        (place.address, place.labels) for place in found
    ]
    assert [] == entry
    assert ["/apis/discovery.k8s.io/v1/namespaces/gpu/endpointslices kubernetes.io/service-name=dcgm"] == asked


def test_a_pod_with_two_addresses_is_scraped_once() -> None:
    both = (a_slice(endpoint("10.0.0.1", "n1", "a")), a_slice(endpoint("fd00::1", "n1", "a"), kind="IPv6"))

    assert ["http://10.0.0.1:9400/metrics"] == [place.address for place in asyncio.run(endpoints(listing(*both)))[0]]


@pytest.mark.parametrize(
    ("ports", "options", "port"),
    [
        pytest.param({"gpu-metrics": 9400, "other": 1}, {}, 9400, id="a name that the operator gives"),
        pytest.param({"x": 9500}, {}, 9500, id="the only one"),
        pytest.param({"x": 9500, "y": 9600}, {"port": "y"}, 9600, id="by name"),
        pytest.param({"x": 9500, "y": 9600}, {"port": "9700"}, 9700, id="by number"),
        pytest.param({"x": 9500, "y": 9600}, {}, None, id="nobody knows which"),
    ],
)
def test_the_port_of_an_endpoint(ports: dict[str, int], options: dict[str, Any], port: int | None) -> None:
    found, entry = asyncio.run(endpoints(listing(a_slice(endpoint("10.0.0.1", "n1"), **ports)), **options))

    assert ([] if port is None else [f"http://10.0.0.1:{port}/metrics"]) == [place.address for place in found]
    assert (port is None) == bool(entry)


def test_a_selector_finds_slices_of_any_name() -> None:
    asked: list[str] = []
    answer = listing(a_slice(endpoint("10.0.0.1", "n1"), service="x"), asked=asked)
    found, _ = asyncio.run(endpoints(answer, service=None, selector="app=dcgm", namespace=None))

    assert 1 == len(found)
    assert ["/apis/discovery.k8s.io/v1/endpointslices app=dcgm"] == asked


def test_an_api_server_that_refuses_is_reported() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"message": "endpointslices is forbidden"}, status=403)

    with pytest.raises(SourceUnreachable, match="403 endpointslices is forbidden"):
        asyncio.run(endpoints(answer))


# Configuration.


def test_a_table_may_name_targets_and_ways_to_find_more() -> None:
    problems: list[str] = []
    table = {
        "targets": ["n1"], "file_sd": ["targets/*.json"], "dns": ["d.svc:9400", "_m._tcp.d.svc"], "refresh_s": 5,
        "kubernetes": {"server": "https://k:6443", "namespace": "gpu", "service": "dcgm"},
    }  # fmt: skip
    found = configure([table, {"dns": ["d2:9400"]}], problems)

    assert [] == problems
    assert ["dcgm http://n1:9400/metrics", "dcgm discovery 1", "dcgm discovery 2"] == [source.name for source in found]
    assert ["kubernetes gpu/kubernetes.io/service-name=dcgm", "file_sd targets/*.json", "dns d.svc:9400", "dns _m._tcp.d.svc"] == [
        finder.shown for finder in found[1]._finders  # type: ignore[attr-defined]
    ]  # fmt: skip
    assert 5.0 == found[1].interval_s


@pytest.mark.parametrize(
    ("table", "words"),
    [
        pytest.param({"file_sd": "a.json"}, "file_sd: must be a list", id="a text for a list"),
        pytest.param({"dns": ["ftp://x"]}, "dns: ftp://x is not an address", id="another scheme"),
        pytest.param({"kubernetes": "dcgm"}, "kubernetes: must be a table", id="a text for a table"),
        pytest.param({"kubernetes": {"server": "https://k"}}, "give service", id="neither service nor selector"),
        pytest.param({"kubernetes": {"service": "d", "sevrer": "x"}}, "sevrer: is not an option", id="misspelt"),
        pytest.param({"dns": ["d"], "refresh_s": 0}, "refresh_s", id="no pause at all"),
        pytest.param({}, "targets: must be a list", id="nothing to scrape"),
    ],
)
def test_what_is_wrong_is_reported(table: dict[str, Any], words: str) -> None:
    problems: list[str] = []
    configure([table], problems)

    assert any(words in problem and "table 1" in problem for problem in problems), json.dumps(problems)
