"""slurmrestd as a source: versions, bounds, and what each failure says. A small HTTP server stands for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gpuwatch.collectors.slurm.changes import CLOSE_AFTER_US
from gpuwatch.collectors.slurm.queries import reindexed
from gpuwatch.collectors.slurm.source import SlurmSource, configure
from gpuwatch.collectors.slurm.via_rest import VERSIONS
from gpuwatch.core.clock import HOUR_US, SECOND_US
from tests.collectors.slurm.test_json import END, START, boxed, sacct, squeue
from tests.collectors.slurm.test_live import FakeSink
from tests.worlds.patience import PATIENCE_S

Json = dict[str, Any]
NOW_US = (START + 90) * SECOND_US
NODE = {"name": "n1", "state": ["MIXED"], "gres": "gpu:h100:8", "partitions": ["batch"]}
PARTITION = {
    "name": "batch",
    "nodes": {"configured": "n1"},
    "tres": {"configured": "cpu=8"},
    "priority": {"tier": 5},
    "partition": {"state": ["UP"]},
}


class Slurmrestd:
    """Answers on a socket with what the test says, by path; remembers who asked what."""

    def __init__(self, folder: Path, version: str = "v0.0.43") -> None:
        self.socket, self.version = folder / "s.sock", version
        self.now_us = NOW_US
        self.specified = True
        self.asked: list[tuple[str, dict[str, str], dict[str, str]]] = []
        self.answers: dict[str, Any] = {
            "slurm/jobs": {"jobs": [squeue(new=True)]},
            "slurm/nodes": {"nodes": [NODE]},
            "slurm/partitions": {"partitions": [PARTITION]},
            "slurm/reservations": {"reservations": []},
            "slurm/ping": {"pings": []},
            "slurmdb/qos": {"qos": [{"name": "normal", "priority": boxed(7)}]},
            "slurmdb/jobs": {"jobs": []},
        }

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, dict(request.query), dict(request.headers)))
        parts = request.path.strip("/").split("/")
        if parts[0] == "openapi":
            paths: Json = {f"/slurm/{v}/jobs/": {} for v in (self.version, "v0.0.37")}
            return web.json_response({"paths": paths}) if self.specified else web.Response(status=404, text="no")
        what = f"{parts[0]}/{'/'.join(parts[2:])}"
        if parts[1] != self.version or what not in self.answers:
            return web.Response(status=404, text="Unable find requested URL. Please view /openapi/v3")
        entry = self.answers[what]
        if isinstance(entry, web.Response):
            return web.Response(status=entry.status, text=entry.text)
        return web.json_response({"meta": {}, "errors": [], **entry})

    def source(self, **options: Any) -> SlurmSource:
        problems: list[str] = []
        made = configure([{"cluster": "c1", "url": f"unix://{self.socket}", **options}], problems)
        assert [] == problems
        assert isinstance(made[0], SlurmSource)
        return made[0]

    def poll(self, source: SlurmSource, sink: FakeSink, times: int = 1, then: Callable[[], None] | None = None) -> bool:
        """Polls while the server runs; `then` is called before each round but the first."""

        async def play() -> bool:
            app = web.Application()
            app.router.add_get("/{path:.*}", self.answer)
            runner = web.AppRunner(app)
            await runner.setup()
            await web.UnixSite(runner, str(self.socket)).start()
            try:
                went = await source.poll(sink, lambda: self.now_us)
                for _ in range(times - 1):
                    if then is not None:
                        then()
                    went = await source.poll(sink, lambda: self.now_us)
                return went
            finally:
                await runner.cleanup()

        return asyncio.run(play())

    def paths(self) -> list[str]:
        return [path for path, _, _ in self.asked]


@pytest.fixture
def rest(tmp_path: Path) -> Slurmrestd:
    return Slurmrestd(tmp_path)


def test_a_round_reads_jobs_nodes_queues_and_accounts(rest: Slurmrestd) -> None:
    sink = FakeSink()

    assert rest.poll(rest.source(), sink), sink.errors
    assert ["claim", "node", "queue", "queue", "workload"] == sorted(table for table, _ in sink.rows)
    (claim,) = [row for table, row in sink.rows if table == "claim"]
    assert ("0,1,2,7", START * SECOND_US, NOW_US) == (claim["device_indexes"], claim["start_us"], claim["evidence_us"])
    queues = {row["name"]: (row["quota"], row["used"], row["running_count"]) for t, row in sink.rows if t == "queue"}
    assert {"batch": ('{"":8}', "{}", 0), "normal": (None, '{"":4}', 1)} == queues
    assert [] == sink.errors


def test_what_is_known_is_not_news(rest: Slurmrestd) -> None:
    source, sink = rest.source(), FakeSink()
    rest.poll(source, sink)
    written = len(sink.rows)
    rest.now_us += 15 * SECOND_US
    rest.poll(source, sink)

    assert written == len(sink.rows)


def test_an_end_comes_from_accounting(rest: Slurmrestd) -> None:
    source, sink = rest.source(), FakeSink()

    def ends() -> None:
        rest.answers |= {"slurm/jobs": {"jobs": []}, "slurmdb/jobs": {"jobs": [sacct()]}}
        rest.now_us = END * SECOND_US + HOUR_US

    assert rest.poll(source, sink, 2, ends), sink.errors
    assert [None, END * SECOND_US] == [row["end_us"] for table, row in sink.rows if table == "claim"]
    assert ["running", "finished"] == [row["state"] for table, row in sink.rows if table == "workload"]


def test_a_lost_job_is_asked_for_by_its_number_before_it_is_given_up(rest: Slurmrestd) -> None:
    source, sink = rest.source(), FakeSink()

    def vanishes() -> None:
        rest.answers["slurm/jobs"] = {"jobs": []}
        rest.now_us += CLOSE_AFTER_US

    assert rest.poll(source, sink, 3, vanishes), sink.errors
    assert f"/slurmdb/{rest.version}/job/5" in rest.paths()
    assert [None, NOW_US] == [row["end_us"] for table, row in sink.rows if table == "claim"]


@pytest.mark.parametrize("specified", [pytest.param(True, id="it says so"), pytest.param(False, id="by trying")])
@pytest.mark.parametrize("version", [VERSIONS[0], "v0.0.41", VERSIONS[-1]])
def test_the_newest_version_that_is_served_is_used(tmp_path: Path, version: str, specified: bool) -> None:
    rest, sink = Slurmrestd(tmp_path, version), FakeSink()
    rest.specified = specified

    assert rest.poll(rest.source(), sink), sink.errors
    assert f"/slurm/{version}/jobs" in rest.paths()


def test_an_upgraded_server_is_asked_again(rest: Slurmrestd) -> None:
    source, sink = rest.source(), FakeSink()
    rest.poll(source, sink)
    rest.version = "v0.0.44"

    assert not rest.poll(source, sink)
    assert rest.poll(source, sink), sink.errors


def test_a_server_of_another_time_says_what_it_lacks(tmp_path: Path) -> None:
    rest, sink = Slurmrestd(tmp_path, "v0.0.36"), FakeSink()

    assert not rest.poll(rest.source(), sink)
    assert "serves none of v0.0.38 to v0.0.44; load its plugins" in sink.errors[0]


@pytest.mark.parametrize(
    ("version", "query"),
    [
        pytest.param("v0.0.38", {"start_time": f"uts{START + 90 - 86_400}", "skip_steps": "true"}, id="22.05"),
        pytest.param("v0.0.40", {"start_time": str(START + 90 - 86_400)}, id="23.11: skip_steps would lose jobs"),
    ],
)
def test_the_start_of_the_window_is_written_as_the_version_reads_it(
    tmp_path: Path, version: str, query: dict[str, str]
) -> None:
    rest = Slurmrestd(tmp_path, version)
    rest.poll(rest.source(), FakeSink())

    assert [query] == [asked for path, asked, _ in rest.asked if path == f"/slurmdb/{version}/jobs"]


def test_the_token_is_read_from_its_file_at_each_request(rest: Slurmrestd, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("SLURM_JWT=first\n")
    source = rest.source(token_file=str(token), user="ops", api_version=rest.version, accounting=False, queues=False)
    rest.poll(source, FakeSink(), 2, lambda: (token.write_text("second"), None)[1])

    assert [("first", "ops")] * 2 + [("second", "ops")] * 2 == [
        (headers["X-SLURM-USER-TOKEN"], headers["X-SLURM-USER-NAME"]) for _, _, headers in rest.asked
    ]


EXPIRED = {
    "errors": [{"description": "Unable to query jobs", "error_number": 1007, "error": "Protocol authentication error"}]
}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(web.Response(status=401, text="Authentication failure"), "scontrol token username=", id="401"),
        pytest.param(
            web.Response(status=500, text=json.dumps(EXPIRED)),
            "500 Unable to query jobs: Protocol authentication error; renew the token",
            id="an expired token",
        ),
        pytest.param(EXPIRED | {"jobs": []}, "Protocol authentication error; renew the token", id="told with 200"),
        pytest.param(
            {"jobs": [], "errors": [{"error": "Unable to contact slurm controller (connect failure)"}]},
            "check that slurmctld runs",
            id="slurmctld is away",
        ),
        pytest.param(web.Response(status=200, text="<html>"), "not JSON", id="another server"),
        pytest.param(
            web.Response(status=200, text='{"errors": [], "jobs": [{"job_'),
            "was its response complete",
            id="half a list",
        ),
        pytest.param(web.Response(status=200, text='{"hello": 1}'), "not a response of Slurm", id="another API"),
        pytest.param({"jobs": [{"name": "x" * 9000}]}, "exceeds 8192 bytes; raise max_bytes", id="a flood"),
        pytest.param(web.Response(status=404, text="gone"), "404 gone; load its plugins", id="404"),
    ],
)
def test_a_failure_says_what_to_do_and_ends_no_job(rest: Slurmrestd, answer: Any, words: str) -> None:
    source, sink = rest.source(max_bytes=8192), FakeSink()

    def fails() -> None:
        rest.answers["slurm/jobs"] = answer
        rest.now_us += 2 * CLOSE_AFTER_US

    assert not rest.poll(source, sink, 2, fails)
    assert words in sink.errors[0]
    assert [None] == [row["end_us"] for table, row in sink.rows if table == "claim"]


def test_accounting_or_queues_that_fail_do_not_stop_the_jobs(rest: Slurmrestd) -> None:
    sink = FakeSink()
    away = web.Response(status=500, text=json.dumps({"errors": [{"error": "Failed to open slurmdbd connection"}]}))
    rest.answers |= {"slurmdb/jobs": away, "slurmdb/qos": away}

    assert rest.poll(rest.source(), sink)
    assert ["claim", "node", "workload"] == sorted(table for table, _ in sink.rows)
    assert "check slurmdbd; a site without accounting sets accounting = false" in sink.errors[0]
    assert 2 == sink.errors[0].count("Failed to open slurmdbd connection")


def test_nothing_found_is_no_failure(rest: Slurmrestd) -> None:
    sink = FakeSink()
    empty = {"error_number": 9003, "error": "Nothing found with query", "description": "Nothing found"}
    rest.answers["slurmdb/jobs"] = {"errors": [empty], "jobs": []}

    assert rest.poll(rest.source(), sink), sink.errors
    assert [] == sink.errors


def test_a_socket_that_is_not_there_is_named(rest: Slurmrestd) -> None:
    sink = FakeSink()

    assert not asyncio.run(rest.source().poll(sink, lambda: NOW_US))
    assert f"slurmrestd {rest.socket}: there is no such socket; start slurmrestd" in sink.errors[0]


def test_a_server_that_does_not_listen_is_named() -> None:
    sink = FakeSink()
    source = configure([{"url": "http://127.0.0.1:9"}], [])[0]
    assert isinstance(source, SlurmSource)

    assert not asyncio.run(source.poll(sink, lambda: NOW_US))
    assert "slurmrestd http://127.0.0.1:9/openapi/v3: " in sink.errors[0]
    assert sink.errors[0].endswith("check that slurmrestd runs and can be reached from here")


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        pytest.param({"url": "ftp://x"}, "url: must be http://host:6820", id="another scheme"),
        pytest.param({"url": "http://x:1/slurm"}, "url: must be http://host:6820", id="a path"),
        pytest.param({"url": "unix://s.sock"}, "url: must be http://host:6820", id="a relative socket"),
        pytest.param({"url": "http://user:pw@x"}, "url: must be http://host:6820", id="a secret in the URL"),
        pytest.param({"user": "ops"}, "url: is required", id="a user without slurmrestd"),
        pytest.param({"url": "http://x", "bin_dir": "/"}, "url: cannot be combined with bin_dir", id="both ways"),
        pytest.param(
            {"url": "http://x", "api_version": "v0.0.36"}, "api_version: must be one of v0.0.38", id="too old"
        ),
        pytest.param({"url": "http://x", "token_file": "/nowhere"}, "token_file: there is no file", id="no token"),
        pytest.param({"gpu_minors": {"n1": [0, 0]}}, "gpu_minors: must be like", id="one device twice"),
        pytest.param({"gpu_minors": [1]}, "gpu_minors: must be like", id="no nodes"),
    ],
)
def test_a_wrong_option_names_itself(table: Json, problem: str) -> None:
    problems: list[str] = []
    configure([table], problems)

    assert [True] == [entry.startswith(f"[[slurm]] 1 {problem}") for entry in problems]


@pytest.mark.parametrize(
    ("row", "indexes"),
    [
        pytest.param({}, "0,2", id="device files 2 and 0 are NVML's first and third"),
        pytest.param({"node": "n2"}, "0,2", id="a node that is not named stays"),
        pytest.param({"profile": "1g.10gb"}, "0,2", id="a slice stays"),
        pytest.param({"device_indexes": "1,9"}, "1,9", id="an index that no device has stays"),
        pytest.param({"device_indexes": None}, None, id="no index is none"),
        pytest.param({"device_indexes": "1,3"}, "1,3", id="others are found at their place"),
        pytest.param({"device_indexes": "2"}, "0", id="one is"),
    ],
)
def test_device_files_are_counted_as_nvml_counts(row: Json, indexes: str | None) -> None:
    minors: Mapping[str, tuple[int, ...]] = {"n1": (2, 1, 0, 3)}
    claim = {"node": "n1", "profile": None, "device_indexes": "0,2"} | row

    assert [("claim", claim | {"device_indexes": indexes})] == reindexed([("claim", claim)], minors)


def test_the_date_of_its_answers_shows_the_clock_of_slurmrestd(rest: Slurmrestd) -> None:
    """A server that is two minutes behind: read once in a round."""

    async def play(sink: FakeSink) -> None:
        async def dated(_: web.Request, response: web.StreamResponse) -> None:
            response.headers["Date"] = formatdate(rest.now_us / SECOND_US - 120, usegmt=True)

        app = web.Application()
        app.router.add_get("/{path:.*}", rest.answer)
        app.on_response_prepare.append(dated)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.UnixSite(runner, str(rest.socket)).start()
        task = asyncio.create_task(rest.source().run(sink, lambda: rest.now_us))
        try:
            await reached(lambda: bool(sink.read or sink.errors))
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await runner.cleanup()

    sink = FakeSink()
    asyncio.run(play(sink))

    assert [] == sink.errors
    assert [("c1", "slurm c1")] == [clock[:2] for clock in sink.clocks]
    assert -121 * SECOND_US < sink.clocks[0][2] < -118 * SECOND_US


async def reached(condition: Callable[[], bool]) -> None:
    """Waits until a condition holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)
