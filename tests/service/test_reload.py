"""A configuration that changes while the service runs: SIGHUP, what it disturbs, and what it does not."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.remote_write import body
from gpuwatch import collect
from gpuwatch.analyze import AnalyzeReport
from gpuwatch.collect import Collectors, Exchange, unchanged
from gpuwatch.commands.serve import Again, read_again
from gpuwatch.errors import UsageError
from gpuwatch.plan import Plan, load, made
from gpuwatch.registry import Sink
from gpuwatch.service import CONFIGURATION, Service
from gpuwatch.settings import Settings
from gpuwatch.state.channels import Channels
from gpuwatch.store import Store
from tests.service.feed import NOW_US, points
from tests.service.load import Load, Sample, stored
from tests.service.process import Server, until

RELOADS = 5
STORM = 50
WAIT_S = 20.0
TAKEN = "configuration taken over"
CHANNEL = {"name": "ops", "kind": "slack", "url": "https://hooks.slack.com/services/T0/B0/abcdefghijklmnop"}


class Exporter:
    """A dcgm-exporter of one GPU that counts connections and scrapes."""

    def __init__(self, name: str) -> None:
        self.connections = self.scrapes = 0
        exporter = self

        class Page(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                exporter.connections += 1
                super().setup()

            def do_GET(self) -> None:
                exporter.scrapes += 1
                body = f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="GPU-{name}",Hostname="{name}"}} 41\n'.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.server.daemon_threads = True
        self.target = f"127.0.0.1:{self.server.server_address[1]}"
        self.name = f"dcgm http://{self.target}/metrics"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@contextmanager
def exporters(*names: str) -> Iterator[list[Exporter]]:
    running = [Exporter(name) for name in names]
    try:
        yield running
    finally:
        for one in running:
            one.server.shutdown()
            one.server.server_close()


def tables(*groups: tuple[float, list[Exporter]], settings: str = "") -> str:
    """The text of a settings file."""
    listed = "".join(
        f"[[dcgm]]\ninterval_s = {interval_s}\ntargets = {json.dumps([e.target for e in group])}\n"
        for interval_s, group in groups
    )
    return f"[gpuwatch]\nanalyze_interval_s = 600\n{settings}\n{listed}"


def reload(server: Server, config: Path, text: str, said: str = TAKEN) -> None:
    """Writes the file, sends SIGHUP, and waits until the server has told how it went."""
    before = server.log.count(said)
    config.write_text(text)
    server.process.send_signal(signal.SIGHUP)
    until(lambda: server.log.count(said) > before, said)


def listed(server: Server) -> dict[str, str]:
    """State by name of every source that is read."""
    return {item["source"]: item["state"] for item in server.ask("GET", "/readyz").json["sources"]["items"]}


# A whole server.


def test_what_is_acknowledged_through_five_reloads_is_stored_once(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    with exporters("a", "b") as (a, b):
        config.write_text(tables((1, [a])))
        with Server(tmp_path / "data", config=config) as server:
            with Load(server) as load:
                for at in range(RELOADS):
                    group = [a, b] if at % 2 == 0 else [a]
                    reload(server, config, tables((1, group), settings=f"idle_minutes = {at + 10}"))
                    load.more(8)
            assert 0 == server.stop(), server.log

    assert ({204}, []) == (set(load.statuses), load.broken)
    assert "traceback" not in server.log.lower(), server.log
    assert load.acknowledged == stored(server.directory)


def test_what_is_acknowledged_before_a_kill_in_a_reload_is_stored_once(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    acknowledged: Counter[Sample] = Counter()
    with exporters("a", "b") as (a, b):
        for group in ([a, b], [b], [a, b]):
            config.write_text(tables((1, [a])))
            server = Server(tmp_path / "data", config=config)
            with Load(server) as load:
                load.more(8)
                config.write_text(tables((1, group), settings="idle_minutes = 20"))
                server.process.send_signal(signal.SIGHUP)
                load.more(1)
                server.kill()
            acknowledged += load.acknowledged

    kept = stored(server.directory)
    assert Counter() == acknowledged - kept
    assert {1} == set(kept.values())


def test_sources_come_go_and_change_and_the_others_are_left_alone(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    with exporters("kept", "gone", "slower", "new") as (kept, gone, slower, new):
        config.write_text(tables((1, [kept, gone]), (1, [slower])))
        with Server(tmp_path / "data", config=config) as server:
            until(lambda: {"ok"} == set(listed(server).values()), "three sources that are read")
            reload(server, config, tables((1, [kept, new]), (2, [slower])))
            until(lambda: listed(server).get(new.name) == "ok", "the new source")
            last, kept_before = gone.scrapes, kept.scrapes
            until(lambda: kept.scrapes >= kept_before + 2, "two more scrapes of the one that is kept")

            assert {kept.name: "ok", new.name: "ok"} == {n: s for n, s in listed(server).items() if n != slower.name}
            assert last == gone.scrapes
            assert 1 == kept.connections, "its connection is the one of the start"
            told = next(json.loads(line) for line in server.log.splitlines() if TAKEN in line)
            assert ([new.name], [gone.name], [slower.name], 1) == (
                told["started"],
                told["stopped"],
                told["restarted"],
                told["kept"],
            )


def test_a_bad_file_changes_nothing_and_is_told_until_it_is_mended(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    with exporters("a") as (a,):
        config.write_text(tables((1, [a])))
        with Server(tmp_path / "data", config=config) as server:
            until(lambda: listed(server).get(a.name) == "ok", "the source")
            before = a.scrapes
            reload(server, config, tables(settings="threads = -1\ncolour = 1"), "configuration not taken over")
            until(lambda: a.scrapes >= before + 2, "two more scrapes")

            assert "failing" == listed(server)[CONFIGURATION]
            assert 200 == server.ask("GET", "/readyz").status
            items = server.ask("GET", "/api/v1/quality").json["items"]
            errors = [str(item) for item in items if CONFIGURATION in str(item.get("source"))]
            assert 1 == len(errors) and "threads" in errors[0] and "colour" in errors[0], items

            reload(server, config, tables((1, [a]), settings="threads = 1"))
            assert CONFIGURATION not in listed(server)
            assert "settings that wait for a restart" in server.log and '"threads"' in server.log
            assert 1 == a.connections


def test_signals_in_a_storm_are_taken_together(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    config.write_text(tables())
    with Server(tmp_path / "data", config=config) as server:
        for _ in range(STORM):
            server.process.send_signal(signal.SIGHUP)
        until(lambda: TAKEN in server.log, "the first one is taken over")
        reload(server, config, tables(settings="idle_minutes = 20"))
        until(lambda: '"idle_minutes"' in server.log, "the last one is taken over")

        assert server.ready()
        server.process.send_signal(signal.SIGTERM)
        while server.process.poll() is None:
            server.process.send_signal(signal.SIGHUP)
        assert 0 == server.process.returncode, server.log


def test_a_configuration_that_is_gone_is_a_bad_one(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    config.write_text(tables())
    with Server(tmp_path / "data", config=config) as server:
        config.unlink()
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "configuration not taken over" in server.log, "the word")

        assert "check --config" in server.log
        assert server.ready()


# What is the same.


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({}, {}, "", id="nothing"),
        pytest.param({}, {"dcgm": [{"targets": ["a:1"]}]}, "", id="all new"),
        pytest.param({"dcgm": [{"targets": ["a:1"]}]}, {}, "", id="all gone"),
        pytest.param({"dcgm": [{"targets": ["a:1"]}]}, {"dcgm": [{"targets": ["a:1"]}]}, "a", id="no change"),
        pytest.param({"dcgm": {"targets": ["a:1"]}}, {"dcgm": [{"targets": ["a:1"]}]}, "a", id="written otherwise"),
        pytest.param({"dcgm": [{"targets": ["a:1"]}]}, {"dcgm": [{"targets": ["b:1", "a:1"]}]}, "a", id="one more"),
        pytest.param(
            {"dcgm": [{"targets": ["a:1"]}, {"targets": ["b:1"]}]},
            {"dcgm": [{"targets": ["b:1"]}, {"targets": ["a:1"]}]},
            "ab",
            id="another order",
        ),
        pytest.param(
            {"dcgm": [{"targets": ["a:1", "b:1"]}]},
            {"dcgm": [{"targets": ["a:1", "b:1"], "interval_s": 5}]},
            "",
            id="another interval",
        ),
        pytest.param(
            {"dcgm": [{"targets": ["a:1"], "bearer_token": "x"}]},
            {"dcgm": [{"targets": ["a:1"], "bearer_token": "y"}]},
            "",
            id="another secret",
        ),
        pytest.param(
            {"dcgm": [{"targets": ["a:1"]}, {"dns": ["x:1"]}]},
            {"dcgm": [{"targets": ["a:1", "b:1"]}, {"dns": ["x:1"]}]},
            "a",
            id="a discovery may find what is listed now: it begins anew",
        ),
    ],
)
def test_sources_that_did_not_change(before: dict[str, Any], after: dict[str, Any], expected: str) -> None:
    assert {f"dcgm http://{host}:1/metrics" for host in expected} == unchanged(before, after)


# The collectors.


class Source:
    """A live source that runs until it is cancelled, and counts."""

    kind = "dcgm"
    cluster = "c1"
    interval_s = 15.0

    def __init__(self, name: str, hangs: bool = False) -> None:
        self.name = name
        self.began = threading.Event()
        self.ended = threading.Event()
        self._hangs = hangs

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if self._hangs:
                await asyncio.Event().wait()
            raise
        finally:
            self.ended.set()


def clock() -> int:
    return NOW_US


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    opened = Service.open(tmp_path / "data", Settings(), {}, now_us=clock, live=False)
    opened.start()
    yield opened
    opened.stop()


def collecting(service: Service, *live: Source) -> Collectors:
    return Collectors(live, service.submit, service._sources, clock, service._open_claims, service._clocks)


def names(service: Service) -> list[str]:
    return [status.name for status in service.sources()]


def test_an_exchange_ends_begins_and_keeps(service: Service) -> None:
    kept, gone, old = Source("kept"), Source("gone"), Source("changed")
    collectors = collecting(service, kept, gone, old)
    collectors.start()
    assert all(source.began.wait(WAIT_S) for source in (kept, gone, old))
    collectors.failed("changed", NOW_US, "refused")

    changed, new, twin = Source("changed"), Source("new"), Source("kept")
    done = collectors.exchange([twin, changed, new], {"kept"})
    assert changed.began.wait(WAIT_S) and new.began.wait(WAIT_S)

    assert Exchange(["new"], ["gone"], ["changed"], 1) == done
    assert (True, True, False) == (gone.ended.is_set(), old.ended.is_set(), kept.ended.is_set())
    assert not twin.began.is_set(), "the one that runs goes on in its stead"
    assert ["changed", "kept", "new"] == names(service)
    assert {"never"} == {status.state(NOW_US) for status in service.sources()}, "what failed was another source"
    collectors.stop()
    assert kept.ended.is_set() and new.ended.is_set()


def test_the_first_source_of_all_may_come_later(service: Service) -> None:
    collectors = collecting(service)
    collectors.start()
    new = Source("new")

    assert Exchange(["new"], [], [], 0) == collectors.exchange([new], ())
    assert new.began.wait(WAIT_S)
    assert Exchange([], ["new"], [], 0) == collectors.exchange([], ())
    assert new.ended.wait(WAIT_S)
    assert [] == names(service)
    collectors.stop()


def test_a_source_that_does_not_end_is_left_behind(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "STOP_S", 0.1)
    stuck, new = Source("stuck", hangs=True), Source("new")
    collectors = collecting(service, stuck)
    collectors.start()
    assert stuck.began.wait(WAIT_S)

    assert ["new"] == collectors.exchange([new], ()).started
    assert new.began.wait(WAIT_S)
    collectors.stop()


def test_what_is_read_shares_a_commit_and_what_is_pushed_does_not_wait(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, patient = service._writer.submit, list[bool]()

    def noted(*arguments: Any, **named: bool) -> Future[None]:
        patient.append(named["patient"])
        return submit(*arguments, **named)

    monkeypatch.setattr(service._writer, "submit", noted)
    asyncio.run(service._collectors.commit("s", [points([NOW_US])]))
    service.receive("remote-write", body([]), "", "c1", "pushed").result(WAIT_S)

    assert [True, False] == patient


# The service.


def plan(settings: Settings | None = None, **tables: Any) -> Plan:
    return made(settings or Settings(), tables, live=False)


def test_settings_are_taken_over_but_for_those_that_need_a_restart(service: Service) -> None:
    wanted = Settings(idle_minutes=20, memory_limit="1GB", raw_retention_days=7, public_url="https://g.example.com")

    assert service.reload(lambda: plan(wanted))
    assert Settings(idle_minutes=20, public_url="https://g.example.com") == service.settings
    assert "https://g.example.com" == service.base_url

    service.own_url = "http://127.0.0.1:8765"
    assert service.reload(plan)
    assert ("http://127.0.0.1:8765", Settings()) == (service.base_url, service.settings)


def test_channels_of_the_file_come_and_go_and_those_made_elsewhere_stay(service: Service) -> None:
    channels = Channels(service.state)
    channels.put(CHANNEL | {"name": "mine"}, "ann", NOW_US)

    assert service.reload(lambda: plan(channel=[CHANNEL]))
    assert [("mine", "api"), ("ops", "file")] == [(c.name, c.origin) for c in channels.list()]
    assert service.reload(plan)
    assert ["mine"] == [channel.name for channel in channels.list()]


def test_private_addresses_are_allowed_from_the_reload_on(service: Service) -> None:
    local = CHANNEL | {"kind": "webhook", "url": "http://10.1.2.3/hook"}
    with pytest.raises(UsageError):
        Channels(service.state, service.channel_guard).put(local, "ann", NOW_US)

    assert service.reload(lambda: plan(alerts={"allow_private": ["10.0.0.0/8"]}))
    assert Channels(service.state, service.channel_guard).put(local, "ann", NOW_US)


def test_alerts_go_on_after_a_reload_and_end_at_once(service: Service) -> None:
    alerting = service._alerting
    alerting.start()
    for _ in range(3):
        assert service.reload(lambda: plan(alerts={"allow_private": ["10.0.0.0/8"]}))
    assert alerting._thread.is_alive()

    alerting.stop()
    assert not alerting._thread.is_alive()


def test_a_reload_that_fails_is_told_and_the_next_clears_it(service: Service) -> None:
    def broken() -> Plan:
        raise RuntimeError("disk on fire")

    assert not service.reload(broken)
    assert [(CONFIGURATION, "failing", "not taken over: RuntimeError: disk on fire")] == [
        (status.name, status.state(NOW_US), status.error) for status in service.sources()
    ]
    assert service.reload(plan)
    assert [] == names(service)


def directory(path: Path) -> None:
    path.mkdir()


def huge(path: Path) -> None:
    path.write_bytes(b"#" * 10_000_000)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        pytest.param(lambda path: None, "No such file", id="is gone"),
        pytest.param(directory, "Is a directory", id="is a directory"),
        pytest.param(huge, "larger than", id="is huge"),
        pytest.param(endless, "cannot be read again", id="is endless"),
        pytest.param(os.mkfifo, "cannot be read again", id="was a pipe, which would seem empty now"),
        pytest.param(lambda path: path.write_bytes(b"[gpuwatch\n"), "line 1", id="is no TOML"),
    ],
)
def test_a_file_that_cannot_be_read_changes_nothing(
    service: Service, tmp_path: Path, make: Callable[[Path], object], said: str
) -> None:
    assert service.reload(lambda: plan(Settings(idle_minutes=20), channel=[CHANNEL]))
    make(tmp_path / "gpuwatch.toml")

    assert not service.reload(lambda: read_again(tmp_path / "gpuwatch.toml", {}))
    assert [True] == [said in (status.error or "") for status in service.sources()], service.sources()
    assert Settings(idle_minutes=20) == service.settings
    assert ["ops"] == [channel.name for channel in Channels(service.state).list()]


def test_settings_that_change_while_the_books_are_made_hold_in_the_next_pass(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []

    def analyze(store: Store, state: object, settings: Settings, **_: object) -> AnalyzeReport:
        used.append(settings.idle_minutes)
        if len(used) == 1:
            assert service.reload(lambda: plan(Settings(idle_minutes=20)))
        return AnalyzeReport()

    monkeypatch.setattr("gpuwatch.analyzer.analyze", analyze)
    for _ in range(3):
        service.analyse_once()

    assert [15, 20] == used, "the third pass has no news"


def test_after_the_end_there_is_no_reload(tmp_path: Path) -> None:
    service = Service.open(tmp_path / "data", Settings(), {}, now_us=clock, live=False)
    service.start()
    service.stop()

    assert not service.reload(plan)


def test_a_plan_names_every_mistake_of_a_file_at_once(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    config.write_text(
        '[gpuwatch]\nthreads = -1\n[[dcgm]]\ntargets = ["a:1"]\nbearer_token_file = "/nonexistent/token"\n'
        '[[channel]]\nname = "ops"\nkind = "pigeon"\n[smoke]\n'
    )
    with pytest.raises(UsageError) as told:
        load(config, {"GPUWATCH_DRAM_ROOF": "8"})

    words = ("threads", "dram_roof", "/nonexistent/token", "kind must be one of", "[smoke]")
    assert [] == [word for word in words if word not in str(told.value)], str(told.value)


SECRETS = (
    '[[dcgm]]\ntargets = ["https://a:1"]\nbearer_token_file = "{}"\n',
    '[[dcgm]]\nkubernetes = {{ namespace = "g", service = "s", server = "https://k:6443", bearer_token_file = "{}" }}\n',
    '[[kubernetes]]\nserver = "https://k:6443"\nbearer_token_file = "{}"\n',
    '[[prometheus]]\nurl = "https://p:9090"\nbearer_token_file = "{}"\n',
    '[[ray]]\nurl = "https://r:8265"\nbearer_token_file = "{}"\n',
    '[[slurm]]\nurl = "https://s:6820"\nuser = "u"\ntoken_file = "{}"\n',
    '[[yunikorn]]\nurl = "https://y:9080"\nbearer_token_file = "{}"\n',
    '[[channel]]\nname = "ops"\nkind = "slack"\nurl_file = "{}"\n',
)


@pytest.mark.parametrize("text", [pytest.param(text, id=text.split("]]")[0][2:]) for text in SECRETS])
def test_a_secret_file_of_any_kind_must_be_there_and_hold_something(text: str, tmp_path: Path) -> None:
    config, secret = tmp_path / "gpuwatch.toml", tmp_path / "secret"
    config.write_text(text.format(secret))
    for make in (lambda: None, secret.touch, lambda: (secret.unlink(), secret.mkdir())):
        make()
        with pytest.raises(UsageError) as told:
            load(config, {})
        assert str(secret) in str(told.value)

    secret.rmdir()
    secret.write_text(CHANNEL["url"])
    assert load(config, {}).settings == Settings()


def test_a_label_may_be_named_as_a_file_is(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    config.write_text('[[dcgm]]\ntargets = ["a:1"]\nlabels = { made_of_file = "no" }\n')

    assert 1 == len(load(config, {}).live)


def test_a_signal_in_the_middle_of_a_signal_never_hangs() -> None:
    again, calls = Again(), threading.Semaphore(0)
    again.call = calls.release
    again.start()

    def storm() -> None:
        def between(frame: object, event: str, argument: object) -> Any:
            again.ask()
            return between

        sys.settrace(between)
        again.ask()
        sys.settrace(None)

    asking = threading.Thread(target=storm, daemon=True)
    asking.start()
    asking.join(WAIT_S)

    assert not asking.is_alive()
    assert calls.acquire(timeout=WAIT_S)
    again.stop()


def test_asked_before_it_is_started_it_calls_then_and_asked_often_it_calls_once_more() -> None:
    again, going, go = Again(), threading.Event(), threading.Event()
    calls: list[int] = []

    def call() -> None:
        calls.append(len(calls))
        going.set()
        assert go.wait(WAIT_S)

    again.call = call
    again.ask()
    again.start()
    assert going.wait(WAIT_S)
    for _ in range(5):
        again.ask()
    go.set()
    until(lambda: calls == [0, 1], "one more call for five that asked")
    again.stop()

    assert [0, 1] == calls
