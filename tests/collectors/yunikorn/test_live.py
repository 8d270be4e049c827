"""The live YuniKorn source over real sockets: news only, ends, older servers, and what it says when one fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.yunikorn.changes import HEARTBEAT_US, REFRESH_US, YunikornChanges
from gpuwatch.collectors.yunikorn.source import YunikornSource, configure
from gpuwatch.core.errors import StoreBusy
from gpuwatch.core.model import Points, Records, Rejects
from gpuwatch.core.registry import live_kinds

aiohttp = pytest.importorskip("aiohttp")
web = pytest.importorskip("aiohttp.web")

AT = 1_793_577_600_000_000
NS = AT * 1000
Json = dict[str, Any]
Rows = list[tuple[str, Json]]

PARTITION = {"name": "default", "clusterId": "c", "totalNodes": 1, "capacity": {"capacity": {"nvidia.com/gpu": 8}}}
ROOT = {"queuename": "root", "status": "Active", "children": [{"queuename": "root.train", "status": "Active"}]}


def application(state: str = "Running", name: str = "app-1", pods: Sequence[str] = ("w-0",), **more: Any) -> Json:
    held = [
        {
            "allocationKey": f"uid-{pod}", "nodeId": "n1", "allocationTime": NS, "resource": {"nvidia.com/gpu": 2},
            "allocationTags": {"kubernetes.io/meta/namespace": "lab", "kubernetes.io/meta/podName": pod},
        }
        for pod in pods
    ]  # fmt: skip
    record = {"applicationID": name, "applicationState": state, "queueName": "root.train", "submissionTime": NS}
    return record | {"allocations": held, "requests": [], "stateLog": [], "placeholderData": []} | more


class Server:
    """What a YuniKorn answers, by path below /ws/v1; a path that is not there is 404."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {
            "partitions": [PARTITION],
            "partition/default/queues": ROOT,
            "partition/default/applications/active": [application()],
            "partition/default/applications/completed": [],
            "partition/default/applications/rejected": [],
        } | answers
        self.asked: list[str] = []
        self.authorization = ""

    async def answer(self, request: Any) -> Any:
        path = request.path.removeprefix("/ws/v1/")
        self.asked.append(path)
        self.authorization = request.headers.get("Authorization", "")
        result = self.answers.get(path)
        if result is None:
            return web.Response(status=404, text="no")
        if isinstance(result, int):
            return web.Response(status=result, text="broken")
        return web.Response(body=result if isinstance(result, bytes) else json.dumps(result).encode())


class Sink:
    """Keeps what is committed; refuses the first `busy` commits."""

    def __init__(self, open_claims: Sequence[Json] = (), busy: int = 0, **open_rows: Rows) -> None:
        self.rows: Rows = []
        self.refused: dict[str, int] = {}
        self.failures: list[str] = []
        self.successes: list[int] = []
        self._open, self._busy, self._open_rows = list(open_claims), busy, open_rows

    async def commit(self, source: str, batches: Sequence[Records | Points], rejects: Rejects | None = None) -> None:
        if self._busy:
            self._busy -= 1
            raise StoreBusy("full")
        for batch in batches:
            self.rows += [(batch.table, row) for row in batch.rows.to_pylist()]  # type: ignore[union-attr]
        for reason, count in (rejects.counts if rejects is not None else {}).items():
            self.refused[reason] = self.refused.get(reason, 0) + count

    def succeeded(self, source: str, at_us: int, samples: int) -> None:
        self.successes.append(samples)

    def failed(self, source: str, at_us: int, error: str) -> None:
        self.failures.append(error)

    async def open_claims(self, cluster: str, scheduler: str) -> list[Json]:
        return self._open

    async def open_rows(self, cluster: str, table: str) -> list[Json]:
        return [row for kept, row in self._open_rows.get("kept", []) if kept == table]

    def take(self) -> Rows:
        taken, self.rows = self.rows, []
        return taken


def rounds(server: Server, sink: Sink, *changes: Callable[[], None], **options: Any) -> list[Rows]:
    """What each round wrote, a minute apart; a change is made before each round after the first."""

    async def go() -> list[Rows]:
        app = web.Application()
        app.router.add_get("/{path:.*}", server.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        problems: list[str] = []
        (source,) = configure([{"url": f"http://127.0.0.1:{port}", "cluster": "c1", **options}], problems)
        assert [] == problems
        assert isinstance(source, YunikornSource)
        now = [AT]
        written = []
        for change in (None, *changes):
            if change is not None:
                change()
                now[0] += HEARTBEAT_US
            await source.poll(sink, lambda: now[0])
            written.append(sink.take())
        await runner.cleanup()
        return written

    return asyncio.run(go())


def brief(rows: Rows) -> list[tuple[str, Any, Any]]:
    """(table, name, state) of rows; of claims the pod and when it ended."""
    return [
        (table, row["pod"], row["end_us"]) if table == "claim" else (table, row["name"], row["state"])
        for table, row in rows
    ]


FIRST = [
    ("queue", "default", None), ("queue", "root", "Active"), ("queue", "root.train", "Active"),
    ("workload", "app-1", "running"), ("claim", "w-0", None),
]  # fmt: skip


def nothing() -> None:
    """No change."""


def test_the_first_round_tells_all_and_the_second_only_that_it_lives() -> None:
    sink = Sink()
    first, second = rounds(Server(), sink, nothing)

    assert sorted(FIRST, key=str) == sorted(brief(first), key=str)
    assert [("claim", "w-0", None)] == brief(second)
    assert AT + HEARTBEAT_US == second[0][1]["evidence_us"]
    assert ([], [3, 3]) == (sink.failures, sink.successes)


def test_an_allocation_that_is_gone_has_ended() -> None:
    server = Server()

    def over() -> None:
        server.answers["partition/default/applications/active"] = []
        server.answers["partition/default/applications/completed"] = [application("Completed", pods=())]

    _, second = rounds(server, Sink(), over)

    assert [("claim", "w-0", AT + HEARTBEAT_US), ("workload", "app-1", "finished")] == sorted(brief(second))


def test_an_application_that_nobody_lists_is_deleted() -> None:
    server = Server()
    _, second = rounds(server, Sink(), lambda: server.answers.update({"partition/default/applications/active": []}))

    assert [("claim", "w-0", AT + HEARTBEAT_US), ("workload", "app-1", "deleted")] == sorted(brief(second))


@pytest.mark.parametrize(
    ("path", "answer", "words"),
    [
        pytest.param("partition/default/applications/active", 500, "see the log of YuniKorn", id="500"),
        pytest.param("partition/default/queues", b"<html>", "not JSON", id="a page of a proxy"),
        pytest.param("partitions", [1], "neither an object nor a list of objects", id="numbers"),
        pytest.param("partitions", 401, "set bearer_token_file, or username and password_file", id="not let in"),
        pytest.param("partitions", 404, "check url in [[yunikorn]]", id="not a YuniKorn"),
        pytest.param("partition/default/queues", b" " * 3000, "more than max_bytes (2,000)", id="too much"),
    ],
)
def test_a_round_that_breaks_off_ends_nothing(path: str, answer: Any, words: str) -> None:
    server, sink = Server(), Sink()
    _, second, third = rounds(
        server, sink, lambda: server.answers.update({path: answer}), nothing, max_bytes=2000
    )  # fmt: skip

    assert ([], []) == (second, third)
    assert [True, True] == [words in text for text in sink.failures]


def test_an_item_that_cannot_be_read_is_reported_once_and_ends_nothing() -> None:
    server, sink = Server(), Sink()
    broken = {"partition/default/applications/active": [application(allocations={"a": 1})]}
    _, second, third = rounds(server, sink, lambda: server.answers.update(broken), nothing)

    assert [("claim", "w-0", None)] == brief(second)
    assert [("claim", "w-0", None)] == brief(third)
    assert {"application: allocations is not a list of objects": 1} == sink.refused


def test_an_item_that_cannot_be_read_does_not_stop_others_from_ending() -> None:
    server, active = Server(), "partition/default/applications/active"
    server.answers[active] = [application(), application(name="app-2", pods=("x-0",))]
    broken = {active: [application(allocations={"a": 1})]}
    _, second = rounds(server, Sink(), lambda: server.answers.update(broken))
    ended = ("claim", "x-0", AT + HEARTBEAT_US), ("workload", "app-2", "deleted")

    assert {*ended, ("claim", "w-0", None)} == set(brief(second))


def test_an_older_server_is_asked_queue_by_queue() -> None:
    server = Server(
        **{
            "partition/default/applications/active": None,
            "partition/default/queue/root.train/applications": [application()],
        }
    )
    (first,) = rounds(server, Sink())

    assert sorted(FIRST, key=str) == sorted(brief(first), key=str)


def test_an_id_that_was_used_before_counts_as_it_is_now() -> None:
    over = application("Completed", submissionTime=NS - 1, pods=())
    (first,) = rounds(Server(**{"partition/default/applications/completed": [over]}), Sink())

    assert [("workload", "app-1", "running")] == [entry for entry in brief(first) if entry[0] == "workload"]


def test_a_new_process_ends_what_ended_meanwhile() -> None:
    """What the store has open and YuniKorn does not list any more; other sources' claims are theirs to end."""
    row = {"scheduler": "kubernetes", "kind": "yunikorn", "pod_uid": "gone", "pod": "old", "start_us": AT - 1}
    known = [row | {"evidence_us": AT, "profile": None, "end_us": None, "device_count": 1, "node": "n1"}]
    (first,) = rounds(Server(), Sink([*known, known[0] | {"kind": "k8s-json", "pod_uid": "other"}]))

    assert [("claim", "old", AT)] == [entry for entry in brief(first) if entry[1:] == ("old", AT)]
    assert {"w-0", "old"} == {row["pod"] for table, row in first if table == "claim"}


def test_a_new_process_deletes_what_went_meanwhile_and_repeats_nothing() -> None:
    """The store has what a first process told, one queue and application more, and a queue of another scheduler."""
    (first,) = rounds(Server(), Sink())
    queue = next(row for table, row in first if table == "queue" and row["name"] == "root.train")
    gang = next(row for table, row in first if table == "workload")
    stored = [
        *first,
        ("queue", queue | {"name": "root.old"}),
        ("queue", queue | {"name": "root.kueue", "scheduler": "kueue"}),
        ("workload", gang | {"uid": "app-0", "name": "app-0"}),
    ]
    (second,) = rounds(Server(), Sink(kept=stored))

    assert [("queue", "root.old", "deleted"), ("workload", "app-0", "deleted")] == sorted(
        entry for entry in brief(second) if entry[0] != "claim"
    )


def test_claims_can_be_left_to_kubernetes() -> None:
    (first,) = rounds(Server(), Sink(), claims=False)

    assert {"queue", "workload"} == {table for table, _ in first}


def test_a_full_queue_is_waited_for() -> None:
    sink = Sink(busy=1)
    (first,) = rounds(Server(), sink)

    assert (5, ["full"]) == (len(first), sink.failures)


@pytest.mark.parametrize(
    ("options", "header"),
    [
        pytest.param({}, "", id="none"),
        pytest.param({"bearer_token": "t0k"}, "Bearer t0k", id="a token"),
        pytest.param({"username": "u", "password": "p"}, "Basic dTpw", id="a name"),
    ],
)
def test_who_asks(options: Json, header: str) -> None:
    server = Server()
    rounds(server, Sink(), **options)

    assert header == server.authorization


def test_a_secret_from_a_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    server, seen = Server(), list[str]()

    def rotate() -> None:
        seen.append(server.authorization)
        file.write_text("another\n")

    rounds(server, Sink(), rotate, bearer_token_file=str(file))

    assert ["Bearer one", "Bearer another"] == [*seen, server.authorization]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        pytest.param({}, "url: must be an address", id="no address"),
        pytest.param({"url": "yunikorn:9080"}, "url: must be an address", id="no scheme"),
        pytest.param({"url": "http://u:p@y:9080"}, "url: must be an address", id="a secret in the address"),
        pytest.param({"url": "http://y:1", "username": "u"}, "username: belongs together", id="half a secret"),
        pytest.param({"url": "http://y:1", "password_file": "/nowhere"}, "password_file: /nowhere", id="no file"),
        pytest.param({"url": "http://y:1", "interval_s": 0}, "interval_s: must be a number", id="no interval"),
        pytest.param({"url": "http://y:1", "intervals": 1}, "intervals: is not an option", id="misspelt"),
    ],
)
def test_every_problem_is_reported(table: Json, problem: str) -> None:
    problems: list[str] = []
    configure([table], problems)

    assert [True] == sorted({any(problem in text for text in problems)})
    assert all(text.startswith("[[yunikorn]] 1 ") for text in problems)


def test_two_tables_of_one_cluster_are_refused() -> None:
    problems: list[str] = []
    configure([{"url": "http://a:1"}, {"url": "http://b:1"}], problems)

    assert ["[[yunikorn]] 2 cluster: is required and must differ from the other [[yunikorn]] tables"] == problems


def test_it_is_registered() -> None:
    assert "yunikorn" in live_kinds()


def claim(pod: str = "p") -> tuple[str, Json]:
    return "claim", {"pod_uid": pod, "profile": None, "start_us": AT, "evidence_us": AT}


@pytest.mark.parametrize(
    ("after_us", "written"),
    [
        pytest.param(HEARTBEAT_US - 1, 0, id="nothing new within a minute"),
        pytest.param(HEARTBEAT_US, 1, id="a sign of life a minute later, by one of two"),
        pytest.param(REFRESH_US, 2, id="all of it an hour later"),
    ],
)
def test_what_does_not_change_is_reported_seldom(after_us: int, written: int) -> None:
    tracker = YunikornChanges()
    tracker.changes([claim("a"), claim("b")], AT)

    assert written == len(tracker.changes([claim("a"), claim("b")], AT + after_us))
